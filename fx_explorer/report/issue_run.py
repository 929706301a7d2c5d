"""What one run of a program for an issue did, and what it did otherwise than the program without
torch.compile: it raised, ended, printed or gave something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import fx_explorer
from fx_explorer import model
from fx_explorer.analysis.words import first_line
from fx_explorer.findings.compiled_results import printed_otherwise
from fx_explorer.findings.source_lines import SourceLines
from fx_explorer.findings.without_compile import ProgramRun, run_of
from fx_explorer.model import Outcome
from fx_explorer.overview.ending import failures
from fx_explorer.session import SessionReader
from fx_explorer.torch_texts.reports import BACKEND_FAILED

Result = Literal["passes", "fails", "differs", "falls back", "timed out", "not tried"]
"""``falls back``: the backend failed, and torch.compile ran that part in eager mode."""


_OF_BACKEND = re.compile(r"^BackendCompilerFailed: backend=\S+ raised:\s*")
"""Matches what Dynamo writes before an error that a backend raised."""

_OUR_FRAME = re.compile(
    rf'^  File "{re.escape(str(Path(fx_explorer.__file__).parent))}[/\\].*\n?', re.M
)
"""Matches a frame of fx-explorer's in what ``faulthandler`` writes."""

_EMPTY_THREAD = re.compile(r"^Thread 0x\w+ [^\n]*:\n(?:\n|\Z)", re.M)


@dataclass(frozen=True, slots=True)
class ProgramEnd:
    """How a run ended, and what its session shows."""

    outcome: Outcome
    run: ProgramRun | None = None
    verification: model.Verification | None = None
    raised: str = ""
    """The error that ended the program, in one line; of an ``assert`` without a message, its
    code.
    """
    error: str = ""
    """The traceback of an error, also of one of the backend's that the program survived."""
    fell_back: str = ""
    """Why a graph runs in eager mode, where its backend failed."""
    took_s: float = 0.0

    @property
    def ended_itself(self) -> bool:
        """Return whether the program came to its end, with whatever exit status."""
        return self.outcome.kind in ("finished", "exited")

    @property
    def message(self) -> str:
        return self.raised or first_line(self.outcome.message) or self.outcome.kind


def end_of(reader: SessionReader) -> ProgramEnd:
    """Return what the session of a run shows; its outcome is the caller's to add."""
    verifications = reader.rows(model.Verification)
    raised, error = "", ""
    for explained in failures(reader):
        failure = explained.failure
        if failure.where in ("program", "compiler"):
            error = explained.traceback or failure.message
        if failure.where == "program":
            raised = _in_one_line(_OF_BACKEND.sub("", failure.message))
            if failure.message == failure.kind and explained.file:
                code = SourceLines(reader).code(explained.file, explained.line)
                raised = f"{failure.kind}: {code}" if code else raised
    error = _without_our_frames(error)
    fell_back = ""
    for graph_break in reader.rows(model.GraphBreak):
        if graph_break.registry_id == BACKEND_FAILED:
            fell_back = first_line(graph_break.explanation)
            error = error or reader.text(graph_break.text)
            break
    verification = verifications[-1] if verifications else None
    return ProgramEnd(Outcome("incomplete"), run_of(reader), verification, raised, error, fell_back)


def _in_one_line(message: str) -> str:
    """Return an error in one line; of ``torch.testing.assert_close``, with how far it is off."""
    line = first_line(message)
    for other in message.splitlines()[1:]:
        if other.startswith("Greatest absolute difference: "):
            return f"{line} {other}"
    return line


def _without_our_frames(error: str) -> str:
    """Return a crash's stack without the frames of fx-explorer, which ran the program."""
    if "Traceback" in error:
        return error
    return _EMPTY_THREAD.sub("", _OUR_FRAME.sub("", error))


@dataclass(frozen=True, slots=True)
class Eager:
    """Two runs of a program without torch.compile."""

    first: ProgramEnd
    second: ProgramEnd
    unsteady: frozenset[str] = field(default_factory=frozenset)
    """Lines that two equal runs with torch.compile print in different ways: times and the like."""

    def is_random(self) -> bool:
        """Return whether two runs print different things."""
        first, second = self.first.run, self.second.run
        return bool(first and second and list(printed_otherwise(first, (second, second))))

    def differing(self, end: ProgramEnd) -> list[tuple[str, str]]:
        """Return (line, line without torch.compile) where a run prints otherwise than both."""
        if not (end.run and self.first.run and self.second.run):
            return []
        differing = printed_otherwise(end.run, (self.first.run, self.second.run))
        return [(line, expected) for line, expected in differing if expected not in self.unsteady]

    def without_unsteady(self, end: ProgramEnd, again: ProgramEnd) -> Eager:
        """Return the runs without output that differs between two unchanged runs."""
        before = {expected: line for line, expected in self.differing(end)}
        after = {expected: line for line, expected in self.differing(again)}
        lines = {*before, *after}
        unsteady = frozenset(line for line in lines if before.get(line) != after.get(line))
        return replace(self, unsteady=unsteady)


def result_of_eager(eager: Eager) -> tuple[Result, str]:
    """Return the result of the program without torch.compile, and what there is to say of it."""
    first = eager.first
    if first.outcome.kind == "timed_out":
        return "timed out", first.message
    if not first.ended_itself:
        return "fails", first.message
    if first.outcome.exit_code:
        return "passes", f"ends with exit status {first.outcome.exit_code}"
    if eager.is_random():
        return "passes", "prints otherwise each time"
    return "passes", ""


def judge(end: ProgramEnd, eager: Eager) -> tuple[Result, str]:
    """Return the result of a run with torch.compile, and its error or the first difference."""
    if end.outcome.kind == "timed_out":
        return "timed out", end.message
    if not end.ended_itself:
        return "fails", end.message
    if not eager.first.ended_itself:
        return "differs", f"raises nothing, without torch.compile “{eager.first.message}”"
    difference = next(_differences(end, eager), "")
    if difference:
        return "differs", difference
    status, expected = end.outcome.exit_code, eager.first.outcome.exit_code
    if status != expected:
        message = f"ends with exit status {status}"
        if expected:
            return "differs", f"{message}, without torch.compile {expected}"
        return "fails", message
    if end.fell_back:
        return "falls back", end.fell_back
    return "passes", ""


def _differences(end: ProgramEnd, eager: Eager) -> Iterator[str]:
    """Yield what differs from eager mode: by PyTorch's rule for a target, by what is printed for a
    script.
    """
    if end.verification:
        yield from end.verification.differences
    for line, expected in eager.differing(end):
        yield f"prints “{line}”, without torch.compile “{expected}”"
