"""View v y: pairs of kernels that were not fused, with Inductor's reason and the bytes that one
kernel would save.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from fx_explorer import model
from fx_explorer.analysis.documents import place_of_kernel, texts_titled
from fx_explorer.analysis.naming import SizeNames
from fx_explorer.analysis.whole_session import is_log
from fx_explorer.analysis.words import counted, listed, size
from fx_explorer.drawing.view_table import (
    DIRECTION,
    Detail,
    TableColumn,
    TableRow,
    ViewTable,
    shown_name,
)
from fx_explorer.instruments.fusion.figures import (
    TIME_FROM_DATA_SHEET,
    CallOfKernel,
    Unfused,
    distinct_pairs,
    unfused_pairs,
)
from fx_explorer.instruments.fusion.loop_nest_reasons import (
    NestPair,
    describe_nests,
    nests_by_kernel,
    unmerged_pairs,
)
from fx_explorer.instruments.fusion.pair_words import known_from, row_key, shared_buffers
from fx_explorer.instruments.fusion.printed_reasons import (
    PRINTED,
    PrintedFusion,
    PrintedPair,
    describe_printed,
    printed_fusion,
)
from fx_explorer.instruments.fusion.tried_fusions import describe_tried
from fx_explorer.instruments.kernels.candidates import why_no_kernels
from fx_explorer.instruments.kernels.gpu_limits import NO_BANDWIDTH, card, microseconds
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
    DIRECTION,
)

NO_PAIR = "Inductor fused all kernels that access the same memory."

NO_GENERATED_PAIR = (
    "Inductor fused all generated kernels that access the same memory, within its search limits."
)

ONLY_BYTES = (
    "Only bytes are known, not time: x c (fx-explorer ledger) measures a call, and the memory "
    "bandwidth of this machine."
)

LESS_FROM_CACHE = "The saving is smaller if a processor cache holds the tensors."

NOT_IN_LOG = (
    "A log does not have the decisions of Inductor's scheduler. Capture the program, or run it "
    "with TORCH_LOGS=fusion."
)


def fusion_table(reader: SessionReader) -> ViewTable:
    printed = printed_fusion(reader)
    if printed.pairs:
        return _printed_table(printed)
    pairs = distinct_pairs(unfused_pairs(reader))
    has_times = any(pair.saved_s for pair, _ in pairs)
    columns = tuple(column for column in COLUMNS if has_times or column.title != "time")
    return ViewTable(
        shows="Kernels that access the same memory and were not fused, with Inductor's reason.",
        notice="" if has_times or not pairs else _why_no_times(reader),
        origin=(
            "Inductor's scheduler, recorded while it fused; bytes from its own sizes of memory "
            "accesses"
        )
        + _origin_of_times(pairs),
        columns=columns,
        rows=[
            *[_row(reader, pair, count, has_times=has_times) for pair, count in pairs],
            *[_nest_row(reader, pair, has_times=has_times) for pair in unmerged_pairs(reader)],
        ],
        empty=_why_none(reader),
        answer=_answer(pairs) or _answer_of_nests(reader),
    )


def _why_no_times(reader: SessionReader) -> str:
    gpu = card(reader)
    return NO_BANDWIDTH.format(gpu=gpu.title) if gpu else ONLY_BYTES


def _origin_of_times(pairs: Sequence[tuple[Unfused, int]]) -> str:
    sources = dict.fromkeys(pair.time_from for pair, _ in pairs if pair.time_from)
    return f"; times estimated {', '.join(sources)}" if sources else ""


def _answer_of_nests(reader: SessionReader) -> str:
    """Return what is apart where no two kernels are: the loop nests of the kernel whose nests share
    most; empty without any.
    """
    pairs = unmerged_pairs(reader)
    if not pairs:
        return ""
    most = max(pairs, key=lambda pair: pair.pair.saved_bytes)
    kernel = most.first.kernel
    nests = describe_nests(nests_by_kernel(reader).get(kernel.id, []))
    return (
        f"{NO_PAIR} However, {shown_name(kernel.name)} has {nests}. {most.first.name} and "
        f"{most.second.name} share {size(most.pair.saved_bytes)}. {most.cause.text}"
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
        f"This log has the decisions of Inductor's scheduler as {counted(len(texts), 'text')}, "
        f"not as pairs of kernels: {titles}."
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
        f"The largest saving: {describe_pair(pair)} in one kernel, "
        f"{size(pair.pair.saved_bytes)}{time}{in_all}. {pair.cause.text}"
    )


def describe_pair(pair: Unfused) -> str:
    """Return ``#3 triton_poi_fused_add_0 and #5 triton_red_fused_sum_1``."""
    return f"{_name(pair.first)} and {_name(pair.second)}"


