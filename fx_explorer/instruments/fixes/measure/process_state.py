"""This module observes what a call changes in its process outside the program's own values:
settings in modules of Python and other libraries.

Compiling changes some of them too, by importing modules. So only what has changed since the
beginning is reported, and additional changes by the changed program are no difference
(``comparing.py``).
"""

from __future__ import annotations

import decimal
import faulthandler
import logging
import operator
import signal
import sys
import tracemalloc
import types
import warnings
from collections.abc import Iterator
from itertools import chain
from typing import Any

import torch

OF_PROCESS = "the process's "
"""Prefix of the names of facts about the process."""


class ProcessState:
    """The state of the process when this object was made, with which later states are compared."""

    def __init__(self) -> None:
        self._facts = dict(_facts())
        self._names = {module: dict(vars(module)) for module in _modules()}
        self._lengths = [len(names) for names in self._names.values()]
        self._values = list(chain.from_iterable(names.values() for names in self._names.values()))

    def changes(self) -> dict[str, Any]:
        """Return the facts that have changed since the object was made: name → plain value."""
        before = self._facts
        found = {
            name: value for name, value in _facts() if name not in before or before[name] != value
        }
        if not self._has_all_names():
            for module, names in self._names.items():
                for name, value in _rebound(names, vars(module)):
                    found[f"{module.__name__}.{name}"] = _comparable(value)
        return {f"{OF_PROCESS}{name}": value for name, value in found.items()}

    def _has_all_names(self) -> bool:
        """Return whether every name of the modules refers to the same object as at the beginning.
        That is nearly always so, and the 11,000 names are compared after every call.
        """
        present = [vars(module) for module in self._names]
        if [len(names) for names in present] != self._lengths:
            return False
        values = chain.from_iterable(names.values() for names in present)
        return all(map(operator.is_, self._values, values))


def _rebound(before: dict[str, object], now: dict[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the public names that now refer to another object. Modules are left out: torch imports
    some when it needs them.
    """
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
(printed_output.py).
"""


def _comparable(value: object) -> object:
    """Return a plain value as it is, and of any other object only its type, since objects of two
    processes cannot be compared.
    """
    if type(value) in (bool, int, float, str, bytes, type(None)):
        return value
    return f"a {type(value).__qualname__}"


def _modules() -> list[types.ModuleType]:
    """Return those of Python's own modules, torch and NumPy that are imported."""
    known = (*sys.stdlib_module_names, "torch", "numpy")
    return [
        module for name in known if isinstance(module := sys.modules.get(name), types.ModuleType)
    ]


def _facts() -> Iterator[tuple[str, Any]]:
    yield from ((f"filter of warnings {row!r}", True) for row in warnings.filters)
    yield from _of_logging()
    for number in signal.Signals:
        if number not in _NOT_THEIRS:
            yield f"handler of {number.name}", _name(signal.getsignal(number))
    yield from ((f"sys.path with {path!r}", True) for path in sys.path)
    yield "tracing of memory", tracemalloc.is_tracing()
    yield "fault handler", faulthandler.is_enabled()
    yield from _of_libraries()
    yield from _of_torch()


_NOT_THEIRS = frozenset([signal.SIGALRM, signal.SIGCHLD])
"""Signals whose handlers do not belong to the program. SIGALRM is ours while a call has a time
limit (uncompiled.py).
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
    from fx_explorer.capture.torch_compat.private_names import PRINT_OPTS, _get_mkldnn_enabled

    yield "print options of torch", repr(PRINT_OPTS)
    yield "flushing of denormal numbers", not bool(torch.tensor(1e-40) * 1.0)
    yield "use of oneDNN", bool(_get_mkldnn_enabled())
    cudnn = torch.backends.cudnn
    yield "settings of cuDNN", repr((cudnn.enabled, cudnn.benchmark, cudnn.deterministic))


def _name(handler: object) -> str:
    return getattr(handler, "__qualname__", None) or str(handler)
