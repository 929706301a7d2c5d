"""This module keeps the guard trees of compiled functions as long as torch keeps them, can check
other inputs against them, and walks one down to its leaves, the checks that run at every call.

Nothing of the program is kept alive: a tree is known by a weak reference, and so are the variables
its code closes over. The tree is ``GuardManagerWrapper.root`` (torch/_dynamo/guards.py); its
classes are C++ (torch/csrc/dynamo/guards.cpp).

**What is measured** (``cost_ns``): one leaf alone, called from Python with the example value, the
fastest of a few runs. A call from Python costs some 300 ns, far more than most checks, so the
cheapest leaf of the tree is subtracted as its price (``less_the_call``): 0 means as cheap as
comparing a type. Reaching the value is not in it. This says which checks are expensive, and is
shown as a share of what all of them cost together (instruments/guards/guard_tree.py). That is
``tree_cost_ns``: the whole tree on the example inputs, when everything is in the processor's
caches. torch's own figure (``guard_latency_us``) is of one run with the caches emptied: the worst
case.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import time
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from fx_explorer.capture.recording.function_names import is_wrapper
from fx_explorer.model import NOT_MEASURED, GuardCheck

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
    _receivers: dict[types.CodeType, list[weakref.ref[Any]]] = field(default_factory=dict)
    """Code of a method, or of torch's wrapper → the objects that it was compiled for, in order."""

    def receiver(self, code: types.CodeType, f_locals: dict[str, Any]) -> int:
        """Return the number of the object that a method is being compiled for, from 1, or of what
        torch's own wrapper calls; 0 for any other function.
        """
        if is_wrapper(code.co_filename, code.co_name):
            called = f_locals.get("fn")
            receiver = getattr(called, "__self__", called)  # a bound method is made for each use
        elif code.co_argcount and code.co_varnames[0] == "self":
            receiver = f_locals.get("self")
        else:
            return 0
        try:
            reference = weakref.ref(receiver)
        except TypeError:  # not given, or of a class without weak references
            return 0
        known = self._receivers.setdefault(code, [])
        for number, earlier in enumerate(known, start=1):
            if earlier() is reference():
                return number
        known.append(reference)
        return len(known)

    def living_instances(self, code: types.CodeType) -> int:
        """Return how many objects of the class there are that a method was compiled for last; 0
        where that is not known, and for torch's own wrapper.
        """
        if is_wrapper(code.co_filename, code.co_name):
            return 0
        for reference in reversed(self._receivers.get(code, ())):
            receiver = reference()
            if receiver is not None:
                kind = type(receiver)
                return sum(type(held) is kind for held in gc.get_objects())
        return 0

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


_RUNS, _CHECKS_A_RUN = 3, 8


@dataclass(frozen=True, slots=True)
class Leaf:
    kind: str
    source: str
    """Source of the guard tree's node to which the leaf belongs; ``L`` for the root."""
    value_type: str
    parts: tuple[str, ...]
    """The checked conditions, with torch's remarks; several for a leaf that checks all relations
    between sizes.
    """
    check: Any


def leaves(root: Any) -> Iterator[Leaf]:
    """Yield the leaves in the order in which torch checks them. A leaf that concerns several values
    (``NO_TENSOR_ALIASING``) is listed once, at the first.
    """
    seen: list[Any] = []
    yield from _leaves_below(root, seen)
    if hasattr(root, "get_epilogue_lambda_guards"):
        for check in root.get_epilogue_lambda_guards():
            yield Leaf(type(check).__name__, "", "", tuple(check.verbose_code_parts()), check)


def _leaves_below(node: Any, seen: list[Any]) -> Iterator[Leaf]:
    value_type = _type_name(node.get_type_of_guarded_value())
    for check in node.get_leaf_guards():
        # A relation hangs on each of its values. The other leaves are many, each on one node.
        if not callable(check):
            if any(check is before for before in seen):
                continue
            seen.append(check)
        yield Leaf(
            type(check).__name__,
            node.get_source(),
            value_type,
            tuple(check.verbose_code_parts()),
            check,
        )
    for child in _child_nodes(node):
        yield from _leaves_below(child, seen)


def _child_nodes(node: Any) -> Iterator[Any]:
    if hasattr(node, "get_key_value_managers"):  # a dict whose keys are checked too
        for _, pair in sorted(node.get_key_value_managers().items()):
            for child in pair:
                if child is not None:
                    yield child
    yield from node.get_child_managers()


def _type_name(value_type: type) -> str:
    name = value_type.__qualname__
    if value_type.__module__ == "builtins":
        return name
    return f"{value_type.__module__}.{name}"


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A value that its source does not lead to from Python, because only C++ can reach it."""


class ExampleValues:
    """The example values that guards look at, by their source."""

    def __init__(self, manager: Any, f_locals: dict[str, Any]) -> None:
        self._globals = {
            "__builtins__": __builtins__,
            **manager.global_scope,
            **manager.closure_vars,
            "L": f_locals,
        }

    def of(self, source: str) -> Any:
        """Return the example value of a source. It runs the same code as torch does at each check:
        attributes and items of the program's objects.
        """
        try:
            return eval(source, self._globals)
        except Exception:  # noqa: BLE001 - a property of the program may raise anything
            return Unreachable()


def cost_ns(check: Any, value: Any) -> float:
    """Measure one check. The result is NOT_MEASURED for a check that Python cannot call (relations
    between several values).
    """
    if not callable(check) or isinstance(value, Unreachable):
        return NOT_MEASURED
    return _fastest_ns(functools.partial(check, value))


def less_the_call(costs: list[float]) -> list[float]:
    """Return the costs without that of calling from Python. Costs that were not measured, or that
    are counted elsewhere (0), are unchanged.
    """
    call = min((cost for cost in costs if cost > 0), default=0.0)
    without_call = []
    for cost in costs:
        if cost > 0:
            cost = round(cost - call, 1)
        without_call.append(cost)
    return without_call


def tree_cost_ns(root: Any, f_locals: dict[str, Any]) -> float:
    return _fastest_ns(lambda: root.check(f_locals))


def _fastest_ns(check: Callable[[], object]) -> float:
    try:
        return round(min(_run_ns(check) for _ in range(_RUNS)) / _CHECKS_A_RUN, 1)
    # It compares objects of the program, and their methods may raise anything.
    except Exception:  # noqa: BLE001
        return NOT_MEASURED


def _run_ns(check: Callable[[], object]) -> int:
    begin = time.perf_counter_ns()
    for _ in range(_CHECKS_A_RUN):
        check()
    return time.perf_counter_ns() - begin
