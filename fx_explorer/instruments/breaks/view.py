"""View 4: graph breaks and recompiles, grouped by the user's line and the cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from fx_explorer import model
from fx_explorer.analysis.annotated_regions import RegionKey
from fx_explorer.analysis.measured_times import call_time, run_time
from fx_explorer.analysis.module_paths import belongs, break_paths, is_module
from fx_explorer.analysis.naming import SizeNames, plain_code, plain_function
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
from fx_explorer.instruments.breaks.hints import TORCHS_HINTS, hint_lines, title_of_hints
from fx_explorer.instruments.recompiles.causes import ExplainedRecompile, causes
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

COLUMNS = (
    TableColumn("what", "bad", min_width=11, max_width=18),
    TableColumn("where", "link", min_width=16, keeps="end"),
    TableColumn("adds", min_width=9),
    TableColumn("takes", is_number=True, min_width=7, total=run_time),
    TableColumn("hit", is_number=True, priority=2, total=lambda value: f"{value:,.0f}×"),
    TableColumn("why", min_width=34, max_width=60),
    TableColumn("your line", "muted", min_width=16, max_width=90, priority=1),
)

TAKES = 3
"""Position of the column that is shown only if breaks were measured."""


BreakSubject = DistinctBreak | DistinctFallback | ExplainedRecompile


def breaks_table(reader: SessionReader) -> ViewTable:
    breaks, again, left = distinct_breaks(reader), causes(reader), _left(reader)
    rows = [_break_row(reader, b) for b in breaks]
    rows += [_left_row(reader, fallback) for fallback in left]
    rows += [_recompile_row(reader, r) for r in again]
    columns: tuple[TableColumn, ...] = COLUMNS
    if not call_time(reader):
        columns = (*COLUMNS[:TAKES], *COLUMNS[TAKES + 1 :])
        rows = [_untimed(row) for row in rows]
    return ViewTable(
        shows="Where Dynamo had to end a graph and return to Python, and why torch recompiled a "
        "function.",
        notice=_notice(breaks, left, again, can_measure=not is_log(reader)),
        origin="torch's own graph break and recompile records",
        columns=columns,
        rows=rows,
        empty=_why_empty(reader),
        within=lambda reader, region: _within(reader, region, breaks),
        answer=_costliest(breaks),
    )


def _costliest(breaks: list[DistinctBreak]) -> str:
    """Return the break that costs most; empty without breaks."""
    if not breaks:
        return ""
    first = breaks[0]
    where = in_file(first.file, first.line) if first.file else "an unknown line"
    count = f"of {len(breaks)} graph breaks" if len(breaks) > 1 else "graph break"
    costs = f" ({first.cost.in_short})" if first.cost.in_short else ""
    title = f"The costliest {count}" if len(breaks) > 1 else f"One {count}"
    return f"{title}: {where}{costs}, {first.description}."


def _within(
    reader: SessionReader, region: RegionKey, breaks: list[DistinctBreak]
) -> list[int] | None:
    """Return the rows of the breaks in a module; None for other regions. Other rows of the table
    are about whole functions.
    """
    if not is_module(region):
        return None
    paths, is_there = break_paths(reader), belongs(region)
    rows = []
    for row, graph_break in enumerate(breaks):
        name = graph_break.registry_id or graph_break.reason
        if is_there(paths[graph_break.file, graph_break.line, name]):
            rows.append(row)
    return rows


def subjects(reader: SessionReader) -> list[BreakSubject]:
    """Return the subjects of the rows, in their order."""
    return [*distinct_breaks(reader), *_left(reader), *causes(reader)]


def _left(reader: SessionReader) -> list[DistinctFallback]:
    return [
        fallback for fallback in distinct_fallbacks(reader) if not fallback.has_nothing_to_compile
    ]


def _untimed(row: TableRow) -> TableRow:
    return replace(row, cells=(*row.cells[:TAKES], *row.cells[TAKES + 1 :]))


def _break_row(reader: SessionReader, graph_break: DistinctBreak) -> TableRow:
    if graph_break.file:
        where = in_file(graph_break.file, graph_break.line)
    else:
        where = "unknown"
    if graph_break.cost.run_s is not None:
        takes = run_time(graph_break.cost.run_s)
    else:
        takes = "–"
    cells = (
        "✗ break",
        where,
        graph_break.cost.in_short,
        takes,
        f"{graph_break.count}×",
        graph_break.description,
        graph_break.code,
    )
    values = {"hit": float(graph_break.count)}
    values |= {"takes": graph_break.cost.run_s} if graph_break.cost.run_s is not None else {}
    return TableRow(
        cells, graph_break.place, lambda: Detail(break_text(reader, graph_break)), values=values
    )


def _left_row(reader: SessionReader, fallback: DistinctFallback) -> TableRow:
    where = in_file(fallback.file, fallback.line)
    cells = (
        "✗ left",
        where,
        "not compiled",
        "–",
        f"{fallback.count}×",
        fallback.description,
        plain_function(fallback.function),
    )
    return TableRow(cells, fallback.place, lambda: Detail(left_text(reader, fallback)), part=1)


def _recompile_row(reader: SessionReader, recompile: ExplainedRecompile) -> TableRow:
    if recompile.file:
        where = in_file(recompile.file, recompile.line)
    else:
        where = plain_function(recompile.function)
    cells = (
        f"↻ recompile [{recompile.compilation}]",
        where,
        "",
        "–",
        "",
        recompile.description,
        first_line(_source_line(reader, recompile)),
    )
    return TableRow(
        cells,
        recompile.place,
        lambda: Detail(_recompile_text(recompile)),
        kind="warning",
        part=2,
        version=recompile.compilation,
    )


def _source_line(reader: SessionReader, recompile: ExplainedRecompile) -> str:
    if not recompile.place:
        return ""
    files = reader.by_ids(model.SourceFile, [recompile.place.document.id])
    lines = reader.text(files[0].text).split("\n") if files else []
    if recompile.place.line < len(lines):
        return lines[recompile.place.line].strip()
    return ""


def _recompile_text(recompile: ExplainedRecompile) -> str:
    file, line = recompile.called_from
    caller = f"{file}:{line}" if file else ""
    texts = []
    for title, text in (
        ("What to do", recompile.remedy),
        ("Called from", caller),
        ("Graphs", recompile.graphs),
    ):
        if text:
            texts += [title, f"  {text}", ""]
    parts = [
        (
            f"[{recompile.compilation}] {plain_function(recompile.function)} was recompiled "
            f"because {recompile.description}."
        ),
        "",
        *texts,
        f"The code compiled as [{recompile.of}] could not be reused: its guard "
        f"failed.{_others(recompile)}",
        f"  {recompile.plain_guard}",
        "",
        "torch's own words",
        f"  {recompile.reason}",
    ]
    return "\n".join(parts)


def _others(recompile: ExplainedRecompile) -> str:
    others = recompile.times - 1
    if not others:
        return ""
    was = "was" if others == 1 else "were"
    return f" {counted(others, 'earlier version').capitalize()} {was} rejected by the same guard."


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
        order = ", costliest first" if len(breaks) > 1 else ""
        parts.append(f"{breaks_hit(len(breaks), hits)}{order}")
        parts += [f"{counted(graphs, 'more graph')}"] if graphs else []
    if left:
        parts.append(f"{counted(len(left), 'function')} not compiled")
    if again:
        parts.append(counted(len({r.compilation for r in again}), "recompile"))
    measures = ", x t how long each takes" if can_measure and breaks else ""
    offered = f" x x shows fixes{measures}."
    if parts:
        return f"{' · '.join(parts)}. Enter goes to your line.{offered}"
    return ""


def _why_empty(reader: SessionReader) -> str:
    if why := why_not_in_text(reader, "graph breaks", "recompiles"):
        return why
    if reader.meta("outcome") is None:
        return "None so far."
    if not reader.count(model.Compilation):
        return (
            "Nothing was compiled, so there are no graph breaks. The console (8) shows what the "
            "program printed."
        )
    return "No graph break and no recompile: every function was compiled once, as one graph."


# The detail of the graph break under the cursor: the code, what it costs, why it breaks, what to
# try, and what is around it.

Part = tuple[str, Iterable[str]]
"""A title and its lines. Without lines the title is not shown."""

CODE_WIDTH = 70
"""Maximum number of characters of code. From a longer line, the part around the carets is shown, so
that it does not wrap in a narrow terminal.
"""


def break_text(reader: SessionReader, graph_break: DistinctBreak) -> str:
    head = f"{graph_break.registry_id}  {first_line(graph_break.reason)}".strip()
    why = [graph_break.explanation] if graph_break.explanation else []
    parts: list[Part] = [
        ("", marked_code(graph_break.code, graph_break.carets)),
        (
            "What it costs",
            [f"{graph_break.cost.description}.", *run_time_lines(reader, graph_break)],
        ),
        (
            "Saved for the backward across this graph break",
            [kept_line(reader, kept_across) for kept_across in graph_break.cost.kept_across],
        ),
        ("Why", why),
        (title_of_hints(graph_break), hint_lines(reader.path, graph_break)),
        ("Where, outermost first", _chain(graph_break)),
        ("Runs in eager mode", [rest.description.rstrip(",") for rest in graph_break.eager_rests]),
        ("Resumes in", [plain_function(name) for name in graph_break.resume_functions]),
        ("Calls, and the graphs they became", _tree(reader, graph_break)),
        ("Your stack, innermost last", stack_lines(reader, graph_break.stack)),
        ("torch's own report", reader.text(graph_break.text).splitlines()),
    ]
    return "\n".join([head, "", *_laid_out(parts)]).rstrip()


def kept_line(reader: SessionReader, kept_across: KeptAcross) -> str:
    """Return ``h  f32[4, 8]  128 B  only because it crosses: a graph behind cannot compute it
    again``.
    """
    row = kept_across.kept_behind[0]
    behind = next(iter(reader.by_ids(model.Compilation, [row.compilation])), None)
    held = size(row.size_bytes) if row.size_bytes else "of unknown size"
    shape = SizeNames(reader).in_text(row.compilation, tensor(row.dtype, row.shape))
    value = "a size" if row.dtype.startswith("Sym") else shape
    what = f"{plain_code(kept_across.source, behind)}  {value}  {held}"
    if kept_across.crosses and kept_across.is_kept_twice:
        return f"{what}  by the graph before too, as one tensor"
    if kept_across.crosses:
        return f"{what} only because it crosses the break: the graph after it cannot recompute it"
    return f"{what}  an input that both sides keep, as one tensor"


def run_time_lines(reader: SessionReader, graph_break: DistinctBreak) -> list[str]:
    """Return the cost of the break at run time; if it was not measured, the reason and the command
    that measures it.
    """
    if graph_break.cost.run:
        what = (
            "From the end of the graph before the break to the start of the graph after it, "
            "including the Python code of that line."
        )
        return [f"Run time: {graph_break.cost.run.description}.", what]
    if call_time(reader):
        return [
            ("Run time: not separated. Its function is not compiled, or no call reached this line.")
        ]
    if is_log(reader):
        return [f"Run time: not measured. {NO_PROGRAM}"]
    return [
        (
            "Run time: not measured. x t builds the program and calls it repeatedly (also: report "
            "TARGET --measure-breaks)."
        )
    ]


def left_text(reader: SessionReader, fallback: DistinctFallback) -> str:
    parts: list[Part] = [
        ("Why", [fallback.explanation or fallback.reason]),
        (TORCHS_HINTS, hint_lines(reader.path, fallback)),
        ("Your stack, innermost last", stack_lines(reader, fallback.stack)),
    ]
    name = plain_function(fallback.function)
    head = (
        f"{fallback.registry_id} {name} was not compiled; it runs in eager mode: "
        f"{first_line(fallback.reason)}"
    ).strip()
    return "\n".join([head, "", *_laid_out(parts)]).rstrip()


def _laid_out(parts: Iterable[Part]) -> Iterator[str]:
    for title, lines in parts:
        shown = [f"  {line}" for line in lines]
        if shown:
            if title:
                yield title
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
        if code.isascii():
            code = code[:CODE_WIDTH]
        return [code, carets[:CODE_WIDTH]]
    return [
        "…" + code[skipped : skipped + CODE_WIDTH],
        " " + carets[skipped : skipped + CODE_WIDTH],
    ]


def _chain(graph_break: DistinctBreak) -> list[str]:
    """Return the chain of inlined calls; empty when nothing was inlined, because the code above
    shows it then.
    """
    frames = graph_break.chain if len(graph_break.chain) > 1 else ()
    return [f"{in_file(f.file, f.line)} in {plain_function(f.function)}   {f.code}" for f in frames]


def _tree(reader: SessionReader, graph_break: DistinctBreak) -> Iterator[str]:
    """Yield the call trees that this break cuts."""
    hits = reader.rows(model.GraphBreak, file=graph_break.file, line=graph_break.line)
    marked = next((hit.id for hit in hits if hit.text == graph_break.text), 0)
    for root in call_trees(reader):
        hits_below = (hit.id for call in root.walk() for hit in call.breaks)
        if marked in hits_below:
            yield from tree_lines(root, marked=marked)


def stack_lines(reader: SessionReader, stack_id: int) -> list[str]:
    stacks = reader.by_ids(model.Stack, [stack_id]) if stack_id else []
    lines = []
    for stack in stacks:
        for frame in stack.frames:
            called = f"{frame.file}:{frame.line} in {plain_function(frame.function)}"
            lines.append(f"{called}   {frame.code.strip()}")
    return lines
