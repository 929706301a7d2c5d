"""This module names compilations that the program requests itself, by passing a graph to Inductor,
or a function to AOTAutograd or ``make_fx``. No frame of Dynamo's belongs to them.

torch gives them no name. Here each gets one that says who compiles, with a number of its own:
``inductor/0/0``, ``aot/1/0``, ``make_fx/2/0``, ``precompile/3/0``.
"""

from __future__ import annotations

import contextlib
import linecache
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import Literal

from fx_explorer.capture.recording import stage_events
from fx_explorer.capture.recording.boundary import StraightThrough
from fx_explorer.capture.recording.described import one_line
from fx_explorer.capture.recording.sources import Sources
from fx_explorer.capture.recording.state import Recording
from fx_explorer.model import Compilation, Frame

Compiler = Literal["inductor", "aot", "make_fx", "precompile"]
"""The compiler, which is the first part of the compilation's name."""

_BACKENDS: dict[Compiler, str] = {
    "inductor": "inductor",
    "aot": "aot_function",
    "make_fx": "make_fx",
    "precompile": "inductor",
}

_FIRST_FRAME = 500_000
"""First frame number of these compilations; torch's own numbers stay below."""

_NAMELESS = "graph"

_NOTHING_TO_DERIVE = "the program gave Inductor a graph of operators, without AOTAutograd"

_NO_DYNAMO = "the program called {}, without Dynamo"


def is_given_directly(recording: Recording) -> bool:
    """Return whether the present compilation has no name yet, neither from torch nor from this
    module.
    """
    return recording.here.ahead is None and not recording.compilation_name()


@contextlib.contextmanager
def given_directly(recording: Recording, compiler: Compiler, function: str) -> Iterator[str]:
    """Open a compilation for the program's own call of a compiler inside the block, and record how
    it ended. ``function`` names what is compiled. Yields the compilation's name. No gate waits
    inside, because there is no frame to compile again.
    """
    with contextlib.ExitStack() as stack:
        name = ""
        with recording.noting("what the program compiles without Dynamo"):
            name = _announce(recording, compiler, function)
            stack.enter_context(recording.here.compiling_ahead())
            recording.here.stay_in(name)
            stack.enter_context(nobody_steps(recording))
        began_s = time.perf_counter()
        try:
            yield name
        except Exception as error:
            with recording.noting("how compilations without Dynamo ended"):
                _failed(recording, name, error)
            raise
        with recording.noting("how compilations without Dynamo ended"):
            _end(recording, name, compiler, time.perf_counter() - began_s)


def _announce(recording: Recording, compiler: Compiler, function: str) -> str:
    number = recording.next_direct_number()
    name = f"{compiler}/{number}/0"
    called_by = _program_frames(recording.sources)
    place = called_by[-1] if called_by else Frame("", 0, "", "")
    recording.sources.file(place.file)
    row = Compilation(
        0,
        name,
        _FIRST_FRAME + number,
        0,
        function or _NAMELESS,
        place.file,
        place.line,
        recording.sources.stack(called_by),
        backend=_BACKENDS[compiler],
    )
    recording.add_compilation(name, row)
    recording.of(name).backend = row.backend
    return name


def _program_frames(sources: Sources) -> tuple[Frame, ...]:
    """Return the program's own frames, outermost first."""
    frames: list[Frame] = []
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        file = frame.f_code.co_filename
        if sources.is_users(file):
            code = linecache.getline(file, frame.f_lineno).strip()
            frames.append(Frame(file, frame.f_lineno, frame.f_code.co_name, code))
        frame = frame.f_back
    return tuple(reversed(frames))


@contextlib.contextmanager
def nobody_steps(recording: Recording) -> Iterator[None]:
    """Switch off waiting at gates inside the block."""
    before, recording.boundary = recording.boundary, StraightThrough()
    try:
        yield
    finally:
        recording.boundary = before


def _end(recording: Recording, name: str, compiler: Compiler, duration_s: float) -> None:
    recording.segment()  # it has one, also where no graph was made
    missing = stage_events.missing(recording, name, "ok") or {}
    called = {
        "inductor": "Inductor itself",
        "aot": "AOTAutograd itself",
        "make_fx": "make_fx",
        "precompile": "torch.compiler.precompile, which traces with make_fx",
    }
    if compiler == "inductor" and "pre_grad" in missing:
        missing |= dict.fromkeys(("pre_grad", "joint"), _NOTHING_TO_DERIVE)
        missing = {stage: why for stage, why in missing.items() if stage != "backward"}
    missing["dynamo"] = _NO_DYNAMO.format(called[compiler])
    recording.change_compilation(name, status="ok", duration_s=duration_s, missing_stages=missing)


def _failed(recording: Recording, name: str, error: Exception) -> None:
    message = one_line(f"{type(error).__name__}: {error}")
    recording.add_failure("compiler", recording.stage, error, message)
    missing = stage_events.missing(recording, name, "failed")
    recording.change_compilation(name, status="failed", error=message, missing_stages=missing)
