"""This module runs one capture for a command without a screen: it shows the progress, handles
Ctrl-C, and reports how it ended.

One line says what is being compiled right now: which function, why (again), in which phase, since
when. Notices of the worker tell the phases; the names and the reasons are in the session, which is
read while it grows.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from fx_explorer import model
from fx_explorer.analysis.naming import function_of, resumed_at
from fx_explorer.analysis.whole_session import totals
from fx_explorer.analysis.words import breaks_hit, counted, seconds
from fx_explorer.client import Capture
from fx_explorer.client.forked_workers import ForkServer
from fx_explorer.client.history import History, history_to_keep
from fx_explorer.client.interrupted import news_of_leftovers
from fx_explorer.client.process_outcomes import exit_code
from fx_explorer.command_line.narration import CaptureNarration
from fx_explorer.errors import SessionError
from fx_explorer.instruments.recompiles.causes import cause_of
from fx_explorer.model import (
    STAGES,
    CaptureRequest,
    Compilation,
    Graph,
    Notice,
    Outcome,
    Stage,
    SupportReport,
)
from fx_explorer.overview.ending import (
    NO_COMPILER_HERE,
    OF_EAGER_GRAPHS,
    OTHER_RANDOM_NUMBERS,
    has_other_random_numbers,
)
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import file_name, in_file
from fx_explorer.session.queries.compilations import has_compiled

STAGE_WORDS: dict[Stage, str] = {
    "dynamo": "tracing with Dynamo",
    "pre_grad": "rewriting the traced graph",
    "joint": "AOTAutograd",
    "forward": "AOTAutograd, splitting forward and backward",
    "backward": "AOTAutograd, backward",
    "post_grad": "rewriting the graph for Inductor",
    "schedule": "fusing",
    "output_code": "generating code",
    "kernel": "building kernels",
}


def bar(stage: Stage) -> str:
    """Draw how far through the stages a compilation is; a recompile or the next graph starts it
    again.
    """
    done = STAGES.index(stage) + 1
    return "=" * done + "." * (len(STAGES) - done)


PHASES_FOLLOW_S = 0.3
"""Seconds after a phase within which the next one is expected: a backward that is compiled at its
first use has no other end.
"""


@dataclass(frozen=True, slots=True)
class _Phase:
    compilation: str
    stage: Stage
    began_s: float


class BeingCompiled:
    """Receives the notices of one capture and describes the present compilation."""

    def __init__(self, session: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._session = session
        self._clock = clock
        self._open: list[_Phase] = []
        """Phases that have begun and not ended, in that order. They nest, and kernels are built
        side by side.
        """
        self._latest: _Phase | None = None
        self._ended_s = 0.0
        """When the latest phase ended, if none is open."""
        self._running: dict[str, float] = {}
        """Compilations that have not ended → when they began."""
        self._compilations: dict[str, tuple[str, str] | None] = {}
        """Name of each compilation reported by the worker → (function, reason for a recompile);
        None while the session does not have it.
        """
        self._program = ""
        self._line = ""
        """``at model.py:32``, the line that Dynamo is reading; empty while it reads none."""

    def take_notice(self, notice: Notice) -> None:
        if notice.kind == "worker":
            self._program = notice.text
            self._open, self._latest = [], None
            self._running.clear()
        elif notice.kind == "compilation":
            self._hear_compilation(notice.compilation)
        elif notice.kind == "line":
            self._line = f" at {in_file(notice.text, notice.line)}"
        elif notice.kind == "phase" and notice.stage in STAGE_WORDS:
            self._line = ""
            self._hear_phase(notice.stage, notice)

    def _hear_compilation(self, name: str) -> None:
        row = self._row(name)
        if row is not None and row.status == "running":
            self._running.setdefault(name, self._clock())
            self._compilations.setdefault(name, None)
        else:
            self._running.pop(name, None)

    def _hear_phase(self, stage: Stage, notice: Notice) -> None:
        # Kernels are built by threads, which know no compilation.
        name = notice.compilation
        if not name and self._latest:
            name = self._latest.compilation
        if notice.state == "begin":
            latest = self._latest
            if latest is None or (latest.compilation, latest.stage) != (name, stage):
                latest = _Phase(name, stage, self._clock())
            self._latest = latest
            self._open.append(latest)
            if name:
                self._compilations.setdefault(name, None)
            return
        ended = next((phase for phase in reversed(self._open) if phase.stage == stage), None)
        if ended is not None:
            self._open.remove(ended)
            self._ended_s = self._clock()

    def words(self) -> str:
        """Return the text of the line; the program's activity if nothing is compiled."""
        number = len(self._compilations)
        if number > 1:
            so_far = f" · {counted(number, 'compilation')} so far"
        else:
            so_far = ""
        phase = self._open[-1] if self._open else None
        if phase is None and self._latest and self._clock() - self._ended_s < PHASES_FOLLOW_S:
            phase = self._latest
        if phase is not None:
            name, began_s = phase.compilation, phase.began_s
            drawn, doing = bar(phase.stage), f"{STAGE_WORDS[phase.stage]}{self._line}"
        elif self._running:
            name, began_s = list(self._running.items())[-1]
            drawn = bar(self._latest.stage) if self._latest else "." * len(STAGES)
            doing = "compiling"
        else:
            return f"{self._program}{so_far}"
        function, why = self._what(name)
        # What may be cut off at the edge of the terminal comes last.
        return f"{drawn} {function} · {doing} for {self._clock() - began_s:.1f} s{so_far}{why}"

    def _what(self, name: str) -> tuple[str, str]:
        """Return which function it is, and why it is recompiled; torch's name where the session
        does not say.
        """
        function_and_cause = self._compilations.get(name) or self._looked_up(name)
        if function_and_cause:
            self._compilations[name] = function_and_cause
            return function_and_cause
        if name:
            return f"[{name}]", ""
        return "kernels", ""

    def _looked_up(self, name: str) -> tuple[str, str] | None:
        row = self._row(name)
        if row is None or not row.function:
            return None
        try:
            with SessionReader(self._session) as reader:
                function, cause = function_of(row), cause_of(reader, row)
        except SessionError:
            return None  # it grows, and is read again at the next tick
        if resumed_at(row.function):  # says its line
            where = f" of {file_name(row.file)}"
        else:
            where = "" if " at " in function else f" {in_file(row.file, row.line)}"
        again = f" · again: {cause.description}" if cause else ""
        return f"{function}{where}", again

    def _row(self, name: str) -> model.Compilation | None:
        """Return the row of a compilation; None while the session has none."""
        try:
            with SessionReader(self._session) as reader:
                rows = reader.rows(model.Compilation, name=name)
        except SessionError:
            return None
        return rows[-1] if rows else None


