"""How complete the links are. A missing link is counted, not hidden."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.variants.lineage import graphs_in_use, in_use
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.graphs import post_grad_directions
from fx_explorer.session.queries.links import (
    linked_lines,
    nodes_without_kernel,
    nodes_without_source,
    post_grad_calls,
)
from fx_explorer.torch_texts import bounded

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
    """How many call nodes there are."""
    compute_nodes: int
    """How many of them are no views or getitems, so that a kernel can be expected."""
    to_source: int
    """How many of ``nodes`` are linked to a line of the user's, directly or through the node they
    came from.
    """
    to_kernel: int
    """How many of ``compute_nodes`` have a kernel."""
    kernel_lines: int
    """How many statements the generated kernels have."""
    kernel_lines_linked: int


def link_coverage(reader: SessionReader) -> list[LinkCoverage]:
    """Return one entry per direction that has a post-grad graph, forward first."""
    present = post_grad_directions(reader)
    return [
        _of_direction(reader, direction) for direction in model.DIRECTIONS if direction in present
    ]


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
    return [
        number for number, line in enumerate(code.split("\n"), 1) if pattern.search(bounded(line))
    ]
