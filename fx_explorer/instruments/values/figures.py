"""This module says of a graph's inputs and outputs what AOTAutograd knows of them, with the user's
names and lines: which inputs are changed and where, which overlap, which outputs are inputs or
views, and which are tensors of another class.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.input_names import user_names_of_nodes
from fx_explorer.analysis.lineage import graphs_in_use
from fx_explorer.analysis.words import counted, listed, size
from fx_explorer.session import SessionReader, answered_once
from fx_explorer.session.file_names import in_file

_SUBCLASS = re.compile(r"^(?P<name>[A-Za-z_]\w{0,100})\((?P<parts>.{1,2000})\)$", re.DOTALL)
"""Matches the value of a tensor subclass: ``DTensor(_local_tensor: f32[4, 8], …)``."""

_DTENSOR = re.compile(
    r"_local_tensor: (?P<local>\w+\[[^\]]{0,500}\]).{0,1000}?"
    r"device_mesh: DeviceMesh\((?P<mesh>[^)]{0,500})\).{0,1000}?placements: (?P<placements>.*)$",
    re.DOTALL,
)


SUBCLASS = "subclass"
"""Our word for a tensor of another class, of which torch has none."""


@dataclass(frozen=True, slots=True)
class ValueOfGraph:
    """An input or output of a graph, with what is out of the ordinary about it."""

    graph: int
    """The forward or inference graph."""
    node: int
    """Its node in the graph that AOTAutograd traced, or of Dynamo; 0 where it is not known."""
    written: int
    """The node of AOTAutograd's graph that computes what is written to it; 0 without one."""
    compilation: str
    function: str
    name: str
    """``input x``, ``buffer norm.running_mean``, ``output 1``."""
    how: str
    """What it is, in a few words: ``copied back``, ``view of input``."""
    text: str
    """The whole in a sentence."""
    kind: str
    """torch's own word, or ``SUBCLASS``."""
    base: str = ""
    """The value that it is a view of, or that it overlaps."""
    copied_bytes: int = 0
    """Bytes that are copied back after each call; -1 where the size is not known."""
    file: str = ""
    line: int = 0
    """The user's line that makes or writes it; 0 where it is not known."""

    @property
    def at(self) -> str:
        return in_file(self.file, self.line) if self.line else ""


@answered_once
def values_of_graphs(reader: SessionReader) -> tuple[ValueOfGraph, ...]:
    """Return the inputs and outputs out of the ordinary of the graphs in use, graph by graph."""
    used = graphs_in_use(reader)
    values: list[ValueOfGraph] = []
    for summary in reader.rows(model.GraphValues):
        if used is None or summary.graph in used:
            values += _Values(reader, summary).of_graph()
    return tuple(values)


def describe_graph_values(reader: SessionReader, graph: int) -> list[str]:
    """Return what AOTAutograd says of the inputs and outputs of a graph, as sentences; [] for a
    graph of which it says nothing.
    """
    summaries = reader.rows(model.GraphValues, graph=graph)
    if not summaries:
        return []
    summary = summaries[0]
    parts = [counted(summary.inputs, "input"), counted(summary.outputs, "output")]
    if summary.intermediate_bases:
        parts.append(f"{counted(summary.intermediate_bases, 'value')} that outputs are views of")
    if summary.synthetic_bases:
        parts.append(f"{counted(summary.synthetic_bases, 'tensor')} in place of overlapping inputs")
    if summary.is_training:
        parts.append(f"{counted(summary.tangents, 'gradient')} as inputs of the backward")
    sentences = [f"AOTAutograd: {', '.join(parts)}."]
    texts = [value.text for value in values_of_graphs(reader) if value.graph == graph]
    sentences += texts[:MOST_SENTENCES]
    if len(texts) > MOST_SENTENCES:
        sentences.append(f"… and {len(texts) - MOST_SENTENCES} more (v h).")
    return sentences


MOST_SENTENCES = 12
"""Maximum number of values that the details of a graph describe."""


@answered_once
def values_by_node(reader: SessionReader) -> dict[int, list[ValueOfGraph]]:
    """Return node → what is known of the input or output that it is, or that it writes."""
    by_node: dict[int, list[ValueOfGraph]] = {}
    values = values_of_graphs(reader)
    same = _same_in_other_graphs(reader, {value.node for value in values} - {0})
    for value in values:
        for node in {*same.get(value.node, ()), value.written} - {0}:
            by_node.setdefault(node, []).append(value)
    return by_node


