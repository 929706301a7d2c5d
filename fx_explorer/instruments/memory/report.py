"""This module writes the memory of a step as text, markdown, CSV and JSON: the answer first, then
the peak and the timeline. For the JSON report it also writes each value that a forward saves for
the backward, with the partitioner's reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from fx_explorer import model
from fx_explorer.analysis.words import counted, share, size
from fx_explorer.cut_text import cut_in_middle
from fx_explorer.instruments.memory.replay import UNKNOWN
from fx_explorer.instruments.memory.saved_readers import ReadingKernel, kernels_reading_saved
from fx_explorer.instruments.memory.saved_values import (
    Recomputed,
    SavedValue,
    choices,
    computed_total,
    describe_saved,
    kept_bytes,
    recomputed,
    saved_values,
    user_names,
    why,
)
from fx_explorer.instruments.memory.session_memory import SessionMemory, Unread, session_memory
from fx_explorer.instruments.memory.step import KINDS, HeldStorage
from fx_explorer.instruments.memory.usage import (
    BEFORE,
    LEGEND,
    TimelineRow,
    Usage,
    bar,
    timeline,
    usage,
)
from fx_explorer.instruments.memory.verdict import IN_WORDS, name_of, verdict, where, with_optimizer
from fx_explorer.output.formats import (
    Block,
    csv_text,
    json_text,
    markdown_list,
    markdown_table,
    text_of,
)
from fx_explorer.output.table import Column, Table
from fx_explorer.output.terminal import LEAST_PROSE
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import source_paths

SCHEMA = "fx-explorer/memory/1"

Json = dict[str, object]

BIGGEST = 12
"""Number of tensors held at the peak that are listed."""

TIMELINE_ROWS = 40
"""Maximum number of rows of the timeline as text. CSV and JSON have every kernel call."""

BAR_CELLS, PLACE_CELLS, MODULE_CELLS = 22, 20, 19


@dataclass(frozen=True)
class MemoryReport:
    """A session's step with the paths of its files, prepared for the texts."""

    memory: SessionMemory
    paths: dict[int, str]
    recomputed: Sequence[Recomputed] = ()
    """What the backward recomputes, biggest first."""
    optimizer: str = ""
    """The optimizer whose state is counted; empty for none."""
    saved: str = ""
    """A sentence on the tensors saved for the backward."""
    saved_bytes: int = 0
    """Bytes of the values that the forward computes and saves, according to AOTAutograd's
    graphs.
    """

    @cached_property
    def used(self) -> Usage:
        return usage(self.memory.step)

    @cached_property
    def sentences(self) -> list[str]:
        return verdict(
            self.memory, self.used, self.paths, _again(self.recomputed), self.optimizer, self.saved
        )

    def line(self, node: model.Node | None) -> str:
        """Return ``model.py:57``; empty where no line is known."""
        if node is not None and node.file in self.paths:
            return in_file(self.paths[node.file], node.line)
        return ""


def _again(operations: Sequence[Recomputed]) -> str:
    """Describe how much the backward recomputes; empty where it recomputes nothing."""
    if not operations:
        return ""
    bytes_ = size(sum(max(0, operation.choice.size_bytes) for operation in operations))
    return (
        f"{counted(len(operations), 'operation')} of the forward ({bytes_}) are recomputed in "
        "the backward."
    )


def memory_report(reader: SessionReader, optimizer: str = "") -> MemoryReport:
    """Predict the memory of a session's step, with the state of an optimizer if one of ``TENSORS``
    is named.
    """
    memory = session_memory(reader)
    if optimizer:
        memory = replace(memory, step=with_optimizer(memory.step, optimizer))
    computed = computed_total(reader).size_bytes
    return MemoryReport(
        memory,
        source_paths(reader),
        recomputed(reader),
        optimizer,
        describe_saved(reader),
        computed,
    )


# text


KIND_COLUMNS = (
    Column("kind"),
    Column("bytes", is_number=True),
    Column("share", is_number=True),
)

PEAK_COLUMNS = (
    Column("size", is_number=True),
    Column("kind"),
    Column("what", narrowing="wrapped", least=LEAST_PROSE),
)


