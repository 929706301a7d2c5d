"""Two sessions compared, as JSON: ``fx-explorer/diff/1``. The facts are those that
``fx-explorer diff`` prints.
"""

from __future__ import annotations

from fx_explorer.analysis.compared_figure import Figure
from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.caches.differences import key_pairs
from fx_explorer.instruments.caches.report import key_pair
from fx_explorer.instruments.diff.kernel_pairs import KernelPair, code_diff, kernel_pairs
from fx_explorer.instruments.diff.kernel_resources import configuration_pairs, estimated
from fx_explorer.instruments.diff.published_pairs import StagePair, stage_pairs
from fx_explorer.instruments.diff.two_sessions import breaks_of_one, figures_of_both
from fx_explorer.instruments.kernels.candidates import Candidate
from fx_explorer.instruments.kernels.counts import KernelUse
from fx_explorer.session import SessionReader

SCHEMA = "fx-explorer/diff/1"

Json = dict[str, object]


def two_sessions_report(left: SessionReader, right: SessionReader, names: tuple[str, str]) -> Json:
    """Compare two sessions; ``names`` says which is which. Figures are text, as they are shown; a
    kernel pair has the lines that differ.
    """
    return {
        "schema": SCHEMA,
        "left": names[0],
        "right": names[1],
        "figures": [_figure(figure) for figure in figures_of_both(left, right)],
        "graph_breaks": {
            "only_left": [_break(graph_break) for graph_break in breaks_of_one(left, right)],
            "only_right": [_break(graph_break) for graph_break in breaks_of_one(right, left)],
        },
        "caches": [key_pair(pair) for pair in key_pairs(left, right)],
        "published": [_stage(pair) for pair in stage_pairs(left, right)],
        "kernels": [_pair(left, right, pair) for pair in kernel_pairs(left, right)],
    }


def _figure(figure: Figure) -> Json:
    return {
        "what": figure.what.strip(),
        "left": figure.left,
        "right": figure.right,
        "difference": figure.change,
    }


def _stage(pair: StagePair) -> Json:
    return {
        "compilation": pair.compilation,
        "name": pair.name,
        "direction": pair.direction or None,
        "left": pair.left.size if pair.left else None,
        "right": pair.right.size if pair.right else None,
        "difference": pair.difference,
    }


def _break(graph_break: DistinctBreak) -> Json:
    return {
        "id": graph_break.registry_id,
        "reason": graph_break.reason,
        "file": graph_break.file,
        "line": graph_break.line,
        "code": graph_break.code,
    }


def _pair(left: SessionReader, right: SessionReader, pair: KernelPair) -> Json:
    return {
        "compilation": pair.compilation,
        "direction": pair.direction,
        "left": _kernel(left, pair.left),
        "right": _kernel(right, pair.right),
        "difference": pair.difference.replace(" ", "_"),
        "comparison_was_cut": pair.is_cut,
        "lines": _lines(left, right, pair) if pair.difference == "code" else [],
        "configurations": [
            {
                "options": configuration_pair.options,
                "left": _resources(configuration_pair.left),
                "right": _resources(configuration_pair.right),
            }
            for configuration_pair in configuration_pairs(left, right, pair)
        ],
    }


def _kernel(reader: SessionReader, use: KernelUse | None) -> Json | None:
    if use is None:
        return None
    kernel = {"name": use.kernel.name, "language": use.kernel.language, "nodes": list(use.nodes)}
    return {**kernel, "estimate": estimated(reader, use.kernel) or None}


def _resources(candidate: Candidate | None) -> Json | None:
    """Return the resources; None for what is not tried there. A number below 0 is not known."""
    if candidate is None:
        return None
    build, occupancy = candidate.build, candidate.occupancy
    used: Json = {
        "registers": build.registers,
        "spill_bytes": build.spill_bytes,
        "shared_bytes": build.shared_bytes,
    }
    return {
        **used,
        "occupancy": occupancy.share if occupancy else None,
        "error": build.error or None,
    }


def _lines(left: SessionReader, right: SessionReader, pair: KernelPair) -> list[Json]:
    rows = code_diff(left, right, pair)
    return [{"left": row.before, "right": row.after} for row in rows if row.sign != " "]
