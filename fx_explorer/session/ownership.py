"""This module decides whose session it is, because code of a session that this user did not capture
on this machine is run only with consent.

Sessions that this user captured here have a mark. Another user can neither make it nor carry it to
another session: it is an HMAC, with a secret of the user's own that never leaves their state
directory, of everything in the session that could come to run: how it was captured, the source
files, the kernels' sources, the machine code. So it holds for a copy of the session, and for one to
which builds were added; it does not hold once a kernel or the request was changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from fx_explorer.errors import SessionError, UsageError
from fx_explorer.folders import state_folder
from fx_explorer.model import CaptureRequest
from fx_explorer.model.secret_arguments import is_left_out
from fx_explorer.session.reader import SessionReader
from fx_explorer.session.writer import SessionWriter

MARK = "captured_here"
"""Key of the session's ``meta`` under which the mark is stored."""

SECRET_BYTES = 32

_WHAT_CAN_RUN = (
    "SELECT 'source', path, text FROM source_file WHERE text",
    "SELECT 'kernel', title, text FROM artifact WHERE kind='kernel' AND text",
    "SELECT 'choice', name, source FROM kernel_build WHERE source",
    "SELECT 'machine code', name, machine_code FROM kernel_build WHERE machine_code",
)
"""Queries for the content of a session that can be run: (kind, name, id of the text). Kernels are
loaded and measured; source files are tried with edits.
"""


def mark_as_captured_here(
    session: Path, writer: SessionWriter, environ: Mapping[str, str] = os.environ
) -> bool:
    """Write the mark. Returns False if there is no place for a secret: the session then needs
    consent like another user's.
    """
    secret = _secret(environ, make=True)
    if secret is None:
        return False
    with SessionReader(session) as reader:
        mark = _mark(reader, secret)
    writer.set_meta(MARK, mark)
    return True


def is_captured_here(reader: SessionReader, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether this user captured the session on this machine. It reads every text that the
    mark is about, which takes some 20 ms, so it is asked when something is about to run, not at
    opening.
    """
    secret = _secret(environ, make=False)
    try:
        mark = reader.meta(MARK)
        return (
            secret is not None
            and isinstance(mark, str)
            and hmac.compare_digest(mark.encode(), _mark(reader, secret).encode())
        )
    except SessionError:
        return False  # what cannot be read is nobody's


def _mark(reader: SessionReader, secret: bytes) -> str:
    c = hmac.new(secret, digestmod=hashlib.sha256)
    with reader.snapshot():
        for key in ("request", "target"):
            _add(c, key, reader.stored_meta(key))
        entries: set[tuple[Any, ...]] = set()
        for sql in _WHAT_CAN_RUN:
            entries.update(reader.query(sql))
        for what, name, text in sorted(entries, key=repr):
            _add(c, str(what), str(name), reader.text(text))
    return c.hexdigest()


def _add(c: hmac.HMAC, *parts: str) -> None:
    """Add each part with its length in front, so that different parts cannot give the same text."""
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        c.update(len(raw).to_bytes(8, "big") + raw)


def secret_path(environ: Mapping[str, str] = os.environ) -> Path:
    return state_folder(environ) / "secret"


def _secret(environ: Mapping[str, str], *, make: bool) -> bytes | None:
    """Return the secret of this user; None if it cannot be stored, or if other users could read or
    write it.
    """
    path = secret_path(environ)
    if make and not path.exists():
        with contextlib.suppress(OSError):
            _make_secret(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        is_own = (
            stat.S_ISREG(status.st_mode)
            and status.st_uid == os.getuid()
            and not status.st_mode & 0o077
        )
        secret = file.read(SECRET_BYTES + 1) if is_own else b""
    return secret if len(secret) == SECRET_BYTES else None


def _make_secret(path: Path) -> None:
    """Make the secret completely or not at all, and only once: two captures that end together share
    it.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    beside = path.with_name(f".secret.{os.urandom(8).hex()}")
    descriptor = os.open(
        beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(os.urandom(SECRET_BYTES))
        with contextlib.suppress(FileExistsError):
            os.link(beside, path)
    finally:
        beside.unlink()


COMPILES = (
    "This compiles kernels from this session. Their Triton source is checked first, and compiled "
    "only if it looks like Inductor's; no Python from the session runs. But your Triton, LLVM and "
    "ptxas read it, and a bug in them could be exploited."
)
COMPILES_CPP = (
    "This compiles a C++ kernel from this session, with its includes, and disassembles it; the "
    "kernel does not run. But your compiler and objdump read it, and a bug in them could be "
    "exploited."
)
DISASSEMBLES = (
    "nvdisasm then reads machine code from this session, and a bug in nvdisasm could be exploited."
)
MEASURES = (
    "This runs a kernel from this session on your GPU. Its Triton source is checked first, and "
    "compiled only if it looks like Inductor's."
)
RUNS = (
    "This runs a program on this machine, with the files, expressions and options that the "
    "session names."
)
"""The question's text before a session's program is run: what will happen, and with which inputs.
"""

LOADS = (
    "Loading an ExportedProgram can run code from its author: torch unpickles its constants and "
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
            "the session leaves out arguments that look like secrets, so its program cannot be "
            "run again from the session: give the program and its arguments instead"
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