def memory_text(report: MemoryReport, width: int | None = None) -> str:
    """Return the answer, what makes up the peak, and the timeline. Lines have at most ``width``
    cells; None sets no limit.
    """
    blocks: list[Block] = list(report.sentences)
    if report.memory.is_known:
        blocks += ["", *_peak(report), "", *_timeline_lines(report)]
    return text_of(blocks, width)


def _peak(report: MemoryReport) -> list[Block]:
    peak = report.used.peak
    kinds = []
    for kind in KINDS:
        if kind in peak.by_kind:
            bytes_ = peak.by_kind[kind]
            kinds.append((IN_WORDS[kind][0], size(bytes_), share(bytes_, peak.total_bytes)))
    held = report.used.held_at(peak.at)
    rest = sum(max(0, held_tensor.size_bytes) for held_tensor in held[BIGGEST:])
    rows = [_of_peak(report, held_tensor) for held_tensor in held[:BIGGEST]]
    if rest:
        rows.append((size(rest), "", f"in {counted(len(held) - BIGGEST, 'more storage')}"))
    return [
        f"At the peak, {size(peak.total_bytes)}:",
        Table(KIND_COLUMNS, kinds, indent=2, has_titles=False),
        "",
        "The biggest of it:",
        Table(PEAK_COLUMNS, rows, indent=2, has_titles=False),
    ]


def _of_peak(report: MemoryReport, held_tensor: HeldStorage) -> tuple[str, ...]:
    if held_tensor.size_bytes == UNKNOWN:
        bytes_ = "unknown"
    else:
        bytes_ = size(held_tensor.size_bytes)
    return (
        bytes_,
        IN_WORDS[held_tensor.kind][0],
        f"{name_of(held_tensor)}  {where(held_tensor.node, report.paths)}".rstrip(),
    )


def _timeline_lines(report: MemoryReport) -> list[str]:
    whole = report.used.peak.total_bytes
    rows = timeline(report.used, TIMELINE_ROWS)
    return [
        "What is held, kernel by kernel:",
        f"  {LEGEND}",
        *(_timeline_line(report, row, whole) for row in rows),
    ]


def _timeline_line(report: MemoryReport, row: TimelineRow, whole: int) -> str:
    arrow = {"forward": "→", "backward": "←"}.get(row.moment.direction, " ")
    place = report.line(row.node) or row.moment.call.name
    module = row.node.module if row.node else ""
    drawn = bar(row.point, whole, BAR_CELLS)
    mark = " peak" if row.point == report.used.peak else ""
    names = (
        f"{cut_in_middle(place, PLACE_CELLS):<{PLACE_CELLS}} "
        f"{cut_in_middle(module, MODULE_CELLS):<{MODULE_CELLS}}"
    )
    return f"{arrow} {names} {size(row.point.total_bytes):>9} {drawn}{mark}"


# others


MARKDOWN_COLUMNS = (Column("bytes", is_number=True), Column("kind"), Column("what"), Column("line"))


def memory_markdown(report: MemoryReport) -> str:
    """Return the answer as a list, and what makes up the peak as a table."""
    lines = markdown_list(report.sentences)
    if report.memory.is_known:
        held = report.used.held_at(report.used.peak.at)[:BIGGEST]
        rows = [_row_of_peak(report, held_tensor) for held_tensor in held]
        lines += ["", *markdown_table(Table(MARKDOWN_COLUMNS, rows))]
    return "\n".join(lines) + "\n"


def _row_of_peak(report: MemoryReport, held_tensor: HeldStorage) -> Sequence[str]:
    return (
        f"{held_tensor.size_bytes:,}",
        IN_WORDS[held_tensor.kind][0],
        name_of(held_tensor),
        where(held_tensor.node, report.paths),
    )


def memory_csv(report: MemoryReport) -> str:
    """Return a line for each kernel call, with the bytes of each kind that are held during it."""
    heading = ["compilation", "direction", "kernel", "file", "line", "module", "total", *KINDS]
    moments = (_moment(report, row) for row in _every_call(report))
    return csv_text(heading, (_csv_row(moment) for moment in moments))


def _csv_row(moment: Json) -> list[object]:
    return [*(moment[key] for key in _OF_MOMENT), moment["bytes"], *_bytes_of(moment)]


