"""Two sessions side by side: the figures of both, and the graph breaks that only one has. Kernels
are in kernel_pairs.py.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import Literal, NamedTuple

from fx_explorer import model
from fx_explorer.analysis.compared_figure import (
    Figure,
    Wanted,
    count_figure,
    one_timing_figure,
    percentage,
    size_figure,
    text_figure,
)
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.whole_session import is_log, session_figures, totals
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
"""The figure in which any two captures differ."""


def figures_of_both(left: SessionReader, right: SessionReader) -> list[Figure]:
    """Return backends, graphs, breaks, recompiles, guards, kernels by language, memory and time,
    both sides as text. Where one side alone had graphs from torch's caches, its compile time is not
    called better.
    """
    is_summed = any(totals(reader).recompiles for reader in (left, right))
    tells_kept = not is_log(left) and not is_log(
        right
    )  # a log does not say it, and 0 would be no answer
    sides = [_values(reader, is_summed, tells_kept) for reader in (left, right)]
    figures = [
        _figure(what, _of_side(sides[0], what), _of_side(sides[1], what))
        for what in dict.fromkeys([*sides[0], *sides[1]])
    ]
    return [*figures, *_caches(left, right), _compile_time(left, right), *_benches(left, right)]


def _of_side(side: dict[str, _Value], what: str) -> _Value | None:
    """Return a value of a side; of a language that it has no kernel in, whether its kernels were
    seen.
    """
    if what in side or not what.startswith(OF_KERNELS):
        return side.get(what)
    kernels = next(value for name, value in side.items() if name.startswith("kernels"))
    if kernels.unseen:
        return _Value("count", 0, unseen=kernels.unseen)
    return None


OF_KERNELS = "  "
"""How the lines below that of the kernels begin, and of the versions."""


def _figure(what: str, left: _Value | None, right: _Value | None) -> Figure:
    """Compare two values of a kind. A side has no value for a language that none of its kernels is
    in. What a side did not do, or nobody saw it do, is no difference.
    """
    known = left or right
    unseen = next((one.unseen for one in (left, right) if one and one.unseen), "")
    if unseen and known is not None:
        sides = (_text(one) for one in (left, right))
        return text_figure(what, *sides, remark=f"not compared: {unseen}")
    if known is None or known.kind == "text":
        return text_figure(what, *(str(one.amount) if one else "0" for one in (left, right)))
    amounts = [int(one.amount) if one else 0 for one in (left, right)]
    if known.kind == "size":
        return size_figure(what, *amounts, wanted=known.wanted)
    return count_figure(what, *amounts, wanted=known.wanted)


def _caches(left: SessionReader, right: SessionReader) -> list[Figure]:
    """Return whether torch's caches were used, where a side used them."""
    sides = caches_of(left), caches_of(right)
    if sides == ("off", "off"):
        return []
    return [text_figure("torch's compile caches", *sides)]


def _compile_time(left: SessionReader, right: SessionReader) -> Figure:
    figure = one_timing_figure(
        COMPILE_TIME, *(session_figures(reader).compile_s for reader in (left, right))
    )
    hits = [cache_hits(reader) > 0 for reader in (left, right)]
    if hits[0] == hits[1]:
        return figure
    return text_figure(
        COMPILE_TIME,
        figure.left,
        figure.right,
        remark="warm beside cold" if hits[0] else "cold beside warm",
    )


def _benches(left: SessionReader, right: SessionReader) -> list[Figure]:
    """Return the time of a call of each cell that both sessions have measured. It says where the
    intervals overlap: then no difference is shown.
    """
    sides = [bench_figures(reader) for reader in (left, right)]
    cells = [
        {(cell.cell.contender, cell.cell.size): cell.interval for cell in side.cells}
        if side
        else {}
        for side in sides
    ]
    figures = []
    for (contender, size_words), interval in cells[0].items():
        other = cells[1].get((contender, size_words))
        if interval and other:
            if interval.low <= other.high and other.low <= interval.high:
                alike = ", no measurable difference"
            else:
                alike = ""
            what = f"a call, {' at '.join(filter(None, (contender, size_words)))}{alike}"
            figures.append(
                text_figure(
                    what,
                    run_time(interval.middle),
                    run_time(other.middle),
                    remark="within the spread"
                    if alike
                    else percentage(interval.middle, other.middle),
                )
            )
    return figures


