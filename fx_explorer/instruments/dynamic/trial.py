"""This module tries ``dynamic=None``, ``True``, ``False`` and ``mark_dynamic`` on the same program,
each captured by a worker of its own, and reports the results: a table, a verdict, and the lines to
write.

Nothing is built. Whether other inputs need a compilation more is what the guards of the finished
capture say: they are asked (``what_if``), the program is not run again.

``try_marks`` marks some sizes or numbers as dynamic and counts the compilations again. No source is
changed for it: torch takes the marks from an environment variable
(``torch.compiler.config.dynamic_sources``).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.naming import plain_source
from fx_explorer.analysis.whole_session import SessionFigures, session_figures, totals
from fx_explorer.analysis.words import counted, first_line
from fx_explorer.client.capture import Capture
from fx_explorer.errors import UsageError
from fx_explorer.instruments.recompiles.call_sizes import out_of_reach
from fx_explorer.model import TWICE_THE_BATCH, CaptureRequest, Command, Outcome
from fx_explorer.output.table import Column
from fx_explorer.session import SessionReader
from fx_explorer.trials import (
    HERE,
    TrialWorker,
    describe_timeout,
    ignore_message,
    recapture,
    straight_through,
    to_its_end,
)

A_SCRIPT = (
    "Dynamic shapes are tried on a function or module with inputs. This is a script, which itself "
    "compiles and calls: give FILE.py:OBJECT, and its inputs with --inputs 'torch.randn(2, 8)'."
)

Way = Literal["dynamic=None", "dynamic=True", "dynamic=False", "mark_dynamic"]

WAYS: tuple[Way, ...] = ("dynamic=None", "dynamic=True", "dynamic=False", "mark_dynamic")
"""The ways to compile dynamic shapes. ``None`` is torch's default: specialized at first, dynamic
when a size has changed. ``mark_dynamic``: the default, with those dimensions marked that differ in
the other inputs.
"""

_DYNAMIC: dict[Way, bool | None] = {"dynamic=True": True, "dynamic=False": False}

_SIZE = re.compile(r"(?P<source>.+)\.size\(\)\[(?P<dimension>\d+)\]$")

Told = Callable[[Way, str], object]
"""A function that receives messages about what the worker of a way is doing."""


@dataclass(frozen=True, slots=True)
class DynamicTrial:
    way: Way
    outcome: Outcome
    figures: SessionFigures
    others: Literal["", "used again", "recompiled"]
    """The result for the other inputs; empty when it is not known: then ``reason`` explains why."""
    reason: str
    """The check that fails, in torch's words."""
    free_sizes: tuple[tuple[str, int], ...]
    """Sizes of inputs that stayed dynamic: (the program's name of the input, dimension)."""

    @property
    def is_whole(self) -> bool:
        """Return whether the program ran to its end."""
        return self.outcome.kind == "finished"


async def try_dynamic(
    request: CaptureRequest,
    others: str = "",
    tell: Told = ignore_message,
    worker: TrialWorker = HERE,
) -> AsyncIterator[DynamicTrial]:
    """Try one way after the other, and yield each trial when it is done.

    ``others`` is an expression as ``--inputs`` takes it; empty: twice the batch. Whoever stops
    listening in the middle of a trial ends its worker. Raises UsageError for a script, as soon as
    it begins, and SessionWriteError when there is no room for a session.
    """
    for way in WAYS:
        tell(way, "starting Python")
        yield await _try(_request(request, way, others), way, others, tell, worker)


def _request(request: CaptureRequest, way: Way, others: str) -> CaptureRequest:
    marked = (others or TWICE_THE_BATCH) if way == "mark_dynamic" else ""
    return straight_through(
        request,
        dynamic=_DYNAMIC.get(way),
        mark_against=marked,
        stay=True,
        build=False,
        verify=False,
    )


async def _try(
    request: CaptureRequest, way: Way, others: str, tell: Told, worker: TrialWorker
) -> DynamicTrial:
    """Capture the program with dynamic sizes in one way, check the other inputs against its guards,
    and return the trial.
    """
    problem = ""

    async def ask(capture: Capture) -> Outcome:
        nonlocal problem
        problem = await _asked(capture, others, lambda activity: tell(way, activity))
        return await capture.cancel()

    again = await recapture(request, worker, _read_result, attend=ask)
    figures, answers, free_sizes = again.found
    rejected = next((answer for answer in answers if answer.answer == "rejected"), None)
    effect: Literal["", "used again", "recompiled"]
    if any(answer.answer == "accepted" for answer in answers):
        effect, reason = "used again", ""
    elif rejected:
        effect, reason = "recompiled", problem or rejected.reason
    else:
        effect, reason = "", problem
    return DynamicTrial(
        way,
        again.outcome,
        figures,
        others=effect,
        reason=reason,
        free_sizes=free_sizes,
    )


