"""This module explains in words how each link of a place is known, and how complete the links of a
session are. A missing link is counted, not hidden.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.documents import (
    Place,
    is_of_graph,
    place_of_kernel,
    place_of_source,
    places_of_nodes,
)
from fx_explorer.analysis.lineage import graphs_in_use, in_use
from fx_explorer.analysis.selected_nodes import (
    callers,
    copies,
    line_nodes_at,
    lines_of_users_kernel,
    nodes_at,
    place_of_users_kernel,
)
from fx_explorer.model.rows.graph import How
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.graphs import post_grad_directions
from fx_explorer.session.queries.kernels import kernels_of
from fx_explorer.session.queries.links import (
    linked_lines,
    nodes_without_kernel,
    nodes_without_source,
    post_grad_calls,
)
from fx_explorer.torch_texts import bounded

HOW_IN_WORDS: dict[How, str] = {
    "identity": "the same node, kept or copied by the compiler",
    "from_node": "the node says what it was made from (meta['from_node'])",
    "source_fn_stack": "the node carries the call it was traced from (meta['source_fn_stack'])",
    "fwd_source_fn_stack": (
        "the backward node carries its forward call (meta['fwd_source_fn_stack'])"
    ),
    "seq_nr": "likely: the autograd sequence numbers are equal",
    "stack_trace": "likely: the user stacks are equal",
    "name": "same name within one partition",
    "aot_input": "AOTAutograd made this input from that value",
    "origins": "the scheduler lists the node as an origin of the kernel",
    "codegen": "recorded while the line was written",
    "call_site": "the line was written for this node",
    "lnotab": "the code object's line table",
    "copied": "torch copied your kernel: the texts are equal, line by line",
    "replaced": "a pass replaced the earlier node by this one",
    "written_back": "AOTAutograd writes its result into an input that the program changes",
    "kernel_call": "the same call of your Triton kernel (constant_args_idx)",
}

UNSURE: frozenset[How] = frozenset({"seq_nr", "stack_trace"})
"""Kinds of evidence that only show that two places *concern the same computation*. All others are
the compiler's own records.
"""

OWN_STACK = "from the node's stack trace"

Relation = Literal["from", "became", "kernel", "source"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """One link. ``relation`` describes the other end relative to the selected place."""

    relation: Relation
    place: Place
    name: str
    """The name of the other end: a node's name, a kernel's, ``model.py:32``."""
    how: How
    text: str
    is_certain: bool = True


def explain(reader: SessionReader, place: Place, limit: int = 100) -> list[Explanation]:
    """Return the links that leave ``place`` directly (a stage up, a stage down, kernels, source),
    at most ``limit`` of each kind.
    """
    nodes = nodes_at(reader, place)[:limit]
    explanations = _to_lines(reader, nodes, limit)
    if is_of_graph(place.document.kind):
        above = [(link.parent, link.how) for link in reader.parents(nodes)]
        below = [(link.child, link.how) for link in reader.children(nodes)]
        return (
            _to_nodes(reader, "from", above[:limit])
            + _to_nodes(reader, "became", below[:limit])
            + explanations
            + _to_source(reader, nodes)
        )
    own_lines = lines_of_users_kernel(reader, place)
    if place.document.kind == "source" and own_lines:
        calls: list[tuple[int, How]] = [(node, "origins") for node in callers(reader, own_lines)]
        return _to_copies(reader, own_lines[:limit]) + _to_nodes(reader, "became", calls)
    if place.document.kind == "source":
        traced: list[tuple[int, How]] = [(node, "stack_trace") for node in nodes]
        became = _to_nodes(reader, "became", traced)
        return [replace(explanation, text=OWN_STACK, is_certain=True) for explanation in became]
    rows = line_nodes_at(reader, place.document.id, place.line + 1)
    origins = [(row.node, row.how) for row in rows[:limit]]
    return _to_written(reader, own_lines) + _to_nodes(reader, "from", origins)


def _to_copies(reader: SessionReader, lines: list[model.LineSource]) -> list[Explanation]:
    """Explain the links from a line of a kernel of the user's to the kernels that it stands in."""
    return [
        _copied("kernel", place, f"{kernel.name}:{place.line + 1}")
        for kernel, place in copies(reader, lines)
    ]


def _to_written(reader: SessionReader, lines: list[model.LineSource]) -> list[Explanation]:
    written = place_of_users_kernel(reader, lines)
    if not written:
        return []
    return [_copied("source", written, f"{written.document.title}:{written.line + 1}")]


def _copied(relation: Relation, place: Place, name: str) -> Explanation:
    return Explanation(relation, place, name, "copied", HOW_IN_WORDS["copied"])


def _to_nodes(
    reader: SessionReader, relation: Relation, links: list[tuple[int, How]]
) -> list[Explanation]:
    rows = reader.by_ids(model.Node, [node for node, _ in links])
    names = {row.id: row.name for row in rows}
    known = [(node, how) for node, how in links if node in names]
    places = places_of_nodes(reader, [node for node, _ in known])
    explanations = []
    for (node, how), place in zip(known, places, strict=True):
        is_certain = how not in UNSURE
        explanation = Explanation(relation, place, names[node], how, HOW_IN_WORDS[how], is_certain)
        explanations.append(explanation)
    return explanations


