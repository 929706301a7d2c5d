"""This module runs one capture for a command without a screen: it shows how it goes, reacts to
Ctrl-C, and says how it ended.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from fx_explorer.analysis.whole_session import totals
from fx_explorer.analysis.words import breaks_hit, counted, seconds
from fx_explorer.client import Capture, leftovers
from fx_explorer.client.outcomes import exit_code
from fx_explorer.command_line.being_compiled import BeingCompiled
from fx_explorer.command_line.narration import CaptureNarration
from fx_explorer.model import (
    CaptureRequest,
    Compilation,
    Graph,
    Outcome,
    SupportReport,
)
from fx_explorer.overview.ending import (
    NO_COMPILER_HERE,
    OF_EAGER_GRAPHS,
    OTHER_RANDOM_NUMBERS,
    has_other_random_numbers,
)
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import has_compiled

NOTHING_COMPILED = 2


def follow(
    request: CaptureRequest,
    arguments: argparse.Namespace,
    output: Path,
    *,
    pass_through: bool,
    may_be_empty: bool = True,
) -> int:
    """Capture and return the exit code. With ``pass_through`` the program's output goes where it
    would go without us; otherwise it is part of the narration on stderr. Unless it
    ``may_be_empty``, a session without compilations ends with 2.
    """
    return asyncio.run(_follow(request, arguments, output, pass_through, may_be_empty))


async def _follow(
    request: CaptureRequest,
    arguments: argparse.Namespace,
    output: Path,
    pass_through: bool,
    may_be_empty: bool,
) -> int:
    """Run the capture to its end, tell how it ended and where the session is, and return the exit
    code.
    """
    progress = CaptureNarration(sys.stderr, pass_through=pass_through)

    def prepared(request: CaptureRequest) -> Capture:
        return Capture(
            request,
            arguments.python,
            arguments.timeout,
            output,
            on_output=progress.program_output,
            force=arguments.force,
        )

    capture = prepared(request)
    outcome = await narrated(capture, progress)
    if is_to_be_built(capture, outcome, progress):
        capture.discard()
        capture = prepared(built_after(request, outcome))
        outcome = await narrated(capture, progress)
    if outcome.kind == "not_started":
        capture.discard()
        progress.tell(outcome.message)
    else:
        text = amounts(capture.session_path, progress.elapsed_s)
        progress.tell(
            closing_words(
                outcome, capture.session_path, text, is_complete=capture.session_path == output
            )
        )
        for line in (*support_words(capture.session_path), *_random_words(capture.session_path)):
            progress.tell(line)
    for line in leftovers.news():
        progress.tell(line)
    code = exit_code(outcome, as_script=request.as_script, stopped_by=capture.stopped_by)
    if request.as_script and outcome.kind in SCRIPT_ENDED:
        progress.tell(f"exit code {code}, the script's own")
    return code or unless_compiled(capture.session_path, progress, may_be_empty=may_be_empty)


def _random_words(session: Path) -> Iterator[str]:
    """Say so where the program ran with other random numbers than it has alone."""
    with SessionReader(session) as reader:
        if has_other_random_numbers(reader):
            yield f"note: {OTHER_RANDOM_NUMBERS}"


def is_to_be_built(capture: Capture, outcome: Outcome, progress: CaptureNarration) -> bool:
    """Return whether the target is to be built, because it raised in a graph that was only
    inspected: then PyTorch's operators ran, and the compiled program may not raise. A script is not
    run twice, nor can anything be built without a compiler: then it is said what to do.
    """
    if not outcome.in_eager_graphs:
        return False
    progress.tell(f"{outcome.message}. {OF_EAGER_GRAPHS}")
    with SessionReader(capture.session_path) as reader:
        is_script = (reader.meta("target") or {}).get("kind") == "script"
        has_compiler = bool((reader.meta("environment") or {}).get("cxx"))
    if has_compiler and not is_script:
        progress.tell("building it, to see whether the compiled program raises, too")
        return True
    command = "run --build" if is_script else "capture --build"
    needed = "" if has_compiler else f" ({NO_COMPILER_HERE})"
    progress.tell(f"try: fx-explorer {command} {capture.request.target}{needed}")
    return False


def built_after(request: CaptureRequest, outcome: Outcome) -> CaptureRequest:
    """Return the request for a build of what raised while it was inspected."""
    return replace(request, build=True, raised_inspecting=outcome.message)


SCRIPT_ENDED = ("finished", "raised", "exited", "incomplete")


def unless_compiled(session: Path, progress: CaptureNarration, *, may_be_empty: bool) -> int:
    """Return the exit code of a capture that went well. It is said where nothing was compiled,
    unless that ``may_be_empty``.
    """
    with SessionReader(session) as reader:
        if may_be_empty or has_compiled(reader):
            return 0
    progress.tell(f"nothing was compiled: exit code {NOTHING_COMPILED} (0 with --allow-nothing)")
    return NOTHING_COMPILED


async def narrated(capture: Capture, progress: CaptureNarration) -> Outcome:
    """Run a capture to its end, with narration; signals end it and keep what was captured."""
    try:
        with interrupts(capture, interrupts_program=capture.request.as_script):
            return await narrate_live(capture, progress)
    finally:
        progress.end()


async def narrate_live(capture: Capture, progress: CaptureNarration) -> Outcome:
    """Start a capture, follow it to its end, and show what is being compiled meanwhile."""
    compiling = BeingCompiled(capture.session_path)
    progress.show_live(compiling.words)
    with ticking(progress):
        await capture.start()
        async for notice in capture.notices():
            compiling.hear(notice)
            progress.show(notice)
        return await capture.wait()


@contextlib.contextmanager
def ticking(progress: CaptureNarration) -> Iterator[None]:
    """Let the live line show inside the block that time passes."""
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
    """Let Ctrl-C, SIGTERM and a closed terminal end the capture inside the block, and keep what was
    captured. A script gets the first Ctrl-C itself, as it would alone.
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


def support_words(session: Path) -> list[str]:
    """Say how much a backend other than Inductor supports, and which view shows more; nothing
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
    """Say how long a capture took and how much it found:
    ``in 9.1 s: 2 graphs, 1 graph break, 14 kernels``; of breaks that were hit more than once,
    ``2 graph breaks, hit 3 times``.
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


def closing_words(outcome: Outcome, session: Path, found: str, *, is_complete: bool) -> str:
    """Say in one or two lines how the capture ended, what was ``found``, and where the session
    is.
    """
    if is_complete:
        where = f"session: {session} (look at it with: fx-explorer {session})"
    else:
        where = f"session kept in: {session}"
    endings = {
        "finished": f"done {found}",
        "raised": "the program raised",
        "incomplete": "the session is not complete",
    }
    parts = (endings.get(outcome.kind, ""), outcome.message)
    sentence = ": ".join(part for part in parts if part)
    return f"{sentence}\n{where}"
