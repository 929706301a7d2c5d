"""View 9: where compile time went, by stage, then by torch's own timed phases."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.lineage import first_variants
from fx_explorer.analysis.naming import function_of
from fx_explorer.analysis.words import bar, counted, seconds, share
from fx_explorer.drawing.view_table import Detail, TableColumn, TableRow, ViewTable
from fx_explorer.instruments.compile_time.timing import STAGE_IN_WORDS, StageTimes, stage_times
from fx_explorer.instruments.kernels.counts import built_kernels
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import compilation_names

BAR_CELLS = 40
MAX_PHASES = 300

COLUMNS = (
    TableColumn("frame", "annotation", priority=1),
    TableColumn("what took the time", min_width=30, max_width=60),
    TableColumn("time", is_number=True, min_width=7, total=seconds),
    TableColumn("share", "muted", is_number=True),
    TableColumn("of all", "good", is_bar=True),
)


def time_table(reader: SessionReader) -> ViewTable:
    whole = stage_times(reader)
    rows = (
        _stage_rows(whole)
        + _compilation_rows(reader, whole.total_s)
        + _phase_rows(reader, whole.total_s)
    )
    return ViewTable(
        shows="Where compile time went: by stage, by function, then the longest phases torch "
        "timed.",
        notice=_notice(reader, whole),
        origin="torch's own timed phases; every instant counts once in the stages, which the "
        "sum below is of",
        columns=COLUMNS,
        rows=rows if whole.total_s else (),
        empty=why_no_time(reader),
    )


def _stage_rows(times: StageTimes) -> list[TableRow]:
    entries = [(STAGE_IN_WORDS.get(stage, stage), took) for stage, took in times.by_stage.items()]
    if times.unaccounted_s > 0.0005:
        entries.append(("in no phase torch timed", times.unaccounted_s))
    return [
        _row("all", name, took, times.total_s, Detail(f"{name}: {seconds(took)}"), 0)
        for name, took in entries
    ]


def _compilation_rows(reader: SessionReader, total_s: float) -> list[TableRow]:
    compilations = [c for c in first_variants(reader) if c.duration_s]
    if len(compilations) < 2:
        return []
    return [
        _row(
            f"[{c.name}]",
            function_of(c),
            c.duration_s,
            total_s,
            Detail(f"{function_of(c)} at {c.file}:{c.line}"),
            1,
        )
        for c in sorted(compilations, key=lambda c: -c.duration_s)
    ]


def _phase_rows(reader: SessionReader, total_s: float) -> list[TableRow]:
    names = compilation_names(reader)
    spans = sorted(reader.rows(model.Span), key=lambda s: -s.duration_s)[:MAX_PHASES]
    return [
        _row(
            f"[{names[span.compilation]}]" if span.compilation in names else "",
            f"  {span.name}",
            span.duration_s,
            total_s,
            Detail(
                f"{span.name}: {seconds(span.duration_s)}, begun {seconds(span.start_s)} "
                f"after the start, {span.depth} deep"
            ),
            2,
        )
        for span in spans
    ]


def _row(
    owner: str, name: str, took_s: float, total_s: float, detail: Detail, part: int
) -> TableRow:
    return TableRow(
        (owner, name, seconds(took_s), share(took_s, total_s), bar(took_s, total_s, BAR_CELLS)),
        None,
        lambda: detail,
        # Only the stages are added up: functions and phases are the same time once more.
        values={"of all": took_s, **({"time": took_s} if part == 0 else {})},
        part=part,
    )


def _notice(reader: SessionReader, whole: StageTimes) -> str:
    if not whole.by_stage:
        return ""
    stage, took = max(whole.by_stage.items(), key=lambda entry: entry[1])
    part = "most of it" if 2 * took > whole.total_s else "the largest part"
    where = f"{part} ({share(took, whole.total_s)}) went into {STAGE_IN_WORDS.get(stage, stage)}"
    words = f"{seconds(whole.total_s)} in all; {where}."
    of_build = built_kernels(reader)
    if of_build.built == of_build.kernels:
        return words
    if of_build.built:
        of_all = f"{of_build.built:,} of {counted(of_build.kernels, 'kernel')}"
        return f"{words} Building is in it for {of_all}: those that were saved."
    return f"{words} Building kernels is not in it: nothing was built."


def why_no_time(reader: SessionReader) -> str:
    """Return why a view of compile time is empty."""
    if reader.meta("outcome") is None:
        return "No time yet: nothing has been compiled."
    return "No time was measured: nothing was compiled."
