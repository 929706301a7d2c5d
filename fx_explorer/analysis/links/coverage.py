"""How complete the links are: a missing link is counted, not hidden."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.variants.lineage import among, in_use
from fx_explorer.session import SessionReader

_STATEMENT: dict[str, re.Pattern[str]] = {
    "cpp": re.compile(r"\bauto \w*tmp\d+|\.store\(|\b(?:in_)?out_ptr\d+\[|^\s*tmp_acc\d+\w* = "),
    "triton": re.compile(r"^\s*(?:_?tmp\d+\w* = (?!tl\.full\(\[.*BLOCK)|tl\.(?:store|atomic_\w+)\()"),
}
"""Lines that compute something, as Inductor writes them (``torch/_inductor/codegen``, cpp.py and triton.py): loads, operations,
reductions and stores. Loop heads, offsets and declarations belong to no node."""


@dataclass(frozen=True, slots=True)
class LinkCoverage:
    """How completely the post-grad graphs of one direction are linked."""

    direction: model.Direction
    nodes: int
    """Call nodes."""
    compute_nodes: int
    """Those that are not views or getitems: the ones a kernel can be expected for."""
    to_source: int
    """How many of ``nodes`` are linked to a line of the user's, directly or through the node they came from."""
    to_kernel: int
    """How many of ``compute_nodes`` have a kernel."""
    kernel_lines: int
    """Statements of generated kernels."""
    kernel_lines_linked: int


def _call_nodes(reader: SessionReader) -> str:
    """SQL: the nodes of the variants in use that call something."""
    used = in_use(reader)
    return (
        "FROM node JOIN graph ON graph.id = node.graph WHERE graph.stage='post_grad' AND graph.direction=? "
        f"AND node.op IN ('call_function', 'call_method', 'call_module') AND {among(used.graphs if used else None, 'graph.id')}"
    )


def link_coverage(reader: SessionReader) -> list[LinkCoverage]:
    """One entry for each direction that has a post-grad graph, forward first."""
    present = {row[0] for row in reader.query("SELECT DISTINCT direction FROM graph WHERE stage='post_grad'")}
    return [_of_direction(reader, direction) for direction in model.DIRECTIONS if direction in present]


def _of_direction(reader: SessionReader, direction: model.Direction) -> LinkCoverage:
    nodes, compute = reader.query(f"SELECT count(*), coalesce(sum(NOT node.is_view), 0) {_call_nodes(reader)}", (direction,))[0]
    lines, linked = _kernel_lines(reader, direction)
    unsourced = len(nodes_without_source(reader, direction))
    unlinked = len(nodes_without_kernel(reader, direction))
    return LinkCoverage(direction, nodes, compute, nodes - unsourced, compute - unlinked, lines, linked)


def nodes_without_source(reader: SessionReader, direction: model.Direction) -> list[int]:
    """Ids of post-grad call nodes that no user line is known for."""
    found = reader.query(
        f"WITH RECURSIVE own(id) AS (SELECT node.id {_call_nodes(reader)} AND NOT node.file), "
        "up(origin, id) AS (SELECT id, id FROM own "
        "UNION SELECT up.origin, link.parent FROM up JOIN link ON link.child = up.id) "
        "SELECT id FROM own EXCEPT SELECT up.origin FROM up JOIN node ON node.id = up.id WHERE node.file",
        (direction,),
    )
    return [row[0] for row in found]


def nodes_without_kernel(reader: SessionReader, direction: model.Direction) -> list[int]:
    """Ids of post-grad compute nodes that neither a generated kernel nor a library call is known for."""
    found = reader.query(
        f"SELECT node.id {_call_nodes(reader)} AND NOT node.is_view AND NOT EXISTS (SELECT 1 FROM line_node "
        "JOIN artifact ON artifact.id = line_node.artifact "
        "WHERE line_node.node = node.id AND artifact.kind IN ('kernel', 'output_code'))",
        (direction,),
    )
    return [row[0] for row in found]


def _kernel_lines(reader: SessionReader, direction: model.Direction) -> tuple[int, int]:
    """Statements of the generated kernels of a direction, and how many of them are linked to a node."""
    statements = linked = 0
    used = in_use(reader)
    for artifact in reader.rows(model.Artifact, kind="kernel", direction=direction):
        if used is not None and artifact.id not in used.artifacts:
            continue
        lines = statement_lines(reader.text(artifact.text), artifact.language)
        known = _linked_lines(reader, artifact.id)
        statements += len(lines)
        linked += len(known.intersection(lines))
    return statements, linked


def _linked_lines(reader: SessionReader, artifact: int) -> set[int]:
    """Lines that are linked to a node or, in a kernel of the user's own, to the source line they were copied from."""
    linked = "SELECT line FROM line_node WHERE artifact=? UNION SELECT line FROM line_source WHERE artifact=?"
    return {row[0] for row in reader.query(linked, (artifact, artifact))}


def statement_lines(code: str, language: str) -> list[int]:
    """Lines (from 1) of a kernel's code that compute something; none for a language we do not know."""
    pattern = _STATEMENT.get(language)
    if pattern is None:
        return []
    return [number for number, line in enumerate(code.split("\n"), 1) if pattern.search(line)]
