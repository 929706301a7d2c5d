"""Compilations: their names, which of them are variants of another, and how long they took."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.session.queries.sql import column, number
from fx_explorer.session.reader import SessionReader


def has_compiled(reader: SessionReader) -> bool:
    """Return whether torch began to compile anything, in the program or in a child process that was
    watched. A graph need not have come of it.
    """
    return bool(reader.count(model.Compilation) or reader.count(model.ChildProcess, unseen=""))


def draws_by_inductor(reader: SessionReader) -> bool:
    """Return whether Inductor's code draws random numbers of its own (``lower_random`` of
    torch/_inductor/fx_passes/replace_random.py), which are others than PyTorch's operators draw.
    """
    drawn = (
        "SELECT 1 FROM node WHERE target LIKE '%inductor_random%' OR target LIKE "
        "'%inductor_seed%' LIMIT 1"
    )
    return bool(list(reader.query(drawn)))


def compilation_names(reader: SessionReader) -> dict[int, str]:
    """Return the name of every compilation and variant, by its id."""
    return dict(reader.query("SELECT id, name FROM compilation"))


def compilation_count(reader: SessionReader) -> int:
    """Return how many compilations there are. Each counts once, however many variants set out from
    its gates.
    """
    return number(
        reader, "SELECT count(*) FROM compilation WHERE status != 'restarted' AND variant_of = ''"
    )


def recompile_count(reader: SessionReader) -> int:
    """Return how many compilations were made because a guard had failed."""
    return number(reader, "SELECT count(DISTINCT compilation) FROM recompile")


def first_compilation(reader: SessionReader) -> int:
    """Return the id of the first that made a graph, or of the first at all when none did; 0 when
    there is none.
    """
    found = column(
        reader,
        "SELECT compilation FROM graph WHERE node_count AND compilation ORDER BY "
        "compilation LIMIT 1",
    )
    found = found or column(reader, "SELECT id FROM compilation ORDER BY id LIMIT 1")
    return int(found[0]) if found else 0


def other_variants(reader: SessionReader) -> set[int]:
    """Return the ids of the variants that set out from another one."""
    return set(column(reader, "SELECT id FROM compilation WHERE variant_of != ''"))


def origins_of_variants(reader: SessionReader) -> dict[int, int]:
    """Return the id of the variant that another one set out from, by the id of that other one."""
    return dict(
        reader.query(
            "SELECT c.id, o.id FROM compilation c JOIN compilation o ON o.name = "
            "c.variant_of AND o.id < c.id"
        )
    )


def compile_seconds(reader: SessionReader, compilation: int | None = None) -> float:
    """Return the seconds spent compiling: the outermost spans, or what torch says of the frame
    where spans are missing.

    A backward that is compiled when it is first needed has outermost spans of its own, outside the
    frame's duration.
    """
    condition, values = (
        (" WHERE variant_of=''", ())
        if compilation is None
        else (" WHERE compilation.id=?", (compilation,))
    )
    spans = (
        "SELECT coalesce(sum(duration_s), 0) FROM span WHERE depth=0 AND "
        "span.compilation=compilation.id"
    )
    found = reader.query(
        f"SELECT sum(max(duration_s, ({spans}))) FROM compilation{condition}", values
    )
    return float(found[0][0] or 0.0)
