"""Two sessions side by side: the figures of both, and the graph breaks that only one has. Kernels
are in kernel_pairs.py.
"""

from __future__ import annotations

from collections import Counter

from fx_explorer import model
from fx_explorer.analysis.bench.cells import bench_figures
from fx_explorer.analysis.breaks.grouped import DistinctBreak, distinct_breaks
from fx_explorer.analysis.comparing.compare import LANGUAGES, Figure
from fx_explorer.analysis.figures import session_figures
from fx_explorer.analysis.kernels.counts import kernel_uses
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.saved_values import saved_total, storage_total
from fx_explorer.analysis.totals import totals
from fx_explorer.analysis.words import counted as counted_word
from fx_explorer.analysis.words import seconds, size
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernels import kernels_by_compilation

COMPILE_TIME = "compiling took"
"""The figure in which any two captures differ."""


def figures_of_both(left: SessionReader, right: SessionReader) -> list[Figure]:
    """Return backends, graphs, breaks, recompiles, guards, kernels by language, memory and time,
    both sides as text.
    """
    is_summed = any(totals(reader).recompiles for reader in (left, right))
    sides = [_figures(reader, is_summed) for reader in (left, right)]
    # A side has no figure for a language that none of its kernels is in.
    figures = [Figure(what, sides[0].get(what, "0"), sides[1].get(what, "0")) for what in dict.fromkeys([*sides[0], *sides[1]])]
    return [*figures, *_benches(left, right)]


def _benches(left: SessionReader, right: SessionReader) -> list[Figure]:
    """Return the time of a call of each cell that both sessions have measured. It says where the
    intervals overlap: then no difference is shown.
    """
    sides = [bench_figures(reader) for reader in (left, right)]
    cells = [{(one.cell.contender, one.cell.size): one.interval for one in side.cells} if side else {} for side in sides]
    figures = []
    for (contender, size_words), one in cells[0].items():
        other = cells[1].get((contender, size_words))
        if one and other:
            alike = ", no difference shown" if one.low <= other.high and other.low <= one.high else ""
            what = f"a call, {' at '.join(filter(None, (contender, size_words)))}{alike}"
            figures.append(Figure(what, run_time(one.middle), run_time(other.middle)))
    return figures


def _figures(reader: SessionReader, is_summed: bool) -> dict[str, str]:
    """Return the figures of one session. ``is_summed`` adds up what belongs to each version of a
    function, because one of the sessions has several.
    """
    of_all = ", all versions" if is_summed else ""
    counted = session_figures(reader)
    languages = Counter(use.kernel.language for use in kernel_uses(reader))
    saved = saved_total(reader).size_bytes
    return {
        "backend": _backends(reader),
        "compilations": f"{counted.compilations:,}",
        "graphs": f"{counted.graphs:,}",
        "graph breaks": f"{counted.graph_breaks:,}",
        "recompiles": f"{counted.recompiles:,}",
        "guards": f"{counted.guards:,}",
        f"kernels{of_all}": f"{counted.kernels:,}",
        **{f"  {LANGUAGES.get(language, language)}": f"{count:,}" for language, count in sorted(languages.items())},
        f"kept for the backward{of_all}": size(saved),
        **(_by_version(reader) if is_summed else {}),
        COMPILE_TIME: seconds(counted.compile_s),
    }


def _backends(reader: SessionReader) -> str:
    """Return what the graphs were compiled with: without it, kernels that one side lacks would pass
    for a change of the program.
    """
    return ", ".join(dict.fromkeys(row.backend for row in reader.rows(model.Compilation) if row.backend)) or "none"


def _by_version(reader: SessionReader) -> dict[str, str]:
    """Return the kernels and saved values of each version: a call runs one of them."""
    versions = [row for row in reader.rows(model.Compilation, variant_of="") if row.status in ("ok", "broke")]
    kernels = kernels_by_compilation(reader)
    return {
        f"  [{row.name}]": f"{counted_word(kernels.get(row.id, 0), 'kernel')}, {size(_kept(reader, row))}"
        for row in versions[:MOST_VERSIONS]
    }


def _kept(reader: SessionReader, version: model.Compilation) -> int:
    return storage_total(reader.rows(model.SavedTensor, compilation=version.id)).size_bytes


MOST_VERSIONS = 8
"""Most versions that are listed one by one; all are in the sums."""


def breaks_of_one(reader: SessionReader, other: SessionReader) -> list[DistinctBreak]:
    """Return graph breaks of ``reader`` that ``other`` does not have. They are compared by line of
    code and cause, since line numbers move.
    """
    known = {_cause(one) for one in distinct_breaks(other)}
    return [one for one in distinct_breaks(reader) if _cause(one) not in known]


def _cause(one: DistinctBreak) -> tuple[str, str, str]:
    return one.file, one.code.strip(), one.registry_id or one.reason
