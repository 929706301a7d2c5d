"""This module compares two sessions: the figures of both, and the graph breaks that only one has.
Kernels are in kernel_pairs.py.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from typing import Literal, NamedTuple

from fx_explorer import model
from fx_explorer.analysis.measured_times import (
    ComparedFigure,
    Interval,
    Wanted,
    count_figure,
    one_timing_figure,
    percentage,
    run_time,
    size_figure,
    text_figure,
)
from fx_explorer.analysis.whole_session import (
    session_figures,
    totals,
    types_of_inputs,
    why_saved_unknown,
)
from fx_explorer.analysis.words import counted as counted_word
from fx_explorer.analysis.words import size
from fx_explorer.instruments.bench.cells import bench_figures
from fx_explorer.instruments.breaks.grouped import DistinctBreak, distinct_breaks
from fx_explorer.instruments.diff.compare import LANGUAGES, cache_hits, caches_of
from fx_explorer.instruments.kernels.counts import kernel_uses
from fx_explorer.instruments.memory.saved_values import saved_total, storage_total
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernels import kernels_by_compilation

KEPT = "saved for the backward"

COMPILE_TIME = "compiling took"
"""The figure that differs between any two captures, whether or not the program changed."""


def figures_of_both(left: SessionReader, right: SessionReader) -> list[ComparedFigure]:
    """Return backends, graphs, breaks, recompiles, guards, kernels by language, memory and time,
    both sides as text. If only one side had graphs from torch's caches, its compile time is not
    called better; if the inputs have other sizes, no amount of memory is.
    """
    is_summed = any(totals(reader).recompiles for reader in (left, right))
    # Where a log does not say it, 0 would be no answer.
    tells_kept = not why_saved_unknown(left) and not why_saved_unknown(right)
    of_left, of_right = (_values(reader, is_summed, tells_kept) for reader in (left, right))
    has_same_inputs = types_of_inputs(left) == types_of_inputs(right)
    figures = [
        _figure(what, _of_side(of_left, what), _of_side(of_right, what), has_same_inputs)
        for what in dict.fromkeys([*of_left, *of_right])
    ]
    return [
        *_releases(left, right),
        *figures,
        *_caches(left, right),
        _compile_time(left, right),
        *_benches(left, right),
    ]


def _of_side(side: dict[str, _Value], what: str) -> _Value | None:
    """Return the figure ``what`` of one side. For kernels of a language that this side lacks,
    return a count of 0 if its kernels were recorded, else None.
    """
    if what in side or not what.startswith(OF_KERNELS):
        return side.get(what)
    kernels = next(value for name, value in side.items() if name.startswith("kernels"))
    if kernels.unseen:
        return _Value("count", 0, unseen=kernels.unseen)
    return None


OF_KERNELS = "  "
"""Prefix of the lines below those of the kernels and of the versions."""


def _figure(
    what: str, left: _Value | None, right: _Value | None, has_same_inputs: bool
) -> ComparedFigure:
    """Compare two values of a kind. A side has no value for a language that none of its kernels
    has. A value that a side did not produce, or that was not recorded, is no difference.
    """
    known = left or right
    unseen = next((value.unseen for value in (left, right) if value and value.unseen), "")
    if unseen and known is not None:
        return text_figure(what, _text(left), _text(right), remark=f"not compared: {unseen}")
    amount, other_amount = _amount(left), _amount(right)
    if known is None or known.kind == "text":
        texts = [str(value.amount) if value else "none" for value in (left, right)]
        return text_figure(what, *texts)
    if known.kind == "size":
        wanted = known.wanted if has_same_inputs else ""
        return size_figure(what, int(amount), int(other_amount), wanted=wanted)
    return count_figure(what, int(amount), int(other_amount), wanted=known.wanted)


def _amount(value: _Value | None) -> int | str:
    return value.amount if value else 0


def torch_release(reader: SessionReader) -> str:
    """Return the release of torch that compiled; empty where the session does not say."""
    return str((reader.meta("environment") or {}).get("torch") or "")


def _releases(left: SessionReader, right: SessionReader) -> list[ComparedFigure]:
    """Return the releases of torch, where two are known and differ."""
    releases = torch_release(left), torch_release(right)
    if releases[0] == releases[1] or not all(releases):
        return []
    return [text_figure("torch", *releases)]


def _caches(left: SessionReader, right: SessionReader) -> list[ComparedFigure]:
    """Return whether torch's caches were used, where a side used them."""
    sides = caches_of(left), caches_of(right)
    if sides == ("off", "off"):
        return []
    return [text_figure("torch's compile caches", *sides)]


