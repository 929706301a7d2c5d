"""This module observes what a call leaves in its process besides the program's own values: settings
in modules of Python and other libraries, and what is printed, logged and warned of meanwhile, also
by native code.

Compiling changes some settings too, by importing modules. So only what has changed since the
beginning is reported, and additional changes by the changed program are no difference
(``comparing.py``).
"""

from __future__ import annotations

import contextlib
import decimal
import faulthandler
import logging
import operator
import os
import signal
import sys
import tempfile
import tracemalloc
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from fx_explorer.capture.torch_compat.patching import patched

OF_PROCESS = "the process's "
"""Prefix of the names of these facts."""


class ProcessState:
    """The state of the process at the moment this is made, to compare later states with."""

    def __init__(self) -> None:
        self._facts = dict(_facts())
        self._names = {module: dict(vars(module)) for module in _modules()}

    def changes(self) -> dict[str, Any]:
        """Return what has changed since: name → plain value."""
        before = self._facts
        found = {
            name: value for name, value in _facts() if name not in before or before[name] != value
        }
        for module, names in self._names.items():
            found |= {
                f"{module.__name__}.{name}": _told(value)
                for name, value in _rebound(names, vars(module))
            }
        return {f"{OF_PROCESS}{name}": value for name, value in found.items()}


def _rebound(before: dict[str, object], now: dict[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the public names that stand for another object now. Modules are left out: torch imports
    some when it needs them.
    """
    if len(before) == len(now) and all(map(operator.is_, before.values(), now.values())):
        return  # nearly always: the 11,000 names are compared after every call
    for name, value in now.items():
        is_public = not name.startswith("_") and name not in _OURS
        if (
            is_public
            and before.get(name, _NOTHING) is not value
            and not isinstance(value, types.ModuleType)
        ):
            yield name, value


_NOTHING = object()

_OURS = frozenset(["tempdir", "showwarning"])
"""Names of ``tempfile`` and ``warnings`` that we change ourselves to read what a program writes
(printed.py).
"""


def _told(value: object) -> object:
    """Return the value, or only its type: objects of two processes cannot be compared otherwise."""
    if type(value) in (bool, int, float, str, bytes, type(None)):
        return value
    return f"a {type(value).__qualname__}"


def _modules() -> list[types.ModuleType]:
    """Return Python's own modules, torch and NumPy, as far as they are imported."""
    known = (*sys.stdlib_module_names, "torch", "numpy")
    return [
        module for name in known if isinstance(module := sys.modules.get(name), types.ModuleType)
    ]


def _facts() -> Iterator[tuple[str, Any]]:
    yield from ((f"filter of warnings {one!r}", True) for one in warnings.filters)
    yield from _of_logging()
    yield from (
        (f"handler of {Signal.name}", _name(signal.getsignal(Signal)))
        for Signal in signal.Signals
        if Signal not in _NOT_THEIRS
    )
    yield from ((f"sys.path with {one!r}", True) for one in sys.path)
    yield "tracing of memory", tracemalloc.is_tracing()
    yield "fault handler", faulthandler.is_enabled()
    yield from _of_libraries()
    yield from _of_torch()


_NOT_THEIRS = frozenset([signal.SIGALRM, signal.SIGCHLD])
"""Signals whose handlers are not the program's. SIGALRM is ours while a call has a time limit
(uncompiled.py).
"""


def _of_logging() -> Iterator[tuple[str, Any]]:
    yield "logging.disable", logging.root.manager.disable
    loggers = {"root": logging.root, **logging.root.manager.loggerDict}
    for name, logger in list(loggers.items()):
        if (
            isinstance(logger, logging.Logger)
            and name.partition(".")[0] != "torch"
            and logger.level
        ):
            yield f"level of the logger {name}", logger.level


def _of_libraries() -> Iterator[tuple[str, Any]]:
    context = decimal.getcontext()
    yield "precision and rounding of decimal", f"{context.prec}, {context.rounding}"
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        yield "floating-point errors of NumPy", repr(numpy.geterr())
        yield "print options of NumPy", repr(numpy.get_printoptions())


def _of_torch() -> Iterator[tuple[str, Any]]:
    yield "print options of torch", repr(torch._tensor_str.PRINT_OPTS)
    yield "flushing of denormal numbers", not bool(torch.tensor(1e-40) * 1.0)
    yield "use of oneDNN", bool(torch._C._get_mkldnn_enabled())
    cudnn = torch.backends.cudnn
    yield "settings of cuDNN", repr((cudnn.enabled, cudnn.benchmark, cudnn.deterministic))


def _name(handler: object) -> str:
    return getattr(handler, "__qualname__", None) or str(handler)


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
            text for _, text in stderr.lines if text.strip() and not heard.has_told(text)
        ]


Line = tuple[int, str]
"""(bytes written to stdout before, text)."""


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
    """Return what keeps Dynamo from looking at the functions that are called inside: compiled code
    may log.
    """
    hiding = sys.modules.get(
        "fx_explorer.capture.recording.hidden_from_dynamo"
    )  # imported where Dynamo looks at all
    return hiding.DynamoOff() if hiding else contextlib.nullcontext()


_OF_TORCH = "(Triggered internally at"
"""Part of the warnings of torch's C++ code, which carry the name of the program's file."""


class _Heard:
    """Hears messages of the program's own loggers, and its warnings. torch's are left out: they
    differ with and without torch.compile.

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
        except Exception as error:  # noqa: BLE001 - the program's texts do not fit together; its handlers tell it
            message = f"{record.msg!r} cannot be written: {type(error).__name__}"
        self._told += message.splitlines()
        self._add(f"{record.levelname} {record.name}: {message}")

    def _add(self, text: str) -> None:
        _flush()
        with contextlib.suppress(OSError):  # the program has closed it
            self.lines.append((os.lseek(1, 0, os.SEEK_CUR), text))

    def has_told(self, line: str) -> bool:
        """Return whether a line on stderr was written by a log handler or by ``warnings``, and so
        is in ``lines`` already. Handlers write the message last.
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
