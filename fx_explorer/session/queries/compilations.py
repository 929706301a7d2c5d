"""This module has the queries about compilations: their names, variants and times, the exceptions
that ended them, their graph breaks and guards, and the source files.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fx_explorer import model
from fx_explorer.model import Compilation, Fallback, GraphBreak, Metric
from fx_explorer.session.reader import SessionReader, answered_once


def has_compiled(reader: SessionReader) -> bool:
    """Return whether torch began to compile anything, in the program or in a watched child process,
    even if no graph was captured.
    """
    return bool(reader.count(model.Compilation) or reader.count(model.ChildProcess, unseen=""))


def draws_by_inductor(reader: SessionReader) -> bool:
    """Return whether Inductor's code draws its own random numbers (``lower_random`` of
    torch/_inductor/fx_passes/replace_random.py), which differ from those of PyTorch's operators.
    """
    drawn = (
        "SELECT 1 FROM node WHERE target LIKE '%inductor_random%' OR target LIKE "
        "'%inductor_seed%' LIMIT 1"
    )
    return bool(list(reader.query(drawn)))


def ran_inductors_graphs(reader: SessionReader) -> bool:
    """Return whether a graph was given to Inductor."""
    given = (
        "SELECT 1 FROM compilation JOIN graph ON graph.compilation = compilation.id "
        "WHERE compilation.backend = 'inductor' LIMIT 1"
    )
    return bool(list(reader.query(given)))


def printed_line_count(reader: SessionReader) -> int:
    """Return how many lines the program printed, without those of fx-explorer's own."""
    return reader.number("SELECT count(*) FROM console WHERE stream != ''")


def compilation_names(reader: SessionReader) -> dict[int, str]:
    """Return the name of every compilation and variant, by its id."""
    return dict(reader.query("SELECT id, name FROM compilation"))


def compilation_ids(reader: SessionReader, names: Iterable[str]) -> list[int]:
    """Return the ids of the compilations with these names, in the order of the names."""
    ids = {name: number for number, name in compilation_names(reader).items()}
    return [ids[name] for name in names if name in ids]


def compilation_count(reader: SessionReader) -> int:
    """Return the number of compilations, without further variants."""
    return reader.number(
        "SELECT count(*) FROM compilation WHERE status != 'restarted' AND variant_of = ''"
    )


def recompile_count(reader: SessionReader) -> int:
    """Return the number of compilations that were made because a guard had failed."""
    return reader.number("SELECT count(DISTINCT compilation) FROM recompile")


def first_compilation(reader: SessionReader) -> int:
    """Return the id of the first compilation with a graph, or of the first one; 0 without any."""
    ids = reader.column(
        "SELECT compilation FROM graph WHERE node_count AND compilation ORDER BY "
        "compilation LIMIT 1",
    )
    ids = ids or reader.column("SELECT id FROM compilation ORDER BY id LIMIT 1")
    return int(ids[0]) if ids else 0


def other_variants(reader: SessionReader) -> set[int]:
    """Return the ids of the variants that began from another one."""
    return set(reader.column("SELECT id FROM compilation WHERE variant_of != ''"))


def origins_of_variants(reader: SessionReader) -> dict[int, int]:
    """Return variant → the variant from which it began, by ids."""
    return dict(
        reader.query(
            "SELECT c.id, o.id FROM compilation c JOIN compilation o ON o.name = "
            "c.variant_of AND o.id < c.id"
        )
    )


def compile_seconds(reader: SessionReader, compilation: int | None = None) -> float:
    """Return the seconds spent compiling: of the outermost spans, or torch's own figure for a frame
    without spans.

    A backward that is compiled when it is first needed has outermost spans of its own, outside the
    frame's duration.
    """
    condition: str = " WHERE variant_of=''"
    values: tuple[int, ...] = ()
    if compilation is not None:
        condition, values = " WHERE compilation.id=?", (compilation,)
    spans = (
        "SELECT coalesce(sum(duration_s), 0) FROM span WHERE depth=0 AND "
        "span.compilation=compilation.id"
    )
    rows = reader.query(
        f"SELECT sum(max(duration_s, ({spans}))) FROM compilation{condition}", values
    )
    return float(rows[0][0] or 0.0)