def _compile_time(left: SessionReader, right: SessionReader) -> ComparedFigure:
    figure = one_timing_figure(
        COMPILE_TIME, *(session_figures(reader).compile_s for reader in (left, right))
    )
    hits = [cache_hits(reader) > 0 for reader in (left, right)]
    if hits[0] == hits[1]:
        return figure
    remark = "warm beside cold" if hits[0] else "cold beside warm"
    return text_figure(COMPILE_TIME, figure.left, figure.right, remark=remark)


def _benches(left: SessionReader, right: SessionReader) -> list[ComparedFigure]:
    """Return the time of a call for each cell that both sessions have measured. If the intervals
    overlap, no difference is stated.
    """
    intervals, other_intervals = _intervals(left), _intervals(right)
    figures = []
    for cell, interval in intervals.items():
        other = other_intervals.get(cell)
        if interval and other:
            figures.append(_bench(cell, interval, other))
    return figures


_Cell = tuple[str, str]
"""A cell of a bench by its (contender, size)."""


def _intervals(reader: SessionReader) -> dict[_Cell, Interval | None]:
    bench = bench_figures(reader)
    if not bench:
        return {}
    return {(row.cell.contender, row.cell.size): row.interval for row in bench.cells}


def _bench(cell: _Cell, interval: Interval, other: Interval) -> ComparedFigure:
    what = f"a call, {' at '.join(filter(None, cell))}"
    remark = percentage(interval.middle, other.middle)
    if interval.low <= other.high and other.low <= interval.high:
        what += ", no measurable difference"
        remark = "within the spread"
    return text_figure(what, run_time(interval.middle), run_time(other.middle), remark=remark)


class _Value(NamedTuple):
    """The value of one figure in one session."""

    kind: Literal["count", "size", "text"]
    amount: int | str
    wanted: Wanted = ""
    unseen: str = ""
    """Why the amount does not cover all that the program did; empty where it does."""


def _text(value: _Value | None) -> str:
    if value is None:
        return "0"
    if value.unseen == CACHED and not value.amount:
        return "not seen"
    if value.kind == "size":
        return size(int(value.amount))
    return f"{value.amount:,}"


FROM_A_CACHE = "taken from torch's cache"
"""Beginning of the stored reason for missing stages of a compilation whose graph came from a cache
(capture/recording/stage_events.py).
"""


CACHED = "a graph came from torch's cache"


def _unseen(reader: SessionReader, stage: model.Stage) -> str:
    """Return why a stage's data is missing in a session; empty where it is not."""
    outcome = reader.meta("outcome")
    if outcome is not None and model.Outcome.from_json(outcome).kind not in ("finished", "exited"):
        return "one of the programs did not run to its end"
    compiled = [row for row in reader.rows(model.Compilation) if row.status in ("ok", "broke")]
    reasons = [(row.missing_stages or {}).get(stage, "") for row in compiled]
    if any(reason.startswith(FROM_A_CACHE) for reason in reasons):
        return CACHED
    if stage == "backward" and compiled and all(reasons):
        return "one of them has no backward"
    return ""


