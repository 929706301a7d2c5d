"""This module has the queries about kernels and their configurations: their number, the nodes they
compute, the kernel of a text, and the kernels at each node of a graph and on each line of the
output code. The last ones read the calls that a profile is joined to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from fx_explorer import model
from fx_explorer.session.queries.joined import origins_of_joined
from fx_explorer.session.queries.sql import IS_COUNTED, among, computed_nodes
from fx_explorer.session.reader import SessionReader, answered_once, json_list

_IS_KERNEL = "coalesce(runs, '[]') IN ('[]', '')"
"""Condition that excludes rows of kernel that run other graphs, whose kernels are rows of their
own.
"""


def kernel_count(reader: SessionReader, kernels: Collection[int] | None) -> int:
    """Return how many of ``kernels`` (None: of all) are generated functions or library calls."""
    return reader.number(
        f"SELECT count(*) FROM kernel WHERE {_IS_KERNEL} AND {IS_COUNTED} AND "
        f"{among(kernels, 'id')}",
    )


def kernels_by_compilation(reader: SessionReader) -> dict[int, int]:
    """Return how many generated functions and library calls a compilation has, by its id."""
    return dict(
        reader.query(
            f"SELECT compilation, count(*) FROM kernel WHERE {_IS_KERNEL} GROUP BY compilation"
        )
    )


def may_have_language(reader: SessionReader, language: model.KernelLanguage, most: int) -> bool:
    """Return whether one of the first ``most`` kernels is in this language; True, too, if there are
    more kernels.
    """
    first = reader.column(f"SELECT language FROM kernel LIMIT {most:d}")
    return len(first) == most or language in first


def kernel_languages(reader: SessionReader) -> set[str]:
    """Return the languages that kernels are written in; ``extern`` for library calls."""
    return set(reader.column("SELECT DISTINCT language FROM kernel"))


@answered_once
def kernel_line_counts(reader: SessionReader) -> dict[int, int]:
    """Return how many lines the code of a kernel has, by the id of the artifact."""
    return dict(reader.query("SELECT id, line_count FROM artifact WHERE kind='kernel'"))


@answered_once
def call_counts(reader: SessionReader) -> dict[int, int]:
    """Return how often the output code calls a kernel, by the id of the kernel."""
    return dict(reader.query("SELECT kernel, count(*) FROM kernel_call GROUP BY kernel"))


def launch_counts(reader: SessionReader) -> dict[int, int]:
    """Return kernel → its launches on a real GPU, by id; empty if they were not counted."""
    return dict(reader.query("SELECT kernel, sum(count) FROM kernel_launch GROUP BY kernel"))


def unlinked_kernels(reader: SessionReader, language: str) -> int:
    """Return how many kernels of a language no node is known of."""
    linked = kernel_nodes(reader)
    kernels = reader.rows(model.Kernel, language=language)
    return sum(kernel.id not in linked for kernel in kernels)


def kernel_nodes(reader: SessionReader, compilation: int | None = None) -> dict[int, list[int]]:
    """Return kernel → the nodes that it computes (in one compilation, or in all), by ids,
    sorted.
    """
    condition, values = _of_compilation(compilation)
    rows = reader.query(
        f"SELECT kernel, computed FROM {computed_nodes(condition=condition)} ORDER BY 1, 2", values
    )
    nodes: dict[int, list[int]] = {}
    for kernel, node in rows:
        nodes.setdefault(kernel, []).append(node)
    return nodes


def _of_compilation(compilation: int | None) -> tuple[str, list[int]]:
    """Return the condition of ``computed_nodes`` for one compilation, or for all, with its
    parameters.
    """
    if compilation is None:
        return "", []
    return "kernel.compilation=?", [compilation] * 2


def kernel_origins(
    reader: SessionReader, compilation: int | None = None
) -> dict[int, list[tuple[int, int, str]]]:
    """Return kernel → (file, line, module) of every node that it computes (in one compilation, or
    in all), and of every node that a pass joined into one. The line is the user's innermost one.
    """
    condition, values = _of_compilation(compilation)
    rows = reader.query(
        "SELECT kernel, node.id, node.file, node.line, node.module FROM "
        f"{computed_nodes(condition=condition)} JOIN node ON node.id = computed "
        "ORDER BY kernel, node.id",
        values,
    )
    joined = origins_of_joined(reader)
    origins: dict[int, list[tuple[int, int, str]]] = {}
    for kernel, node, file, line, module in rows:
        places = joined.get(node, ((file, line, module),))
        origins.setdefault(kernel, []).extend(places)
    return origins


def lines_of_calls(reader: SessionReader) -> dict[tuple[str, str, int], int]:
    """Return (compilation's name, direction, line of output code) → the id of the kernel that it
    calls. A library call has a line of its own.
    """
    rows = reader.query(
        "SELECT compilation.name, kernel.direction, kernel_call.line, kernel.id FROM kernel_call "
        "JOIN kernel ON kernel.id = kernel_call.kernel JOIN compilation ON compilation.id = "
        "kernel.compilation WHERE kernel_call.line UNION SELECT compilation.name, "
        "kernel.direction, kernel.first_line, kernel.id FROM kernel JOIN compilation ON "
        "compilation.id = kernel.compilation WHERE NOT kernel.artifact AND kernel.first_line"
    )
    return {(name, direction, line): kernel for name, direction, line, kernel in rows}


def names_of_computed_nodes(
    reader: SessionReader, compilation: int | None = None
) -> dict[int, str]:
    """Return the name of every node that a kernel of a compilation computes, or that a line of any
    artifact does, by its id.
    """
    if compilation is not None:
        condition, values = _of_compilation(compilation)
        return dict(
            reader.query(
                "SELECT DISTINCT computed, node.name FROM "
                f"{computed_nodes(condition=condition)} JOIN node ON node.id = computed",
                values,
            )
        )
    return dict(
        reader.query(
            "SELECT DISTINCT node.id, node.name FROM line_node JOIN node ON node.id = "
            "line_node.node"
        )
    )


def fused_operations(
    reader: SessionReader, direction: model.Direction, kernels: Collection[int] | None
) -> int:
    """Return the number of distinct operations that the generated kernels of a direction compute,
    of those among ``kernels`` (None: of all). Views are left out.

    One direction at a time: SQLite would sort the rows of all lines to group them, which is half of
    the time.
    """
    wanted = (
        "SELECT artifact FROM kernel WHERE artifact AND direction=? AND "
        f"{among(kernels, 'kernel.id')}"
    )
    return reader.number(
        "SELECT count(*) FROM node WHERE NOT is_view AND id IN (SELECT node FROM line_node WHERE "
        f"artifact IN ({wanted}))",
        direction,
    )


def kernels_of(reader: SessionReader, nodes: Sequence[int]) -> list[model.Kernel]:
    """Return the kernels (library calls too) that compute any of these nodes directly."""
    wanted = (
        "FROM json_each(?) AS wanted JOIN line_node ON line_node.node = wanted.value CROSS "
        "JOIN kernel"
    )
    ids = reader.column(
        f"SELECT kernel.id {wanted} ON kernel.artifact = line_node.artifact UNION SELECT kernel.id "
        f"{wanted} ON kernel.output_code = line_node.artifact AND kernel.first_line = "
        "line_node.line WHERE NOT kernel.artifact",
        *[json_list(nodes)] * 2,
    )
    return reader.by_ids(model.Kernel, ids)


def names_of_kernels_of(reader: SessionReader, nodes: Iterable[int]) -> list[tuple[int, str]]:
    """Return (number, name) of the kernels that compute any of these nodes, each name once with the
    first number, those of the forward first. Fast enough for each move of the cursor.
    """
    return reader.query(
        "SELECT MIN(kernel.id), kernel.name FROM json_each(?) AS wanted JOIN line_node ON "
        "line_node.node = wanted.value JOIN kernel ON kernel.artifact = line_node.artifact OR "
        "(kernel.output_code = line_node.artifact AND kernel.first_line = line_node.line AND "
        "NOT kernel.artifact) GROUP BY kernel.name ORDER BY MIN(kernel.direction = 'backward'), "
        "MIN(kernel.id)",
        (json_list(nodes),),
    )


@answered_once
def build_with_level(reader: SessionReader, artifact: int) -> model.KernelBuild | None:
    """Return the configuration with this text as a level; None when the text is not a level."""
    builds = (
        "SELECT kernel_build.id FROM kernel_build, json_each(kernel_build.levels) AS level "
        "WHERE level.value=?"
    )
    ids = reader.column(builds, artifact)
    if not ids:
        return None
    return reader.get(model.KernelBuild, ids[0])


@answered_once
def build_with_source(
    reader: SessionReader, compilation: int, artifact: int
) -> model.KernelBuild | None:
    """Return the configuration with this text as its own source; None without one."""
    rows = reader.query(
        "SELECT kernel_build.id FROM kernel JOIN kernel_build ON kernel_build.kernel = kernel.id "
        "WHERE kernel.compilation=? AND kernel_build.source AND json_extract(kernel_build.levels, "
        "'$.triton')=?",
        (compilation, artifact),
    )
    if not rows:
        return None
    return reader.get(model.KernelBuild, rows[0][0])


def calls_in_output_code(
    reader: SessionReader, output_code: int
) -> list[tuple[int, str, int, int]]:
    """Return the calls that a wrapper makes, in the order of its lines: the line, the kernel's
    name, the artifact with the kernel's code (0: a library call), and the id of the call.
    """
    return reader.query(
        "SELECT kernel_call.line, kernel.name, kernel.artifact, kernel_call.id FROM kernel_call "
        "JOIN kernel ON kernel.id = kernel_call.kernel WHERE kernel.output_code=? AND "
        "kernel_call.line ORDER BY 1",
        (output_code,),
    )


def nodes_of_artifacts(
    reader: SessionReader, artifacts: Collection[int]
) -> list[tuple[int, int, int, int]]:
    """Return (artifact, line, call, node) for every line of the artifacts that computes a node. The
    call is 0 for a line of every call of a kernel.
    """
    wanted = "FROM json_each(?) AS wanted JOIN line_node ON line_node.artifact = wanted.value"
    return reader.query(
        "SELECT line_node.artifact, line_node.line, line_node.call, line_node.node "
        f"{wanted} ORDER BY line_node.node",
        (json_list(artifacts),),
    )


def kernels_in_order(reader: SessionReader, compilation: int) -> dict[str, list[int]]:
    """Return the ids of a compilation's kernels by direction, in the order the compiled code runs
    them.
    """
    kernels: dict[str, list[int]] = {}
    for direction, kernel in reader.query(
        "SELECT direction, id FROM kernel WHERE compilation=? ORDER BY position, id", (compilation,)
    ):
        kernels.setdefault(direction, []).append(kernel)
    return kernels


def texts_but_of_kernels(reader: SessionReader, compilation: int) -> list[int]:
    """Return the ids of a compilation's texts, except its kernels', in the order they were
    written.
    """
    others = ", ".join(f"'{stage}'" for stage in model.STAGES if stage != "kernel")
    return reader.column(
        f"SELECT id FROM artifact WHERE compilation=? AND stage IN ({others}) ORDER BY id",
        compilation,
    )


def first_kernel_texts(reader: SessionReader, compilation: int) -> list[int]:
    """Return the ids of the first text of a kernel in each direction."""
    first = (
        "SELECT id FROM artifact WHERE compilation=? AND stage='kernel' AND kind='kernel' "
        "AND direction=? ORDER BY id LIMIT 1"
    )
    texts: list[int] = []
    for direction in model.DIRECTIONS:
        texts += reader.column(first, compilation, direction)
    return texts


# Which kernels are where.


def kernels_of_each(reader: SessionReader, nodes: Iterable[int]) -> dict[int, list[int]]:
    """Return node → the kernels that compute it or the later nodes that come from it, ascending;
    nodes without a kernel are left out.
    """
    # The + keeps SQLite from beginning with the kernels, of which there may be 100,000.
    rows = reader.query(
        "WITH RECURSIVE reached(origin, id) AS (SELECT value, value FROM json_each(?) UNION SELECT "
        "reached.origin, link.child FROM reached JOIN link ON link.parent = reached.id), "
        "computing(origin, artifact, line) AS (SELECT DISTINCT reached.origin, line_node.artifact, "
        "line_node.line FROM reached CROSS JOIN line_node ON line_node.node = reached.id) SELECT "
        "origin, kernel.id FROM computing CROSS JOIN kernel ON kernel.artifact = "
        "computing.artifact UNION SELECT origin, kernel.id FROM computing CROSS JOIN kernel ON "
        "kernel.output_code = computing.artifact AND kernel.first_line = computing.line WHERE NOT "
        "+kernel.artifact ORDER BY 1, 2",
        (json_list(nodes),),
    )
    kernels: dict[int, list[int]] = {}
    for origin, kernel in rows:
        kernels.setdefault(origin, []).append(kernel)
    return kernels


def operations_by_line(reader: SessionReader, kernels: range) -> list[tuple[int, int, int, int]]:
    """Return (id of the kernel, SourceFile, line, number of nodes) for the user's innermost lines
    that these kernels compute, ascending; file and line are 0 for nodes of no line. A node that a
    pass made of several counts for the line of each.
    """
    pairs = computed_nodes(condition="kernel.id BETWEEN ? AND ?")
    bounds = (kernels.start, kernels.stop - 1) * 2
    rows: list[tuple[int, int, int, int]] = reader.query(
        f"SELECT kernel, node.file, node.line, count(*) FROM {pairs} JOIN node ON node.id = "
        "computed GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
        bounds,
    )
    joined = origins_of_joined(reader)
    if not joined:
        return rows
    counts = {(kernel, file, line): count for kernel, file, line, count in rows}
    of_joined = reader.query(
        f"SELECT kernel, computed, node.file, node.line FROM {pairs} JOIN node ON node.id = "
        "computed WHERE computed IN (SELECT value FROM json_each(?))",
        (*bounds, json_list(joined)),
    )
    for kernel, node, file, line in of_joined:
        counts[kernel, file, line] -= 1
        for origin in joined[node]:
            place = (kernel, origin.file, origin.line)
            counts[place] = counts.get(place, 0) + 1
    return sorted((*place, count) for place, count in counts.items() if count)


def last_kernel(reader: SessionReader) -> int:
    """Return the highest id of a kernel; 0 without one."""
    return reader.number("SELECT coalesce(max(id), 0) FROM kernel")


def bodies_in_output_code(reader: SessionReader, output_code: int) -> list[tuple[int, int, int]]:
    """Return (first line, line after the last, id of the kernel) for the code of each kernel in a
    text, from 1 and ascending; a library call has the line that makes it.
    """
    return reader.query(
        "SELECT kernel.first_line, kernel.first_line + coalesce(artifact.line_count, 1), kernel.id "
        "FROM kernel LEFT JOIN artifact ON artifact.id = kernel.artifact WHERE "
        "kernel.output_code=? AND kernel.first_line ORDER BY 1",
        (output_code,),
    )


def calls_of_output_code(reader: SessionReader, output_code: int) -> list[tuple[int, int]]:
    """Return (line, id of the kernel) of each call that the wrapper makes, from 1."""
    return reader.query(
        "SELECT kernel_call.line, kernel.id FROM kernel CROSS JOIN kernel_call ON "
        "kernel_call.kernel = kernel.id WHERE kernel.output_code=? AND kernel_call.line",
        (output_code,),
    )


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


def narrow_values_within_kernels(
    reader: SessionReader, dtypes: Sequence[str]
) -> list[tuple[int, model.Node]]:
    """Return (kernel, node) for each value of these dtypes that another operation of the same
    generated kernel reads, in the order of the nodes.
    """
    marks = ", ".join("?" * len(dtypes))
    if not reader.number(f"SELECT EXISTS (SELECT 1 FROM node WHERE dtype IN ({marks}))", *dtypes):
        return []
    rows = reader.query(
        f"WITH computed AS {computed_nodes(condition='kernel.artifact')} SELECT "
        "min(computed.kernel), node.id FROM computed JOIN node ON node.id = computed.computed JOIN "
        "edge ON edge.producer = node.id JOIN computed AS other ON other.computed = edge.consumer "
        f"AND other.kernel = computed.kernel WHERE node.dtype IN ({marks}) AND NOT node.is_view "
        "GROUP BY node.id ORDER BY node.id",
        tuple(dtypes),
    )
    nodes = {node.id: node for node in reader.by_ids(model.Node, [node for _, node in rows])}
    return [(kernel, nodes[node]) for kernel, node in rows]


def lines_of_nodes(reader: SessionReader, nodes: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Return node → (SourceFile, line) of the user's innermost line, for those of these nodes that
    have one; of a node that a pass made of several, that of the first.
    """
    rows = reader.query(
        "SELECT node.id, node.file, node.line FROM json_each(?) AS wanted CROSS JOIN node ON "
        "node.id = wanted.value WHERE node.file AND node.line",
        (json_list(nodes),),
    )
    joined = origins_of_joined(reader)
    lines = {}
    for node, file, line in rows:
        lines[node] = (file, line)
        if node in joined:
            lines[node] = (joined[node][0].file, joined[node][0].line)
    return lines


def lines_of_names(reader: SessionReader, names: Iterable[str]) -> list[tuple[str, int, int, int]]:
    """Return (name, graph, SourceFile, line) of each node of these names that has a line of the
    user's.
    """
    return reader.query(
        "SELECT node.name, node.graph, node.file, node.line FROM json_each(?) AS wanted CROSS JOIN "
        "node ON node.name = wanted.value WHERE node.file AND node.line ORDER BY node.id",
        (json_list(names),),
    )


def kernels_called_on_line(reader: SessionReader, output_code: int, line: int) -> list[int]:
    """Return the kernels and library calls that the wrapper calls on this line (from 1)."""
    return reader.column(
        "SELECT DISTINCT kernel.id FROM kernel JOIN kernel_call ON kernel_call.kernel = kernel.id "
        "WHERE kernel.output_code=? AND kernel_call.line=?",
        output_code,
        line,
    )
