"""View %: what a step holds in memory, kernel after kernel, and what makes up each moment."""

from __future__ import annotations

from fx_explorer.analysis.words import counted, share, size
from fx_explorer.drawing.view_table import Detail, TableColumn, TableRow, ViewTable
from fx_explorer.instruments.memory.saved_values import saved_in_words
from fx_explorer.instruments.memory.session_memory import session_memory
from fx_explorer.instruments.memory.step import KINDS, Held, MemoryKind
from fx_explorer.instruments.memory.usage import LEGEND, TimelineRow, Usage, bar, timeline, usage
from fx_explorer.instruments.memory.verdict import IN_WORDS, frame_of, name_of, verdict, where
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import source_paths

BAR_CELLS = 24

BIGGEST = 15
"""What is held at a moment is listed so far one by one."""

COLUMNS = (
    TableColumn("pass", "muted", min_width=4),
    TableColumn("your line", "link", min_width=16, max_width=24, keeps="end"),
    TableColumn("module", min_width=12, max_width=26, priority=1, keeps="end"),
    TableColumn("held", is_number=True, min_width=8),
    TableColumn("of the peak", "good", is_bar=True, min_width=BAR_CELLS),
    TableColumn("kernel", "muted", min_width=16, max_width=60, priority=2, keeps="name"),
)

NOTHING_YET = "Nothing so far: it is known when output code has been written."


def step_memory_table(reader: SessionReader) -> ViewTable:
    memory, paths = session_memory(reader), source_paths(reader)
    used = usage(memory.step)
    sentences = verdict(memory, used, paths, saved=saved_in_words(reader))
    is_running = reader.meta("outcome") is None and not memory.is_known and not memory.without_code
    return ViewTable(
        shows="What a step holds in memory, kernel after kernel.",
        notice=f"{sentences[0]}  {LEGEND}" if memory.is_known else "",
        origin="the wrappers around the kernels, read statement by statement; nothing was measured",
        columns=COLUMNS,
        rows=[_row(used, row, paths, sentences) for row in timeline(used)]
        if memory.is_known
        else (),
        empty=NOTHING_YET if is_running else " ".join(sentences),
    )


def _row(used: Usage, row: TimelineRow, paths: dict[int, str], sentences: list[str]) -> TableRow:
    moment, node = row.moment, row.node
    whole = used.peak.total_bytes
    cells = (
        {"forward": "→", "backward": "←"}.get(moment.direction, ""),
        in_file(paths[node.file], node.line) if node and node.file in paths else "",
        node.module if node else "",
        size(row.point.total_bytes),
        bar(row.point, whole, BAR_CELLS),
        moment.call.name
        if row.calls == 1
        else f"{moment.call.name} and {counted(row.calls - 1, 'more call')}",
    )
    held = float(row.point.total_bytes)
    values = {"held": held, "of the peak": held}
    return TableRow(
        cells,
        moment.call.place,
        lambda: Detail(_detail(used, row, paths, sentences)),
        values=values,
    )


def _detail(used: Usage, row: TimelineRow, paths: dict[int, str], sentences: list[str]) -> str:
    """Say what is held at the moment, by kind and the biggest one by one, then the whole answer."""
    point = row.point
    held = used.held_at(point.at)
    rest = sum(max(0, held_tensor.size_bytes) for held_tensor in held[BIGGEST:])
    lines = [
        f"{frame_of(row.moment)} · {row.moment.call.name}: {size(point.total_bytes)}, "
        f"{share(point.total_bytes, used.peak.total_bytes)} of the peak",
        *(
            _kind(kind, point.by_kind[kind], point.total_bytes)
            for kind in KINDS
            if kind in point.by_kind
        ),
        "",
        *(_held(held_tensor, paths) for held_tensor in held[:BIGGEST]),
        *([f"{size(rest):>10}  in {counted(len(held) - BIGGEST, 'more storage')}"] if rest else []),
        "",
        *sentences,
    ]
    return "\n".join(lines)


def _kind(kind: MemoryKind, size_bytes: int, whole: int) -> str:
    return f"{size(size_bytes):>10}  {share(size_bytes, whole):>5}  {IN_WORDS[kind][0]}"


def _held(held_tensor: Held, paths: dict[int, str]) -> str:
    return (
        f"{size(max(0, held_tensor.size_bytes)):>10}  {IN_WORDS[held_tensor.kind][0]:<11} {name_of(held_tensor)}  "
        f"{where(held_tensor.node, paths)}"
    ).rstrip()
