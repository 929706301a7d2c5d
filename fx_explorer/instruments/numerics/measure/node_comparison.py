"""This module compares the values of nodes between two runs of a graph, with a run in float64 as
the judge, and finds the first node whose inputs agree and whose output differs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from fx_explorer.capture.torch_compat.private_names import tree_leaves
from fx_explorer.instruments.numerics.measure.interpreting import (
    Values,
    call_in_float64,
    copied_tree,
    is_repeatable,
    widened,
)
from fx_explorer.model import NumericsBirth, NumericsNode
from fx_explorer.program.equal_results import (
    Precision,
    ResultDifference,
    compare_result,
    root_mean_square,
    rounding_of,
)

STACK_LINE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)[^\n]*\n?(?P<code>[^\n]*)')


@dataclass(frozen=True)
class UserLine:
    """The user's line that a node is from."""

    file: str = ""
    line: int = 0
    code: str = ""


def user_line(node: fx.Node) -> UserLine:
    """Return the last line of the node's stack trace; an empty one without a trace."""
    matches = list(STACK_LINE.finditer(node.meta.get("stack_trace") or ""))
    if not matches:
        return UserLine()
    last = matches[-1]
    return UserLine(last["file"], int(last["line"]), last["code"].strip())


def line_near(node: fx.Node) -> UserLine:
    """Return the user's line of a node, or that of the nearest node that uses it or that it uses:
    a pass may make nodes without a stack trace.
    """
    for near in (node, *node.users, *node.all_input_nodes):
        line = user_line(near)
        if line.file:
            return line
    return UserLine()


def operation_of(node: fx.Node) -> str:
    if node.op != "call_function":
        return node.op
    target: Any = node.target
    if isinstance(target, str):
        return target
    name = str(target)
    if name.startswith("<"):
        name = f"{getattr(target, '__module__', '')}.{getattr(target, '__name__', name)}"
    return name.removeprefix("_operator.")


