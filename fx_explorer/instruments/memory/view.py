"""This module makes the app's tables about memory: the values saved for the backward (view 7), and
the memory of a step kernel by kernel (view %).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from fx_explorer import model
from fx_explorer.analysis.annotated_regions import RegionKey, nodes_in
from fx_explorer.analysis.function_versions import functions_of_versions, over_versions
from fx_explorer.analysis.input_names import result_name
from fx_explorer.analysis.module_paths import belongs, is_module
from fx_explorer.analysis.naming import SizeNames
from fx_explorer.analysis.whole_session import is_log, why_saved_unknown
from fx_explorer.analysis.words import counted, listed, module_file, share, size, tensor
from fx_explorer.drawing.view_table import Detail, TableColumn, TableRow, ViewTable
from fx_explorer.instruments.breaks.cut_tensors import NO_TENSORS
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.instruments.memory.row_names import NamedRow, distinct_names
from fx_explorer.instruments.memory.saved_readers import describe_readers, kernels_reading_saved
from fx_explorer.instruments.memory.saved_values import (
    Recomputed,
    SavedValue,
    choices,
    computed_total,
    describe_saved,
    kept_bytes,
    recomputed,
    saved_paths,
    saved_total,
    saved_values,
    saving_compilations,
    user_names,
    why,
)
from fx_explorer.instruments.memory.session_memory import session_memory
from fx_explorer.instruments.memory.step import KINDS, HeldStorage, MemoryKind
from fx_explorer.instruments.memory.timeline_picture import memory_svg
from fx_explorer.instruments.memory.usage import LEGEND, TimelineRow, Usage, bar, timeline, usage
from fx_explorer.instruments.memory.verdict import IN_WORDS, frame_of, name_of, verdict, where
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import compilation_names, source_paths

SAVED_COLUMNS = (
    TableColumn("size", is_number=True, min_width=8, total=lambda value: size(round(value))),
    TableColumn("share", "muted", is_number=True),
    TableColumn("version", "annotation", min_width=7, priority=1),
    TableColumn("kind", "type", min_width=10),
    TableColumn("saved value", "strong", min_width=14, keeps="both"),
    TableColumn("tensor", min_width=14, priority=1),
    TableColumn("made by", min_width=16, priority=2),
    TableColumn("your line", "link", min_width=16, keeps="end"),
    TableColumn("needed by", "muted", min_width=16, max_width=60, priority=3),
)


def memory_table(reader: SessionReader) -> ViewTable:
    values = saved_values(reader)
    names, sizes = user_names(reader, values), SizeNames(reader)
    decided, paths = choices(reader), source_paths(reader)
    whole, largest = saved_total(reader).size_bytes, _largest_computed(values)
    several = functions_of_versions(reader)
    columns: tuple[TableColumn, ...] = SAVED_COLUMNS
    if not several:
        columns = tuple(column for column in SAVED_COLUMNS if column.title != "version")
    called = _Names(_distinct_in_version(values, _Names(names, sizes), several), sizes)
    again = recomputed(reader)
    names_again = distinct_names(_named_rows_again(again, paths, sizes, compilation_names(reader)))
    rows = [_row(reader, value, whole, called, _why(decided, value), several) for value in values]
    rows += [
        _again(operation, names_again[operation.node.id], paths, sizes, several)
        for operation in again
    ]
    return ViewTable(
        shows="Values that the forward saves for the backward, biggest first.",
        notice=_notice(reader),
        origin="outputs of the forward graph that are inputs of the backward graph",
        columns=columns,
        rows=rows,
        empty=_why_empty(reader),
        versions=several,
        within=lambda reader, region: _within(reader, region, values),
        answer=_largest(reader, values, called, decided, several),
        first=values.index(largest) if largest else 0,
    )


def _distinct_in_version(
    values: Sequence[SavedValue], names: _Names, several: Collection[str]
) -> dict[int, str]:
    """Return the name of each value by the id of its row. It need not tell versions of a function
    apart: a column names them.
    """
    of_version: dict[str, list[SavedValue]] = defaultdict(list)
    for value in values:
        of_version[_version_of(value, several)].append(value)
    distinct = {}
    for values_of_version in of_version.values():
        distinct.update(distinct_names(_named_rows(values_of_version, names)))
    return distinct


def _named_rows(values: Iterable[SavedValue], names: _Names) -> Iterator[NamedRow]:
    for value in values:
        line = in_file(value.file, value.line) if value.file else ""
        graph = f"[{value.compilation}]"
        traits = (line, value.module, names.tensor(value), graph, value.saved.name)
        yield NamedRow(value.saved.id, names.of(value), traits)


def _named_rows_again(
    operations: Iterable[Recomputed],
    paths: Mapping[int, str],
    sizes: SizeNames,
    graphs: Mapping[int, str],
) -> Iterator[NamedRow]:
    for operation in operations:
        node, compilation = operation.node, operation.choice.compilation
        line = in_file(paths[node.file], node.line) if node.file in paths else ""
        shape = sizes.in_text(compilation, tensor(node.dtype, node.shape))
        graph = f"[{graphs[compilation]}]" if compilation in graphs else ""
        yield NamedRow(node.id, result_name(node), (line, node.module, shape, graph, node.name))


def _largest(
    reader: SessionReader,
    values: list[SavedValue],
    names: _Names,
    decided: Mapping[tuple[int, str], model.PartitionChoice],
    several: Collection[str],
) -> str:
    """Return the largest tensor that is saved only for the backward, and why it is saved."""
    largest = _largest_computed(values)
    if largest is None:
        return ""
    of_all = size(computed_total(reader).size_bytes)
    name = " ".join(filter(None, (names.of(largest), _version_of(largest, several))))
    words = f"Largest activation saved: {name}, {size(kept_bytes(largest.saved) or 0)} of {of_all}"
    reason = _why(decided, largest).partition("; ")[0]
    for beginning in ("saved: it is ", "saved: ", "saved "):
        reason = reason.removeprefix(beginning)
    return f"{words}: {reason}." if reason else f"{words}."


def _largest_computed(values: Sequence[SavedValue]) -> SavedValue | None:
    """Return the largest tensor that is saved only for the backward, None if there is none. Inputs
    and parameters are there in any case.
    """
    computed = [value for value in values if value.producer and kept_bytes(value.saved)]
    return max(computed, key=lambda value: kept_bytes(value.saved) or 0, default=None)


def _within(reader: SessionReader, region: RegionKey, values: list[SavedValue]) -> list[int]:
    """Return the rows of the values that a region computes, or that are parameters of its
    module.
    """
    nodes = nodes_in(reader, region)
    rows = [at for at, value in enumerate(values) if value.saved.producer in nodes]
    if is_module(region):
        is_inside = belongs(region)
        rows = [at for at, path in enumerate(saved_paths(reader, values)) if is_inside(path)]
    for at, operation in enumerate(recomputed(reader), len(values)):
        if operation.node.id in nodes:
            rows.append(at)
    return rows


class _Names(NamedTuple):
    """The user's names of saved values, and of the sizes in their shapes."""

    names: Mapping[int, str]
    sizes: SizeNames

    def of(self, value: SavedValue) -> str:
        return self.names.get(value.saved.id, value.saved.name)

    def earlier(self, value: SavedValue) -> str:
        """Return the name of the value whose storage this one shares."""
        named = self.names.get(value.shares_with_row)
        return named or value.shares_with

    def tensor(self, value: SavedValue) -> str:
        saved = value.saved
        return self.sizes.in_text(saved.compilation, tensor(saved.dtype, saved.shape))