class _Value(NamedTuple):
    """One value of one session."""

    kind: Literal["count", "size", "text"]
    amount: int | str
    wanted: Wanted = ""
    unseen: str = ""
    """Why the amount is not all that the program did; empty where it is."""


def _text(value: _Value | None) -> str:
    if value is None:
        return "0"
    if value.unseen == CACHED and not value.amount:
        return "not seen"
    if value.kind == "size":
        return size(int(value.amount))
    return f"{value.amount:,}"


FROM_A_CACHE = "taken from torch's cache"
"""How the reason begins for which a compilation lacks stages (capture/recording/stages.py)."""


CACHED = "a graph came from torch's cache"


def _unseen(reader: SessionReader, stage: model.Stage) -> str:
    """Return why something of a stage is missing in a session; empty where nothing is."""
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
    """Return the values of one session. ``is_summed`` adds up what belongs to each version of a
    function, because one of the sessions has several. ``tells_kept``: with what is kept for the
    backward.
    """
    of_all = ", all versions" if is_summed else ""
    counted = session_figures(reader)
    languages = Counter(use.kernel.language for use in kernel_uses(reader))
    not_ended, not_lowered = _unseen(reader, "dynamo"), _unseen(reader, "kernel")
    not_kept = _unseen(reader, "backward")
    return {
        "backend": _Value("text", _backends(reader)),
        "compilations": _Value("count", counted.compilations),
        "graphs": _Value("count", counted.graphs),
        "graph breaks": _Value("count", counted.graph_breaks, "less", not_ended),
        "recompiles": _Value("count", counted.recompiles, "less", not_ended),
        "guards": _Value("count", counted.guards),
        f"kernels{of_all}": _Value("count", counted.kernels, unseen=not_lowered),
        **{
            f"  {LANGUAGES.get(one, one)}": _Value("count", count, unseen=not_lowered)
            for one, count in sorted(languages.items())
        },
        **(
            {f"{KEPT}{of_all}": _Value("size", saved_total(reader).size_bytes, "less", not_kept)}
            if tells_kept
            else {}
        ),
        **(_by_version(reader, tells_kept) if is_summed else {}),
    }


def _backends(reader: SessionReader) -> str:
    """Return what the graphs were compiled with: without it, kernels that one side lacks would pass
    for a change of the program.
    """
    return (
        ", ".join(
            dict.fromkeys(row.backend for row in reader.rows(model.Compilation) if row.backend)
        )
        or "none"
    )


def _by_version(reader: SessionReader, tells_kept: bool) -> dict[str, _Value]:
    """Return the kernels and saved values of each version: a call runs one of them."""
    versions = [
        row
        for row in reader.rows(model.Compilation, variant_of="")
        if row.status in ("ok", "broke")
    ]
    kernels = kernels_by_compilation(reader)
    found = {}
    for row in versions[:MOST_VERSIONS]:
        if (row.missing_stages or {}).get("kernel", "").startswith(FROM_A_CACHE):
            found[f"  [{row.name}]"] = _Value("text", "from torch's cache")
            continue
        parts = [counted_word(kernels.get(row.id, 0), "kernel")]
        if tells_kept:
            parts.append(
                size(storage_total(reader.rows(model.SavedTensor, compilation=row.id)).size_bytes)
            )
        found[f"  [{row.name}]"] = _Value("text", ", ".join(parts))
    return found


MOST_VERSIONS = 8
"""Most versions that are listed one by one; all are in the sums."""


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
    for graph_break in sorted(
        distinct_breaks(right), key=lambda distinct_break: distinct_break.line
    ):
        free[_cause(graph_break)].append(graph_break)
    of_left = distinct_breaks(left)
    partners = {
        id(graph_break): free[_cause(graph_break)].popleft()
        for graph_break in sorted(of_left, key=lambda distinct_break: distinct_break.line)
        if free[_cause(graph_break)]
    }
    return [
        *((graph_break, partners.get(id(graph_break))) for graph_break in of_left),
        *((None, graph_break) for rest in free.values() for graph_break in rest),
    ]


def _cause(graph_break: DistinctBreak) -> tuple[str, str, str]:
    return graph_break.file, graph_break.code.strip(), graph_break.registry_id or graph_break.reason