async def _asked(capture: Capture, others: str, tell: Callable[[str], object]) -> str:
    """Check the other inputs against the guards once everything is compiled. Returns why there is
    no answer; empty when there is one.
    """
    async for notice in capture.notices():
        if notice.kind == "worker":
            tell(notice.text)
            if await asyncio.to_thread(_is_script, capture.session_path):
                raise UsageError(A_SCRIPT)
        if notice.kind == "gate" and notice.state == "begin":
            capture.send(Command("what_if", expression=others))
        if notice.kind in ("done", "refused"):
            return notice.text if notice.kind == "refused" else ""
    return "the program did not finish"


def _is_script(session: Path) -> bool:
    with SessionReader(session) as reader:
        return reader.is_of_a_script()


def _read_result(
    reader: SessionReader,
) -> tuple[SessionFigures, list[model.GuardAnswer], tuple[tuple[str, int], ...]]:
    """Return (figures, answers of guards about the other inputs, dynamic sizes of inputs)."""
    free = [row for row in reader.rows(model.Symbol) if row.final_range and not row.became]
    owners = {row.id: row for row in reader.rows(model.Compilation)}
    sizes: list[tuple[str, int]] = []
    for row in free:
        sizes += _sizes(reader, row, owners.get(row.compilation))
    each_once = tuple(dict.fromkeys(sizes))
    return session_figures(reader), reader.rows(model.GuardAnswer), each_once


def _sizes(
    reader: SessionReader, symbol: model.Symbol, of: model.Compilation | None
) -> list[tuple[str, int]]:
    """Return the inputs whose size the symbol is, with the dimension. Inputs that are numbers are
    left out, and tensors that the user's code cannot reach before the call.
    """
    sizes = []
    for source in symbol.sources or (symbol.source,):
        match = _SIZE.match(source)
        if match is None or (of and out_of_reach(reader, match["source"], of)):
            continue
        sizes.append((plain_source(match["source"], of), int(match["dimension"])))
    return sizes


# Marks on some sizes or numbers alone.


VARIABLE = "TORCH_COMPILE_DYNAMIC_SOURCES"


@dataclass(frozen=True, slots=True)
class DynamicMarkTrial:
    before: int
    """Number of compilations without the marks."""
    after: int | None
    """Number of compilations with the marks; None when the program could not be captured to its
    end.
    """
    problem: str
    """Why the program could not be captured to its end; empty when it could."""
    took_s: float

    is_timed_out: bool = False

    @property
    def is_good(self) -> bool:
        return self.after is not None and self.after < self.before

    @property
    def description(self) -> str:
        """Say the result: ``tried, 3 compilations → 1``."""
        if self.is_timed_out:
            return f"timed out: {self.problem}, not verified"
        if self.after is None:
            return f"tried, and the program failed: {self.problem}"
        return f"tried, {counted(self.before, 'compilation')} → {self.after}"


async def try_marks(
    request: CaptureRequest,
    sources: Sequence[str],
    before: int,
    tell: Callable[[str], object] = ignore_message,
    worker: TrialWorker = HERE,
) -> DynamicMarkTrial:
    """Capture the program with these sizes marked. ``sources`` are in the form of the environment
    variable: ``L['x']:0``. ``request`` is the request of the session, ``before`` the number of its
    compilations. Errors of the user's program are not raised.
    """
    marked = {VARIABLE: ",".join(sources)}
    again = await recapture(
        straight_through(request),
        worker,
        _compilations,
        attend=partial(to_its_end, tell=tell),
        environment=marked,
    )
    is_timed_out = again.outcome.kind == "timed_out"
    if again.is_whole:
        return DynamicMarkTrial(before, again.found, "", again.took_s, is_timed_out)
    problem = again.outcome.message or again.outcome.kind
    return DynamicMarkTrial(before, None, problem, again.took_s, is_timed_out)


def _compilations(reader: SessionReader) -> int:
    return totals(reader).compilations


# The outcome of each way that was tried.


COLUMNS = (
    Column("way"),
    Column("compiled", is_number=True),
    Column("graphs", is_number=True, priority=5),
    Column("guards", is_number=True, priority=2),
    Column("dynamic sizes", is_number=True),
    Column("specialized sizes", is_number=True, priority=1),
    Column("kernels", is_number=True, priority=4),
    Column("compile s", is_number=True, priority=3),
    Column("other inputs", narrowing="wrapped", least=18),
)

ALWAYS = "torch.compile(…, dynamic=True)"


