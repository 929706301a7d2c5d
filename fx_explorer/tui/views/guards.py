"""View 5: guards, compilation by compilation."""

from __future__ import annotations

from pathlib import PurePath

from fx_explorer import model
from fx_explorer.analysis.breaks import compilation_names
from fx_explorer.analysis.documents import Document, Place, source_document
from fx_explorer.analysis.guards import KIND_IN_WORDS, guard_kinds
from fx_explorer.analysis.words import counted, first_line
from fx_explorer.session import SessionReader
from fx_explorer.tui.views.table import Column, Detail, Row, Table

COLUMNS = (
    Column("frame", "annotation", priority=4),
    Column("guards on", "strong", min_width=20, max_width=44),
    Column("what must stay true", min_width=30, max_width=60),
    Column("asked for by", "link", min_width=14, priority=1),
    Column("kind", "muted", min_width=14, priority=2),
)


def guards_table(reader: SessionReader) -> Table:
    guards = reader.rows(model.Guard)
    names = compilation_names(reader)
    # A model has thousands of guards and few files: each file is looked up once.
    documents = {file.path: source_document(file) for file in reader.rows(model.SourceFile) if file.text}
    return Table(
        shows="What must stay true for the compiled code to be reused. When one fails, torch compiles again.",
        notice=_notice(reader, len(guards)),
        origin="torch's guard manager, one row a guard",
        columns=COLUMNS,
        rows=[_row(guard, names.get(guard.compilation, ""), documents.get(guard.file)) for guard in guards],
        empty=_why_empty(reader),
    )


def _row(guard: model.Guard, owner: str, document: Document | None) -> Row:
    where = f"{PurePath(guard.file).name}:{guard.line}" if guard.file else ""
    place = Place(document, max(0, guard.line - 1)) if document else None
    meaning = KIND_IN_WORDS.get(guard.kind) or first_line(guard.code or guard.verbose)
    cells = (f"[{owner}]", guard.source or "everything", meaning, where, guard.kind)
    return Row(cells, place, lambda: Detail(_text(guard)))


def _text(guard: model.Guard) -> str:
    where = f"asked for by {guard.file}:{guard.line}" if guard.file else "no line of yours is known to have asked for it"
    meaning = KIND_IN_WORDS.get(guard.kind, "a kind of guard that is not explained here")
    texts = [f"{guard.kind} on {guard.source or 'everything'}: {meaning}", where, "", "torch checks", f"  {guard.code}"]
    if guard.verbose and guard.verbose != guard.code:
        texts += [f"  {guard.verbose}"]
    return "\n".join(texts)


def _notice(reader: SessionReader, guard_count: int) -> str:
    if not guard_count:
        return ""
    kinds = guard_kinds(reader)
    frequent = ", ".join(f"{kind.count} × {kind.in_words or kind.kind or 'of no known kind'}" for kind in kinds[:2])
    return f"{counted(guard_count, 'guard')}; most of them: {frequent}."


def _why_empty(reader: SessionReader) -> str:
    if reader.meta("outcome") is None:
        return "None so far: guards are made when Dynamo has finished a graph."
    return "No guard was recorded: nothing was compiled, or the compilation failed before its guards were made."
