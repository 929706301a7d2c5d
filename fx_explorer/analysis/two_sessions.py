"""Two sessions side by side: the figures of both, and the graph breaks that only one has. Kernels: kernel_pairs.py."""

from __future__ import annotations

from collections import Counter

from fx_explorer.analysis.breaks import DistinctBreak, distinct_breaks
from fx_explorer.analysis.compare import LANGUAGES, Figure
from fx_explorer.analysis.guards import check_count
from fx_explorer.analysis.kernels import kernel_uses
from fx_explorer.analysis.saved import saved_total
from fx_explorer.analysis.totals import totals
from fx_explorer.analysis.words import seconds, size
from fx_explorer.session import SessionReader

COMPILE_TIME = "compiling took"
"""The one figure that no two captures have in common."""


def session_figures(left: SessionReader, right: SessionReader) -> list[Figure]:
    """Graphs, breaks, recompiles, guards, kernels by language, memory and time, both sides as text."""
    sides = [_figures(reader) for reader in (left, right)]
    return [Figure(what, sides[0].get(what, "0"), sides[1].get(what, "0")) for what in dict.fromkeys([*sides[0], *sides[1]])]


def _figures(reader: SessionReader) -> dict[str, str]:
    counted = totals(reader)
    languages = Counter(use.kernel.language for use in kernel_uses(reader))
    saved = saved_total(reader).size_bytes
    return {
        "compilations": f"{counted.compilations:,}",
        "graphs": f"{counted.graphs:,}",
        "graph breaks": f"{counted.graph_breaks:,}",
        "recompiles": f"{counted.recompiles:,}",
        "guards": f"{check_count(reader):,}",
        "kernels": f"{counted.kernels:,}",
        **{f"  {LANGUAGES.get(language, language)}": f"{count:,}" for language, count in sorted(languages.items())},
        "kept for the backward": size(saved),
        COMPILE_TIME: seconds(counted.compile_s),
    }


def breaks_of_one(reader: SessionReader, other: SessionReader) -> list[DistinctBreak]:
    """Graph breaks of ``reader`` that ``other`` does not have: by line of code and cause, since line numbers move."""
    known = {_cause(one) for one in distinct_breaks(other)}
    return [one for one in distinct_breaks(reader) if _cause(one) not in known]


def _cause(one: DistinctBreak) -> tuple[str, str, str]:
    return one.file, one.code.strip(), one.registry_id or one.reason