_SAME = ("identity", "name", "aot_input")
"""Evidence that two nodes are one value, in two graphs."""

_MOST_GRAPHS = 6
"""Maximum number of graphs between Dynamo's and Inductor's last one."""


def _same_in_other_graphs(reader: SessionReader, nodes: set[int]) -> dict[int, set[int]]:
    """Return each node with those that are the same value in earlier and later graphs."""
    same = {node: {node} for node in nodes}
    first_of = {node: node for node in nodes}
    for is_up in (True, False):
        near = set(first_of)
        for _ in range(_MOST_GRAPHS):
            links = reader.parents(near) if is_up else reader.children(near)
            near = set()
            for link in links:
                known, other = (link.child, link.parent) if is_up else (link.parent, link.child)
                if link.how in _SAME and other not in first_of:
                    first_of[other] = first_of[known]
                    same[first_of[known]].add(other)
                    near.add(other)
            if not near:
                break
    return same


class _Values:
    """The values of one graph."""

    def __init__(self, reader: SessionReader, summary: model.GraphValues) -> None:
        self._reader = reader
        self._summary = summary
        self._compilation = reader.get(model.Compilation, summary.compilation)
        self._facts = reader.rows(model.ValueFact, graph_values=summary.id)
        rows = set()
        for fact in self._facts:
            rows |= {fact.node, fact.base_node, fact.written}
        self._nodes = {node.id: node for node in reader.by_ids(model.Node, rows - {0})}
        named = {node.id: node.name for node in self._nodes.values()}
        self._names = user_names_of_nodes(reader, named)

    def of_graph(self) -> Iterator[ValueOfGraph]:
        for fact in self._facts:
            yield self._input(fact) if fact.role == "input" else self._output(fact)
        yield from self._subclasses()

    def _input(self, fact: model.ValueFact) -> ValueOfGraph:
        name = self._input_name(fact.node, fact.position)
        overlapped = self._overlapped(fact)
        bytes_back = 0
        if fact.kind == "mutated_out_graph" and "data" in fact.changes:
            bytes_back = fact.size_bytes
        how, sentence = _change(name, fact, bytes_back)
        if overlapped:
            subject = f"{sentence} It" if sentence else _capital(name)
            sentence = (
                f"{subject} overlaps {listed(overlapped)} in memory: the graph takes one tensor "
                "instead, and creates each from it."
            )
        return self._value(
            fact,
            name,
            how,
            sentence,
            base=listed(overlapped),
            copied_bytes=bytes_back,
            at=fact.written or fact.node,
        )

    def _output(self, fact: model.ValueFact) -> ValueOfGraph:
        name = f"output {fact.position}"
        base = ""
        if fact.kind in ("alias_of_input", "is_input"):
            base = self._input_name(fact.base_node, fact.base)
        elif fact.kind == "alias_of_intermediate_base_is_user_output":
            base = f"output {fact.base}"
        made = self._nodes.get(fact.node)
        code = f" ({self._expression(made)})" if made is not None else ""
        how, sentence = _OUTPUTS[fact.kind]
        text = sentence.format(name=f"{name}{code}", base=base or "a value inside the graph")
        return self._value(fact, name, how, _capital(text), base=base, at=fact.node)

    def _expression(self, made: model.Node) -> str:
        """Return ``x.view(-1)`` for a call of a method, and the name of any other node."""
        if made.op != "call_method":
            return self._names[made.id]
        owner, _, arguments = made.arguments.partition(", ")
        by_torchs_name = {node.name: self._names[node.id] for node in self._nodes.values()}
        return f"{by_torchs_name.get(owner, owner)}.{made.target}({arguments})"

    def _overlapped(self, fact: model.ValueFact) -> list[str]:
        if fact.base < 0:
            return []
        return [
            self._input_name(other.node, other.position)
            for other in self._facts
            if other.role == "input" and other.base == fact.base and other is not fact
        ]

    def _input_name(self, node: int, position: int) -> str:
        row = self._nodes.get(node)
        if row is None:
            return f"input {position}"
        return _with_kind(row.target, self._names[node])

    def _value(
        self,
        fact: model.ValueFact,
        name: str,
        how: str,
        text: str,
        *,
        base: str,
        at: int,
        copied_bytes: int = 0,
    ) -> ValueOfGraph:
        file, line = self._line(at)
        if not line:
            file, line = self._line(fact.node)
        return ValueOfGraph(
            graph=self._summary.graph,
            node=fact.node,
            written=fact.written,
            compilation=self._compilation.name,
            function=self._compilation.function,
            name=name,
            how=how,
            text=text,
            kind=fact.kind,
            base=base,
            copied_bytes=copied_bytes,
            file=file,
            line=line,
        )

    def _line(self, node: int) -> tuple[str, int]:
        row = self._nodes.get(node)
        if row is None or not row.file:
            return "", 0
        return self._reader.get(model.SourceFile, row.file).path, row.line

    def _subclasses(self) -> Iterator[ValueOfGraph]:
        """Yield the inputs that are tensors of another class than torch's own."""
        if not self._summary.traced:
            return
        placeholders = self._reader.rows(model.Node, graph=self._summary.traced, op="placeholder")
        special = [node for node in placeholders if node.shape is not None and node.value]
        names = user_names_of_nodes(self._reader, {node.id: node.name for node in special})
        for node in special:
            described = describe_subclass(node)
            if not described:
                continue
            name = _with_kind(node.target, names[node.id])
            class_name = node.value.partition("(")[0]
            path = self._reader.get(model.SourceFile, node.file).path if node.file else ""
            yield ValueOfGraph(
                graph=self._summary.graph,
                node=node.id,
                written=0,
                compilation=self._compilation.name,
                function=self._compilation.function,
                name=name,
                how=class_name,
                text=f"{_capital(name)} is {described}.",
                kind=SUBCLASS,
                file=path,
                line=node.line if path else 0,
            )


