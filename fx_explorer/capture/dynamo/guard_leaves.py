"""This module walks the guard tree of torch, whose leaves are the checks that run at every call,
and measures the cost of one of them.

The tree is ``GuardManagerWrapper.root`` (torch/_dynamo/guards.py); its classes are C++
(torch/csrc/dynamo/guards.cpp).

**What is measured** (``cost_ns``): one leaf alone, called from Python with the example value, the
fastest of a few runs. A call from Python costs some 300 ns, far more than most checks, so the
cheapest leaf of the tree is subtracted as its price (``less_the_call``): 0 means as cheap as
comparing a type. Reaching the value is not in it. This says which checks are expensive, and is
shown as a share of what all of them cost together (instruments/guards/guard_tree.py). That is
``tree_cost_ns``: the
whole tree on the example inputs, when everything is in the processor's caches. torch's own figure
(``guard_latency_us``) is of one run with the caches emptied: the worst case.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fx_explorer.model import NOT_MEASURED

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
    yield from _of_node(root, seen)
    if hasattr(root, "get_epilogue_lambda_guards"):
        for check in root.get_epilogue_lambda_guards():
            yield Leaf(type(check).__name__, "", "", tuple(check.verbose_code_parts()), check)


def _of_node(node: Any, seen: list[Any]) -> Iterator[Leaf]:
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
    for child in _children(node):
        yield from _of_node(child, seen)


def _children(node: Any) -> Iterator[Any]:
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
