"""Remedies are tried: the program is captured once more with the change, and what it does then is
compared with the session. Several findings may propose one change, which is tried once.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fx_explorer import model
from fx_explorer.analysis.whole_session import SessionFigures, session_figures
from fx_explorer.analysis.words import counted, first_line, seconds
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.instruments.breaks.grouped import (
    DistinctBreak,
    describe_line_and_reason,
    distinct_breaks,
)
from fx_explorer.instruments.recompiles.causes import limit_hits
from fx_explorer.model import CaptureRequest, RemedyTrial
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.trials import (
    HERE,
    Told,
    TrialWorker,
    ignore_message,
    recapture,
    straight_through,
)

BUDGET_S = 900.0
"""Seconds after which no further remedy is tried."""

FASTER = 0.8
"""A trial counts as faster if it takes at most this fraction of the compile time: a smaller gain is
within the noise.
"""


TOO_LONG = "it took too long and was stopped; --timeout allows more time"

ONLY_SOMETIMES = (
    "the program fails only sometimes: unchanged, it also ran to its end, so no trial proves "
    "anything"
)

LEAST_COMPILED = 0.3
"""Another place of torch.compile helps only if at least this fraction of the operations is still in
graphs.
"""


@dataclass(frozen=True, slots=True)
class Before:
    """Results of the unchanged program."""

    figures: SessionFigures
    refused: int
    """Number of functions that reached the recompile limit."""
    went_well: bool
    message: str
    """First line of the error that ended the program; empty without one."""
    raised_inspecting: bool = False
    """Whether it raised in a graph that was only inspected: the compiled program may not raise."""


def before_trials(reader: SessionReader) -> Before:
    """Return the results of the unchanged program from a session."""
    recorded = reader.meta("outcome")
    outcome = model.Outcome.from_json(recorded) if recorded else None
    return Before(
        session_figures(reader),
        len(limit_hits(reader)),
        outcome is None or outcome.went_well,
        first_line(outcome.message) if outcome else "",
        outcome is not None and outcome.in_eager_graphs,
    )


def key_of(changes: Mapping[str, Any]) -> str:
    """Return a key for a change, under which its trial is stored."""
    text = json.dumps(changes, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


UNCHANGED = Remedy("the unchanged program: it may fail only sometimes, or differently each time")
"""Is tried beside the remedies of a program that failed: without it, a trial that runs to its end
would prove nothing.
"""


def to_try(findings: Sequence[Finding]) -> list[Remedy]:
    """Return the remedies that a trial can make, each change once, those of the worst finding
    first. For a program that failed, the first is the program unchanged.
    """
    wanted: dict[str, Remedy] = {}
    for finding in findings:
        for remedy in finding.remedies:
            if remedy.changes and remedy.state == "not tried":
                wanted.setdefault(key_of(remedy.changes), remedy)
    has_failed = any(finding.urgency == "failed" for finding in findings)
    return [UNCHANGED, *wanted.values()] if has_failed and wanted else list(wanted.values())


async def try_all(
    request: CaptureRequest,
    remedies: Sequence[Remedy],
    keep: Callable[[RemedyTrial], object],
    tell: Told = ignore_message,
    worker: TrialWorker = HERE,
    budget_s: float = BUDGET_S,
) -> int:
    """Try remedies one after the other until the time is used up, and give each trial to ``keep``
    as soon as it has ended. A trial that has not ended by then is none. Returns how many were
    tried. Raises SessionWriteError when there is no
    room for a session.
    """
    ends_at = time.monotonic() + budget_s
    for number, remedy in enumerate(remedies):
        left_s = ends_at - time.monotonic()
        if left_s <= 0:
            return number
        tell(f"trying {number + 1} of {len(remedies)}: {remedy.text}")
        try:
            keep(await asyncio.wait_for(try_remedy(request, remedy, worker), left_s))
        except asyncio.TimeoutError:
            return number
    return len(remedies)


async def try_remedy(request: CaptureRequest, remedy: Remedy, worker: TrialWorker) -> RemedyTrial:
    """Capture the program with the change of a remedy. Raises SessionWriteError when there is no
    room for a session, and nothing for what the program does.
    """
    began = time.monotonic()
    again = await recapture(_changed(request, remedy.changes), worker, _figures)
    figures, refused, breaks = again.found
    return RemedyTrial(
        id=0,
        changes=key_of(remedy.changes),
        outcome=again.outcome.kind,
        message=first_line(again.outcome.message),
        graphs=figures.graphs,
        graph_breaks=figures.graph_breaks,
        recompiles=figures.recompiles,
        refused=refused,
        failed=len(figures.failed),
        operations=figures.operations,
        compile_s=figures.compile_s,
        took_s=time.monotonic() - began,
        kernels=figures.kernels,
        broken_code=tuple(broken.code for broken in breaks),
        first_break=describe_line_and_reason(breaks[0]) if breaks else "",
    )


def _changed(request: CaptureRequest, changes: Mapping[str, Any]) -> CaptureRequest:
    """Return the request with the changes, which are added to settings that it has."""
    merged = dict(changes)
    if "settings" in merged:
        merged["settings"] = {**request.settings, **merged["settings"]}
    if "overlay" in merged:
        merged["overlay"] = {**request.overlay, **merged["overlay"]}
    return straight_through(request, **merged)


def _figures(reader: SessionReader) -> tuple[SessionFigures, int, Sequence[DistinctBreak]]:
    return session_figures(reader), len(limit_hits(reader)), distinct_breaks(reader)


# what no trial can make


def with_own_settings(reader: SessionReader, findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings with those remedies marked that no trial can make, because the program
    sets the option itself, after the trial did.
    """
    if not any(_settings_of(remedy) for finding in findings for remedy in finding.remedies):
        return list(findings)
    places = {
        row.name: in_file(row.file, row.line) if row.line else ""
        for row in reader.rows(model.OptionInForce, set_by="program")
        if not row.name.startswith(OF_THE_CALL)
    }
    if not places:
        return list(findings)
    return [
        replace(finding, remedies=tuple(_marked(remedy, places) for remedy in finding.remedies))
        for finding in findings
    ]


