"""This module finds what Inductor decided about a kernel or a node, with the user's lines and
names.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from fx_explorer import model
from fx_explorer.analysis.input_names import InputNames
from fx_explorer.analysis.lineage import in_use
from fx_explorer.instruments.decisions.reasons import (
    DecisionReason,
    NamesInDecision,
    is_worth_saying,
    reason_of,
)
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import source_paths
from fx_explorer.session.queries.kernels import lines_of_nodes, nodes_of_calls
from fx_explorer.session.queries.links import descendants
from fx_explorer.session.reader import answered_once

Line = tuple[str, int]
"""File and line, from 1."""


@dataclass(frozen=True, slots=True)
class Explained:
    """A decision about a kernel, in words."""

    decision: model.KernelDecision
    kernel: model.Kernel
    """The kernel that this decision affects."""
    reason: DecisionReason
    line: Line | None
    """The user's line of the operation, for a layout that of the value; None where it has none."""
    is_elsewhere: bool = False
    """Whether it is about the kernel that writes what this one, a library call, asks for."""
    node: str = ""
    """Name of the post-grad node that was lowered; empty where a whole kernel was written."""
    count: int = 1
    """How often the same was decided: in repeated layers, for one."""
    modules: tuple[str, ...] = ()
    """Paths of the modules of these operations."""
    value: str = ""
    """For a layout, the value: the user's name of an input, or the operation that makes it."""