def _to_lines(reader: SessionReader, nodes: list[int], limit: int) -> list[Explanation]:
    how_of: dict[int, How] = {}
    for row in sorted(reader.lines_of_nodes(nodes), key=lambda row: row.line, reverse=True):
        how_of[row.artifact] = row.how  # for a kernel, the first line's evidence is given
    explanations = []
    kernels = kernels_of(reader, nodes)[:limit]
    variants = _variants_of(reader, kernels)
    for kernel in kernels:
        place = place_of_kernel(reader, kernel)
        how = how_of.get(kernel.artifact, "call_site")
        if place:
            name = kernel.name
            if kernel.compilation in variants:
                name = f"{name} of [{variants[kernel.compilation]}]"
            explanations.append(Explanation("kernel", place, name, how, HOW_IN_WORDS[how]))
    return explanations


def _variants_of(reader: SessionReader, kernels: Sequence[model.Kernel]) -> dict[int, str]:
    """Return compilation → its name, where the kernels are of more than one compilation."""
    compilations = {kernel.compilation for kernel in kernels}
    if len(compilations) < 2:
        return {}
    return {row.id: row.name for row in reader.by_ids(model.Compilation, compilations)}


def _to_source(reader: SessionReader, nodes: list[int]) -> list[Explanation]:
    explanations = []
    for node in reader.by_ids(model.Node, nodes):
        if node.file:
            place = place_of_source(reader, node.file, node.line)
        else:
            place = None
        if place:
            name = f"{place.document.title}:{node.line}"
            explanations.append(Explanation("source", place, name, "stack_trace", OWN_STACK))
    return explanations


_STATEMENT: dict[str, re.Pattern[str]] = {
    "cpp": re.compile(r"\bauto \w*tmp\d+|\.store\(|\b(?:in_)?out_ptr\d+\[|^\s*tmp_acc\d\w* = "),
    "triton": re.compile(
        r"^\s*(?:_?tmp\d\w* = (?!tl\.full\(\[.*BLOCK)|tl\.(?:store|atomic_\w+)\()"
    ),
}
"""Matches lines that compute something, as Inductor writes them (``torch/_inductor/codegen``,
cpp.py and triton.py): loads, operations, reductions and stores. Loop heads, offsets and
declarations belong to no node.
"""


@dataclass(frozen=True, slots=True)
class LinkCoverage:
    """How completely the post-grad graphs of one direction are linked."""

    direction: model.Direction
    nodes: int
    """Number of call nodes."""
    compute_nodes: int
    """Number of them that are not views or getitems, so that a kernel can be expected."""
    to_source: int
    """Number of ``nodes`` linked to a line of the user's code, directly or through the nodes from
    which they came.
    """
    to_kernel: int
    """How many of ``compute_nodes`` have a kernel."""
    kernel_lines: int
    """How many statements the generated kernels have."""
    kernel_lines_linked: int


def link_coverage(reader: SessionReader) -> list[LinkCoverage]:
    """Return one entry per direction with a post-grad graph, forward first."""
    present = post_grad_directions(reader)
    directions = [direction for direction in model.DIRECTIONS if direction in present]
    return [_of_direction(reader, direction) for direction in directions]


def _of_direction(reader: SessionReader, direction: model.Direction) -> LinkCoverage:
    graphs = graphs_in_use(reader)
    nodes, compute = post_grad_calls(reader, direction, graphs)
    lines, linked = _kernel_lines(reader, direction)
    unsourced = len(nodes_without_source(reader, direction, graphs))
    unlinked = len(nodes_without_kernel(reader, direction, graphs))
    return LinkCoverage(
        direction, nodes, compute, nodes - unsourced, compute - unlinked, lines, linked
    )


def _kernel_lines(reader: SessionReader, direction: model.Direction) -> tuple[int, int]:
    """Return the number of statements in a direction's generated kernels, and how many of them are
    linked to a node.
    """
    statements = linked = 0
    lines_of: dict[tuple[int, str], list[int]] = {}
    used = in_use(reader)
    for artifact in reader.rows(model.Artifact, kind="kernel", direction=direction):
        if used is not None and artifact.id not in used.artifacts:
            continue
        key = artifact.text, artifact.language
        if key not in lines_of:  # many kernels may have one text
            lines_of[key] = statement_lines(reader.text(artifact.text), artifact.language)
        lines = lines_of[key]
        statements += len(lines)
        linked += len(set(lines).intersection(linked_lines(reader, artifact.id)))
    return statements, linked


def statement_lines(code: str, language: str) -> list[int]:
    """Return the lines (from 1) of a kernel's code that compute something; empty for an unknown
    language.
    """
    pattern = _STATEMENT.get(language)
    if pattern is None:
        return []
    lines = enumerate(code.split("\n"), 1)
    return [number for number, line in lines if pattern.search(bounded(line))]