def cells(trial: DynamicTrial) -> tuple[str, ...]:
    """Return the cells of a trial's row under COLUMNS. For a program that did not run to its end,
    they are the way and, in the last place, the reason.
    """
    if not trial.is_whole:
        return (trial.way, *[""] * (len(COLUMNS) - 2), describe_outcome(trial))
    session_figures = trial.figures
    if session_figures.recompiles:
        compiled = f"{session_figures.compiled} ({session_figures.recompiles} again)"
    else:
        compiled = str(session_figures.compiled)
    numbers = (
        session_figures.graphs,
        session_figures.guards,
        session_figures.free_sizes,
        session_figures.fixed_sizes,
        session_figures.kernels,
    )
    return (
        trial.way,
        compiled,
        *map(str, numbers),
        f"{session_figures.compile_s:.1f}",
        describe_outcome(trial),
    )


def describe_outcome(trial: DynamicTrial) -> str:
    """Describe the result for the other inputs with its reason; or how the program ended."""
    if trial.outcome.kind == "timed_out":
        return describe_timeout(trial.outcome)
    if not trial.is_whole:
        return f"{trial.outcome.kind.replace('_', ' ')}: {trial.outcome.message}".removesuffix(": ")
    return f"{trial.others or 'not known'}: {trial.reason}".removesuffix(": ")


def advice(trials: Sequence[DynamicTrial]) -> str:
    """Return the lines to write into the program, one per size; empty when none would help, or none
    is needed.
    """
    found = {trial.way: trial for trial in trials}
    if _fits(found.get("dynamic=None")):
        return ""
    marked = found.get("mark_dynamic")
    if marked and _fits(marked) and marked.free_sizes:
        return "\n".join(
            f"torch._dynamo.mark_dynamic({name}, {size})" for name, size in marked.free_sizes
        )
    return ALWAYS if _fits(found.get("dynamic=True")) else ""


def verdict(trials: Sequence[DynamicTrial]) -> str:
    """Return the results of the trials so far in a few sentences."""
    parts = [_best(trials)] if trials else []
    for trial in trials:
        if not trial.is_whole:
            outcome = describe_outcome(trial)
            parts.append(f"{trial.way} did not finish: {outcome}.")
    if len(trials) < len(WAYS):
        parts.append(f"{len(trials)} of {len(WAYS)} settings were tried.")
    return " ".join(part for part in parts if part)


def _best(trials: Sequence[DynamicTrial]) -> str:
    by_way = {trial.way: trial for trial in trials}
    default, marked, always = (
        by_way.get(way) for way in ("dynamic=None", "mark_dynamic", "dynamic=True")
    )
    if _fits(default):
        return (
            "The same compiled code works for the other inputs: no dimension has to be marked "
            "dynamic."
        )
    if marked and _fits(marked) and marked.free_sizes:
        return (
            f"With mark_dynamic, one compilation works for both{_rather_than(marked, always)}. "
            f"{_default(default)}"
        ).rstrip()
    if _fits(always):
        return (
            f"With dynamic=True, one compilation works for both{_but_not(marked)}. "
            f"{_default(default)}"
        ).rstrip()
    tried = (trial for trial in (marked, always, default) if trial)
    refused = next((trial for trial in tried if trial.others == "recompiled"), None)
    if refused:
        return f"With no setting does one compilation work for both: {first_line(refused.reason)}."
    reason = next((trial.reason for trial in trials if trial.is_whole and trial.reason), "")
    if reason:
        return f"Whether the other inputs recompile is not known: {first_line(reason).rstrip('.')}."
    return ""


def _fits(trial: DynamicTrial | None) -> bool:
    return trial is not None and trial.is_whole and trial.others == "used again"


def _rather_than(marked: DynamicTrial, always: DynamicTrial | None) -> str:
    if always is None or not _fits(always):
        return ""
    of_always, of_marked = always.figures, marked.figures
    if (of_always.free_sizes, of_always.guards) == (of_marked.free_sizes, of_marked.guards):
        return "; dynamic=True does the same"
    return (
        f"; dynamic=True does too, with {counted(of_always.free_sizes, 'dynamic size')} instead "
        f"of {of_marked.free_sizes}"
    )


def _but_not(marked: DynamicTrial | None) -> str:
    if marked is None or not marked.is_whole or marked.others != "recompiled":
        return ""
    return f", mark_dynamic does not ({first_line(marked.reason)})"


def _default(default: DynamicTrial | None) -> str:
    if default is None or default.others != "recompiled":
        return ""
    return (
        "By default, torch recompiles once when a size has changed, and keeps that size dynamic "
        "afterwards."
    )
