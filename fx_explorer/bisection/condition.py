"""This module judges one step of a bisect, a commit or a release of torch: its program is captured,
and the condition, in the words of ``fx-explorer check``, is judged.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fx_explorer import model
from fx_explorer.bisection.changed_facts import CaptureFacts, ChangedFact, guard_parts
from fx_explorer.bisection.search import Verdict
from fx_explorer.client.forked_workers import ForkServer
from fx_explorer.command_line.capture_options import add_capture_arguments
from fx_explorer.command_line.given_files import resolve_files
from fx_explorer.command_line.given_session import add_target_argument, is_session
from fx_explorer.command_line.help_text import HelpParser
from fx_explorer.command_line.judging import (
    Judge,
    add_condition_arguments,
)
from fx_explorer.command_line.narrated_capture import interrupts
from fx_explorer.command_line.narration import CaptureNarration
from fx_explorer.command_line.quiet_capture import QuietCapture, captured_quietly
from fx_explorer.errors import UsageError
from fx_explorer.overview.baseline import Baseline, measure
from fx_explorer.overview.checks import Check, relative_path, relative_to
from fx_explorer.session import SessionReader

OF_TIME = ("max-compile-seconds", "baseline-compile-s")
"""Conditions that vary with the load of the machine."""


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The outcome of one step."""

    verdict: Verdict
    why: str
    took_s: float
    side: CaptureFacts | None = None
    """What is known of its capture; None for a step that was skipped."""
    ended: str = ""
    """How its program ended, if not at its end: ``raised ValueError``."""
    message: str = ""
    """What it said then."""
    torch: str = ""
    source_files: tuple[str, ...] = ()

    @property
    def fact(self) -> ChangedFact | None:
        """Return how the program ended, as a fact; None for one that ran to its end."""
        if not self.ended:
            return None
        return ChangedFact("the program", "", f"{self.ended}: {self.message}", True)

    @property
    def is_of_time(self) -> bool:
        """Return whether only the time of compiling is too long."""
        failed = self.side.failed if self.side else ()
        return bool(failed) and all(check.condition in OF_TIME for check in failed)


class Condition:
    """A target and conditions, as ``fx-explorer check`` takes them."""

    def __init__(self, words: Sequence[str]) -> None:
        """Raises UsageError for words that are no condition; argparse ends the process for unknown
        ones.
        """
        if not words:
            raise UsageError(
                "bisect needs a condition after --, as fx-explorer check takes it: "
                "-- model.py --max-graph-breaks 0"
            )
        parser = HelpParser("fx-explorer bisect … --")
        add_target_argument(parser)
        add_condition_arguments(parser)
        add_capture_arguments(parser)
        self.words = tuple(words)
        self.arguments = parser.parse_args(list(words))
        self.arguments.given = frozenset()
        if self.arguments.update:
            raise UsageError("bisect reads a baseline and does not write one: remove --update")
        if is_session(self.arguments.target):
            raise UsageError(
                f"bisect captures its target at each step, and {self.arguments.target} is already "
                "a capture: give the target"
            )
        self._judge = Judge(self.arguments)
        self.bad_ending = ""
        """How the program of the bad step ended, if not at its end; such an end is looked for."""

    def with_arguments(self, **changes: object) -> None:
        """Change arguments of the target: another interpreter, a path in another checkout."""
        for name, value in changes.items():
            setattr(self.arguments, name, value)

    def try_step(
        self,
        root: Path,
        session: Path,
        progress: CaptureNarration,
        fork_server: ForkServer | None,
    ) -> StepOutcome:
        """Capture the program in the working directory into ``session``, and judge it. Files below
        ``root`` are named relative to it. Raises KeyboardInterrupt or SystemExit for a signal.
        """
        began = time.monotonic()
        with contextlib.ExitStack() as until:
            arguments = argparse.Namespace(**vars(self.arguments))
            try:
                resolve_files("check", arguments, until)
            except UsageError as error:
                return StepOutcome("skipped", str(error), time.monotonic() - began)
            stop = partial(interrupts, interrupts_program=False)
            captured = asyncio.run(
                captured_quietly(arguments, session, progress, fork_server, stop)
            )
            _stop_if_asked(captured)
            outcome = captured.outcome
            if captured.session is None:
                why = f"{outcome.kind.replace('_', ' ')}: {outcome.message}"
                return StepOutcome("skipped", why, time.monotonic() - began)
            with SessionReader(captured.session) as reader:
                return self._judged(reader, arguments, root, outcome, began)

    def _judged(
        self,
        reader: SessionReader,
        arguments: argparse.Namespace,
        root: Path,
        outcome: model.Outcome,
        began: float,
    ) -> StepOutcome:
        ended = _ending(outcome)
        judged: list[Check] = []
        if not ended and not self.bad_ending:
            names = (arguments.target,)
            with self._judge.judged(reader, names, is_target=True) as (_, checks):
                judged = checks
        failed = tuple(relative_to(check, root) for check in judged if not check.is_met)
        verdict, why = self._verdict(ended, outcome.message, failed)
        environment = reader.meta("environment") or {}
        files = [row.path for row in reader.rows(model.SourceFile)]
        return StepOutcome(
            verdict,
            why,
            time.monotonic() - began,
            _side(reader, root, failed, arguments.own),
            ended,
            outcome.message,
            str(environment.get("torch") or ""),
            tuple(files),
        )

    def _verdict(self, ended: str, message: str, failed: Sequence[Check]) -> tuple[Verdict, str]:
        if ended and ended == self.bad_ending:
            return "bad", f"{ended}: {message}"
        if ended:
            return "skipped", f"{ended}: {message}"
        if self.bad_ending:
            return "good", "it ran to its end"
        unknown = [check for check in failed if not check.is_known]
        if unknown and len(unknown) == len(failed):
            return "skipped", unknown[0].measured
        if failed:
            return "bad", failed[0].description
        return "good", "the condition is met"

    def look_for_ending_of(self, tried: StepOutcome) -> StepOutcome:
        """Look for the step since which the program ends as in ``tried``. Return that as bad."""
        self.bad_ending = tried.ended
        why = f"{tried.ended}: {tried.message}"
        return StepOutcome(
            "bad", why, tried.took_s, tried.side, tried.ended, tried.message, tried.torch,
            tried.source_files,
        )  # fmt: skip


def _stop_if_asked(captured: QuietCapture) -> None:
    if captured.stopped_by == signal.SIGINT:
        raise KeyboardInterrupt
    if captured.stopped_by:
        raise SystemExit(128 + captured.stopped_by)


_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*")


def _ending(outcome: model.Outcome) -> str:
    """Return how a program ended that did not run to its end, without what varies; else empty."""
    if outcome.went_well:
        return ""
    match = _EXCEPTION.match(outcome.message) if outcome.kind == "raised" else None
    return " ".join(filter(None, (outcome.kind.replace("_", " "), match and match[0])))


def _side(
    reader: SessionReader, root: Path, failed: tuple[Check, ...], own: Path | None
) -> CaptureFacts:
    figures: Baseline = measure(reader, root, own)
    users = (row.path for row in reader.rows(model.SourceFile, is_user=True))
    files = tuple(relative_path(path, root) for path in users)
    return CaptureFacts(figures, failed, tuple(guard_parts(reader, root)), files)


def narration() -> CaptureNarration:
    """Return what tells the progress of a bisect, on stderr."""
    return CaptureNarration(sys.stderr, pass_through=False)