def _why(decided: Mapping[tuple[int, str], model.PartitionChoice], value: SavedValue) -> str:
    """Return why a value is saved; empty where the session does not know."""
    choice = decided.get((value.saved.compilation, value.saved.name))
    return why(choice) if choice else ""


def _again(
    operation: Recomputed,
    name: str,
    paths: Mapping[int, str],
    sizes: SizeNames,
    several: Collection[str],
) -> TableRow:
    """Return the row of an operation that is recomputed instead of being saved."""
    node, choice = operation.node, operation.choice
    kept = size(choice.size_bytes) if choice.size_bytes >= 0 else "unknown"
    if node.file in paths:
        line = in_file(paths[node.file], node.line)
    else:
        line = ""
    value = sizes.in_text(choice.compilation, tensor(node.dtype, node.shape))
    version = [""] if several else []
    cells = (
        "none",
        "",
        *version,
        "recomputed",
        name,
        value,
        node.target,
        line,
        "",
    )
    text = f"{name} · {value} · {kept} that are not kept\n{why(choice).capitalize()}."
    return TableRow(cells, operation.place, lambda: Detail(text), part=1)


def _row(
    reader: SessionReader,
    value: SavedValue,
    whole: int,
    names: _Names,
    reason: str,
    several: Collection[str],
) -> TableRow:
    saved = value.saved
    where = in_file(value.file, value.line) if value.file else ""
    kept = kept_bytes(saved)
    part = "" if value.shares_with else share(kept or 0, whole)
    cells = (
        _kept(value),
        part,
        *_version(value, several),
        saved.kind,
        names.of(value),
        names.tensor(value),
        value.producer or "an input",
        where,
        ", ".join(value.consumers),
    )
    is_counted = kept is not None and not value.shares_with and saved.kind != "number"
    values = {"size": float(kept or 0)} if is_counted else {}
    return TableRow(
        cells,
        value.place,
        lambda: Detail(_text(reader, value, names, reason)),
        values=values,
        version=value.compilation,
    )