def describe_subclass(node: model.Node) -> str:
    """Return ``a DTensor f32[8, 8], Shard(0) on dp=2; each rank has f32[4, 8]``; empty for a
    plain tensor.
    """
    match = _SUBCLASS.match(node.value)
    if match is None or node.shape is None:
        return ""
    whole = f"{node.dtype}[{', '.join(node.shape)}]"
    dtensor = _DTENSOR.search(match["parts"]) if match["name"] == "DTensor" else None
    if dtensor is None:
        return f"a {match['name']} {whole} of {match['parts']}"
    return (
        f"a DTensor {whole}, {dtensor['placements']} on the mesh {dtensor['mesh']}; this rank has "
        f"{dtensor['local']}"
    )


_OUTPUTS: dict[str, tuple[str, str]] = {
    "alias_of_input": (
        "view of an input",
        "{name} is a view of {base}: compiled code creates it again from {base} after the graph.",
    ),
    "is_input": ("an input itself", "{name} is {base} itself, so compiled code returns {base}."),
    "alias_of_intermediate_save_as_output": (
        "view of a value inside",
        "{name} is a view of a value inside the graph: the graph also returns that value, and "
        "compiled code creates the view again from it.",
    ),
    "alias_of_intermediate": (
        "view of a value inside",
        "{name} is a view of a value inside the graph that the graph also returns, for another "
        "output: compiled code creates the view again from it.",
    ),
    "alias_of_intermediate_base_is_user_output": (
        "view of another output",
        "{name} is a view of {base}: compiled code creates it again from {base}.",
    ),
    "unsafe_view_alias": (
        "a view alone",
        "{name} is a view of a value that nothing else uses: the graph returns it directly.",
    ),
    "custom_function_view": (
        "view by a custom Function",
        "{name} is a view that a custom autograd.Function made: the graph returns it directly.",
    ),
}
"""torch's OutputType → a few words, and a sentence."""


def _change(name: str, fact: model.ValueFact, copied_bytes: int) -> tuple[str, str]:
    """Return a few words and a sentence on the change of an input."""
    subject = _capital(name)
    if fact.kind == "not_mutated":
        return "overlaps", ""
    if fact.kind == "mutated_in_graph":
        how = "written in the graph"
        if "storage size" in fact.changes:
            return how, f"{subject}'s storage is resized in the graph."
        return how, f"{subject} is written inside the graph: nothing is copied back after it."
    if "storage" in fact.changes:
        return "storage set", f"{subject} gets a new storage (set_) after the graph."
    if "data" not in fact.changes:
        return (
            "sizes set",
            f"{subject} gets other sizes or strides after the graph: no element is copied.",
        )
    amount = size(copied_bytes) if copied_bytes >= 0 else "its elements"
    return (
        "copied back",
        f"{subject} is copied back after the graph, because autograd must see the change: "
        f"{amount} read and written at each call.",
    )


def _with_kind(target: str, name: str) -> str:
    """Return ``buffer norm.running_mean`` for an input of Dynamo's graph."""
    if "_buffers_" in target:
        return f"buffer {name}"
    if "_parameters_" in target:
        return f"parameter {name}"
    return f"input {name}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
