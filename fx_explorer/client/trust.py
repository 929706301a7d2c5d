"""Tells whose session it is, because code of a session that this user did not capture on this
machine is run only after asking.
"""

from __future__ import annotations

from pathlib import Path

from fx_explorer.session import SessionReader
from fx_explorer.session.ownership import is_captured_here

COMPILES = (
    "This compiles kernels of it: their Triton source is read first, and compiled only when it is what Inductor writes; no "
    "Python of it is run. But your Triton, LLVM and ptxas read it, and a fault of theirs could be used."
)
DISASSEMBLES = "This has nvdisasm read machine code of it, and a fault of nvdisasm could be used."
MEASURES = "This runs a kernel of it on your GPU. Its Triton source is read first, and compiled only when it is what Inductor writes."
RUNS = "This runs a program on this machine, with the files, expressions and options that the session names."
"""What will happen, in words for whoever is asked."""

LOADS = (
    "Loading an ExportedProgram can run code of whoever made it: torch unpickles its constants and inputs, and its graph "
    "and guards may name any function."
)
"""The same of a file that is a target, whoever made it: there is no telling who did."""

_captured: set[Path] = set()
"""Sessions that this process captures or has captured: they have no mark as long as they grow."""


def remember_own(session: Path) -> None:
    _captured.add(session.absolute())


def is_being_captured(session: Path) -> bool:
    """Return whether this process captures the session, or has captured it."""
    return session.absolute() in _captured


def is_own(session: Path) -> bool:
    """Return whether this user captured the session on this machine. Raises SessionError for what
    is no session.
    """
    if is_being_captured(session):
        return True
    with SessionReader(session) as reader:
        return is_captured_here(reader)