# Exceptions of the compiler's. The program got them, whatever it did with them, or torch was
# told to continue without (``suppress_errors``). A function that Dynamo leaves to Python is none of
# them.


_MAY_BE_LEFT = ("Unsupported", "UserError")
"""Exceptions that Dynamo turns into a graph break or runs in eager mode, unless ``fullgraph=True``
(torch's convert_frame.py).
"""


def raised_compilations(reader: SessionReader) -> list[Compilation]:
    """Return the compilations that ended in an exception of the compiler's, in the order they were
    compiled. A break or fallback has a row of its own; an exception has none.
    """
    compilations = reader.rows(Compilation)
    failed = [row for row in compilations if row.status in ("failed", "skipped")]
    if not failed:
        return []
    have_rows = {row.compilation for row in reader.rows(GraphBreak)}
    have_rows |= {row.compilation for row in reader.rows(Fallback)}
    raised = []
    for compilation in failed:
        has_raised = compilation.status == "failed"
        if not has_raised and compilation.id not in have_rows:
            has_raised = _fail_type(reader, compilation) in _MAY_BE_LEFT
        if has_raised:
            raised.append(compilation)
    return raised


def _fail_type(reader: SessionReader, compilation: Compilation) -> str:
    for row in reader.rows(Metric, compilation=compilation.id, name="compilation_metrics"):
        known = json.loads(row.value)
        if isinstance(known, dict) and known.get("fail_type"):
            return str(known["fail_type"])
    return ""


# Graph breaks: how many there are, and what was being compiled at them.


_DISTINCT_BREAK = "file, line, coalesce(nullif(registry_id, ''), reason)"
"""The key by which two reported breaks are the same: one line and one cause."""


def break_count(reader: SessionReader) -> int:
    """Return the number of distinct breaks: by the user's line and the cause, however often each
    was hit.
    """
    return reader.number(
        f"SELECT count(*) FROM (SELECT DISTINCT {_DISTINCT_BREAK} FROM graph_break)"
    )


def chains_of_breaks(reader: SessionReader) -> list[int]:
    """Return the ids of the distinct Stacks inside the compilation at a break."""
    return reader.column("SELECT DISTINCT chain FROM graph_break WHERE chain")


# Guards, and the checks that torch runs for them.


_LEFT = "SELECT * FROM guard WHERE dropped_by = ''"
"""SQL query for the guards that no filter dropped."""

_WITHOUT_TREE = f"{_LEFT} AND compilation NOT IN (SELECT compilation FROM guard_check)"
"""SQL query for the guards of compilations whose guard tree is not known."""


def check_count(reader: SessionReader, compilation: int | None = None) -> int:
    """Return how many checks torch runs for compiled code: the parts of the leaves of its guard
    trees, also two that are alike, as torch evaluates both. A guard that Dynamo asked for may have
    several, or none of its own. Of a compilation whose tree is not known, as in a log, the guards
    are counted.
    """
    condition, values = _of(compilation)
    checks = reader.number(f"SELECT count(*) FROM guard_check{condition}", *values)
    without_tree = f"SELECT count(*) FROM ({_WITHOUT_TREE}){condition}"
    return checks + reader.number(without_tree, *values)


def asked_count(reader: SessionReader) -> int:
    """Return how many guards Dynamo asked for that no filter dropped. torch makes its checks of
    them.
    """
    return reader.number(f"SELECT count(*) FROM ({_LEFT})")


def guards_without_tree(reader: SessionReader) -> list[int]:
    """Return the ids of the guards of compilations whose guard tree is not known."""
    return reader.column(f"SELECT id FROM ({_WITHOUT_TREE}) ORDER BY id")


def guard_kind_counts(reader: SessionReader, compilation: int | None = None) -> dict[str, int]:
    """Return the number of guards of each kind, the most frequent first; of one compilation, or of
    all. Guards that a filter dropped are left out.
    """
    condition, values = _of(compilation)
    return dict(
        reader.query(
            f"SELECT kind, count(*) FROM ({_LEFT}){condition} GROUP BY kind ORDER BY 2 DESC, 1",
            values,
        )
    )


