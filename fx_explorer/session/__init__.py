"""This package has the session file (``.fxs``): one SQLite database that every producer writes and
every consumer reads.
"""

from fx_explorer.session.reader import SessionReader, answered_once
from fx_explorer.session.writer import MovedNode, SessionWriter

__all__ = ["MovedNode", "SessionReader", "SessionWriter", "answered_once"]
