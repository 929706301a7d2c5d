"""This module reads the results of each front end: the nodes that it recorded, by operator, by
opcode and by the user's line, in figures; or why it refused, in plain words, with a remedy.

The messages of refusals are those of torch/fx/proxy.py, torch/fx/_symbolic_trace.py,
torch/fx/experimental/ (proxy_tensor.py and symbolic_shapes.py) and torch/export; one that is not
known is shown as it is, with what the front end does in general.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.lineage import graphs_in_use
from fx_explorer.session import SessionReader

CALLS = ("call_function", "call_method", "call_module")

SourceLine = tuple[str, int]
"""Path and line, from 1."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The nodes of the graphs of one front end."""

    graphs: tuple[model.Graph, ...]
    """Graphs, without nested ones."""
    nodes: tuple[model.Node, ...]
    """Nodes in the order of the graphs, without those of nested graphs."""
    paths: dict[int, str]
    """Id of a SourceFile → its path."""

    @property
    def calls(self) -> list[model.Node]:
        return [node for node in self.nodes if node.op in CALLS]

    @property
    def operators(self) -> dict[str, int]:
        """Return how often each target is called, the most frequent first."""
        counts = Counter(node.target for node in self.calls)
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def of_op(self, op: str) -> list[model.Node]:
        return [node for node in self.nodes if node.op == op]

    @property
    def by_line(self) -> dict[SourceLine, list[model.Node]]:
        """Return the calls that have a line of the user's, by that line."""
        found: dict[SourceLine, list[model.Node]] = {}
        for node in self.calls:
            if node.line and node.file in self.paths:
                found.setdefault((self.paths[node.file], node.line), []).append(node)
        return found


@dataclass(frozen=True, slots=True)
class LineOfBoth:
    """A line of the user's, with its calls in Dynamo's graphs and in another front end's."""

    file: str
    line: int
    dynamo: tuple[str, ...]
    other: tuple[str, ...]


def seen_by_dynamo(reader: SessionReader) -> Seen:
    """Return the nodes of Dynamo's graphs that the program uses."""
    used = graphs_in_use(reader)
    restarted = {row.id for row in reader.rows(model.Compilation, status="restarted")}
    every_graph = reader.rows(model.Graph, stage="dynamo", parent=0)
    graphs = [graph for graph in every_graph if graph.compilation not in restarted]
    if used is not None:
        graphs = [graph for graph in graphs if graph.id in used]
    return _seen(reader, graphs)


def seen_by(reader: SessionReader, row: model.FrontEnd) -> Seen:
    """Return the nodes of a front end's graph; empty where it refused."""
    ids = [row.graph] if row.graph else []
    return _seen(reader, reader.by_ids(model.Graph, ids))


def _seen(reader: SessionReader, graphs: Sequence[model.Graph]) -> Seen:
    nodes = tuple(node for graph in graphs for node in reader.nodes(graph))
    files = {file.id: file.path for file in reader.rows(model.SourceFile)}
    return Seen(tuple(graphs), nodes, files)


def lines_of_both(dynamo: Seen, other: Seen) -> list[LineOfBoth]:
    """Return every line with calls in either, in the order of files and lines."""
    ours, theirs = dynamo.by_line, other.by_line
    return [
        LineOfBoth(*line, short_names(ours.get(line, ())), short_names(theirs.get(line, ())))
        for line in sorted({*ours, *theirs})
    ]


def short_names(nodes: Iterable[model.Node]) -> tuple[str, ...]:
    return tuple(map(short_name, nodes))


def short_name(node: model.Node) -> str:
    """Return ``linear`` for ``torch._C._nn.linear`` and for ``aten.linear.default``; the class of a
    module's call.
    """
    if node.op == "call_module":
        return node.module_type or node.target
    words = node.target.split(".")
    if words[0] in ("aten", "prims") and len(words) > 1:
        return words[1]
    return words[-1]


# Why a front end refused.


@dataclass(frozen=True, slots=True)
class Refusal:
    why: str
    """The reason, in one or two sentences."""
    advice: str = ""


_DATA_DEPENDENT = (
    "torch.where, torch.cond, or a mask instead of the branch; computed for both sides"
)

