"""``--trust``: agrees beforehand to run code of a session that this user did not capture on this
machine. Without it a command refuses.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fx_explorer.client.trust import COMPILES, DISASSEMBLES, MEASURES, RUNS, is_own_session
from fx_explorer.command_line.given_session import is_session
from fx_explorer.errors import UsageError

__all__ = ["COMPILES", "DISASSEMBLES", "MEASURES", "RUNS", "check_program", "check_trust"]


def check_program(arguments: argparse.Namespace) -> None:
    """Check trust before the program that a session names is run. Raises UsageError as
    ``check_trust`` does.
    """
    if is_session(arguments.target):
        check_trust(Path(arguments.target), arguments, RUNS)


def check_trust(session: Path, arguments: argparse.Namespace, consequence: str) -> None:
    """Raise UsageError, which says what would happen, for a stranger's session without
    ``--trust``.
    """
    if not arguments.trust and not is_own_session(session):
        raise UsageError(
            f"{session} was not captured by you on this machine, so nothing of it is run unasked. "
            f"{consequence} If you trust whoever made it, add --trust."
        )
