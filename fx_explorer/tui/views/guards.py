"""View 5: guards, compilation by compilation."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath

from fx_explorer import model
from fx_explorer.analysis.breaks import compilation_names
from fx_explorer.analysis.documents import place_of_path
from fx_explorer.analysis.words import counted, first_line
from fx_explorer.session import SessionReader
from fx_explorer.tui.views.table import Column, Detail, Row, Table

COLUMNS = (
    Column("compilation", "name"),
    Column("kind", "notice"),
    Column("guards", "code", width=36),
    Column("must be true", width=70),
    Column("because of", "name"),
)


def guards_table(reader: SessionReader) -> Table:
    guards = reader.rows(model.Guard)
    names = compilation_names(reader)
    return Table(
        shows="What must stay true for the compiled code to be reused. When one fails, torch compiles again.",
        notice=_notice(guards),
        origin="torch's guard manager, one row a guard",
        columns=COLUMNS,
        rows=[_row(reader, guard, names.get(guard.compilation, "")) for guard in guards],
        empty=_why_empty(reader),
    )


def _row(reader: SessionReader, guard: model.Guard, owner: str) -> Row:
    where = f"{PurePath(guard.file).name}:{guard.line}" if guard.file else ""
    place = place_of_path(reader, guard.file, guard.line) if guard.file else None
    cells = (f"[{owner}]", guard.kind, guard.source, first_line(guard.code or guard.verbose), where)
    return Row(cells, place, lambda: Detail(_text(guard), "python"))


def _text(guard: model.Guard) -> str:
    where = f"# asked for by {guard.file}:{guard.line}" if guard.file else "# no user line is known for it"
    return "\n".join((where, f"# {guard.kind} on {guard.source}", guard.code, *(["", guard.verbose] if guard.verbose else [])))


def _notice(guards: list[model.Guard]) -> str:
    if not guards:
        return ""
    kinds = Counter(guard.kind or "other" for guard in guards).most_common(4)
    sizes = sum(guard.kind == "SHAPE_ENV" for guard in guards)
    words = f"{counted(len(guards), 'guard')}: " + ", ".join(f"{count} {kind}" for kind, count in kinds)
    return f"{words}. {counted(sizes, 'set')} of dynamic sizes." if sizes else f"{words}."


def _why_empty(reader: SessionReader) -> str:
    if reader.meta("outcome") is None:
        return "None so far: guards are made when Dynamo has finished a graph."
    return "No guard was recorded: nothing was compiled, or the compilation failed before its guards were made."
