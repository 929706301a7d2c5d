"""This module makes findings of the problems that plug-ins find (``plugins.ProblemKind``)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

from fx_explorer.analysis.documents import Place, place_of_path
from fx_explorer.findings.finding import URGENCIES, Finding, FindingKind, Remedy
from fx_explorer.outside_file import shown_value
from fx_explorer.plugin_loading import Plugin, PluginFault, attempt, plugins_of
from fx_explorer.plugins import Problem, ProblemKind
from fx_explorer.session import SessionReader

MOST_PROBLEMS = 1_000
"""Maximum number of problems that are taken from one plug-in."""

NEEDS = ("a capture", "graphs", "kernels", "graph breaks", "recompiles")
"""What a plug-in's kind can need of a session."""


def kinds_of_plugins(taken: Collection[str]) -> list[FindingKind]:
    """Return the kinds of problems that plug-ins look for. ``taken``: the names of our own kinds,
    which no plug-in can have.
    """
    kinds = []
    for plugin in plugins_of("problems", ProblemKind, taken):
        kind = attempt(plugin.installed, partial(_kind_of, plugin))
        if not isinstance(kind, PluginFault):
            kinds.append(kind)
    return kinds


def _kind_of(plugin: Plugin[ProblemKind]) -> FindingKind:
    """Return a plug-in's kind. Raises TypeError for an unknown need."""
    offer = plugin.offer
    if offer.needs not in NEEDS:
        raise TypeError(f"needs cannot be {shown_value(offer.needs)}: it must be one of {NEEDS}")
    find = partial(_find, plugin)
    return FindingKind(plugin.name, offer.looked_for, find, offer.needs, is_of_plugin=True)


def _find(plugin: Plugin[ProblemKind], reader: SessionReader) -> Iterator[Finding]:
    """Yield what a plug-in finds; nothing where it fails, which is told."""
    found = attempt(plugin.installed, partial(_findings, plugin, reader))
    if not isinstance(found, PluginFault):
        yield from found


def _findings(plugin: Plugin[ProblemKind], reader: SessionReader) -> list[Finding]:
    """Return what a plug-in finds. Raises TypeError for what is no problem."""
    problems = []
    for problem in plugin.offer.find(reader):
        problems.append(_finding(plugin.name, problem, reader))
        if len(problems) > MOST_PROBLEMS:
            raise ValueError(
                f"it found more than {MOST_PROBLEMS:,} problems: report similar ones as one"
            )
    return problems


def _finding(kind: str, problem: Problem, reader: SessionReader) -> Finding:
    if not isinstance(problem, Problem):
        raise TypeError(
            f"it returned {shown_value(problem)}, which is not a fx_explorer.plugins.Problem"
        )
    if problem.urgency not in URGENCIES:
        raise TypeError(f"urgency cannot be {shown_value(problem.urgency)}")
    for sentences in (problem.evidence, problem.remedies):
        if not isinstance(sentences, tuple):
            raise TypeError(f"sentences cannot be {shown_value(sentences)}: write a tuple of them")
    texts = (problem.text, problem.explanation, *problem.evidence, *problem.remedies)
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"a sentence of a problem cannot be {shown_value(text)}")
    return Finding(
        kind=kind,
        text=problem.text,
        urgency=problem.urgency,
        place=_place(problem, reader),
        evidence=tuple(problem.evidence),
        explanation=problem.explanation,
        remedies=tuple(Remedy(text) for text in problem.remedies),
        cost_s=float(problem.cost_s),
    )


def _place(problem: Problem, reader: SessionReader) -> Place | None:
    if not problem.file:
        return None
    return place_of_path(reader, problem.file, problem.line)