def describe_missed(pair: Unfused, kernel: int, count: int) -> str:
    """Return ``with #5 triton_red_fused_sum_1 (other order): one kernel would save 32.8 kB``, which
    describes a pair to someone who looks at this kernel of it.
    """
    other = pair.second if pair.first.kernel.id == kernel else pair.first
    time = f", {microseconds(pair.saved_s)}" if pair.saved_s else ""
    in_all = f", {count} times" if count > 1 else ""
    saved = size(pair.pair.saved_bytes)
    with_other = f"with #{other.kernel.id} {other.kernel.name} ({pair.cause.kind})"
    return f"{with_other}: one kernel would save {saved}{time}{in_all}"


def describe_missed_nests(pair: NestPair) -> str:
    """Return ``loop nests op0 and op3 of this kernel (sizes differ): one nest would save 8 kB``."""
    nests = f"loop nests {pair.first.name} and {pair.second.name} of this kernel"
    return f"{nests} ({pair.cause.kind}): one nest would save {size(pair.pair.saved_bytes)}"


def _name(call: CallOfKernel) -> str:
    return f"#{call.kernel.id} {shown_name(call.kernel.name)}"


def _row(reader: SessionReader, pair: Unfused, count: int, *, has_times: bool) -> TableRow:
    lines = [in_file(*call.line) for call in (pair.first, pair.second) if call.line]
    tried = " · tried" if describe_tried(reader, pair) else ""
    cells = [
        size(pair.pair.saved_bytes),
        f"{pair.cause.kind}{tried}",
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
        key=row_key(pair.pair),
    )


def _detail(reader: SessionReader, pair: Unfused, count: int) -> Detail:
    return Detail("\n".join(explain_pair(reader, pair, count)))


def explain_pair(reader: SessionReader, pair: Unfused, count: int = 1) -> list[str]:
    """Return all facts about a pair, as lines: why it is not fused, the source of this reason, the
    saving of one kernel, remedies, and the result of a trial.
    """
    row = pair.pair
    sentences = [pair.cause.text]
    if pair.cause.change:
        sentences.append(f"What may change it: {pair.cause.change}")
    saved = f"One kernel for both would save {size(row.saved_bytes)} of reads and writes"
    if pair.saved_s:
        saved += f", about {microseconds(pair.saved_s)} {pair.time_from}"
    sentences.append(f"{saved} ({shared_buffers(row)}).")
    if pair.saved_s and pair.time_from != TIME_FROM_DATA_SHEET:
        sentences.append(LESS_FROM_CACHE)
    sentences.append(describe_tried(reader, pair) or "Not tried.")
    numbers = (f"#{pair.first.kernel.id}", f"#{pair.second.kernel.id}")
    sentences.append(known_from(row, numbers))
    if count > 1:
        sentences.append(f"It occurs {counted(count, 'time')}, in repeated parts of the program.")
    return sentences


_UNNAMED_SIZE = re.compile(r"(?<![\w.\[/])(?:s|u|zf|zuf|zs)\d+\b(?!/)")
"""Matches a symbol of torch's for a size that no expression of the user's is known for."""


