"""Which kernels are where: at each node of a graph, on each line of the output code."""

from __future__ import annotations

from collections.abc import Iterable

from fx_explorer.session.queries.sql import computed_nodes, json_list, number
from fx_explorer.session.reader import SessionReader


def kernels_of_each(reader: SessionReader, nodes: Iterable[int]) -> dict[int, list[int]]:
    """Return the ids of the kernels that compute what happened to each node, ascending; a node that
    none computes is left out.
    """
    # The + keeps SQLite from beginning with the kernels, of which there may be 100,000.
    found = reader.query(
        "WITH RECURSIVE reached(origin, id) AS (SELECT value, value FROM json_each(?) "
        "UNION SELECT reached.origin, link.child FROM reached JOIN link ON link.parent = "
        "reached.id), "
        "computing(origin, artifact, line) AS (SELECT DISTINCT reached.origin, "
        "line_node.artifact, line_node.line "
        "FROM reached CROSS JOIN line_node ON line_node.node = reached.id) "
        "SELECT origin, kernel.id FROM computing CROSS JOIN kernel ON kernel.artifact = "
        "computing.artifact "
        "UNION SELECT origin, kernel.id FROM computing CROSS JOIN kernel "
        "ON kernel.output_code = computing.artifact AND kernel.first_line = "
        "computing.line WHERE NOT +kernel.artifact "
        "ORDER BY 1, 2",
        (json_list(nodes),),
    )
    kernels: dict[int, list[int]] = {}
    for origin, kernel in found:
        kernels.setdefault(origin, []).append(kernel)
    return kernels


def operations_by_line(reader: SessionReader, kernels: range) -> list[tuple[int, int, int, int]]:
    """Return (id of the kernel, SourceFile, line, number of nodes) for the user's innermost lines
    that these kernels compute, ascending; file and line are 0 for nodes of no line.
    """
    return reader.query(
        "SELECT kernel, node.file, node.line, count(*) FROM "
        f"{computed_nodes(condition='kernel.id BETWEEN ? AND ?')} "
        "JOIN node ON node.id = computed GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
        (kernels.start, kernels.stop - 1) * 2,
    )


def last_kernel(reader: SessionReader) -> int:
    """Return the highest id of a kernel; 0 where there is none."""
    return number(reader, "SELECT coalesce(max(id), 0) FROM kernel")


def bodies_in_output_code(reader: SessionReader, output_code: int) -> list[tuple[int, int, int]]:
    """Return (first line, line behind the last, id of the kernel) for the code of each kernel in a
    text, from 1 and ascending; a library call has the line that makes it.
    """
    return reader.query(
        "SELECT kernel.first_line, kernel.first_line + coalesce(artifact.line_count, 1), "
        "kernel.id FROM kernel "
        "LEFT JOIN artifact ON artifact.id = kernel.artifact WHERE kernel.output_code=? "
        "AND kernel.first_line ORDER BY 1",
        (output_code,),
    )


def calls_of_output_code(reader: SessionReader, output_code: int) -> list[tuple[int, int]]:
    """Return (line, id of the kernel) of each call that the wrapper makes, from 1."""
    return reader.query(
        "SELECT kernel_call.line, kernel.id FROM kernel CROSS JOIN kernel_call ON "
        "kernel_call.kernel = kernel.id "
        "WHERE kernel.output_code=? AND kernel_call.line",
        (output_code,),
    )