NOTHING_COMPILED = 2


def follow(
    request: CaptureRequest,
    arguments: argparse.Namespace,
    output: Path,
    *,
    pass_through: bool,
    may_be_empty: bool = True,
) -> int:
    """Capture and return the exit code. With ``pass_through`` the program's output goes to its
    usual place; otherwise it is part of the narration on stderr. Unless it ``may_be_empty``, a
    session without compilations ends with 2.
    """
    return asyncio.run(_follow(request, arguments, output, pass_through, may_be_empty))


async def _follow(
    request: CaptureRequest,
    arguments: argparse.Namespace,
    output: Path,
    pass_through: bool,
    may_be_empty: bool,
) -> int:
    """Run the capture to its end, report how it ended and where the session is, and return the exit
    code.
    """
    progress = CaptureNarration(sys.stderr, pass_through=pass_through)
    history = narrated_history(progress)
    prepared = partial(new_capture, arguments, output, progress=progress, history=history)

    capture = prepared(request)
    outcome = await narrated(capture, progress)
    if is_to_be_built(capture, outcome, progress):
        capture.forget()
        capture = prepared(built_after(request, outcome))
        outcome = await narrated(capture, progress)
    if outcome.kind == "not_started":
        capture.discard()
        progress.print_message(outcome.message)
    else:
        text = amounts(capture.session_path, progress.elapsed_s)
        progress.print_message(
            describe_ending(
                outcome, capture.session_path, text, is_complete=capture.session_path == output
            )
        )
        for line in (
            *describe_support(capture.session_path),
            *_describe_random_numbers(capture.session_path),
        ):
            progress.print_message(line)
    narrate_history(capture, history, progress)
    code = exit_code(outcome, as_script=request.as_script, stopped_by=capture.stopped_by)
    if request.as_script and outcome.kind in SCRIPT_ENDED:
        progress.print_message(f"exit code {code}, from the script itself")
    return code or unless_compiled(capture.session_path, progress, may_be_empty=may_be_empty)