def _values(reader: SessionReader, is_summed: bool, tells_kept: bool) -> dict[str, _Value]:
    """Return the values of one session. ``is_summed`` adds up the versions of a function, because
    one of the sessions has several. ``tells_kept``: include the memory saved for the backward.
    """
    of_all = ", all versions" if is_summed else ""
    counted = session_figures(reader)
    languages = Counter(use.kernel.language for use in kernel_uses(reader))
    not_ended, not_lowered = _unseen(reader, "dynamo"), _unseen(reader, "kernel")
    not_kept = _unseen(reader, "backward")
    values = {
        "backend": _Value("text", _backends(reader)),
        "compilations": _Value("count", counted.compilations),
        "graphs": _Value("count", counted.graphs),
        "graph breaks": _Value("count", counted.graph_breaks, "less", not_ended),
        "recompiles": _Value("count", counted.recompiles, "less", not_ended),
        "guards": _Value("count", counted.guards),
        f"kernels{of_all}": _Value("count", counted.kernels, unseen=not_lowered),
    }
    for language, count in sorted(languages.items()):
        what = f"  {LANGUAGES.get(language, language)}"
        values[what] = _Value("count", count, unseen=not_lowered)
    if tells_kept:
        kept_bytes = saved_total(reader).size_bytes
        values[f"{KEPT}{of_all}"] = _Value("size", kept_bytes, "less", not_kept)
    if is_summed:
        values |= _by_version(reader, tells_kept)
    return values


def _backends(reader: SessionReader) -> str:
    """Return the backends that compiled the graphs: without them, kernels missing on one side would
    look like a change of the program.
    """
    rows = reader.rows(model.Compilation)
    backends = dict.fromkeys(row.backend for row in rows if row.backend)
    return ", ".join(backends) or "none"


def _by_version(reader: SessionReader, tells_kept: bool) -> dict[str, _Value]:
    """Return the kernels and saved values of each version. A call runs one of them."""
    versions = [
        row
        for row in reader.rows(model.Compilation, variant_of="")
        if row.status in ("ok", "broke")
    ]
    kernels = kernels_by_compilation(reader)
    values = {}
    for row in versions[:MOST_VERSIONS]:
        if (row.missing_stages or {}).get("kernel", "").startswith(FROM_A_CACHE):
            values[f"  [{row.name}]"] = _Value("text", "from torch's cache")
            continue
        parts = [counted_word(kernels.get(row.id, 0), "kernel")]
        if tells_kept:
            saved = reader.rows(model.SavedTensor, compilation=row.id)
            parts.append(size(storage_total(saved).size_bytes))
        values[f"  [{row.name}]"] = _Value("text", ", ".join(parts))
    return values


MOST_VERSIONS = 8
"""Maximum number of versions that are listed one by one; the sums include all."""


def breaks_of_reader_alone(reader: SessionReader, other: SessionReader) -> list[DistinctBreak]:
    """Return graph breaks of ``reader`` that ``other`` does not have."""
    return [
        graph_break
        for graph_break, counterpart in paired_breaks(reader, other)
        if graph_break and not counterpart
    ]


def paired_breaks(
    left: SessionReader, right: SessionReader
) -> list[tuple[DistinctBreak | None, DistinctBreak | None]]:
    """Return each break of the first session with its counterpart, then those of the second alone.
    They are compared by line of code and cause, since line numbers move; where a line stands in a
    file more often, from top to bottom.
    """
    free: defaultdict[tuple[str, str, str], deque[DistinctBreak]] = defaultdict(deque)
    for graph_break in sorted(distinct_breaks(right), key=lambda row: row.line):
        free[_cause(graph_break)].append(graph_break)
    of_left = distinct_breaks(left)
    partners = {}
    for graph_break in sorted(of_left, key=lambda row: row.line):
        same = free[_cause(graph_break)]
        if same:
            partners[id(graph_break)] = same.popleft()
    pairs: list[tuple[DistinctBreak | None, DistinctBreak | None]] = []
    pairs += [(graph_break, partners.get(id(graph_break))) for graph_break in of_left]
    for rest in free.values():
        pairs += [(None, graph_break) for graph_break in rest]
    return pairs


def _cause(graph_break: DistinctBreak) -> tuple[str, str, str]:
    return graph_break.file, graph_break.code.strip(), graph_break.registry_id or graph_break.reason


_OF_ONE_RUN = re.compile(r"\bline \d+|-?(?<!\d)\d+\.\d+(?:e[+-]?\d+)?")


def cause_alone(words: str) -> str:
    """Return the key of a cause: its text without line numbers, which move when lines are added
    above, and without computed values, which vary from run to run.
    """
    return _OF_ONE_RUN.sub("…", words)