_KNOWN: tuple[tuple[tuple[str, ...], str, str, str], ...] = (
    (
        ("symbolic_trace",),
        r"symbolically traced variables cannot be used as inputs to control flow",
        "symbolic_trace runs the code once with stand-ins (Proxy) that have no value, so it "
        "cannot choose a branch at an if, a while, an assert or bool(). Dynamo knows all values "
        "except those of tensors, and breaks the graph at a tensor.",
        "concrete_args={…} fixes an argument that decides; for a tensor torch.where or torch.cond",
    ),
    (
        ("symbolic_trace",),
        r"Proxy object cannot be iterated",
        "symbolic_trace has a stand-in (Proxy) here whose length is unknown, so it cannot be "
        "iterated, unpacked or passed on as *args or **kwargs. Dynamo knows the length from the "
        "example inputs.",
        "index it (x[0], x[1]), or pass the parts as separate arguments",
    ),
    (
        ("symbolic_trace",),
        r"'len' is not supported in symbolic tracing",
        (
            "len() must return a number, and the stand-in (Proxy) of symbolic_trace does not know "
            "its length."
        ),
        "torch.fx.wrap('len') records the call as a node",
    ),
    (
        ("symbolic_trace",),
        r"'Proxy' object cannot be interpreted as an integer|must be .*int.*not "
        r".*Proxy|Proxy\).*(int|ints)|'Proxy' "
        r"object is not",
        "Python needs a real number here (a loop's range, a size, an index), but in "
        "symbolic_trace sizes are stand-ins without a value. Dynamo takes the number from the "
        "example input and guards it.",
        "a number that does not come from a tensor; or concrete_args={…}",
    ),
    (
        ("symbolic_trace",),
        r"expected np\.ndarray|numpy|array",
        (
            "The code leaves torch here: NumPy needs the memory of a tensor, but symbolic_trace "
            "has a stand-in without memory."
        ),
        "the same computation with torch's functions",
    ),
    (
        ("symbolic_trace",),
        r"module is not installed as a submodule",
        "A module is called that is not an attribute of the model (it is in a list or a closure), "
        "so symbolic_trace has no name for it.",
        "nn.ModuleList or nn.ModuleDict instead of a list or a dict",
    ),
    (
        ("symbolic_trace", "make_fx"),
        r"symbolically trace a dynamo-optimized function",
        (
            "The program gave a part of the target to torch.compile, and this front end does not "
            "trace through that."
        ),
        "call the part in eager mode, and put torch.compile around the whole model",
    ),
    (
        ("symbolic_trace",),
        r"Expected FunctionType, got",
        (
            "symbolic_trace takes a module or a plain Python function, not a bound method, a "
            "builtin or another callable."
        ),
        "the module itself, or a function or lambda that makes the call",
    ),
    (
        ("make_fx",),
        r"get value out of a tracing tensor|_local_scalar_dense",
        "make_fx runs the code once and records the operators. A Python number read from a tensor "
        "(.item(), int(), bool(), an if on a tensor) would become a constant that is wrong for "
        "the next input, so make_fx refuses. Dynamo has a graph break here.",
        _DATA_DEPENDENT,
    ),
    (
        ("export",),
        r"GuardOnDataDependentSymNode|data-dependent|Could not (guard|extract)",
        "torch.export makes one graph for all inputs, but the branch here depends on the content "
        "of a tensor, which torch.export does not have. Dynamo breaks the graph here and "
        "continues after it; torch.export may not.",
        "torch.cond, torch.where, or torch._check for conditions that always hold",
    ),
    (
        ("export",),
        r"was assigned during export|attributes? .* assigned|SideEffects|mutat",
        "The model sets one of its own attributes during the call, and a graph cannot do that.",
        "register the tensor as a buffer (register_buffer), which may be changed in place",
    ),
    (
        ("export",),
        r"not a known type|pytree|Unsupported (input|output) type|Expected .*output",
        "The model takes or returns an object other than a tensor, number, list, tuple or dict, "
        "and torch.export must split it into these.",
        (
            "return tensors, or register the class with torch.export.register_dataclass or "
            "register_pytree_node"
        ),
    ),
    (
        ("export",),
        r"\.numpy\(\) is not supported|numpy",
        (
            "The code leaves torch here: NumPy needs the memory of a tensor, but torch.export "
            "uses tensors without content."
        ),
        (
            "the same computation with torch's functions, or a custom operator "
            "(torch.library.custom_op)"
        ),
    ),
    (
        ("make_fx", "symbolic_trace"),
        r"argument of type: <class",
        "The returned value contains an object that a graph cannot return: graphs return tensors, "
        "numbers, strings, and lists, tuples and dicts of them.",
        "return the tensors of it",
    ),
    (
        ("export", "make_fx", "symbolic_trace"),
        r"^RecursionError",
        "The code recurses too deeply while it is traced.",
        "",
    ),
    (
        ("export", "make_fx"),
        r"^(OutOfMemoryError|MemoryError)|out of memory",
        "Memory was too small for a second call: make_fx runs the model for real, on a copy of it.",
        "smaller inputs",
    ),
)

_IN_GENERAL = {
    "symbolic_trace": (
        "symbolic_trace runs the code once with stand-ins (Proxy) that have neither values nor "
        "sizes; code that needs one fails."
    ),
    "export": "torch.export needs one graph without a break, for every input that it allows.",
    "make_fx": "make_fx runs the code once with real tensors and records the operators below it.",
}


def refusal(row: model.FrontEnd) -> Refusal | None:
    """Return why a front end made no graph; None when it made one."""
    if row.state == "made":
        return None
    if row.state == "timed_out":
        return Refusal(row.error)
    if not row.traceback:
        return Refusal(row.error)
    for names, pattern, why, advice in _KNOWN:
        if row.name in names and re.search(pattern, row.error):
            return Refusal(why, advice)
    return Refusal(_IN_GENERAL[row.name])