def _nest_row(reader: SessionReader, pair: NestPair, *, has_times: bool) -> TableRow:
    """Return the row of two loop nests that stand in one C++ kernel and were not merged."""
    lines = [in_file(*line) for nest in (pair.first, pair.second) for line in nest.lines]
    cells = [
        size(pair.pair.saved_bytes),
        pair.cause.kind,
        f"{pair.first.name} in #{pair.first.kernel.id} {shown_name(pair.first.kernel.name)}",
        f"{pair.second.name} in the same kernel",
        " · ".join(dict.fromkeys(lines)),
        "1",
        pair.first.kernel.direction,
    ]
    if has_times:
        cells.insert(1, "")
    return TableRow(
        tuple(cells),
        part=2,
        detail=partial(_nest_detail, reader, pair),
        values={"saves": float(pair.pair.saved_bytes), "times": 1.0},
        find_place=partial(place_of_kernel, reader, pair.second.kernel),
        key=row_key(pair.pair),
    )


def _nest_detail(reader: SessionReader, pair: NestPair) -> Detail:
    return Detail("\n".join(_explain_nests(reader, pair)))


def _explain_nests(reader: SessionReader, pair: NestPair) -> list[str]:
    """Return the lines that say all about two loop nests of one kernel."""
    row = pair.pair
    compilation = pair.first.kernel.compilation
    sizes = SizeNames(reader, [compilation])
    text = sizes.in_text(compilation, pair.cause.text)
    sentences = [_UNNAMED_SIZE.sub("a size", text)]
    if pair.cause.change:
        sentences.append(f"What may change it: {pair.cause.change}")
    nests = nests_by_kernel(reader).get(pair.first.kernel.id, [])
    sentences.append(f"Merged, they would read and write {size(row.saved_bytes)} less.")
    sentences.append(f"{pair.first.kernel.name} has {describe_nests(nests)}.")
    sentences.append(f"torch's own names: {shared_buffers(row)}.")
    if row.state == "outer loop":
        sentences.append(f"Inductor's check {row.check} allows it to fuse only their outer loops.")
    else:
        sentences.append(known_from(row, (pair.first.name, pair.second.name)))
    return sentences


PRINTED_COLUMNS = (
    TableColumn("why apart", "strong", min_width=12),
    TableColumn("first", min_width=8),
    TableColumn("second", min_width=8),
    TableColumn("your lines", "link", min_width=12, max_width=30, keeps="end"),
    TableColumn("Inductor says", "text", min_width=20, max_width=60, priority=1),
    TableColumn("compilation", "muted", min_width=5, priority=2),
)


def _printed_table(printed: PrintedFusion) -> ViewTable:
    """Return the view of a log: what TORCH_LOGS=fusion printed about nodes that were not fused."""
    return ViewTable(
        shows="Nodes of Inductor's scheduler that were not fused, with its reason.",
        notice="",
        origin="what TORCH_LOGS=fusion printed; op3 is Inductor's name of a node",
        columns=PRINTED_COLUMNS,
        rows=[_printed_row(pair) for pair in printed.pairs],
        empty="",
        answer=describe_printed(printed),
    )


def _printed_row(pair: PrintedPair) -> TableRow:
    lines = [in_file(*line) for node in (pair.first, pair.second) for line in node.lines]
    cells = (
        pair.cause.kind,
        pair.first.name,
        pair.second.name,
        " · ".join(dict.fromkeys(lines)),
        pair.reason,
        f"[{pair.compilation}]",
    )
    sentences = [pair.cause.text, f"Inductor says: “{pair.reason}”."]
    if pair.cause.change:
        sentences.append(f"What may change it: {pair.cause.change}")
    nodes = (pair.first, pair.second)
    sentences += [f"{node.name}: {node.what or 'not described'}" for node in nodes]
    if not pair.is_exact:
        sentences.append(
            "The check was made on parts of them, before those were fused with others."
        )
    return TableRow(cells, pair.place, lambda: Detail("\n".join(sentences)))