_OF_MOMENT = ("compilation", "direction", "kernel", "file", "line", "module")


def _bytes_of(moment: Json) -> list[object]:
    by_kind = moment["by_kind"] if isinstance(moment["by_kind"], dict) else {}
    return [by_kind.get(kind, 0) for kind in KINDS]


def memory_json(report: MemoryReport) -> str:
    """Return a memory report as the text of ``fx-explorer memory --format json``."""
    used = report.used
    held = used.held_at(used.peak.at) if report.memory.is_known else []
    whole = {
        "schema": SCHEMA,
        **memory_object(report),
        "held_at_peak": [_held(report, held_tensor) for held_tensor in held],
        "workspaces": [_workspace(report, row) for row in _every_call(report) if _works(row)],
        "timeline": [_moment(report, row) for row in _every_call(report)],
    }
    return json_text(whole)


MOST_COMPILATIONS = 200
"""Largest number of compilations for which the report of a session includes the prediction. The
report is to take seconds.
"""


def memory_of_report(reader: SessionReader) -> Json | None:
    """Return the memory for the report of a session; None where nothing could be read."""
    report = known_memory(reader)
    return memory_object(report) if report else None


def known_memory(reader: SessionReader) -> MemoryReport | None:
    """Return the predicted memory of a session's step; None where nothing could be read, and for
    a session with very many compilations.
    """
    if reader.count(model.Compilation) > MOST_COMPILATIONS or not reader.count(model.Graph):
        return None
    report = memory_report(reader)
    return report if report.memory.is_known else None


def memory_object(report: MemoryReport) -> Json:
    """Return the answer without the timeline, and the biggest tensors at the peak."""
    memory, used = report.memory, report.used
    if memory.is_known:
        held = used.held_at(used.peak.at)
        peak_in = "backward" if used.is_backward(used.peak.at) else "forward"
        saved_bytes = memory.step.saved_bytes
    else:
        held, peak_in, saved_bytes = [], "", report.saved_bytes
    return {
        "verdict": report.sentences,
        "is_known": memory.is_known,
        "device": used.device,
        "peak_bytes": used.peak.total_bytes,
        "peak": dict(used.peak.by_kind),
        "peak_in": peak_in,
        "held_at_peak": [_held(report, held_tensor) for held_tensor in held[:BIGGEST]],
        "most_bytes": used.most_with_workspaces()[0],
        "begin_bytes": used.begin_bytes,
        "calls": memory.step.calls,
        "saved_bytes": saved_bytes,
        "saved_between_bytes": memory.step.between_bytes,
        "elsewhere": dict(used.elsewhere),
        "unknown_sizes": used.unknown,
        "assumed": memory.step.assumed,
        "recomputed": [_recomputed(report, operation) for operation in report.recomputed],
        "unread": [_unread(row) for row in memory.unread],
        "left_out": memory.left_out,
    }


def _unread(row: Unread) -> Json:
    return {"compilation": row.compilation, "direction": row.direction, "reason": row.reason}


def held_lines(report: MemoryReport) -> list[model.HeldLine]:
    """Return the bytes that the step itself holds at the peak, by the line that computes them,
    biggest first.
    """
    if not report.memory.is_known:
        return []
    by_line: Counter[tuple[str, int]] = Counter()
    for held_tensor in report.used.held_at(report.used.peak.at):
        if held_tensor.kind not in BEFORE and held_tensor.size_bytes != UNKNOWN:
            by_line[_line(report, held_tensor.node)] += held_tensor.size_bytes
    return [
        model.HeldLine(file, line, size_bytes) for (file, line), size_bytes in by_line.most_common()
    ]


def _line(report: MemoryReport, node: model.Node | None) -> tuple[str, int]:
    """Return (file, line) of a node; ("", 0) where no line is known."""
    if node is None or node.file not in report.paths:
        return "", 0
    return report.paths[node.file], node.line


def _every_call(report: MemoryReport) -> list[TimelineRow]:
    return [TimelineRow(moment, point, 1) for moment, point in report.used.at_moments()]


