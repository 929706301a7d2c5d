"""This module keeps the guard trees of compiled functions as long as torch keeps them, and can
check other inputs against them.

Nothing of the program is kept alive: a tree is known by a weak reference, and so are the variables
its code closes over.
"""

from __future__ import annotations

import contextlib
import types
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from fx_explorer.model import GuardCheck

PLAIN = (bool, int, float, complex, str, bytes)

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""(positional arguments, arguments by name)."""


class CalledProgram(Protocol):
    """The program that was called. It makes other inputs for it, to ask the guards about."""

    @property
    def callable(self) -> Any:
        """Return the model or function; None for a script, which may call anything."""

    def inputs(self, expression: str) -> Arguments:
        """Return the expression's value in the program's module, prepared as the example inputs
        were. Raises UsageError.
        """
        ...


@dataclass(frozen=True, slots=True)
class CallState:
    """The state that torch's GLOBAL_STATE guard checks and programs change by ``with``, at the call
    of the frame.
    """

    grad_enabled: bool
    autocast: tuple[tuple[str, bool, torch.dtype], ...]

    @classmethod
    def now(cls) -> CallState:
        accelerator = torch.accelerator.current_accelerator(check_available=True)
        kinds = ("cpu", accelerator.type) if accelerator else ("cpu",)
        autocast = tuple(
            (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
            for kind in kinds
        )
        return cls(torch.is_grad_enabled(), autocast)

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.set_grad_enabled(self.grad_enabled))
            for kind, enabled, dtype in self.autocast:
                if enabled != torch.is_autocast_enabled(kind):
                    stack.enter_context(torch.autocast(kind, dtype, enabled))
            yield


@dataclass(frozen=True, slots=True)
class LiveTree:
    """The guards of one compilation."""

    compilation: int
    name: str
    """The compilation's name, such as ``0/0``."""
    code: types.CodeType
    state: CallState
    checks: Mapping[str, GuardCheck]
    """torch's text for a failing check → its row; see ``keys_of`` in what_if.py."""
    kept: Mapping[str, Any]
    """The function's free variables and its ``self``, as weak references where possible."""

    def still_there(self) -> dict[str, Any]:
        """Return the stored objects, without those that no longer exist."""
        values = {}
        for name, value in self.kept.items():
            if isinstance(value, weakref.ref):
                value = value()
            if value is not None:
                values[name] = value
        return values


@dataclass
class LiveGuards:
    program: CalledProgram | None = None
    questions: int = 0
    """Number of questions that were asked."""
    late: dict[int, list[GuardCheck]] = field(default_factory=dict)
    """Compilation → checks that lowering requested after Dynamo had made its tree. They are in no
    tree.
    """
    _trees: weakref.WeakKeyDictionary[Any, LiveTree] = field(
        default_factory=weakref.WeakKeyDictionary
    )
    _all: list[LiveTree] = field(default_factory=list)

    def add(self, manager: Any, tree: LiveTree) -> None:
        self._trees[manager] = tree
        self._all.append(tree)

    def all(self) -> list[LiveTree]:
        """Return the trees of every compilation, in order, including those that torch has thrown
        away.
        """
        return self._all

    def codes(self) -> list[types.CodeType]:
        return list(dict.fromkeys(tree.code for tree in self._all))

    def of(self, manager: Any) -> LiveTree | None:
        return self._trees.get(manager)


def held(value: Any) -> Any:
    """Return a weak reference, or the value itself for numbers and texts. None for lists and dicts,
    which would be kept alive.
    """
    try:
        return weakref.ref(value)
    except TypeError:
        return value if type(value) in PLAIN else None