def narrated_history(progress: CaptureNarration) -> History | None:
    """Return the history that captures are kept in, or None, and report mistakes in its
    settings.
    """
    history = history_to_keep()
    for problem in history.settings.problems if history else ():
        progress.print_message(problem)
    return history


def new_capture(
    arguments: argparse.Namespace,
    output: Path | None,
    request: CaptureRequest,
    *,
    progress: CaptureNarration,
    history: History | None,
    server: ForkServer | None = None,
) -> Capture:
    """Return a capture as the arguments of a command ask for it, not begun yet."""
    return Capture(
        request,
        arguments.python,
        arguments.timeout,
        output,
        on_output=progress.program_output,
        force=getattr(arguments, "force", False),
        fork_server=server,
        history=history,
    )


def narrate_history(capture: Capture, history: History | None, progress: CaptureNarration) -> None:
    """Report why a capture could not be kept in the history, and which earlier captures were
    interrupted.
    """
    if capture.history_problem:
        progress.print_message(capture.history_problem)
    for line in news_of_leftovers(history):
        progress.print_message(line)


def _describe_random_numbers(session: Path) -> Iterator[str]:
    """Return a sentence when the program ran with other random numbers than without fx-explorer."""
    with SessionReader(session) as reader:
        if has_other_random_numbers(reader):
            yield f"note: {OTHER_RANDOM_NUMBERS}"


def is_to_be_built(
    capture: Capture, outcome: Outcome, progress: CaptureNarration, *, runs_again: bool = False
) -> bool:
    """Return whether the target is to be built, because it raised in a graph that was only
    inspected: PyTorch's operators ran there, and the compiled program may not raise. A script is
    not run twice unless the command does so anyway (``runs_again``), and nothing can be built
    without a compiler: then the user is told what to do.
    """
    if not outcome.in_eager_graphs:
        return False
    progress.print_message(f"{outcome.message}. {OF_EAGER_GRAPHS}")
    with SessionReader(capture.session_path) as reader:
        is_script = (reader.meta("target") or {}).get("kind") == "script"
        has_compiler = bool((reader.meta("environment") or {}).get("cxx"))
    if has_compiler and (runs_again or not is_script):
        progress.print_message("building it, to see whether the compiled program raises, too")
        return True
    command = "run --build" if is_script else "capture --build"
    needed = "" if has_compiler else f" ({NO_COMPILER_HERE})"
    progress.print_message(f"try: fx-explorer {command} {capture.request.target}{needed}")
    return False


def built_after(request: CaptureRequest, outcome: Outcome) -> CaptureRequest:
    """Return the request for a capture with ``--build``, after a program raised while it was
    inspected.
    """
    return replace(request, build=True, raised_inspecting=outcome.message)


SCRIPT_ENDED = ("finished", "raised", "exited", "incomplete")


def unless_compiled(session: Path, progress: CaptureNarration, *, may_be_empty: bool) -> int:
    """Return the exit code of a successful capture. If nothing was compiled, the user is told,
    unless that ``may_be_empty``.
    """
    with SessionReader(session) as reader:
        if may_be_empty or has_compiled(reader):
            return 0
    progress.print_message(
        f"nothing was compiled: exit code {NOTHING_COMPILED} (0 with --allow-nothing)"
    )
    return NOTHING_COMPILED