@dataclass
class _Calls:
    """The calls of kernels, by their search keys."""

    kernels: dict[int, model.Kernel] = field(default_factory=dict)
    """Call → its kernel."""
    by_node: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Post-grad node → the calls that compute it."""
    nodes: dict[int, list[int]] = field(default_factory=dict)
    """Call → the nodes that it computes."""


@answered_once
def explained_decisions(reader: SessionReader) -> list[Explained]:
    """Return the decisions about kernels in use: first those about attention and those that made an
    operation a library call, then the others; in each by kernel in the order of the code. Those of
    repeated layers are there once, with their number.
    """
    rows = [row for row in reader.rows(model.KernelDecision) if is_worth_saying(row)]
    if not rows:
        return []
    calls = _calls(reader)
    about = [node for row in rows for node in (row.node, row.about) if node]
    nodes = {node.id: node for node in reader.by_ids(model.Node, set(about))}
    names = _names(reader, nodes.values())
    found: dict[tuple[object, ...], Explained] = {}
    counts: Counter[tuple[object, ...]] = Counter()
    modules: dict[tuple[object, ...], dict[str, None]] = defaultdict(dict)
    lines = _lines(reader, calls, rows)
    for row in rows:
        copies = calls.kernels.get(row.call)
        node = nodes.get(row.node)
        operator = _operator(row.texts.get("operator") or node.target) if node else ""
        is_attention = row.kind == "attention"
        of_asker, of_value = lines.get(row.node), lines.get(row.about)
        if row.kind == "layout" and of_asker and of_value and of_asker != of_value:
            operator += f" ({in_file(*of_asker)})"
        named = NamesInDecision(
            node=operator,
            about=names.get(row.about, ""),
            is_input=row.about in nodes and nodes[row.about].op == "placeholder",
            kernel=copies.name if copies else "",
        )
        reason = reason_of(row, named)
        if is_attention:
            calls_of_row = _calls_of_attention(reader, row, calls)
        else:
            calls_of_row = _calls_of(row, calls)
        for call in calls_of_row:
            kernel = calls.kernels[call]
            line = of_value or of_asker or lines.get(-call)
            key = kernel.id, row.kind, row.outcome, reason.text, line
            is_elsewhere = row.kind == "layout" and call != row.call
            is_elsewhere |= is_attention and call != calls_of_row[0]
            name = node.name if node else ""
            found.setdefault(
                key,
                Explained(row, kernel, reason, line, is_elsewhere, name, value=named.about),
            )
            counts[key] += 1
            if node and node.module:
                modules[key][node.module] = None
    explained = []
    for same, first in found.items():
        explained.append(replace(first, count=counts[same], modules=tuple(modules[same])))
    explained.sort(key=_order)
    return explained


def _order(explained: Explained) -> tuple[int, int, int, int]:
    kernel, row = explained.kernel, explained.decision
    return _KIND_ORDER.get(row.kind, len(_KIND_ORDER)), kernel.compilation, kernel.id, row.id


_KIND_ORDER = {"attention": 0, "library call": 1}
"""Kind of a decision → its place in the order; the others come after these."""


def decisions_of_kernel(reader: SessionReader, kernel: int) -> list[Explained]:
    return [e for e in explained_decisions(reader) if e.kernel.id == kernel]


def decisions_of_node(reader: SessionReader, node: int) -> list[Explained]:
    """Return what was decided about the operations that a node became. The kernels that a node is
    computed by with others say it themselves.
    """
    nodes = descendants(reader, [node])
    decisions: dict[int, Explained] = {}
    for explained in explained_decisions(reader):
        row = explained.decision
        if row.node in nodes or row.about in nodes:
            decisions.setdefault(row.id, explained)
    return list(decisions.values())


def decisions_about(reader: SessionReader, name: str) -> list[Explained]:
    """Return the decisions with this text in the name of the kernel or node, in the sentence or in
    the line. A decision about several such kernels is there once.
    """
    wanted = name.casefold()
    about: list[Explained] = []
    ids = set()
    for explained in explained_decisions(reader):
        line = f"{explained.line[0]}:{explained.line[1]}" if explained.line else ""
        texts = (explained.kernel.name, explained.node, explained.reason.text, line)
        if any(wanted in text.casefold() for text in texts) and explained.decision.id not in ids:
            about.append(explained)
            ids.add(explained.decision.id)
    return about


def _calls_of(row: model.KernelDecision, calls: _Calls) -> list[int]:
    """Return the calls that a decision is about. A layout is about the kernel that writes the value
    and about the library call that asks for it.
    """
    of_node = calls.by_node.get(row.node, [])
    if row.kind == "layout":
        asking = [call for call in of_node if calls.kernels[call].language == "extern"]
        written = [row.call] if row.call in calls.kernels else []
        return list(dict.fromkeys([*written, *asking]))
    if row.call:
        return [row.call] if row.call in calls.kernels else []
    return [call for call in of_node if calls.kernels[call].language != "extern"]


def _calls_of_attention(
    reader: SessionReader, row: model.KernelDecision, calls: _Calls
) -> list[int]:
    """Return the first call of each kernel that computes an attention of a Dynamo graph, a library
    call first. [] where the graph has not become what torch chose: a context of the program's
    allowed other kernels.
    """
    nodes = descendants(reader, [row.node])
    targets = [node.target for node in reader.by_ids(model.Node, sorted(nodes))]
    is_fused = any(_FUSED.search(target) for target in targets)
    if is_fused == (row.outcome == "math"):
        return []
    first: dict[int, int] = {}
    for call in sorted({call for node in nodes for call in calls.by_node.get(node, ())}):
        first.setdefault(calls.kernels[call].id, call)
    return sorted(first.values(), key=lambda call: calls.kernels[call].language != "extern")


_FUSED = re.compile(r"aten\._scaled_dot_product_\w+_attention")


def _calls(reader: SessionReader) -> _Calls:
    used = in_use(reader)
    kernels = {row.id: row for row in reader.rows(model.Kernel)}
    calls = _Calls()
    of_kernel: dict[int, list[int]] = defaultdict(list)
    for row in reader.rows(model.KernelCall):
        if used is None or row.kernel in used.kernels:
            calls.kernels[row.id] = kernels[row.kernel]
            of_kernel[row.kernel].append(row.id)
    for kernel, named_call, nodes in nodes_of_calls(reader):
        for call in [named_call] if named_call else of_kernel[kernel]:
            if call not in calls.kernels:
                continue
            calls.nodes.setdefault(call, []).extend(nodes)
            for node in nodes:
                calls.by_node[node].append(call)
    return calls


def _lines(
    reader: SessionReader, calls: _Calls, rows: Iterable[model.KernelDecision]
) -> dict[int, Line]:
    """Return node → the user's line, and a negative call → the line of most of its nodes."""
    wanted = {row.call for row in rows if row.call in calls.nodes}
    nodes = {node for row in rows for node in (row.node, row.about) if node}
    for call in wanted:
        nodes.update(calls.nodes[call])
    numbers = lines_of_nodes(reader, nodes)
    paths = source_paths(reader)
    lines = {node: (paths[file], line) for node, (file, line) in numbers.items() if file in paths}
    of_calls = {}
    for call in wanted:
        most = Counter(lines[node] for node in calls.nodes[call] if node in lines).most_common(1)
        if most:
            of_calls[-call] = most[0][0]
    return {**lines, **of_calls}


def _names(reader: SessionReader, nodes: Iterable[model.Node]) -> dict[int, str]:
    """Return the user's names of inputs, and for other nodes the operation that makes them."""
    names: dict[int, str] = {}
    placeholders = []
    for node in nodes:
        names[node.id] = f"The result of {_operator(node.target)}"
        if node.op == "placeholder":
            placeholders.append(node)
    for number, name in InputNames(reader).of(placeholders).items():
        names[number] = name.name
    return names


def _operator(target: str) -> str:
    """Return ``aten.mm`` for ``aten.mm.default``."""
    target = target.removeprefix("torch.ops.")
    parts = target.split(".")
    return ".".join(parts[:2]) if len(parts) > 2 else target
