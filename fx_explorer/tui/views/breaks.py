"""View 4: graph breaks and recompiles, grouped by the user's line and the cause."""

from __future__ import annotations

from pathlib import PurePath

from fx_explorer import model
from fx_explorer.analysis.breaks import DistinctBreak, distinct_breaks
from fx_explorer.analysis.recompiles import ExplainedRecompile, causes
from fx_explorer.analysis.words import counted, first_line
from fx_explorer.session import SessionReader
from fx_explorer.tui.views.table import Column, Detail, Row, Table

COLUMNS = (
    Column("what", "bad", min_width=11),
    Column("where", "link", min_width=22),
    Column("times", is_number=True, priority=2),
    Column("why", min_width=34, max_width=60),
    Column("your line", "muted", min_width=16, max_width=90, priority=1),
)


def breaks_table(reader: SessionReader) -> Table:
    breaks, again = distinct_breaks(reader), causes(reader)
    rows = [_break_row(reader, b) for b in breaks] + [_recompile_row(reader, r) for r in again]
    return Table(
        shows="Where Dynamo had to stop a graph and go back to Python, and what made torch compile a function again.",
        notice=_notice(breaks, again),
        origin="torch's own graph break and recompile records",
        columns=COLUMNS,
        rows=rows,
        empty=_why_empty(reader),
    )


def _break_row(reader: SessionReader, found: DistinctBreak) -> Row:
    where = f"{PurePath(found.file).name}:{found.line}" if found.file else "unknown"
    cells = ("✗ break", where, f"{found.count}×", found.in_words, found.code)
    return Row(cells, found.place, lambda: Detail(_break_text(reader, found)))


def _break_text(reader: SessionReader, found: DistinctBreak) -> str:
    parts = [f"{found.registry_id}  {first_line(found.reason)}".strip(), ""]
    if found.explanation:
        parts += ["Why", f"  {found.explanation}", ""]
    if found.hints:
        parts += ["What to try", *(f"  • {hint}" for hint in dict.fromkeys(found.hints)), ""]
    if found.compilations:
        parts += ["Cuts", f"  {', '.join(f'[{name}]' for name in found.compilations)}", ""]
    parts += _stack_lines(reader, found.stack)
    report = reader.text(found.text)
    if report:
        parts += ["torch's own report", *(f"  {line}" for line in report.splitlines())]
    return "\n".join(parts)


def _stack_lines(reader: SessionReader, stack_id: int) -> list[str]:
    stacks = reader.by_ids(model.Stack, [stack_id]) if stack_id else []
    if not stacks:
        return []
    frames = [f"  {f.file}:{f.line} in {f.function}   {f.code.strip()}" for f in stacks[0].frames]
    return ["Your stack, innermost last", *frames, ""]


def _recompile_row(reader: SessionReader, found: ExplainedRecompile) -> Row:
    where = f"{PurePath(found.file).name}:{found.line}" if found.file else found.function
    cells = ("↻ recompile", where, f"[{found.compilation}]", found.in_words, first_line(_source_line(reader, found)))
    return Row(cells, found.place, lambda: Detail(_recompile_text(found)), kind="warning")


def _source_line(reader: SessionReader, found: ExplainedRecompile) -> str:
    if not found.place:
        return ""
    files = reader.by_ids(model.SourceFile, [found.place.document.id])
    lines = reader.text(files[0].text).split("\n") if files else []
    return lines[found.place.line].strip() if found.place.line < len(lines) else ""


def _recompile_text(found: ExplainedRecompile) -> str:
    parts = [
        f"[{found.compilation}] {found.function} was compiled again because {found.in_words}.",
        "",
        f"The code compiled as [{found.of}] could not be reused: its guard failed.",
        f"  {found.guard}",
        "",
        "torch's own words",
        f"  {found.reason}",
        "",
    ]
    file, line = found.called_from
    more = (("Called from", f"{file}:{line}" if file else ""), ("Graphs", found.graphs), ("What to try", found.remedy))
    for title, text in more:
        parts += [title, f"  {text}", ""] if text else []
    return "\n".join(parts).rstrip()


def _notice(breaks: list[DistinctBreak], again: list[ExplainedRecompile]) -> str:
    parts = []
    if breaks:
        parts.append(f"{counted(len(breaks), 'distinct graph break')}, hit {counted(sum(b.count for b in breaks), 'time')}")
    if again:
        parts.append(counted(len({r.compilation for r in again}), "recompile"))
    return f"{' · '.join(parts)}. Enter goes to your line." if parts else ""


def _why_empty(reader: SessionReader) -> str:
    if reader.meta("outcome") is None:
        return "None so far."
    if not reader.count(model.Compilation):
        return "Nothing was compiled, so nothing could break. The console (8) shows what the program said."
    return "No graph break and no recompile: every function was compiled once, as one graph."
