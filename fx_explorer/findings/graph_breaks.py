"""Graph breaks: lines at which Dynamo ends a graph and Python runs on, one finding for each line and
cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fx_explorer.analysis.facts import Severity
from fx_explorer.analysis.words import counted, seconds
from fx_explorer.findings.finding import Finding, Remedy, Urgency
from fx_explorer.instruments.breaks.break_cost import NO_COST
from fx_explorer.instruments.breaks.grouped import DistinctBreak, distinct_breaks
from fx_explorer.instruments.breaks.hints import first_hint
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file


def find_graph_breaks(reader: SessionReader) -> Iterator[Finding]:
    """Yield a finding for each line that breaks, the costliest first."""
    for graph_break in distinct_breaks(reader):
        yield break_finding(graph_break)


def break_finding(graph_break: DistinctBreak) -> Finding:
    """Return the finding of one break: its line, its cost and torch's first hint."""
    where = "somewhere"
    if graph_break.file:
        where = in_file(graph_break.file, graph_break.line)
    hits = f" ({counted(graph_break.count, 'time')})" if graph_break.count > 1 else ""
    loss = ""
    if graph_break.loss:
        loss = f". {graph_break.loss[0].upper()}{graph_break.loss[1:]}"
    cost = graph_break.cost
    evidence = [graph_break.code] if graph_break.code else []
    is_known = cost.is_known and cost != NO_COST
    if is_known:
        evidence.append(f"It costs: {cost.description}.")
    hint = _hint(graph_break)
    if hint:
        evidence.append(hint)
    severity: Severity = "notice" if graph_break.is_wrappers else "problem"
    return Finding(
        kind="graph break",
        text=f"{where} breaks the graph{hits}: {graph_break.description}{loss}.",
        urgency=_urgency(graph_break),
        severity=severity,
        topic="breaks",
        place=graph_break.place,
        view="breaks",
        evidence=tuple(evidence),
        remedies=tuple(Remedy(text) for text in _WHAT_TO_DO.get(graph_break.registry_id, ())),
        count=graph_break.count,
        cost=_in_short(graph_break) if is_known else "",
        cost_s=cost.run_s or 0.0,
        brief=f"{where} graph break{hits}: {graph_break.description}",
    )


_OUTSIDE = "Define the class outside of the function, at the top level of the module."

_WHAT_TO_DO = {"GB0075": (_OUTSIDE,), "GB8977": (_OUTSIDE,)}
"""torch's id of a break → what to do, where torch's own hint does not say it."""


FOR_DEVELOPERS = "It may be possible to write Dynamo tracing rules"
"""Beginning of torch's hint to its own developers."""


def _hint(graph_break: DistinctBreak) -> str:
    """Return the first hint that the user can follow; empty without one."""
    followable = [hint for hint in graph_break.hints if _is_followable(graph_break, hint)]
    return first_hint(replace(graph_break, hints=tuple(followable)))


def _is_followable(graph_break: DistinctBreak, hint: str) -> bool:
    if hint.startswith(FOR_DEVELOPERS):
        return False
    is_in_a_package = graph_break.elsewhere is not None
    return not (is_in_a_package and hint.startswith("Remove the "))


def _urgency(graph_break: DistinctBreak) -> Urgency:
    cost = graph_break.cost
    if graph_break.eager_rests or cost.functions_in_python:
        return "not compiled"
    costs_nothing = cost.is_known and not cost.extra_graphs and not cost.handed_over.count
    if graph_break.is_wrappers or costs_nothing:
        return "minor"
    return "slow"


def _in_short(graph_break: DistinctBreak) -> str:
    """Return ``+1 graph``, and the time of a call at the break where that was measured."""
    if graph_break.cost.run_s:
        return f"{graph_break.cost.in_short}, {seconds(graph_break.cost.run_s)}"
    return graph_break.cost.in_short
