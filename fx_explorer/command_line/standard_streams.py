"""This module makes the standard streams of the process usable whatever state the caller left them
in: closed, full, or without a reader.

Output is data: where it is lost, the command has failed, and says so. Narration on standard error
is for people: where nobody can read it, it is dropped, and the command does what it was asked for.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def make_usable() -> None:
    """Open closed streams, so that no file of ours takes the number of a standard stream, and keep
    writing to standard error from raising. It is called at the beginning of a process of its own.
    """
    for descriptor in (0, 1, 2):
        _open_if_closed(descriptor)
    if sys.stdin is None:
        sys.stdin = sys.__stdin__ = io.TextIOWrapper(  # type: ignore[misc]
            io.BufferedReader(io.FileIO(0, closefd=False))
        )
    sys.stdout = _writer(_Output(1, "w", closefd=False), sys.stdout)
    sys.stderr = _writer(_Narration(2, "w", closefd=False), sys.stderr)
    sys.__stdout__ = sys.__stdout__ or sys.stdout  # type: ignore[misc]
    sys.__stderr__ = sys.__stderr__ or sys.stderr  # type: ignore[misc]


def _open_if_closed(descriptor: int) -> None:
    try:
        os.fstat(descriptor)
    except OSError:
        # For reading, so that whatever is written to standard output is known to be lost.
        taken = os.open(os.devnull, os.O_RDONLY)
        if taken != descriptor:
            os.dup2(taken, descriptor)
            os.close(taken)


def _writer(raw: _Output | _Narration, before: TextIO | None) -> io.TextIOWrapper:
    """Return a text stream like the one that Python made."""
    encoding = before.encoding if before else None
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=encoding,
        errors="backslashreplace",
        line_buffering=isinstance(raw, _Narration) or raw.isatty(),
    )


class _Output(io.FileIO):
    """Remembers why it could not be written: Python's buffers forget data that they could not pass
    on.
    """

    reason = ""

    def write(self, content: ReadableBuffer) -> int:
        try:
            return super().write(content) or 0
        except BrokenPipeError:
            raise
        except OSError as error:
            self.reason = error.strerror or str(error)
            raise


class _Narration(io.FileIO):
    """Standard error for narration: text that cannot be written is dropped."""

    def write(self, content: ReadableBuffer) -> int:
        try:
            return super().write(content) or 0
        except OSError:  # full, closed, or nobody reads it: there is no other place to say so
            return memoryview(content).nbytes


def why_output_is_lost() -> str:
    """Return why the standard output is lost; empty if it arrives."""
    reason = ""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, _Output) and raw.reason:
        return raw.reason
    return reason


def drop_output() -> None:
    """Drop the rest of the output: Python would report the error again when it flushes it at its
    end.
    """
    with suppress(OSError, ValueError):
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, _Output):
        raw.reason = ""