def _version(value: SavedValue, several: Collection[str]) -> list[str]:
    """Return the cell that names the version; no cell where no function has several."""
    return [_version_of(value, several)] if several else []


def _version_of(value: SavedValue, several: Collection[str]) -> str:
    """Return ``[0/1]`` where the function has several versions, else an empty text."""
    return f"[{value.compilation}]" if value.compilation in several else ""


def _kept(value: SavedValue) -> str:
    """Return the bytes of the value's storage, which is kept whole. If several values share a
    storage, only the first shows them.
    """
    kept = kept_bytes(value.saved)
    if value.saved.kind == "number":
        return "none"
    if value.shares_with:
        return "shared"
    if kept is None:
        return "unknown"
    return size(kept)


def _storage(value: SavedValue, names: _Names) -> list[str]:
    saved = value.saved
    if value.shares_with:
        return [f"storage the same as {names.earlier(value)}, where it is counted"]
    if saved.kind == "copy":
        return [
            (
                "storage    a copy that the compiler made, with other strides; the original "
                "exists too"
            )
        ]
    kept = kept_bytes(saved)
    if kept is not None and kept > saved.size_bytes > 0:
        return [f"storage {size(kept)}: a view keeps its whole storage"]
    return []


def _text(reader: SessionReader, value: SavedValue, names: _Names, reason: str) -> str:
    saved = value.saved
    line = f"{module_file(value.file)}:{value.line}" if value.file else "not known"
    lines = [
        (
            f"{names.of(value)} · {names.tensor(value)} · {size(saved.size_bytes)} · "
            f"{saved.kind} of [{value.compilation}]"
        ),
        *_storage(value, names),
        f"made by    {value.producer or 'nothing: it is an input of the graph'}",
        f"on line    {line}",
        f"needed by  {_needed_by(value)}",
        f"read by    {describe_readers(kernels_reading_saved(reader).get(saved.id))}",
    ]
    if reason:
        lines.append(f"why        {reason}")
    return "\n".join(lines)


def _needed_by(value: SavedValue) -> str:
    """Return ``vit.py:35 (mul_48, neg_1) and vit.py:36 (expand_2), in the backward``."""
    if not value.consumers:
        return "nothing in the backward graph"
    of_line: dict[str, list[str]] = {}
    for name, line in zip(value.consumers, value.consumer_lines, strict=True):
        of_line.setdefault(line or "no line of yours", []).append(name)
    parts = [f"{line} ({', '.join(names)})" for line, names in of_line.items()]
    return f"{listed(parts, len(parts))}, in the backward"


def _notice(reader: SessionReader) -> str:
    whole, computed = saved_total(reader), computed_total(reader)
    if not whole.count:
        return ""
    words = (
        f"{counted(whole.count, 'storage')}, {size(whole.size_bytes)}; of these "
        f"{size(computed.size_bytes)} were computed, the rest existed before the forward."
    )
    added = over_versions(reader, saving_compilations(reader))
    if added:
        words += f" These are sums {added}."
    if whole.unknown_sizes:
        unknown = f" {whole.unknown_sizes} of unknown size."
    else:
        unknown = ""
    return f"{words}{unknown}{_not_kept(reader)}{_twice(reader)}{_not_in_log(reader)}"


OF_A_LOG = (
    " A log does not say why a value is saved, which operations are recomputed instead, or "
    "whether Inductor stored a copy."
)


def _not_in_log(reader: SessionReader) -> str:
    if not is_log(reader):
        return ""
    incomplete = why_saved_unknown(reader)
    return f" {incomplete}{OF_A_LOG}" if incomplete else OF_A_LOG


def _not_kept(reader: SessionReader) -> str:
    """Return a remark on the operations that the backward recomputes."""
    again = recomputed(reader)
    bytes_ = sum(max(0, operation.choice.size_bytes) for operation in again)
    if again:
        return (
            f" {counted(len(again), 'operation')} ({size(bytes_)}) are recomputed in the "
            "backward instead."
        )
    return ""


def _twice(reader: SessionReader) -> str:
    """Return a remark on tensors that two graphs save, one on each side of a break: both list
    them.
    """
    twice = sum(
        (graph_break.cost.kept_twice for graph_break in distinct_breaks(reader)), NO_TENSORS
    )
    if twice.count == 1:
        stand, them = ("stands", "it")
    else:
        stand, them = ("stand", "them")
    if twice.count:
        return (
            f" {twice.description} {stand} here twice: both sides of a graph break save {them} (4)."
        )
    return ""


