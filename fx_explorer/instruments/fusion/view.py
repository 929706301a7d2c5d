"""View v y: pairs of kernels that were not fused, with Inductor's reason and the bytes that one
kernel would save.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fx_explorer import model
from fx_explorer.analysis.documents import place_of_kernel, texts_titled
from fx_explorer.analysis.whole_session import is_log
from fx_explorer.analysis.words import counted, listed, size
from fx_explorer.drawing.view_table import Detail, TableColumn, TableRow, ViewTable, shown_name
from fx_explorer.instruments.fusion.figures import (
    CallOfKernel,
    Unfused,
    distinct_pairs,
    unfused_pairs,
)
from fx_explorer.instruments.fusion.tried import describe_tried
from fx_explorer.instruments.kernels.candidates import why_no_kernels
from fx_explorer.instruments.kernels.gpu_limits import microseconds
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

COLUMNS = (
    TableColumn("saves", is_number=True, min_width=8),
    TableColumn("time", is_number=True, min_width=8, priority=2),
    TableColumn("why apart", "strong", min_width=12),
    TableColumn("first", min_width=16, keeps="name"),
    TableColumn("second", min_width=16, keeps="name"),
    TableColumn("your lines", "link", min_width=12, max_width=30, priority=1, keeps="end"),
    TableColumn("times", is_number=True, min_width=5, priority=3),
    TableColumn("direction", "type", min_width=9, priority=4),
)

NO_PAIR = "Inductor left no two kernels apart that access the same memory."

NO_GENERATED_PAIR = (
    "Inductor fused all generated kernels that access the same memory, as far as it looks."
)

PRINTED = "fusion"
"""Title of the texts that TORCH_LOGS=fusion printed."""

NOT_IN_LOG = (
    "A log does not have what Inductor's scheduler decided. Capture the program, or run it with "
    "TORCH_LOGS=fusion."
)


def fusion_table(reader: SessionReader) -> ViewTable:
    pairs = distinct_pairs(unfused_pairs(reader))
    has_times = any(pair.saved_s for pair, _ in pairs)
    columns = tuple(column for column in COLUMNS if has_times or column.title != "time")
    return ViewTable(
        shows="Kernels that access the same memory and were not fused, with Inductor's reason.",
        notice="",
        origin="Inductor's scheduler, asked while it fused; bytes by its own size of each access"
        + ("; times from the data sheet" if has_times else ""),
        columns=columns,
        rows=[_row(reader, pair, count, has_times=has_times) for pair, count in pairs],
        empty=_why_none(reader),
        answer=_answer(pairs),
    )


def _why_none(reader: SessionReader) -> str:
    if is_log(reader):
        return _in_log(reader)
    if not reader.count(model.Kernel):
        return why_no_kernels(reader)
    return NO_PAIR


def _in_log(reader: SessionReader) -> str:
    texts = texts_titled(reader, PRINTED)
    if not texts:
        return NOT_IN_LOG
    titles = listed(dict.fromkeys(text.full_title for text in texts))
    return (
        f"This log has what Inductor's scheduler decided as {counted(len(texts), 'text')}, not as "
        f"pairs of kernels: {titles}."
    )


def _answer(pairs: Sequence[tuple[Unfused, int]]) -> str:
    """Return the pair of which one kernel would save most, and why it is two."""
    if not pairs:
        return ""
    pair, count = pairs[0]
    if pair.is_of_library:
        of_calls = counted(len(pairs), "pair")
        return f"{NO_GENERATED_PAIR} {of_calls} of a kernel and a library call are listed."
    in_all = f", {count} times" if count > 1 else ""
    time = f" and about {microseconds(pair.saved_s)}" if pair.saved_s else ""
    return (
        f"Most would be saved by {describe_pair(pair)} in one kernel: "
        f"{size(pair.pair.saved_bytes)}{time}{in_all}. {pair.cause.text}"
    )


def describe_pair(pair: Unfused) -> str:
    """Return ``#3 triton_poi_fused_add_0 and #5 triton_red_fused_sum_1``."""
    return f"{_name(pair.first)} and {_name(pair.second)}"


def _name(call: CallOfKernel) -> str:
    return f"#{call.kernel.id} {shown_name(call.kernel.name)}"


def _row(reader: SessionReader, pair: Unfused, count: int, *, has_times: bool) -> TableRow:
    lines = [in_file(*call.line) for call in (pair.first, pair.second) if call.line]
    cells = [
        size(pair.pair.saved_bytes),
        pair.cause.kind,
        _name(pair.first),
        _name(pair.second),
        " · ".join(dict.fromkeys(lines)),
        f"{count:,}",
        pair.first.kernel.direction,
    ]
    values = {"saves": float(pair.pair.saved_bytes), "times": float(count)}
    if has_times:
        cells.insert(1, microseconds(pair.saved_s) if pair.saved_s else "")
        values["time"] = pair.saved_s
    return TableRow(
        tuple(cells),
        part=int(pair.is_of_library),
        detail=partial(_detail, reader, pair, count),
        values=values,
        find_place=partial(place_of_kernel, reader, pair.second.kernel),
    )


def _detail(reader: SessionReader, pair: Unfused, count: int) -> Detail:
    return Detail("\n".join(explain_pair(reader, pair, count)))


def explain_pair(reader: SessionReader, pair: Unfused, count: int = 1) -> list[str]:
    """Return the lines that say all about a pair: why it is apart, by whom that is said, what one
    kernel would save, what would change it, and what came of it when that was tried.
    """
    row = pair.pair
    sentences = [pair.cause.text]
    if pair.cause.change:
        sentences.append(f"What may change it: {pair.cause.change}")
    saved = f"One kernel for both would save {size(row.saved_bytes)} of reads and writes"
    if pair.saved_s:
        saved += f", about {microseconds(pair.saved_s)} by the data sheet of the GPU"
    sentences.append(f"{saved} ({_shared(row)}).")
    sentences.append(describe_tried(reader, pair) or "Not tried.")
    sentences.append(_known_from(row))
    if count > 1:
        sentences.append(f"It occurs {counted(count, 'time')}, in repeated parts of the program.")
    return sentences


def _shared(row: model.UnfusedPair) -> str:
    names = ", ".join(row.buffers[:4])
    more = f" and {len(row.buffers) - 4} more" if len(row.buffers) > 4 else ""
    return f"both access {names}{more}"


def _known_from(row: model.UnfusedPair) -> str:
    if row.state == "not asked":
        return "Inductor does not try to fuse them."
    if row.state == "allowed":
        return "Inductor tried to fuse them, and no check said no."
    sentence = f"Inductor's check {row.check} says no, without a reason."
    if row.reason:
        sentence = f"Inductor says of {' and '.join(row.names)}: “{row.reason}” ({row.check})."
    if not row.is_exact:
        sentence += " It was asked about parts of them, before those were fused with others."
    return sentence