def _place(report: MemoryReport, node: model.Node | None) -> Json:
    if node is None:
        return {"file": None, "line": None, "module": None}
    path = report.paths.get(node.file)
    line = node.line if path else None
    return {"file": path, "line": line, "module": node.module or None}


def _held(report: MemoryReport, held_tensor: HeldStorage) -> Json:
    if held_tensor.size_bytes != UNKNOWN:
        known = held_tensor.size_bytes
    else:
        known = None
    return {
        "kind": held_tensor.kind,
        "name": name_of(held_tensor),
        "bytes": known,
        "kernel": held_tensor.kernel or None,
        **_place(report, held_tensor.node),
    }


def _works(row: TimelineRow) -> bool:
    call = row.moment.call
    return bool(call.most_workspace or (call.workspace and call.workspace.size_bytes > 0))


def _workspace(report: MemoryReport, row: TimelineRow) -> Json:
    """Return the workspace of a library call: as the GPU measured it, and as an upper estimate."""
    call = row.moment.call
    workspace = call.workspace
    known = workspace.size_bytes if workspace and workspace.size_bytes >= 0 else None
    return {
        "direction": row.moment.direction,
        "kernel": call.name,
        **_place(report, row.node),
        "bytes": known,
        "most_bytes": call.most_workspace,
    }


def _recomputed(report: MemoryReport, operation: Recomputed) -> Json:
    choice = operation.choice
    known = choice.size_bytes if choice.size_bytes >= 0 else None
    return {
        "name": operation.node.name,
        "bytes": known,
        "why": why(choice),
        **_place(report, operation.node),
    }


def _moment(report: MemoryReport, row: TimelineRow) -> Json:
    moment = row.moment
    return {
        "compilation": moment.compilation,
        "direction": moment.direction,
        "kernel": moment.call.name,
        **_place(report, row.node),
        "bytes": row.point.total_bytes,
        "by_kind": dict(row.point.by_kind),
    }


FORMATS: dict[str, Callable[[MemoryReport], str]] = {
    "text": memory_text,
    "json": memory_json,
    "csv": memory_csv,
    "markdown": memory_markdown,
}


def saved_tensors(reader: SessionReader) -> list[Json]:
    """Return each value that a forward saves, with the numbers and the reason of the partitioner's
    decision.
    """
    decided, values = choices(reader), saved_values(reader)
    names = user_names(reader, values)
    kernels = kernels_reading_saved(reader)
    rows = []
    for value in values:
        saved = value.saved
        choice = decided.get((saved.compilation, saved.name))
        row = _saved_tensor(value, choice, names.get(saved.id, saved.name))
        row["read_by"] = _read_by(kernels.get(saved.id))
        rows.append(row)
    return rows


def _read_by(kernels: Sequence[ReadingKernel] | None) -> list[Json] | None:
    """Return the kernels that read a saved tensor; None where they are not known."""
    if kernels is None:
        return None
    return [
        {
            "kernel": kernel.name,
            "line": kernel.line or None,
            "code_line": kernel.code_line,
            "code_at": kernel.code_at,
            "works_in_place": kernel.works_in_place,
            "is_last": kernel.is_last,
        }
        for kernel in kernels
    ]


def _saved_tensor(value: SavedValue, choice: model.PartitionChoice | None, name: str) -> Json:
    """Return the JSON object of one value that the forward saves."""
    saved = value.saved
    reason = why(choice) if choice else None
    weight = choice.weight if choice and choice.weight >= 0 else None
    return {
        "compilation": value.compilation,
        "name": saved.name,
        "user_name": name,
        "kind": saved.kind,
        "shape": [_dimension(size_text) for size_text in saved.shape],
        "dtype": saved.dtype,
        "bytes": saved.size_bytes,
        "storage": saved.storage or None,
        "storage_bytes": kept_bytes(saved),
        "why": reason,
        "weight": weight,
        "producer": value.producer or None,
        "file": value.file or None,
        "line": value.line or None,
        "module": value.module or None,
        "consumers": list(value.consumers),
        "consumer_lines": list(value.consumer_lines),
    }


def _dimension(size_text: str) -> int | str:
    """Return a size as a number; a symbolic size stays text."""
    return int(size_text) if size_text.isdecimal() else size_text