OF_THE_CALL = "compile."
"""Beginning of the names of torch.compile's own arguments, which a trial replaces in the call."""


def _settings_of(remedy: Remedy) -> Mapping[str, Any]:
    settings: Mapping[str, Any] = remedy.changes.get("settings", {})
    return settings


def _marked(remedy: Remedy, places: Mapping[str, str]) -> Remedy:
    for name in _settings_of(remedy):
        if name in places and remedy.state == "not tried":
            where = f" at {places[name]}" if places[name] else ""
            why = f"your program itself sets this option{where}: change it there"
            return replace(remedy, state="cannot be tried", result=why, changes={})
    return remedy


# what a trial showed


def with_trials(
    findings: Sequence[Finding], before: Before, trials: Iterable[RemedyTrial]
) -> list[Finding]:
    """Return the findings with the results of the trials in their remedies. Those that worked come
    first.
    """
    by_key = {trial.changes: trial for trial in trials}
    if not by_key:
        return list(findings)
    return [replace(finding, remedies=_tried(finding, before, by_key)) for finding in findings]


def _tried(
    finding: Finding, before: Before, by_key: Mapping[str, RemedyTrial]
) -> tuple[Remedy, ...]:
    good, others = [], []
    unchanged = by_key.get(key_of(UNCHANGED.changes))
    for remedy in finding.remedies:
        trial = by_key.get(key_of(remedy.changes)) if remedy.changes else None
        if trial is None:
            others.append(remedy)
            continue
        why_not = _why_it_shows_nothing(before, trial, unchanged)
        if why_not:
            others.append(replace(remedy, state="cannot be tried", result=why_not))
            continue
        result = _result(finding, before, trial)
        if unchanged and not before.went_well and not _fails_alike(before, unchanged):
            result = f"{result} Unchanged, it failed differently: {unchanged.message}."
        if "compile.dynamic" in remedy.changes.get("settings", {}):
            result = f"with dynamic=True {result}"
        has_helped = _has_helped(finding, before, trial)
        tried = replace(remedy, state="tried", result=result, has_helped=has_helped)
        if has_helped:
            good.append(tried)
        else:
            others.append(tried)
    return (*good, *others)


def _why_it_shows_nothing(before: Before, trial: RemedyTrial, unchanged: RemedyTrial | None) -> str:
    """Return why nothing is known of a remedy that was tried; empty where the trial shows it."""
    if trial.outcome == "timed_out":
        return TOO_LONG
    if not before.went_well and unchanged and unchanged.outcome == "finished":
        return ONLY_SOMETIMES
    return ""


