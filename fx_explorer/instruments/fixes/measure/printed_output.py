"""This module records what a part of the program prints, logs and warns of, and what native code
writes meanwhile. It does not import torch.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fx_explorer.capture.torch_compat.patching import patched


@dataclass
class PrintedLines:
    """The lines that a part of the program wrote."""

    lines: list[str] = field(default_factory=list)
    """Lines on stdout, messages of the program's loggers, and its warnings."""
    errors: list[str] = field(default_factory=list)
    """Lines on stderr, torch's among them. Log messages and warnings, which Python writes to
    stderr, are only in ``lines``.
    """


@contextlib.contextmanager
def printed(
    written: PrintedLines, is_users: Callable[[str], bool] = lambda path: True
) -> Iterator[None]:
    """Add the lines that are written inside the block, also by native code and child processes, to
    ``written``.

    They are passed on to where they would have gone, after the block has ended. ``is_users`` says
    whether a warning about a file is the program's.
    """
    heard = _Heard(is_users)
    stdout, stderr = _Read(1), _Read(2)
    try:
        with stdout, stderr, heard:
            yield
    finally:
        written.lines += [
            text for _, text in sorted([*heard.lines, *stdout.lines], key=lambda line: line[0])
        ]
        written.errors += [
            text for _, text in stderr.lines if text.strip() and not heard.has_logged(text)
        ]


Line = tuple[int, str]
"""A line as (bytes that were written to stdout before it, text)."""


class _Read:
    """Reads the lines that are written to a descriptor inside the block."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.lines: list[Line] = []

    def __enter__(self) -> None:
        _flush()
        self._file = tempfile.TemporaryFile()
        self._before = os.dup(self._descriptor)
        os.dup2(self._file.fileno(), self._descriptor)

    def __exit__(self, *_: object) -> None:
        _flush()
        os.dup2(self._before, self._descriptor)
        os.close(self._before)
        with self._file as file:
            file.seek(0)
            read = file.read()
        position = 0
        for line in read.splitlines(keepends=True):
            self.lines.append((position, line.decode(errors="backslashreplace").rstrip("\r\n")))
            position += len(line)
        while read:
            read = read[os.write(self._descriptor, read) :]


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(
            OSError, ValueError, AttributeError
        ):  # the program may have closed or replaced it
            stream.flush()


def _unseen_by_dynamo() -> contextlib.AbstractContextManager[object]:
    """Return a context that keeps Dynamo from tracing the functions called inside it, since
    compiled code may log.
    """
    # It is imported where Dynamo looks at all.
    hiding = sys.modules.get("fx_explorer.capture.recording.noting")
    if hiding:
        return hiding.DynamoOff()
    return contextlib.nullcontext()


_OF_TORCH = "(Triggered internally at"
"""Text that marks a warning of torch's C++ code, which carries the name of the program's file."""


class _Heard:
    """Receives the messages of the program's own loggers, and its warnings. torch's are left out,
    because they differ with and without torch.compile.

    No handler is added for it: ``logging.basicConfig`` does nothing where there is one, and a
    program without any writes to stderr.
    """

    def __init__(self, is_users: Callable[[str], bool]) -> None:
        self.lines: list[Line] = []
        self._is_users = is_users
        self._told: list[str] = []
        self._until = contextlib.ExitStack()

    def __enter__(self) -> None:
        self._until.enter_context(patched(logging.Logger, "callHandlers", self._hearing))
        self._show = warnings.showwarning
        warnings.showwarning = self._warned

    def __exit__(self, *_: object) -> None:
        self._until.close()
        if warnings.showwarning == self._warned:
            warnings.showwarning = self._show

    def _hearing(
        self, original: Callable[[logging.Logger, logging.LogRecord], None]
    ) -> Callable[..., None]:
        def callHandlers(logger: logging.Logger, record: logging.LogRecord) -> None:
            with _unseen_by_dynamo():
                self._hear(record)
            original(logger, record)

        return callHandlers

    def _hear(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] == "torch":
            return
        try:
            message = record.getMessage()
        except Exception as error:  # noqa: BLE001
            # the program's texts do not fit together; its handlers tell it
            message = f"{record.msg!r} cannot be written: {type(error).__name__}"
        self._told += message.splitlines()
        self._add(f"{record.levelname} {record.name}: {message}")

    def _add(self, text: str) -> None:
        _flush()
        with contextlib.suppress(OSError):  # the program has closed it
            self.lines.append((os.lseek(1, 0, os.SEEK_CUR), text))

    def has_logged(self, line: str) -> bool:
        """Return whether a line on stderr was written by a log handler or by ``warnings``, and so
        is in ``lines`` already. Handlers write the message at the end of a line.
        """
        return any(line.endswith(text) for text in self._told if text)

    def _warned(
        self, message: Any, category: Any, filename: str, lineno: int, *rest: Any, **named: Any
    ) -> None:
        text = warnings.formatwarning(message, category, filename, lineno)
        self._told += [line.strip() for line in text.splitlines()]
        if self._is_users(filename) and _OF_TORCH not in text:
            self._add(f"{category.__name__}: {message}")
        self._show(message, category, filename, lineno, *rest, **named)
