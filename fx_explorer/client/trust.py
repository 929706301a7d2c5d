"""This module decides whose session it is, because code of a session that this user did not capture
on this machine is run only with consent.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from fx_explorer.errors import UsageError
from fx_explorer.model import CaptureRequest
from fx_explorer.model.secret_arguments import is_left_out
from fx_explorer.session import SessionReader
from fx_explorer.session.ownership import is_captured_here

COMPILES = (
    "This compiles kernels of it: their Triton source is read first, and compiled only when it is "
    "what Inductor writes; no Python of it is run. But your Triton, LLVM and ptxas read it, and a "
    "fault of theirs could be used."
)
DISASSEMBLES = "This has nvdisasm read machine code of it, and a fault of nvdisasm could be used."
MEASURES = (
    "This runs a kernel of it on your GPU. Its Triton source is read first, and compiled "
    "only when it is what Inductor writes."
)
RUNS = (
    "This runs a program on this machine, with the files, expressions and options that the "
    "session names."
)
"""The question's text before a session's program is run: what will happen, and with which inputs.
"""

LOADS = (
    "Loading an ExportedProgram can run code of whoever made it: torch unpickles its constants and "
    "inputs, and its graph and guards may name any function."
)
"""The question's text before an ExportedProgram is loaded. It is always asked, because the author
cannot be known.
"""

_captured: set[Path] = set()
"""Sessions that this process captures or has captured. They have no mark while they grow."""

_requests: dict[str, CaptureRequest] = {}
"""Path that a session had first → its whole request, with the arguments that the session leaves
out.
"""


def remember_session(session: Path) -> None:
    _captured.add(session.absolute())


def remember_request(request: CaptureRequest) -> None:
    _requests[request.session] = request


def whole_request(request: CaptureRequest) -> CaptureRequest:
    """Return a request with the arguments that its session leaves out because they look like
    secrets. Raises UsageError where they are not known, because another process captured the
    session.
    """
    if not is_left_out(asdict(request)):
        return request
    original = _requests.get(request.session)
    if original is None:
        raise UsageError(
            "the session leaves out arguments that look like secrets, so its program cannot be run "
            "again from it: give the program and its arguments instead"
        )
    kept = ("arguments", "call", "inputs", "mark_against")
    return replace(request, **{name: getattr(original, name) for name in kept})


def is_being_captured(session: Path) -> bool:
    """Return whether this process captures the session, or has captured it."""
    return session.absolute() in _captured


def is_own_session(session: Path) -> bool:
    """Return whether this user captured the session on this machine. Raises SessionError if it is
    not a session.
    """
    if is_being_captured(session):
        return True
    with SessionReader(session) as reader:
        return is_captured_here(reader)