def _why_empty(reader: SessionReader) -> str:
    if reader.meta("outcome") is None:
        return "Nothing yet: the values are known when forward and backward are separate graphs."
    if unknown := why_saved_unknown(reader):
        return f"{unknown}{_step_instead(reader)}"
    if reader.count(model.Kernel, direction="backward"):
        return (
            "This session does not have the values that the forward saves for the backward: they "
            f"were removed from it. Capture the program to see it.{_step_instead(reader)}"
        )
    if not reader.count(model.Graph, stage="backward"):
        return (
            "Nothing is saved: there is no backward graph (inference, or a backend without "
            "AOTAutograd)."
        )
    return "Nothing is saved: the backward needs no value of the forward."


def _step_instead(reader: SessionReader) -> str:
    """Return the view that has something about memory, where this one has not."""
    if session_memory(reader).is_known:
        return " The memory of a step, kernel by kernel, is known: v m shows it."
    return ""


# What a step holds, kernel after kernel.


BAR_CELLS = 24

BIGGEST = 15
"""Number of storages held at a moment that are listed one by one."""

MOMENT_COLUMNS = (
    TableColumn("pass", "muted", min_width=4),
    TableColumn("your line", "link", min_width=16, max_width=24, keeps="end"),
    TableColumn("module", min_width=12, max_width=26, priority=1, keeps="end"),
    TableColumn("held", is_number=True, min_width=8),
    TableColumn("of the peak", "bar", is_bar=True, min_width=BAR_CELLS),
    TableColumn("kernel", "muted", min_width=16, max_width=60, priority=2, keeps="name"),
)

NOTHING_YET = "Nothing yet: the figures need Inductor's output code."


def step_memory_table(reader: SessionReader) -> ViewTable:
    memory, paths = session_memory(reader), source_paths(reader)
    used = usage(memory.step)
    sentences = verdict(memory, used, paths, saved=describe_saved(reader))
    is_running = reader.meta("outcome") is None and not memory.is_known and not memory.without_code
    answer, notice, rows = "", "", list[TableRow]()
    if memory.is_known:
        answer, notice = sentences[0], LEGEND
        rows = [_moment_row(used, row, paths, sentences) for row in timeline(used)]
    empty = NOTHING_YET if is_running else " ".join(sentences)
    return ViewTable(
        shows="Memory held in a step, kernel by kernel.",
        notice=notice,
        origin=(
            "the wrapper code around the kernels, read statement by statement; nothing was measured"
        ),
        columns=MOMENT_COLUMNS,
        rows=rows,
        empty=empty,
        answer=answer,
        svg=partial(memory_svg, used) if rows else None,
    )


def _moment_row(
    used: Usage, row: TimelineRow, paths: dict[int, str], sentences: list[str]
) -> TableRow:
    moment, node = row.moment, row.node
    line = in_file(paths[node.file], node.line) if node and node.file in paths else ""
    module = node.module if node else ""
    calls = moment.call.name
    if row.calls != 1:
        calls += f" and {counted(row.calls - 1, 'more call')}"
    cells = (
        {"forward": "→", "backward": "←"}.get(moment.direction, ""),
        line,
        module,
        size(row.point.total_bytes),
        bar(row.point, used.peak.total_bytes, BAR_CELLS),
        calls,
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
    """Describe the memory at a moment: by kind, the biggest storages one by one, then the whole
    answer.
    """
    point = row.point
    held = used.held_at(point.at)
    rest = sum(max(0, held_tensor.size_bytes) for held_tensor in held[BIGGEST:])
    lines = [
        f"{frame_of(row.moment)} · {row.moment.call.name}: {size(point.total_bytes)}, "
        f"{share(point.total_bytes, used.peak.total_bytes)} of the peak"
    ]
    kinds = [kind for kind in KINDS if kind in point.by_kind]
    lines += [_kind(kind, point.by_kind[kind], point.total_bytes) for kind in kinds]
    lines.append("")
    lines += [_held(held_tensor, paths) for held_tensor in held[:BIGGEST]]
    if rest:
        lines.append(f"{size(rest):>10}  in {counted(len(held) - BIGGEST, 'more storage')}")
    return "\n".join([*lines, "", *sentences])


def _kind(kind: MemoryKind, size_bytes: int, whole: int) -> str:
    return f"{size(size_bytes):>10}  {share(size_bytes, whole):>5}  {IN_WORDS[kind][0]}"


def _held(held_tensor: HeldStorage, paths: dict[int, str]) -> str:
    return (
        f"{size(max(0, held_tensor.size_bytes)):>10}  {IN_WORDS[held_tensor.kind][0]:<11} "
        f"{name_of(held_tensor)}  "
        f"{where(held_tensor.node, paths)}"
    ).rstrip()