@dataclass(frozen=True, slots=True)
class Filtered:
    """Number of guards that a guard filter dropped."""

    filter: str
    dropped: int
    """Guards that are no longer checked."""
    guards: int
    """All guards of the compilations that had the filter."""


def filtered(reader: SessionReader, compilation: int | None = None) -> list[Filtered]:
    """Return the filters that dropped guards of a compilation, or of any."""
    condition, values = _of(compilation)
    counts = (
        f"SELECT compilation, dropped_by AS filter, count(*) AS number FROM guard{condition} "
        "GROUP BY 1, 2"
    )
    whole = f"SELECT compilation, count(*) AS number FROM guard{condition} GROUP BY 1"
    rows = reader.query(
        f"SELECT filter, sum(counts.number), sum(whole.number) FROM ({counts}) AS counts "
        f"JOIN ({whole}) AS whole USING (compilation) WHERE filter != '' GROUP BY 1 ORDER BY 1",
        (*values, *values),
    )
    return [Filtered(*row) for row in rows]


def guard_kinds_of(reader: SessionReader, compilation: int) -> dict[int, str]:
    """Return the kind of each guard of a compilation, by the id of the guard."""
    return dict(reader.query("SELECT id, kind FROM guard WHERE compilation=?", (compilation,)))


@answered_once
def checked_values(reader: SessionReader, compilation: int) -> dict[str, str]:
    """Return torch's name of each checked value of a compilation → its text in the example call."""
    return dict(
        reader.query(
            "SELECT source, max(value) FROM guard_check WHERE compilation=? AND source != '' AND "
            "value != '' GROUP BY source",
            (compilation,),
        )
    )


def checked_tensors(reader: SessionReader, compilation: int) -> list[tuple[str, str | None]]:
    """Return (torch's name, description) of the tensors that a compilation checks; the description,
    such as ``f32[4, 64]``, is of the example input.
    """
    return reader.query(
        "SELECT source, value FROM guard_check WHERE compilation=? AND kind='TENSOR_MATCH'",
        (compilation,),
    )


def _of(compilation: int | None) -> tuple[str, tuple[int, ...]]:
    if compilation is None:
        return "", ()
    return " WHERE compilation=?", (compilation,)


def guarded_sources(reader: SessionReader) -> list[str]:
    """Return the sources of guards, in torch's notation:
    ``L['self']._modules['fc']._parameters['weight']``.
    """
    return reader.column(
        "SELECT source FROM guard WHERE source != '' UNION SELECT source FROM "
        "guard_check WHERE source != ''",
    )


# Source files: their paths, and which of them somebody will want to read.


@answered_once
def source_paths(reader: SessionReader) -> dict[int, str]:
    """Return the path of every source file, by its id."""
    return dict(reader.query("SELECT id, path FROM source_file"))


def user_paths(reader: SessionReader) -> set[str]:
    """Return the paths of the user's own source files."""
    return set(reader.column("SELECT path FROM source_file WHERE is_user"))


def sources_to_read(reader: SessionReader) -> set[int]:
    """Return the ids of the user's own files, and of those with a node or a break (a library's
    model).

    Guards have stacks too, through files nobody asked for.
    """
    used = " OR ".join(
        f"EXISTS (SELECT 1 FROM {table} WHERE {table}.stack=stack.id)"
        for table in ("node", "graph_break")
    )
    # A frame is [file, line, function, code].
    innermost = f"SELECT json_extract(frames, '$[#-1][0]') FROM stack WHERE {used}"
    return set(reader.column(f"SELECT id FROM source_file WHERE is_user OR path IN ({innermost})"))


def source_files(session: Path) -> list[Path]:
    """Return the source files in a session, without a reader, which refuses a damaged one. Raises
    sqlite3.Error.
    """
    with contextlib.closing(sqlite3.connect(session)) as db:
        paths = [path for (path,) in db.execute("SELECT path FROM source_file")]
    return [Path(path) for path in paths if isinstance(path, str)]
