"""This module describes which parts of the target a front end sees and Dynamo does not, and the
reverse. Every sentence is based on the rows of both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.words import counted, listed
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.instruments.front_ends.answers import (
    LineOfBoth,
    Seen,
    lines_of_both,
    seen_by,
    seen_by_dynamo,
    short_name,
)
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import check_count

SHOWN = 3
"""Number of examples of one kind that are named."""

MOST_NAMES = 8
"""Maximum number of operators of a line that are named."""


@dataclass(frozen=True, slots=True)
class FrontEndDifference:
    """The differences between a front end's graph and Dynamo's."""

    reader: SessionReader
    row: model.FrontEnd
    dynamo: Seen
    other: Seen
    lines: list[LineOfBoth]

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def is_real(self) -> bool:
        """Return whether the front end ran the code with tensors; False for ``symbolic_trace``,
        which runs it with stand-ins.
        """
        return self.row.name != "symbolic_trace"


def compare_with_dynamo(
    reader: SessionReader, row: model.FrontEnd, dynamo: Seen | None = None
) -> FrontEndDifference:
    """Return the comparison for a front end that made a graph. ``dynamo``: the nodes of Dynamo's
    graphs, if they have been read already.
    """
    dynamo, other = dynamo or seen_by_dynamo(reader), seen_by(reader, row)
    return FrontEndDifference(reader, row, dynamo, other, lines_of_both(dynamo, other))


def differences(both: FrontEndDifference) -> list[str]:
    """Return the sentences, the most telling first."""
    return [sentence for say in _SAYINGS for sentence in say(both)]


def _size(both: FrontEndDifference) -> Iterator[str]:
    calls, theirs = len(both.dynamo.calls), len(both.other.calls)
    graphs = counted(len(both.dynamo.graphs), "graph")
    yield (
        f"One graph of {counted(len(both.other.nodes), 'node')}, including "
        f"{counted(theirs, 'call')}; Dynamo has {counted(calls, 'call')} in {graphs}."
    )


_LEVEL = {
    "symbolic_trace": (
        "It records the calls that Python makes: functions of torch, methods and modules, without "
        "the shape, dtype or device of any value."
    ),
    "export": (
        "It records aten operators, which are the same however an operation is written, with the "
        "shape of each value."
    ),
    "make_fx": "It records the aten operators that one real call ran, below autograd.",
}


def _level(both: FrontEndDifference) -> Iterator[str]:
    yield _LEVEL[both.name]


def _modules(both: FrontEndDifference) -> Iterator[str]:
    names: dict[str, str] = {}
    for node in both.other.of_op("call_module"):
        if node.target != "_guards_fn":
            kind = f" ({node.module_type})" if node.module_type else ""
            names[node.target] = f"{node.target}{kind}"
    if names:
        named = listed(names.values(), SHOWN)
        yield (
            f"{counted(len(names), 'module')} of torch {'stays' if len(names) == 1 else 'stay'} "
            f"one node each (call_module): {named}. Their inner operations are not recorded; "
            "Dynamo traces into them."
        )


def _parameters(both: FrontEndDifference) -> Iterator[str]:
    kinds = both.row.inputs or {}
    held = {"PARAMETER": "parameter", "BUFFER": "buffer", "CONSTANT_TENSOR": "constant"}
    as_inputs = []
    for kind, word in held.items():
        count = kinds.get(kind, 0)
        if isinstance(count, int) and count:
            as_inputs.append(counted(count, word))
    if as_inputs:
        yield f"{listed(as_inputs)} are inputs of the graph, by name; a call passes them in."
    read = both.other.of_op("get_attr")
    parameters = {node.target for node in read if "param" in node.target or "." in node.target}
    targets = {node.target for node in read}
    beginnings = ("_tensor_constant", "lifted_tensor")
    constants = {target for target in targets if target.startswith(beginnings)}
    others = targets - parameters - constants
    if parameters | others:
        yield (
            f"{counted(len(parameters | others), 'parameter')} or other tensors are attributes "
            "that the graph reads (get_attr), not inputs."
        )
    if constants:
        yield (
            f"{counted(len(constants), 'tensor')} became constants of the graph "
            f"({listed(sorted(constants), SHOWN)}): buffers, and tensors that the code makes from "
            "plain values. Later changes of them in the program do not change the graph."
        )


def _decompositions(both: FrontEndDifference) -> Iterator[str]:
    if not both.is_real:
        return
    split = [line for line in both.lines if line.dynamo and len(line.other) > len(line.dynamo)]
    split.sort(key=lambda line: len(line.dynamo) - len(line.other))
    for line in split[:SHOWN]:
        where = in_file(line.file, line.line)
        yield (
            f"{where}: {_each_once(line.dynamo)} of Dynamo's graph became {_each_once(line.other)}."
        )


def _each_once(names: tuple[str, ...]) -> str:
    """Return ``t, addmm and 2 × getitem``."""
    texts = []
    for name, count in Counter(names).items():
        times = f"{count} × " if count > 1 else ""
        texts.append(f"{times}{name}")
    return listed(texts, MOST_NAMES)


def _views(both: FrontEndDifference) -> Iterator[str]:
    if not both.is_real:
        return
    views = sum(node.is_view for node in both.other.calls)
    if views:
        yield (
            f"Calls that compute nothing (views, getitems, sizes, empty tensors): {views} here, "
            f"{_views_of(both.dynamo)} in Dynamo's graph."
        )


def _views_of(seen: Seen) -> int:
    return sum(node.is_view or node.target in _VIEW_METHODS for node in seen.calls)


_VIEW_METHODS = (
    "view",
    "reshape",
    "transpose",
    "permute",
    "flatten",
    "unsqueeze",
    "squeeze",
    "expand",
    "unbind",
    "split",
    "chunk",
)


def _control_flow(both: FrontEndDifference) -> Iterator[str]:
    breaks = distinct_breaks(both.reader)
    if not breaks:
        return
    where = listed(
        [in_file(graph_break.file, graph_break.line) for graph_break in breaks if graph_break.file],
        SHOWN,
    )
    if where:
        broken = f"Dynamo breaks the graph at {counted(len(breaks), 'line')} ({where})"
    else:
        broken = "Dynamo breaks the graph"
    if both.name == "symbolic_trace":
        yield f"{broken}: here this ran once, during tracing, and is not part of the graph."
    elif both.name == "make_fx":
        yield (
            f"{broken}: here it is one graph of the branch that the example took, and no check "
            "ensures that other calls take it."
        )
    else:
        yield (
            f"{broken}: here it is one graph of the branch that the example took, with assertions "
            "where the branch depends on content."
        )


_ASSERTIONS = re.compile(r"_assert|sym_constrain|_guards_fn|_check")


_RUNS_WITH_ANYTHING = (
    " This graph has no guards: it runs with any input, even one that needs a different graph."
)
_WITHOUT_CHECKS = {
    "export": (
        " This graph has no guards: the module() of an exported program checks sizes before it "
        "runs the graph."
    )
}


def _guards(both: FrontEndDifference) -> Iterator[str]:
    calls = [node for node in both.other.nodes if node.op.startswith("call")]
    asserted = [node for node in calls if _ASSERTIONS.search(node.target)]
    guards = check_count(both.reader)
    if asserted:
        names = listed(sorted({short_name(node) for node in asserted}), SHOWN)
        yield (
            f"{counted(len(asserted), 'node')} of the graph check inputs or sizes when it "
            f"runs ({names})."
        )
    if guards:
        if asserted:
            whatever = ""
        else:
            whatever = _WITHOUT_CHECKS.get(both.name, _RUNS_WITH_ANYTHING)
        yield (
            f"Dynamo checks {counted(guards, 'guard')} before each call, and recompiles when one "
            f"fails.{whatever}"
        )


_SYMBOL = re.compile(r"\b[su]\d+\b")


def _sizes(both: FrontEndDifference) -> Iterator[str]:
    free = _open_sizes(both.dynamo)
    if free:
        dynamic = f"Dynamo made {counted(len(free), 'size')} dynamic ({listed(free, SHOWN)}). "
    else:
        dynamic = ""
    ranges = both.row.ranges or {}
    if both.name == "symbolic_trace":
        asks = sum(
            node.target in ("builtins.getattr", "size", "shape") for node in both.other.calls
        )
        if asks:
            yield (
                f"{dynamic}{counted(asks, 'node')} read sizes when the graph runs, so it works "
                "for other sizes."
            )
        elif free:
            yield f"{dynamic}This graph reads no size: it works for other sizes."
    elif ranges:
        text = listed([f"{size} in {limits}" for size, limits in ranges.items()], SHOWN)
        yield f"{dynamic}Open sizes: {text}."
    elif free:
        if both.name == "export":
            way = "dynamic_shapes={…}"
        else:
            way = 'tracing_mode="symbolic"'
        yield f"{dynamic}Here every size is the example's; {way} makes some dynamic."


_IN_PLACE = re.compile(r"\.?([a-z]\w{0,200}[a-z0-9]_)(\.|$)")


def _open_sizes(seen: Seen) -> list[str]:
    names: set[str] = set()
    for node in seen.nodes:
        for size in node.shape or ():
            names.update(_SYMBOL.findall(size))
    return sorted(names)


def _mutations(both: FrontEndDifference) -> Iterator[str]:
    outputs = both.row.outputs or {}
    for kind, count in outputs.items():
        if not kind.endswith("_MUTATION"):
            continue
        if kind.startswith("BUFFER"):
            what = "buffer"
        elif kind.startswith("USER"):
            what = "input"
        else:
            what = "parameter"
        yield (
            f"{counted(int(str(count)), what)} that the code writes is returned as a new value, "
            "not written (functionalized)."
        )
    operators = [node for node in both.other.calls if node.op != "call_module"]
    in_place = [node for node in operators if _IN_PLACE.search(node.target)]
    if in_place:
        names = listed(sorted({short_name(node) for node in in_place}), SHOWN)
        yield (
            "Nothing was functionalized: the graph has "
            f"{counted(len(in_place), 'in-place operator')} ({names})."
        )


_MODE = re.compile(r"dropout|batch_norm|bernoulli|BatchNorm|Dropout")


def _mode(both: FrontEndDifference) -> Iterator[str]:
    types = {node.module_type for node in both.other.of_op("call_module")}
    modules = {name for name in types if _MODE.search(name)}
    others = [node for node in both.other.calls if node.op != "call_module"]
    operators = {short_name(node) for node in others if _MODE.search(node.target)}
    if modules:
        verb = "follows" if len(modules) == 1 else "follow"
        yield (
            f"{listed(sorted(modules), SHOWN)} {verb} train() and eval() when the graph runs, "
            "because it is called as a module."
        )
    if operators:
        mode = "training" if both.row.is_training else "eval"
        verb = "stays" if len(operators) == 1 else "stay"
        yield (
            f"{listed(sorted(operators), SHOWN)} {verb} as in {mode} mode, even if the model is "
            "switched later; Dynamo recompiles for the other mode."
        )


def _unseen_lines(both: FrontEndDifference) -> Iterator[str]:
    if not any(line.other for line in both.lines):
        return
    only_dynamo = [line for line in both.lines if line.dynamo and not line.other]
    only_other = [line for line in both.lines if line.other and not line.dynamo]
    if only_dynamo:
        lines = counted(len(only_dynamo), "line")
        yield f"Calls of {lines} are only in Dynamo's graphs: {_places(only_dynamo)}."
    if only_other:
        lines = counted(len(only_other), "line")
        yield f"Calls of {lines} are only in this graph: {_places(only_other)}."


def _places(lines: Sequence[LineOfBoth]) -> str:
    return listed([in_file(line.file, line.line) for line in lines], SHOWN)


def _remarks(both: FrontEndDifference) -> Iterator[str]:
    yield from both.row.remarks


_SAYINGS: tuple[Callable[[FrontEndDifference], Iterator[str]], ...] = (
    _size,
    _level,
    _modules,
    _parameters,
    _decompositions,
    _views,
    _control_flow,
    _guards,
    _sizes,
    _mutations,
    _mode,
    _unseen_lines,
    _remarks,
)