async def narrated(capture: Capture, progress: CaptureNarration) -> Outcome:
    """Run a capture to its end, with narration; signals end it and keep its data."""
    try:
        with interrupts(capture, interrupts_program=capture.request.as_script):
            return await narrate_live(capture, progress)
    finally:
        progress.end()


async def narrate_live(capture: Capture, progress: CaptureNarration) -> Outcome:
    """Start a capture, follow it to its end, and show the present compilation meanwhile."""
    compiling = BeingCompiled(capture.session_path)
    progress.show_live(compiling.words)
    with ticking(progress):
        await capture.start()
        async for notice in capture.notices():
            compiling.take_notice(notice)
            progress.show(notice)
        return await capture.wait()


@contextlib.contextmanager
def ticking(progress: CaptureNarration) -> Iterator[None]:
    """Update the live line inside the block as time passes."""
    clock = asyncio.create_task(_tick(progress), name="clock")
    try:
        yield
    finally:
        clock.cancel()


async def _tick(progress: CaptureNarration) -> None:
    while True:
        await asyncio.sleep(0.2)
        progress.tick()


@contextlib.contextmanager
def interrupts(capture: Capture, *, interrupts_program: bool) -> Iterator[None]:
    """Make Ctrl-C, SIGTERM and a closed terminal end the capture inside the block, keeping its
    data. A script receives the first Ctrl-C itself, as it would alone.
    """
    loop = asyncio.get_running_loop()
    # asyncio itself keeps no task alive.
    pending: set[asyncio.Task[Outcome]] = set()
    interrupted = False

    def stop(number: int) -> None:
        # The exit code is that of the first signal.
        capture.stopped_by = capture.stopped_by or number
        pending.add(loop.create_task(capture.cancel(), name="cancel"))

    def on_interrupt() -> None:
        nonlocal interrupted
        if interrupts_program and not interrupted:
            interrupted = True
            capture.interrupt()
        else:
            stop(signal.SIGINT)

    handlers: dict[int, Callable[[], None]] = {signal.SIGINT: on_interrupt}
    handlers |= {number: partial(stop, number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


def describe_support(session: Path) -> list[str]:
    """Describe how much a backend other than Inductor supports, and which view shows more; empty
    without one.
    """
    with SessionReader(session) as reader:
        if not reader.count(SupportReport):
            return []
        from fx_explorer.instruments.backends.amounts import summaries
        from fx_explorer.instruments.backends.verdict import short_verdict

        lines: list[str] = []
        for summary in summaries(reader):
            lines += short_verdict(summary)
        return [*lines, f"operators and segments: fx-explorer support {session}"]


def amounts(session: Path, elapsed_s: float) -> str:
    """Describe the time and results of a capture: ``in 9.1 s: 2 graphs, 1 graph break, 14
    kernels``; for breaks that were hit more than once, ``2 graph breaks, hit 3 times``.
    """
    with SessionReader(session) as reader:
        compiled_graphs = {graph.compilation for graph in reader.rows(Graph)}
        # What the program gave to a compiler itself is named by it: precompile/0/0.
        without_dynamo = sum(
            row.name[:1].isalpha() and row.id in compiled_graphs for row in reader.rows(Compilation)
        )
        figures = totals(reader)
        parts = [
            counted(figures.graphs + without_dynamo, "graph"),
            breaks_hit(figures.graph_breaks, figures.graph_break_hits),
            counted(figures.kernels, "kernel"),
        ]
    return f"in {seconds(elapsed_s)}: {', '.join(parts)}"


def describe_ending(outcome: Outcome, session: Path, figures: str, *, is_complete: bool) -> str:
    """Describe in one or two lines how the capture ended, with its ``figures``, and where the
    session is.
    """
    if is_complete:
        where = f"session: {session} (look at it with: fx-explorer {session})"
    else:
        where = f"session kept in: {session}"
    endings = {
        "finished": f"done {figures}",
        "raised": "the program raised",
        "incomplete": "the session is not complete",
    }
    parts = (endings.get(outcome.kind, ""), outcome.message)
    sentence = ": ".join(part for part in parts if part)
    return f"{sentence}\n{where}"
