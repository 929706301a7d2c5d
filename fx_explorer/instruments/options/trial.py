"""This module captures the program again with other options, and compares the figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fx_explorer import model
from fx_explorer.analysis.measured_times import (
    ComparedFigure,
    Wanted,
    count_figure,
    one_timing_figure,
)
from fx_explorer.analysis.whole_session import SessionFigures, session_figures
from fx_explorer.model import CaptureRequest, Outcome
from fx_explorer.model.setting_values import python_text
from fx_explorer.session import SessionReader
from fx_explorer.trials import HERE, TrialWorker, describe_timeout, recapture, straight_through


@dataclass(frozen=True, slots=True)
class OptionTrial:
    settings: Mapping[str, object]
    """The values that were tried, by full name of the option."""
    outcome: Outcome
    before: SessionFigures
    after: SessionFigures
    took_s: float


async def try_options(
    request: CaptureRequest,
    settings: Mapping[str, object],
    before: SessionFigures | None,
    worker: TrialWorker = HERE,
) -> OptionTrial:
    """Capture the program with other options. ``request`` is the request of the earlier capture,
    ``before`` its figures; None: the program is captured without the change, too. Raises
    SessionWriteError when there is no room for a session. Errors of the program are not raised.
    """
    took_s = 0.0
    if before is None:
        as_it_was = await recapture(changed_request(request, {}), worker, session_figures)
        before, took_s = as_it_was.found, as_it_was.took_s
    changed = await recapture(changed_request(request, settings), worker, session_figures)
    return OptionTrial(settings, changed.outcome, before, changed.found, took_s + changed.took_s)


def changed_request(request: CaptureRequest, settings: Mapping[str, object]) -> CaptureRequest:
    """Return the request with these settings in place of earlier ones."""
    return straight_through(request, settings={**request.settings, **settings})


def figures_to_compare_with(reader: SessionReader) -> SessionFigures | None:
    """Return the figures of the session; None where they cannot be compared with, because the
    capture has not ended or the user changed something during it.
    """
    is_whole = reader.meta("outcome") is not None and not reader.count(model.Intervention)
    has_variants = any(variant.variant_of for variant in reader.rows(model.Compilation))
    if is_whole and not has_variants:
        return session_figures(reader)
    return None


# in words

_WORDS = {
    "graphs": "graphs",
    "graph_breaks": "places with a graph break",
    "graph_break_hits": "graph breaks, each hit",
    "eager_functions": "functions in eager mode",
    "recompiles": "recompiles",
    "guards": "guards",
    "free_sizes": "dynamic sizes",
    "operations": "operations captured",
    "kernels": "kernels",
}

_WANTED: dict[str, Wanted] = dict.fromkeys(
    ("graph_breaks", "graph_break_hits", "eager_functions", "recompiles"), "less"
)
"""Figures that are better when lower, for every program."""


def compared(before: SessionFigures, after: SessionFigures) -> list[ComparedFigure]:
    figures = []
    for name, words in _WORDS.items():
        counts = getattr(before, name), getattr(after, name)
        figures.append(count_figure(words, *counts, wanted=_WANTED.get(name, "")))
    figures.append(one_timing_figure("compiling took", before.compile_s, after.compile_s))
    return figures


def figures_of(trial: OptionTrial) -> list[ComparedFigure]:
    """Return the figures before and after. For a program that did not run to its end, none is
    called better: it may not have reached further breaks.
    """
    figures = compared(trial.before, trial.after)
    if trial.outcome.kind in ("finished", "exited"):
        return figures
    return [_without_verdict(figure) for figure in figures]


def _without_verdict(figure: ComparedFigure) -> ComparedFigure:
    return replace(figure, verdict="other") if figure.differs else figure


def describe_ended(after: Outcome, before: Outcome | None) -> str:
    """Describe how the program ended: ``raised: ValueError: no (as before)``. ``before`` is its
    earlier end, None when that is not known.
    """
    if before and (before.kind, before.message) == (after.kind, after.message):
        again = " (as before)"
    else:
        again = ""
    if after.kind == "timed_out":
        return describe_timeout(after) + again
    return f"{after.kind.replace('_', ' ')}: {after.message}".removesuffix(": ") + again


def describe_settings(settings: Mapping[str, object]) -> str:
    """Return settings as text: ``compile.mode = "max-autotune", dynamo.recompile_limit = 2``."""
    return ", ".join(f"{name} = {python_text(value)}" for name, value in settings.items())
