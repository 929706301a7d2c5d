"""This module has the queries about the data that a profile is joined to, and about stored
profiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fx_explorer.session.queries.sql import computed_nodes, json_list
from fx_explorer.session.reader import SessionReader


class CallInOrder(NamedTuple):
    """A call of a kernel in generated code."""

    compilation: str
    direction: str
    kernel: int
    call: int
    name: str
    language: str
    output_code: int


def calls_in_order(reader: SessionReader) -> list[CallInOrder]:
    """Return every call in generated code, graph by graph, in the order of the lines. Rows that run
    other graphs (conditionals, loops) are left out: those graphs have rows of their own.
    """
    rows = reader.query(
        "SELECT compilation.name, kernel.direction, kernel.id, kernel_call.id, kernel.name, "
        "kernel.language, coalesce(kernel.output_code, 0) FROM kernel_call JOIN kernel ON "
        "kernel.id = kernel_call.kernel JOIN compilation ON compilation.id = kernel.compilation "
        "WHERE coalesce(kernel.runs, '[]') IN ('[]', '') AND compilation.status != 'restarted' "
        "ORDER BY compilation.id, kernel.direction, kernel.output_code, kernel_call.line, "
        "kernel_call.position, kernel_call.id"
    )
    return [CallInOrder(*row) for row in rows]


class PlaceOfCall(NamedTuple):
    """The lines where generated code calls a kernel, and where it defines it, from 1; 0 where one
    is not known.
    """

    kernel: int
    call: int
    output_code: int
    line: int
    first_line: int
    is_generated: bool


def places_of_calls(reader: SessionReader) -> list[PlaceOfCall]:
    """Return the places of every kernel, call by call."""
    rows = reader.query(
        "SELECT kernel.id, kernel_call.id, coalesce(kernel.output_code, 0), "
        "coalesce(kernel_call.line, 0), coalesce(kernel.first_line, 0), coalesce(kernel.artifact, "
        "0) != 0 FROM kernel JOIN kernel_call ON kernel_call.kernel = kernel.id ORDER BY 1, 2"
    )
    return [
        PlaceOfCall(kernel, call, code, line, first, bool(has_code))
        for kernel, call, code, line, first, has_code in rows
    ]


def nodes_of_calls(reader: SessionReader) -> Iterator[tuple[int, int, list[int]]]:
    """Yield (kernel, call, nodes that the call computes). Call 0 means every call of the kernel."""
    rows = reader.query(
        f"SELECT kernel, call, group_concat(node.id) FROM {computed_nodes(with_calls=True)} "
        "JOIN node ON node.id = computed GROUP BY 1, 2 ORDER BY 1, 2"
    )
    for kernel, call, nodes in rows:
        yield kernel, call, [*map(int, nodes.split(","))]


def lines_of_nodes(reader: SessionReader, nodes: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Return node → (SourceFile, line) of the user's innermost line, for those of these nodes that
    have one.
    """
    rows = reader.query(
        "SELECT node.id, node.file, node.line FROM json_each(?) AS wanted CROSS JOIN node ON "
        "node.id = wanted.value WHERE node.file AND node.line",
        (json_list(nodes),),
    )
    return {node: (file, line) for node, file, line in rows}