def precision_of(values: Iterable[Any]) -> Precision:
    """Return the precision in which these values were computed, and the size of the largest."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    sizes = [root_mean_square(tensor.cpu()) for tensor in tensors]
    return Precision(rounding_of(tensors), group_size=max(sizes, default=0.0))


def precisions_by_node(graph: fx.GraphModule, values: Values) -> dict[str, Precision]:
    """Return the precision of each node, by name: as of all values, but the largest is the largest
    among the node and those it is computed from. What comes later makes no rounding errors in it.
    """
    rounding = precision_of(values.values()).rounding
    largest: dict[str, float] = {}
    precisions = {}
    for node in graph.graph.nodes:
        size = precision_of(tree_leaves(values.get(node.name))).group_size
        for given in node.all_input_nodes:
            size = max(size, largest.get(given.name, 0.0))
        largest[node.name] = size
        precisions[node.name] = Precision(rounding, group_size=size)
    return precisions


def compare_values(
    result: Any, eager: Any, exact: Any, precision: Precision
) -> ResultDifference | None:
    """Compare the tensors of two values, and return the worst difference; None without tensors, or
    where torch cannot compare them.
    """
    worst: ResultDifference | None = None
    pairs = zip(tree_leaves(result), tree_leaves(eager), tree_leaves(exact), strict=False)
    for ours, theirs, judge in pairs:
        if not isinstance(ours, torch.Tensor) or not isinstance(theirs, torch.Tensor):
            continue
        try:
            judged = judge.cpu() if isinstance(judge, torch.Tensor) else None
            difference = compare_result(ours.cpu(), theirs.cpu(), judged, precision)
        except (RuntimeError, NotImplementedError, TypeError):
            continue
        if worst is None or difference.severity > worst.severity:
            worst = difference
    return worst


def differs(result: Any, eager: Any, exact: Any, precision: Precision) -> bool:
    difference = compare_values(result, eager, exact, precision)
    return difference is not None and difference.kind == "differs"


@dataclass
class NodeComparison:
    """The nodes of a graph, with their values in two runs and in float64."""

    graph: fx.GraphModule
    eager: Values
    exact: Values
    results: Values
    """The values of the run that is compared with eager mode, of the nodes that are known."""
    precisions: dict[str, Precision] = field(init=False)

    def __post_init__(self) -> None:
        self.precisions = precisions_by_node(self.graph, self.eager)

    def difference(self, node: fx.Node) -> ResultDifference | None:
        if node.name not in self.results:
            return None
        return compare_values(
            self.results[node.name],
            self.eager.get(node.name),
            self.exact.get(node.name),
            self.precisions[node.name],
        )

    def rows(self) -> list[NumericsNode]:
        """Return a row for each node that was compared, in the order of the graph."""
        rows = []
        for position, node in enumerate(self.graph.graph.nodes):
            difference = self.difference(node)
            if difference is None or node.op != "call_function":
                continue
            line = line_near(node)
            exact = first_tensor(self.exact.get(node.name))
            error, eager_error = difference.error, difference.eager_error
            if exact is not None and not (error or eager_error):
                error = error_of(self.results[node.name], exact)
                eager_error = error_of(self.eager[node.name], exact)
            size = root_mean_square(exact.cpu()) if exact is not None else 0.0
            rows.append(
                NumericsNode(
                    position,
                    node.name,
                    operation_of(node),
                    difference.kind,
                    line.file,
                    line.line,
                    finite(eager_error),
                    finite(error),
                    finite(size),
                    difference.note,
                )
            )
        return rows

    def first_differing(self) -> fx.Node | None:
        """Return the first node whose output differs although its inputs agree, and which differs
        by itself: also from what eager mode makes of the same inputs. Where no node does, a small
        difference grew from node to node, and the first that differs at all is returned.
        """
        first: fx.Node | None = None
        differing: set[str] = set()
        for node in self.graph.graph.nodes:
            difference = self.difference(node)
            if difference is None or difference.kind != "differs":
                continue
            differing.add(node.name)
            has_wrong_input = any(given.name in differing for given in self._sources(node))
            if has_wrong_input:
                continue
            if self._differs_by_itself(node):
                return node
            first = first or node
        return first

    def _sources(self, node: fx.Node) -> list[fx.Node]:
        """Return the nodes that a node is computed from, through those that were not compared."""
        sources: dict[fx.Node, None] = {}
        waiting = list(node.all_input_nodes)
        while waiting:
            source = waiting.pop()
            if source in sources:
                continue
            sources[source] = None
            if source.name not in self.results and source.op == "call_function":
                waiting += source.all_input_nodes
        return list(sources)

    def _differs_by_itself(self, node: fx.Node) -> bool:
        """Return whether a node differs from what eager and float64 make of the same inputs."""
        if not is_repeatable(node) or not callable(node.target):
            return True
        known = {**self.eager, **self.results}
        missing = [given.name for given in node.all_input_nodes if given.name not in known]
        if missing:
            return True

        def value_of(given: fx.Node) -> Any:
            return copied_tree(known[given.name])

        args = fx.node.map_arg(node.args, value_of)
        kwargs = fx.node.map_arg(node.kwargs, value_of)
        try:
            with torch.no_grad():
                eager = node.target(*args, **kwargs)
                args = fx.node.map_arg(node.args, lambda given: widened(value_of(given)))
                kwargs = fx.node.map_arg(node.kwargs, lambda given: widened(value_of(given)))
                exact = call_in_float64(node.target, args, kwargs)
        except Exception:  # noqa: BLE001
            # an operator that cannot be called by itself is not excused
            return True
        return differs(self.results[node.name], eager, exact, self.precisions[node.name])


def first_tensor(value: Any) -> torch.Tensor | None:
    for leaf in tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            return leaf
    return None


def error_of(value: Any, exact: torch.Tensor) -> float:
    """Return the root mean square error of a value against float64."""
    tensor = first_tensor(value)
    if tensor is None or tensor.shape != exact.shape or tensor.dtype == torch.bool:
        return 0.0
    off = widened(tensor.cpu()) - widened(exact.cpu())
    return root_mean_square(off)


def finite(number: float) -> float:
    return number if math.isfinite(number) else -1.0


# NaN and infinity.


def births(
    graph: fx.GraphModule, values: Mapping[str, Any], outputs: Sequence[Any], run: str
) -> list[NumericsBirth]:
    """Return the first node that makes NaN of values without NaN, and the first that makes infinity
    of finite values, of the kinds that the graph's outputs have.
    """
    made = []
    for what, test in (("infinity", torch.isinf), ("NaN", torch.isnan)):
        if not any(_has(output, test) for output in outputs):
            continue
        for node in graph.graph.nodes:
            if node.op == "call_function" and _is_birth(node, values, test, what):
                line = line_near(node)
                made.append(
                    NumericsBirth(run, what, node.name, operation_of(node), line.file, line.line)
                )
                break
    return made


def _is_birth(node: fx.Node, values: Mapping[str, Any], test: Any, what: str) -> bool:
    if not node.all_input_nodes or not _has(values.get(node.name), test):
        return False
    if what == "infinity":
        literals = tree_leaves((node.args, node.kwargs))
        if any(isinstance(value, float) and math.isinf(value) for value in literals):
            return False
        inputs = [values.get(given.name) for given in node.all_input_nodes]
        return not any(_has(value, _is_not_finite) for value in inputs)
    return not any(_has(values.get(given.name), test) for given in node.all_input_nodes)


def _is_not_finite(tensor: torch.Tensor) -> torch.Tensor:
    return ~torch.isfinite(tensor)


def _has(value: Any, test: Any) -> bool:
    for leaf in tree_leaves(value):
        is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
        if is_float and bool(test(leaf).any()):
            return True
    return False
