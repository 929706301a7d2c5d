"""How each link of a place is known: the evidence behind what is highlighted, in words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.documents import (
    OF_GRAPHS,
    Place,
    place_of_kernel,
    place_of_source,
    places_of_nodes,
)
from fx_explorer.analysis.links.own_kernels import callers, copies, own_lines_at, source_of_own
from fx_explorer.analysis.links.selection import line_nodes_at, nodes_at
from fx_explorer.model.rows.graph import How
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernels import kernels_of

HOW_IN_WORDS: dict[How, str] = {
    "identity": "the same node, kept or copied by the compiler",
    "from_node": "the node says what it was made from (meta['from_node'])",
    "source_fn_stack": "the node carries the call it was traced from (meta['source_fn_stack'])",
    "fwd_source_fn_stack": "the backward node carries its forward call (meta['fwd_source_fn_stack'])",
    "seq_nr": "same autograd sequence number: close, not certain",
    "stack_trace": "same user stack: close, not certain",
    "name": "same name within one partition",
    "aot_input": "AOTAutograd made this input from it",
    "origins": "the scheduler lists the node as an origin of the kernel",
    "codegen": "seen while the line was written",
    "call_site": "the line was written for this node",
    "lnotab": "the code object's line table",
    "copied": "torch copied your kernel: the texts are equal, line by line",
    "kernel_call": "the same call of your Triton kernel (constant_args_idx)",
}

UNSURE: frozenset[How] = frozenset({"seq_nr", "stack_trace"})
"""Kinds of evidence that only say that two places are *about the same computation*. All others come
from what the compiler itself kept.
"""

OWN_STACK = "from the node's stack trace"

Relation = Literal["from", "became", "kernel", "source"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """One link. ``relation`` is what the other end is to the selected place."""

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
    found = _to_lines(reader, nodes, limit)
    if place.document.kind in OF_GRAPHS:
        above = [(link.parent, link.how) for link in reader.parents(nodes)]
        below = [(link.child, link.how) for link in reader.children(nodes)]
        return (
            _to_nodes(reader, "from", above[:limit])
            + _to_nodes(reader, "became", below[:limit])
            + found
            + _to_source(reader, nodes)
        )
    own = own_lines_at(reader, place)
    if place.document.kind == "source" and own:
        return _to_copies(reader, own[:limit]) + _to_nodes(
            reader, "became", [(n, "origins") for n in callers(reader, own)]
        )
    if place.document.kind == "source":
        return [
            replace(e, text=OWN_STACK, is_certain=True)
            for e in _to_nodes(reader, "became", [(n, "stack_trace") for n in nodes])
        ]
    rows = line_nodes_at(reader, place.document.id, place.line + 1)
    return _to_written(reader, own) + _to_nodes(
        reader, "from", [(row.node, row.how) for row in rows[:limit]]
    )


def _to_copies(reader: SessionReader, own: list[model.LineSource]) -> list[Explanation]:
    """Explain the links from a line of a kernel of the user's to the kernels that it stands in."""
    return [
        _copied("kernel", place, f"{kernel.name}:{place.line + 1}")
        for kernel, place in copies(reader, own)
    ]


def _to_written(reader: SessionReader, own: list[model.LineSource]) -> list[Explanation]:
    written = source_of_own(reader, own)
    if written:
        return [_copied("source", written, f"{written.document.title}:{written.line + 1}")]
    return []


def _copied(relation: Relation, place: Place, name: str) -> Explanation:
    return Explanation(relation, place, name, "copied", HOW_IN_WORDS["copied"])


def _to_nodes(
    reader: SessionReader, relation: Relation, links: list[tuple[int, How]]
) -> list[Explanation]:
    names = {node.id: node.name for node in reader.by_ids(model.Node, [node for node, _ in links])}
    known = [(node, how) for node, how in links if node in names]
    places = places_of_nodes(reader, [node for node, _ in known])
    return [
        Explanation(relation, place, names[node], how, HOW_IN_WORDS[how], how not in UNSURE)
        for (node, how), place in zip(known, places, strict=True)
    ]


def _to_lines(reader: SessionReader, nodes: list[int], limit: int) -> list[Explanation]:
    how_of: dict[int, How] = {}
    for row in sorted(reader.lines_of_nodes(nodes), key=lambda row: row.line, reverse=True):
        how_of[row.artifact] = row.how  # for a kernel, the first line's evidence is given
    found = []
    for kernel in kernels_of(reader, nodes)[:limit]:
        place = place_of_kernel(reader, kernel)
        how = how_of.get(kernel.artifact, "call_site")
        if place:
            found.append(Explanation("kernel", place, kernel.name, how, HOW_IN_WORDS[how]))
    return found


def _to_source(reader: SessionReader, nodes: list[int]) -> list[Explanation]:
    found = []
    for node in reader.by_ids(model.Node, nodes):
        place = place_of_source(reader, node.file, node.line) if node.file else None
        if place:
            name = f"{place.document.title}:{node.line}"
            found.append(Explanation("source", place, name, "stack_trace", OWN_STACK))
    return found
