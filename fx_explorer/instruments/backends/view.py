"""The view of backends beside Inductor: the stages they published, how often what they made was
called, and their last runs, instruction by instruction.
"""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer import model
from fx_explorer.analysis.documents import Place
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.published import (
    BackendSummary,
    ToldRun,
    backend_summaries,
    place_of_instruction,
    times_called,
)
from fx_explorer.analysis.words import counted, share
from fx_explorer.drawing.view_table import Detail, TableColumn, TableRow, ViewTable
from fx_explorer.session import SessionReader

COLUMNS = (
    TableColumn("what", "annotation", min_width=11),
    TableColumn("name", "strong", min_width=14, max_width=40),
    TableColumn("shapes or size", min_width=10, max_width=40, priority=1),
    TableColumn("time", is_number=True, min_width=7, total=run_time),
    TableColumn("share", "muted", is_number=True, priority=2),
    TableColumn("how", min_width=22, max_width=40),
    TableColumn("of", "muted", min_width=5, priority=3),
)


def backend_table(reader: SessionReader) -> ViewTable:
    found = backend_summaries(reader)
    return ViewTable(
        shows="What a backend of your own published, how often what it made was called, and "
        "its last run.",
        notice=_notice(found),
        origin="fx_explorer.publish and publish_run; calls are counted where they are made",
        columns=COLUMNS,
        rows=[row for backend_summary in found for row in _rows(reader, backend_summary)],
        empty=_why_empty(reader),
    )


def _rows(reader: SessionReader, backend_summary: BackendSummary) -> Iterator[TableRow]:
    for shown in backend_summary.stages:
        owner = f"[{shown.document.owner}]" if shown.document.owner else ""
        cells = (
            "stage",
            shown.stage.name,
            shown.size,
            "",
            "",
            shown.stage.direction or shown.backend,
            owner,
        )
        text = (
            f"{shown.document.title}: {shown.size}, published by "
            f"{shown.backend or 'a backend'} {owner}"
        )
        yield TableRow(cells, Place(shown.document), lambda text=text: Detail(text))  # type: ignore[misc]
    names = {row.id: f"[{row.name}]" for row in reader.rows(model.Compilation)}
    for entry in backend_summary.entries:
        owner = names.get(entry.compilation, "")
        cells = (
            "entry",
            entry.direction or entry.backend,
            _outputs(entry),
            "",
            "",
            times_called(entry),
            owner,
        )
        text = (
            f"What {entry.backend} made for the {entry.direction or 'Dynamo'} graph of "
            f"{owner}: {times_called(entry)}."
        )
        yield TableRow(cells, None, lambda text=text: Detail(text))  # type: ignore[misc]
    for run in backend_summary.runs:
        yield from _run(reader, run)


def _outputs(entry: model.BackendEntry) -> str:
    return counted(entry.outputs, "output") if entry.outputs >= 0 else ""


def _run(reader: SessionReader, told: ToldRun) -> Iterator[TableRow]:
    """Yield a run, then its instructions."""
    run, owner = told.run, f"[{told.compilation}]" if told.compilation else ""
    place = Place(told.program) if told.program else None
    how = f"{told.fell_back:,} fell back" if told.fell_back else "none fell back"
    size = counted(len(told.instructions), "instruction")
    text = f"Call {run.call:,} of {run.entry}: {size}, {run_time(told.seconds)}, {how} to PyTorch."
    direction = f" {run.direction}" if run.direction and run.direction not in run.entry else ""
    cells = (
        "run",
        f"{run.entry}{direction}, call {run.call:,}",
        size,
        run_time(told.seconds),
        "",
        how,
        owner,
    )
    # A run is what its instructions are: where there are some, these are added up.
    values = {} if told.instructions else {"time": told.seconds}
    yield TableRow(cells, place, lambda: Detail(text), values=values, part=1)
    for instruction in told.instructions:
        yield _instruction(reader, told, instruction, owner)


def _instruction(
    reader: SessionReader, run: ToldRun, instruction: model.BackendInstruction, owner: str
) -> TableRow:
    how = "fell back to PyTorch" if instruction.fell_back else "supported"
    where = (
        f", line {instruction.line:,} of {run.program.title}"
        if run.program and instruction.line
        else ""
    )
    part = share(instruction.seconds, run.seconds) if run.seconds else ""
    cells = (
        f"{instruction.position:>4,}",
        instruction.name,
        instruction.shapes,
        run_time(instruction.seconds),
        part,
        how,
        owner,
    )
    text = f"{instruction.name} · {instruction.shapes or 'no shapes told'} · {run_time(instruction.seconds)} · {how}{where}"
    place = place_of_instruction(reader, run, instruction)
    kind = "problem" if instruction.fell_back else ""
    return TableRow(
        cells, place, lambda: Detail(text), kind=kind, values={"time": instruction.seconds}, part=1
    )


def _notice(found: list[BackendSummary]) -> str:
    parts = [
        f"{backend_summary.backend}: {backend_summary.in_words}"
        for backend_summary in found
        if backend_summary.in_words
    ]
    return f"{'. '.join(parts)}." if parts else ""


def _why_empty(reader: SessionReader) -> str:
    backends = {row.backend for row in reader.rows(model.Compilation)} - {"", "inductor"}
    if not backends:
        return "Everything was compiled by Inductor, whose stages have views of their own."
    return (
        f"Nothing was published by {', '.join(sorted(backends))}: a backend does it with "
        "fx_explorer.publish (docs/publish.md)."
    )
