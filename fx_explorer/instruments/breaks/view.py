"""View 4: graph breaks and recompiles, grouped by the user's line and the cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from fx_explorer import model
from fx_explorer.analysis.measured_times import call_time, run_time
from fx_explorer.analysis.module_paths import break_paths
from fx_explorer.analysis.naming import SizeNames, plain_code, plain_function
from fx_explorer.analysis.regions.module_regions import belongs, is_module
from fx_explorer.analysis.regions.region_nodes import RegionKey
from fx_explorer.analysis.whole_session import NO_PROGRAM, is_log, why_not_in_text
from fx_explorer.analysis.words import breaks_hit, counted, first_line, size, tensor
from fx_explorer.drawing.view_table import Detail, TableColumn, TableRow, ViewTable
from fx_explorer.instruments.breaks.call_tree import (
    DistinctFallback,
    call_trees,
    distinct_fallbacks,
    tree_lines,
)
from fx_explorer.instruments.breaks.cut_tensors import KeptAcross
from fx_explorer.instruments.breaks.grouped import DistinctBreak, distinct_breaks
from fx_explorer.instruments.recompiles.causes import ExplainedRecompile, causes
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

COLUMNS = (
    TableColumn("what", "bad", min_width=11),
    TableColumn("where", "link", min_width=16, keeps="end"),
    TableColumn("adds", min_width=9),
    TableColumn("takes", is_number=True, min_width=7, total=run_time),
    TableColumn("times", is_number=True, priority=2, total=lambda value: f"{value:,.0f}×"),
    TableColumn("why", min_width=34, max_width=60),
    TableColumn("your line", "muted", min_width=16, max_width=90, priority=1),
)

TAKES = 3
"""Position of the column that is shown only when breaks were measured."""


BreakSubject = DistinctBreak | DistinctFallback | ExplainedRecompile


def breaks_table(reader: SessionReader) -> ViewTable:
    breaks, again, left = distinct_breaks(reader), causes(reader), _left(reader)
    rows = [_break_row(reader, b) for b in breaks]
    rows += [_left_row(reader, one) for one in left]
    rows += [_recompile_row(reader, r) for r in again]
    return ViewTable(
        shows="Where Dynamo had to stop a graph and go back to Python, and what made torch "
        "compile a function again.",
        notice=_notice(breaks, left, again, can_measure=not is_log(reader)),
        origin="torch's own graph break and recompile records",
        columns=COLUMNS if call_time(reader) else (*COLUMNS[:TAKES], *COLUMNS[TAKES + 1 :]),
        rows=rows if call_time(reader) else [_untimed(row) for row in rows],
        empty=_why_empty(reader),
        within=lambda reader, region: _within(reader, region, breaks),
    )


def _within(
    reader: SessionReader, region: RegionKey, breaks: list[DistinctBreak]
) -> list[int] | None:
    """Return the rows of the breaks in a module. What else the table has is of whole functions."""
    if not is_module(region):
        return None
    paths, is_there = break_paths(reader), belongs(region)
    return [
        at
        for at, one in enumerate(breaks)
        if is_there(paths[one.file, one.line, one.registry_id or one.reason])
    ]


def subjects(reader: SessionReader) -> list[BreakSubject]:
    """Return what the rows stand for, in their order."""
    return [*distinct_breaks(reader), *_left(reader), *causes(reader)]


def _left(reader: SessionReader) -> list[DistinctFallback]:
    return [one for one in distinct_fallbacks(reader) if not one.has_nothing_to_compile]


def _untimed(row: TableRow) -> TableRow:
    return replace(row, cells=(*row.cells[:TAKES], *row.cells[TAKES + 1 :]))


def _break_row(reader: SessionReader, found: DistinctBreak) -> TableRow:
    where = in_file(found.file, found.line) if found.file else "unknown"
    takes = run_time(found.cost.run_s) if found.cost.run_s is not None else "–"
    cells = (
        "✗ break",
        where,
        found.cost.in_short,
        takes,
        f"{found.count}×",
        found.in_words,
        found.code,
    )
    values = {"times": float(found.count)}
    values |= {"takes": found.cost.run_s} if found.cost.run_s is not None else {}
    return TableRow(cells, found.place, lambda: Detail(break_text(reader, found)), values=values)


def _left_row(reader: SessionReader, found: DistinctFallback) -> TableRow:
    where = in_file(found.file, found.line)
    cells = (
        "✗ left",
        where,
        "not compiled",
        "–",
        f"{found.count}×",
        found.in_words,
        plain_function(found.function),
    )
    return TableRow(cells, found.place, lambda: Detail(left_text(reader, found)), part=1)


def _recompile_row(reader: SessionReader, found: ExplainedRecompile) -> TableRow:
    where = in_file(found.file, found.line) if found.file else plain_function(found.function)
    cells = (
        "↻ recompile",
        where,
        "",
        "–",
        f"[{found.compilation}]",
        found.in_words,
        first_line(_source_line(reader, found)),
    )
    return TableRow(
        cells, found.place, lambda: Detail(_recompile_text(found)), kind="warning", part=2
    )


def _source_line(reader: SessionReader, found: ExplainedRecompile) -> str:
    if not found.place:
        return ""
    files = reader.by_ids(model.SourceFile, [found.place.document.id])
    lines = reader.text(files[0].text).split("\n") if files else []
    return lines[found.place.line].strip() if found.place.line < len(lines) else ""


def _recompile_text(found: ExplainedRecompile) -> str:
    file, line = found.called_from
    known = (
        ("What to do", found.remedy),
        ("Called from", f"{file}:{line}" if file else ""),
        ("Graphs", found.graphs),
    )
    told = [part for title, text in known if text for part in (title, f"  {text}", "")]
    parts = [
        (
            f"[{found.compilation}] {plain_function(found.function)} was compiled again "
            f"because {found.in_words}."
        ),
        "",
        *told,
        f"The code compiled as [{found.of}] could not be reused: its guard failed.{_others(found)}",
        f"  {found.guard_in_words}",
        "",
        "torch's own words",
        f"  {found.reason}",
    ]
    return "\n".join(parts)


def _others(found: ExplainedRecompile) -> str:
    others = found.times - 1
    if not others:
        return ""
    was = "was" if others == 1 else "were"
    return f" {counted(others, 'earlier version').capitalize()} {was} refused for the same."


def _notice(
    breaks: list[DistinctBreak],
    left: list[DistinctFallback],
    again: list[ExplainedRecompile],
    *,
    can_measure: bool,
) -> str:
    parts = []
    if breaks:
        hits, graphs = sum(b.count for b in breaks), sum(b.cost.extra_graphs for b in breaks)
        parts.append(f"{breaks_hit(len(breaks), hits)}, costliest first")
        parts += [f"{counted(graphs, 'more graph')} by them"] if graphs else []
    if left:
        parts.append(f"{counted(len(left), 'function')} not compiled")
    if again:
        parts.append(counted(len({r.compilation for r in again}), "recompile"))
    measures = ", x t how long each takes" if can_measure else ""
    if breaks:
        offered = f" x x shows what may take one away{measures}."
    else:
        offered = " x x shows what may avoid one."
    return f"{' · '.join(parts)}. Enter goes to your line.{offered}" if parts else ""


def _why_empty(reader: SessionReader) -> str:
    if why := why_not_in_text(reader, "graph breaks", "recompiles"):
        return why
    if reader.meta("outcome") is None:
        return "None so far."
    if not reader.count(model.Compilation):
        return (
            "Nothing was compiled, so nothing could break. The console (8) shows what the "
            "program said."
        )
    return "No graph break and no recompile: every function was compiled once, as one graph."


# The detail of the graph break under the cursor: the code, what it costs, why it breaks, what to
# try, and what is around it.

Part = tuple[str, Iterable[str]]
"""A title and its lines. Without lines the title is not shown."""

CODE_WIDTH = 70
"""Characters of code. From a longer line, the part around the carets is shown, so that it does not
wrap in a narrow terminal.
"""


def break_text(reader: SessionReader, found: DistinctBreak) -> str:
    head = f"{found.registry_id}  {first_line(found.reason)}".strip()
    parts: list[Part] = [
        ("", marked_code(found.code, found.carets)),
        ("What it costs", [f"{found.cost.in_words}.", *run_time_lines(reader, found)]),
        (
            "Saved for the backward across it",
            [kept_line(reader, one) for one in found.cost.kept_across],
        ),
        ("Why", [found.explanation] if found.explanation else []),
        ("What to try", [f"• {hint}" for hint in found.hints]),
        ("Where, outermost first", _chain(found)),
        ("Runs in eager mode", [rest.in_words.rstrip(",") for rest in found.eager_rests]),
        ("Resumes in", [plain_function(name) for name in found.resume_functions]),
        ("Calls, with the graphs they became", _tree(reader, found)),
        ("Your stack, innermost last", stack_lines(reader, found.stack)),
        ("torch's own report", reader.text(found.text).splitlines()),
    ]
    return "\n".join([head, "", *_laid_out(parts)]).rstrip()


def kept_line(reader: SessionReader, one: KeptAcross) -> str:
    """Return ``h  f32[4, 8]  128 B  only because it crosses: a graph behind cannot compute it
    again``.
    """
    row = one.kept_behind[0]
    behind = next(iter(reader.by_ids(model.Compilation, [row.compilation])), None)
    held = size(row.size_bytes) if row.size_bytes else "of unknown size"
    shape = SizeNames(reader).in_text(row.compilation, tensor(row.dtype, row.shape))
    value = "a size" if row.dtype.startswith("Sym") else shape
    what = f"{plain_code(one.source, behind)}  {value}  {held}"
    if one.crosses and one.is_kept_twice:
        return f"{what}  by the graph before too, as one tensor"
    if one.crosses:
        return f"{what}  only because it crosses: what is behind cannot recompute it"
    return f"{what}  an input that both sides keep, as one tensor"


def run_time_lines(reader: SessionReader, found: DistinctBreak) -> list[str]:
    """Return what the break costs at run time; if it was not measured, why not and what measures
    it.
    """
    if found.cost.run:
        what = (
            "From leaving the graph before it to entering the graph behind it; what Python "
            "runs at that line is included."
        )
        return [f"Run time: {found.cost.run.in_words}.", what]
    if call_time(reader):
        return [
            (
                "Run time: not separated. Its function is not compiled, or the calls did not "
                "reach this line."
            )
        ]
    if is_log(reader):
        return [f"Run time: not measured. {NO_PROGRAM}"]
    return [
        (
            "Run time: not measured. x t builds the program and calls it repeatedly (or: "
            "report TARGET --measure-breaks)."
        )
    ]


def left_text(reader: SessionReader, found: DistinctFallback) -> str:
    parts: list[Part] = [
        ("Why", [found.explanation or found.reason]),
        ("What to try", [f"• {hint}" for hint in found.hints]),
        ("Your stack, innermost last", stack_lines(reader, found.stack)),
    ]
    name = plain_function(found.function)
    head = (
        f"{found.registry_id}  {name} was not compiled, it runs in eager mode: "
        f"{first_line(found.reason)}"
    ).strip()
    return "\n".join([head, "", *_laid_out(parts)]).rstrip()


def _laid_out(parts: Iterable[Part]) -> Iterator[str]:
    for title, lines in parts:
        shown = [f"  {line}" for line in lines]
        if shown:
            yield from ([title] if title else [])
            yield from shown
            yield ""


def marked_code(code: str, carets: str) -> list[str]:
    """Return the line with its carets below; from a long line, the part where they begin."""
    if not carets:
        return [code] if code else []
    start = carets.index("^")
    # Only where each character takes one cell: elsewhere the carets would stand below other ones.
    if len(code) > CODE_WIDTH and code.isascii():
        skipped = max(0, min(start - 10, len(code) - CODE_WIDTH))
    else:
        skipped = 0
    if not skipped:
        return [code[:CODE_WIDTH] if code.isascii() else code, carets[:CODE_WIDTH]]
    return [
        "…" + code[skipped : skipped + CODE_WIDTH],
        " " + carets[skipped : skipped + CODE_WIDTH],
    ]


def _chain(found: DistinctBreak) -> list[str]:
    """Return the chain of inlined calls; empty when nothing was inlined, because the code above
    then says it all.
    """
    frames = found.chain if len(found.chain) > 1 else ()
    return [f"{in_file(f.file, f.line)} in {plain_function(f.function)}   {f.code}" for f in frames]


def _tree(reader: SessionReader, found: DistinctBreak) -> Iterator[str]:
    """Yield the call trees that this break cuts."""
    hits = reader.rows(model.GraphBreak, file=found.file, line=found.line)
    marked = next((hit.id for hit in hits if hit.text == found.text), 0)
    for root in call_trees(reader):
        if any(hit.id == marked for one in root.walk() for hit in one.breaks):
            yield from tree_lines(root, marked=marked)


def stack_lines(reader: SessionReader, stack_id: int) -> list[str]:
    stacks = reader.by_ids(model.Stack, [stack_id]) if stack_id else []
    return [
        f"{f.file}:{f.line} in {plain_function(f.function)}   {f.code.strip()}"
        for stack in stacks
        for f in stack.frames
    ]
