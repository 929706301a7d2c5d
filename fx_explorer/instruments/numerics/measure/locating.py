"""This module finds the first operator that differs in one compiled call: which graph, which group
of passes, or which node of the graph that was lowered.

Each graph's compiled code is compared with the same graph in eager mode, on the inputs that the
code was given, so a difference in one graph is not counted to the next. Inside a graph, values of
single nodes are seen by compiling it once more with these nodes among its outputs. That may change
what is fused; where the difference goes away by it, the graph is cut off after one node at a time
instead.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx

from fx_explorer.capture.torch_compat.private_names import inductor_config
from fx_explorer.errors import TargetError
from fx_explorer.instruments.bench.measure.calls import Caller, NetworkState, observed
from fx_explorer.instruments.numerics.measure.code_reasons import CodeReasons
from fx_explorer.instruments.numerics.measure.interpreting import (
    Values,
    as_list,
    copied_inputs,
    eager_values,
    wide_values,
)
from fx_explorer.instruments.numerics.measure.node_comparison import (
    NodeComparison,
    births,
    compare_values,
    differs,
    line_near,
    operation_of,
    precision_of,
    precisions_by_node,
)
from fx_explorer.instruments.numerics.measure.recorded_graphs import (
    LoweredGraph,
    PassGroup,
    RecordedCall,
    RecordedProgram,
    recording,
    recording_backend,
)
from fx_explorer.instruments.numerics.measure.rewritten_graphs import rewritten_node
from fx_explorer.model import (
    CaptureRequest,
    NumericsBirth,
    NumericsFinding,
    NumericsStage,
)
from fx_explorer.program.equal_results import ResultDifference
from fx_explorer.program.explaining import one_line

Say = Callable[[str], object]

MOST_EXTRA_OUTPUTS = 60
"""Largest number of nodes whose values are made outputs at once: compiling takes longer with each.
"""

ALL_OUTPUTS = (
    "For values of single nodes, the graph was compiled with all of them as outputs, which can "
    "change what is fused; the result of the graph still differs."
)

CUT_OFF = (
    "With all values as outputs the difference disappears, because other kernels are fused. So "
    "the graph was compiled only up to a node, for one node after the other; this is the first "
    "node where it differs."
)


@dataclass
class ComparedCall:
    """One call of a graph: its compiled code beside the same graph in eager mode and float64."""

    graph: LoweredGraph
    call: RecordedCall
    eager: Values
    exact: Values
    eager_outputs: list[Any]
    exact_outputs: list[Any]

    @classmethod
    def of(cls, graph: LoweredGraph, call: RecordedCall, not_compared: list[str]) -> ComparedCall:
        """Run the graph in eager mode and in float64. ``not_compared`` gets a sentence for each
        operator that has no float64.
        """
        with call.random_numbers():
            eager, eager_outputs = eager_values(graph.before, call.inputs)
        exact, exact_outputs = wide_values(graph.before, call.inputs, eager, not_compared)
        return cls(graph, call, eager, exact, eager_outputs, exact_outputs)

    def worst(self) -> ResultDifference | None:
        return worst_difference(self.call.outputs, self.eager_outputs, self.exact_outputs)

    @property
    def differs(self) -> bool:
        worst = self.worst()
        return worst is not None and worst.kind == "differs"


def worst_difference(
    results: Sequence[Any], eager: Sequence[Any], exact: Sequence[Any]
) -> ResultDifference | None:
    precision = precision_of(eager)
    worst: ResultDifference | None = None
    for ours, theirs, judge in zip(results, eager, exact, strict=False):
        difference = compare_values(ours, theirs, judge, precision)
        if difference and (worst is None or difference.severity > worst.severity):
            worst = difference
    return worst


def record_program(
    caller: Caller, plain: Callable[..., Any], state: NetworkState, request: CaptureRequest
) -> RecordedProgram:
    """Compile and call the program as the request says, and record its graphs. Raises TargetError
    for another backend than Inductor.
    """
    if request.backend != "inductor":
        raise TargetError(
            f"operators are compared in Inductor's graphs, but the backend is {request.backend}"
        )
    record = RecordedProgram()
    backend = recording_backend(record, config_patches(request))
    function = torch.compile(plain, backend=backend, dynamic=request.dynamic)
    recorded = Caller(caller.target, function, caller.trains, caller.has_grad)
    with recording(record), inductor_config.patch(force_disable_caches=True):
        observed(recorded, state)
        observed(recorded.with_other_values(), state)
    return record


def config_patches(request: CaptureRequest) -> dict[str, Any] | None:
    """Return the options of Inductor's that the request's mode and options stand for."""
    from fx_explorer.capture.torch_compat.versions import require

    patches: dict[str, Any] = {}
    if request.mode and request.mode != "default":
        patches |= require("torch._inductor", "list_mode_options")(request.mode, request.dynamic)
    patches |= {
        name.replace("-", "_"): value
        for name, value in request.options.items()
        if name != "guard_filter_fn"
    }
    return patches or None


def locate(record: RecordedProgram, say: Say) -> NumericsFinding | None:
    """Return the first operator that differs; None where graphs compute what eager mode does."""
    all_births: list[NumericsBirth] = []
    for position, graph in enumerate(record.graphs):
        for call in graph.calls:
            say(f"comparing {graph.name} with eager mode, node by node")
            compared = ComparedCall.of(graph, call, record.not_compared)
            born = births(graph.before, compared.eager, compared.eager_outputs, "eager")
            all_births = all_births or born
            if compared.differs:
                finding = _locate_in_graph(position, compared, say)
                return _with_births(finding, [*all_births, *finding.births])
    for group in record.passes:
        found = _locate_in_passes(record, group)
        if found:
            return _with_births(found, all_births)
    if all_births:
        return NumericsFinding("", births=tuple(all_births))
    return None


def traits(record: RecordedProgram) -> dict[str, bool]:
    """Return what the graphs have that an option of Inductor's is about: numbers of 16 bits, and
    convolutions.
    """
    has_narrow = has_convolution = False
    for graph in record.graphs:
        for node in graph.before.graph.nodes:
            value = node.meta.get("val")
            is_tensor = isinstance(value, torch.Tensor)
            if is_tensor and value.dtype in (torch.float16, torch.bfloat16):
                has_narrow = True
            has_convolution = has_convolution or "convolution" in str(node.target)
    return {"has_narrow": has_narrow, "has_convolution": has_convolution}


def _with_births(finding: NumericsFinding, born: list[NumericsBirth]) -> NumericsFinding:
    return replace(finding, births=tuple(dict.fromkeys(born)))


def _locate_in_graph(position: int, compared: ComparedCall, say: Say) -> NumericsFinding:
    graph, inputs = compared.graph, compared.call.inputs
    with compared.call.random_numbers():
        lowered, lowered_outputs = eager_values(graph.lowered, inputs)
    exact, exact_outputs = wide_values(graph.lowered, inputs, lowered)
    after_passes = worst_difference(lowered_outputs, compared.eager_outputs, compared.exact_outputs)
    if after_passes is not None and after_passes.kind == "differs":
        return _of_rewriting(
            "post_grad", graph.name, position, graph.before, graph.lowered, inputs, after_passes
        )
    say(f"compiling {graph.name} again, to see the values of its nodes")
    return _InCode(
        position, graph, compared.call, lowered, exact, lowered_outputs, exact_outputs, say
    ).locate()


def _of_rewriting(
    stage: NumericsStage,
    name: str,
    position: int,
    before: fx.GraphModule,
    after: fx.GraphModule,
    inputs: Sequence[Any],
    worst: ResultDifference,
) -> NumericsFinding:
    rewritten = rewritten_node(before, after, inputs)
    node = rewritten.node
    line = line_near(rewritten.line_node or node)
    return NumericsFinding(
        stage,
        name,
        position,
        node.name,
        operation_of(node),
        line.file,
        line.line,
        line.code,
        reasons=tuple(rewritten.sentences),
        method=(
            "An interpreter ran the graph from before and after the passes, in eager mode, on the "
            "same inputs."
        ),
        nodes=tuple(rewritten.comparison.rows()),
        error=worst.error,
        eager_error=worst.eager_error,
    )


def _locate_in_passes(record: RecordedProgram, group: PassGroup) -> NumericsFinding | None:
    """Return what a group of passes changed before Inductor had the graph; None where it changed
    nothing, or not all inputs are known.
    """
    stage: NumericsStage = "pre_grad" if group.kind == "pre_grad" else "joint"
    name = f"{group.name} {stage.replace('_', '-')}"
    all_inputs = list(_inputs_of(record, group))
    if not all_inputs:
        record.not_compared.append(
            f"Not compared: the passes of {name} (not all inputs are known)."
        )
    for inputs in all_inputs:
        try:
            _, before = eager_values(group.before, inputs)
            _, after = eager_values(group.after, inputs)
            eager, _ = eager_values(group.before, inputs)
            _, exact = wide_values(group.before, inputs, eager)
        except Exception as error:  # noqa: BLE001 - it is listed as not compared
            record.not_compared.append(f"Not compared: the passes of {name} ({one_line(error)}).")
            continue
        worst = worst_difference(after, before, exact)
        if worst is not None and worst.kind == "differs":
            return _of_rewriting(stage, name, 0, group.before, group.after, inputs, worst)
    return None


def _inputs_of(record: RecordedProgram, group: PassGroup) -> Iterator[list[Any]]:
    names = [node.name for node in group.before.graph.nodes if node.op == "placeholder"]
    if group.kind == "pre_grad":
        for dynamo in record.dynamo:
            if dynamo.name == group.name:
                yield from (call.inputs for call in dynamo.calls if len(call.inputs) == len(names))
        return
    graphs = [graph for graph in record.graphs if graph.name.startswith(group.name)]
    count = min((len(graph.calls) for graph in graphs), default=0)
    for number in range(count):
        known: dict[str, Any] = {}
        for graph in graphs:
            placeholders = [n.name for n in graph.before.graph.nodes if n.op == "placeholder"]
            for name, value in zip(placeholders, graph.calls[number].inputs, strict=False):
                known.setdefault(name, value)
        if all(name in known for name in names):
            yield [known[name] for name in names]


class _InCode:
    """Finds the node at which a graph's generated code first differs."""

    def __init__(
        self,
        position: int,
        graph: LoweredGraph,
        call: RecordedCall,
        eager: Values,
        exact: Values,
        eager_outputs: list[Any],
        exact_outputs: list[Any],
        say: Say,
    ) -> None:
        self._position = position
        self._graph = graph
        self._call = call
        self._eager = eager
        self._exact = exact
        self._eager_outputs = eager_outputs
        self._exact_outputs = exact_outputs
        self._say = say
        self._lowered = graph.lowered
        self._precisions = precisions_by_node(graph.lowered, eager)

    def locate(self) -> NumericsFinding:
        values, method = self._values()
        comparison = NodeComparison(self._lowered, self._eager, self._exact, values)
        node = comparison.first_differing()
        if node is None:
            node, value = self._cut_off()
            method = CUT_OFF
            if node is not None:
                values = {**values, node.name: value}
                comparison.results = values
        worst = worst_difference(self._call.outputs, self._eager_outputs, self._exact_outputs)
        assert worst is not None
        if node is None:
            return NumericsFinding(
                "code",
                self._graph.name,
                self._position,
                method=(
                    "The graph's result differs, but not when it is compiled with more outputs or "
                    "only in part: no node can be named."
                ),
                nodes=tuple(comparison.rows()),
                error=worst.error,
                eager_error=worst.eager_error,
            )
        line = line_near(node)
        born = births(self._lowered, values, self._call.outputs, "compiled")
        reasons = CodeReasons(
            self._graph, self._call, node, comparison, self._eager_outputs, self._exact_outputs
        )
        self._say(f"looking for the reason at {node.name}")
        kernel = reasons.kernel()
        return NumericsFinding(
            "code",
            self._graph.name,
            self._position,
            node.name,
            operation_of(node),
            line.file,
            line.line,
            line.code,
            kernel.name,
            kernel.line,
            kernel.code,
            tuple(reasons.sentences()),
            method,
            tuple(comparison.rows()),
            tuple(born),
            worst.error,
            worst.eager_error,
        )

    def _values(self) -> tuple[Values, str]:
        """Return the values of nodes in compiled code; of none where the graph cannot be compiled
        so. In a large graph, nodes at equal distances are seen first, then all before the first of
        these that differs.
        """
        nodes = [node for node in self._lowered.graph.nodes if is_observable(node)]
        distance = -(-len(nodes) // MOST_EXTRA_OUTPUTS)
        try:
            values, still_differs = self._values_of(nodes[::distance])
            if distance > 1 and still_differs:
                near = self._nodes_before_first_wrong(nodes, values)
                others, still_differs = self._values_of(near)
                values |= others
        except Exception:  # noqa: BLE001 - Inductor cannot compile it so: it is cut off instead
            return self._placeholders(), CUT_OFF
        return values, ALL_OUTPUTS if still_differs else CUT_OFF

    def _values_of(self, nodes: Sequence[fx.Node]) -> tuple[Values, bool]:
        """Return the values of these nodes, and whether the graph's own result still differs."""
        values: Values = self._placeholders()
        outputs = self._run(with_outputs(self._lowered, nodes))
        count = len(self._eager_outputs)
        for node, value in zip(nodes, outputs[count:], strict=False):
            values[node.name] = value
        worst = worst_difference(outputs[:count], self._eager_outputs, self._exact_outputs)
        return values, worst is not None and worst.kind == "differs"

    def _nodes_before_first_wrong(self, nodes: Sequence[fx.Node], values: Values) -> list[fx.Node]:
        """Return the nodes from the last seen ones that agree up to the first that differs, or to
        the end.
        """
        near: list[fx.Node] = []
        for node in nodes:
            near.append(node)
            if node.name not in values:
                continue
            if self._is_wrong(node, values[node.name]):
                break
            near = [node]
        return near

    def _placeholders(self) -> Values:
        names = [n.name for n in self._lowered.graph.nodes if n.op == "placeholder"]
        return {name: self._eager[name] for name in names}

    def _run(self, graph_module: fx.GraphModule) -> list[Any]:
        compiled = self._graph.compiled_with(graph_module)
        with torch.no_grad(), self._call.random_numbers():
            return as_list(compiled(copied_inputs(self._call.inputs)))

    def _cut_off(self) -> tuple[fx.Node | None, Any]:
        """Return the first node at which the graph, compiled so far, differs, and its value."""
        nodes = self._ancestors_of_wrong_output()
        low, high = 0, len(nodes) - 1
        found: tuple[fx.Node | None, Any] = (None, None)
        while low <= high:
            middle = (low + high) // 2
            node = nodes[middle]
            self._say(f"compiling {self._graph.name} up to {node.name}")
            value = self._value_at(node)
            if value is not None and self._is_wrong(node, value):
                found, high = (node, value), middle - 1
            else:
                low = middle + 1
        return found

    def _value_at(self, node: fx.Node) -> Any:
        with contextlib.suppress(Exception):  # it cannot be compiled so, and is not compared
            return self._run(only_output(self._lowered, node))[0]
        return None

    def _is_wrong(self, node: fx.Node, value: Any) -> bool:
        precision = self._precisions[node.name]
        return differs(value, self._eager[node.name], self._exact[node.name], precision)

    def _ancestors_of_wrong_output(self) -> list[fx.Node]:
        output = next(n for n in self._lowered.graph.nodes if n.op == "output")
        results = as_list(output.args[0])
        waiting: list[fx.Node] = []
        precision = precision_of(self._eager_outputs)
        outputs = zip(
            results, self._call.outputs, self._eager_outputs, self._exact_outputs, strict=False
        )
        for node, value, eager, exact in outputs:
            if isinstance(node, fx.Node) and differs(value, eager, exact, precision):
                waiting.append(node)
        ancestors = set()
        while waiting:
            node = waiting.pop()
            if node not in ancestors:
                ancestors.add(node)
                waiting += node.all_input_nodes
        return [n for n in self._lowered.graph.nodes if n in ancestors and is_observable(n)]


def is_observable(node: fx.Node) -> bool:
    """Return whether a node's value can be made an output: it is a tensor, and nothing writes to it
    later.
    """
    if node.op != "call_function" or not isinstance(node.meta.get("val"), torch.Tensor):
        return False
    return not any(_is_mutable(user) for user in [node, *node.users])


def _is_mutable(node: fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return bool(getattr(schema, "is_mutable", False))


def with_outputs(graph_module: fx.GraphModule, nodes: Sequence[fx.Node]) -> fx.GraphModule:
    """Return a copy of the graph with more outputs behind its own."""
    changed, by_name = _copy_by_name(graph_module)
    output = next(n for n in changed.graph.nodes if n.op == "output")
    own = list(as_list(output.args[0]))
    output.args = ((*own, *[by_name[node.name] for node in nodes]),)
    changed.graph.lint()
    changed.recompile()
    return changed


def only_output(graph_module: fx.GraphModule, node: fx.Node) -> fx.GraphModule:
    """Return a copy of the graph that computes one node and nothing else."""
    changed, by_name = _copy_by_name(graph_module)
    output = next(n for n in changed.graph.nodes if n.op == "output")
    output.args = ((by_name[node.name],),)
    for name in ("user_visible_output_idxs", "original_output_strides"):
        output.meta.pop(name, None)
    changed.graph.eliminate_dead_code()
    changed.graph.lint()
    changed.recompile()
    return changed


def _copy_by_name(graph_module: fx.GraphModule) -> tuple[fx.GraphModule, dict[str, fx.Node]]:
    from fx_explorer.instruments.numerics.measure.interpreting import copied_graph

    changed = copied_graph(graph_module)
    return changed, {node.name: node for node in changed.graph.nodes}
