"""This package has the session file (``.fxs``): one SQLite database that every producer writes and
every consumer reads.
"""

from fx_explorer.session.reader import SessionReader
from fx_explorer.session.writer import SessionWriter

__all__ = ["SessionReader", "SessionWriter"]