_VARYING = re.compile(r"0x[0-9a-fA-F]+|\d+")
"""Matches what differs in one message from run to run: addresses and numbers."""


def _fails_alike(before: Before, trial: RemedyTrial) -> bool:
    """Return whether a program that failed did so with the same message in a trial."""
    if before.went_well:
        return False
    return _VARYING.sub("#", trial.message) == _VARYING.sub("#", before.message)


def _has_helped(finding: Finding, before: Before, trial: RemedyTrial) -> bool:
    if trial.outcome != "finished":
        return False
    if finding.kind == "program error":
        return True
    if finding.kind == "compiler error":
        return trial.failed < len(before.figures.failed) or not before.went_well
    if finding.kind == "recompile limit":
        return trial.refused < before.refused
    if trial.failed > len(before.figures.failed):
        return False
    if finding.kind == "recompile":
        return trial.recompiles < before.figures.recompiles
    if finding.kind == "repeated block":
        return trial.compile_s < FASTER * before.figures.compile_s
    if (
        finding.kind == "placement"
        and trial.operations < LEAST_COMPILED * before.figures.operations
    ):
        return False  # fewer graph breaks, as less is compiled
    if finding.kind == "missed fusion":
        return 0 <= trial.kernels < before.figures.kernels
    if finding.kind == "never called":
        return trial.graphs > before.figures.graphs
    return trial.graph_breaks < before.figures.graph_breaks


def _result(finding: Finding, before: Before, trial: RemedyTrial) -> str:
    """Return what a trial showed, as a sentence without capital."""
    if trial.outcome != "finished":
        if trial.message and _fails_alike(before, trial):
            is_programs = finding.kind == "program error"
            why = ": torch.compile is not the cause" if is_programs else ""
            return f"it fails in the same way{why}."
        return f"the program then stops: {trial.message or trial.outcome}."
    if finding.kind == "program error":
        return "the program runs to its end, so compiling causes the error."
    if finding.kind == "compiler error":
        if trial.failed >= len(before.figures.failed) > 0:
            return "compiling still fails."
        breaks = trial.graph_breaks - before.figures.graph_breaks
        more = f", with {counted(breaks, 'more graph break')}" if breaks > 0 else ""
        return f"the program runs to its end{more}."
    differences = list(_differences(before, trial))
    if finding.kind == "missed fusion" and trial.kernels >= 0:
        kernels = counted(trial.kernels, "kernel")
        differences.insert(0, f"{kernels} instead of {before.figures.kernels:,}")
    if not _has_helped(finding, before, trial):
        moved = _next_break(finding, trial)
        differences.insert(0, f"it does not help{moved}")
    elif finding.kind == "placement":
        old = before.figures.operations
        differences.append(f"{counted(trial.operations, 'operation')} in graphs, {old:,} before")
    return f"{'; '.join(differences)}."


def _next_break(finding: Finding, trial: RemedyTrial) -> str:
    """Say which line breaks the graph in place of the finding's; empty where that one does."""
    if finding.kind != "graph break" or not trial.first_break:
        return ""
    if any(code in finding.evidence for code in trial.broken_code):
        return ""
    return f": this break is gone, and then {trial.first_break}"


def _differences(before: Before, trial: RemedyTrial) -> Iterator[str]:
    figures = before.figures
    if before.refused and trial.refused < before.refused:
        yield "none is refused" if not trial.refused else f"{trial.refused} are still refused"
    elif before.refused:
        yield "the limit is still reached"
    failed = trial.failed - len(figures.failed)
    if failed > 0:
        yield f"then {counted(failed, 'function')} cannot be compiled"
    for noun, old, new in (
        ("recompile", figures.recompiles, trial.recompiles),
        ("graph break", figures.graph_breaks, trial.graph_breaks),
        ("graph", figures.graphs, trial.graphs),
    ):
        if new != old:
            yield f"{counted(new, noun)} instead of {old:,}"
    if figures.compile_s and trial.compile_s:
        yield f"compiled in {seconds(trial.compile_s)}, {seconds(figures.compile_s)} before"


def why_not_tried(request: CaptureRequest | None) -> str:
    """Return why no remedy of a session can be tried; empty where they can."""
    if request is None:
        return "the session does not say how to run the program: give its target"
    return ""
