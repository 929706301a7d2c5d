"""A clock in compiled code ticks where a frame is entered and left, where it calls its resume
function, and where its graph begins and ends; from the ticks of a call follows how long it spends
at each graph break.

Hooks: ``convert_frame.register_bytecode_hook``, whose answer torch runs in place of the bytecode it
has made; Dynamo's call of the backend (backend_calls.py), which returns what the bytecode calls as
the graph; ``OutputGraph.compile_subgraph``, which is told whether a graph break ends the frame
(torch/_dynamo/output_graph.py). A tick costs well below a microsecond; on an accelerator it waits
for the device first, so that kernels count where they run and not where they are waited for.

Dynamo ends the code of a frame with a call of its rest, the resume function. So a break lasts from
the end of the graph before it (or, without one, from the entry of the frame) until the graph of the
rest is entered (or, without one, until the rest reaches a break of its own, or is left). Time
meanwhile outside of graphs, guards included, is time at the break. A function called there may have
breaks itself; their time belongs to them. A rest that is not compiled counts for no break: it is
time in Python as it would be without torch.compile.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import time
import timeit
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from fx_explorer.capture.dynamo.backend_calls import seen_backend_calls
from fx_explorer.capture.recording.dynamo_code import RESUME
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import (
    InstructionExnTabEntry,
    OutputGraph,
    add_push_null,
    create_call_function,
    create_instruction,
    create_load_const,
    register_bytecode_hook,
    skip_code,
    transform_code_object,
)

IN_BYTECODE: tuple[TickKind, ...] = ("enter", "resume", "leave", "raise")

HAS_EXCEPTION_TABLES = sys.version_info >= (3, 11)
"""Whether bytecode has a table of exception handlers. Without one, a handler costs instructions in
every call, so none is added, and a frame that ends by an exception leaves no tick.
"""

RawTick = tuple[float, str, int]


@dataclass(frozen=True, slots=True)
class EnteredFrame:
    """A compiled frame at the moment it is entered."""

    code: types.CodeType
    """The program's own code, to which torch attaches the compiled code."""
    f_locals: dict[str, Any]


@dataclass(frozen=True, slots=True)
class FrameCut:
    """The place at which a graph break ends a frame."""

    file: str
    line: int


@dataclass
class _CompilationSoFar:
    """A compilation before its bytecode is complete."""

    cut: FrameCut | None
    has_graph: bool = False
    frame: int = -1
    """Position among the frames; -1 if it has no bytecode, or none that could be changed."""


@dataclass(frozen=True, slots=True)
class ClockCosts:
    """Seconds that one tick takes, while the clock is on and while it is off."""

    in_bytecode_s: float
    around_graph_s: float
    standing_in_bytecode_s: float
    standing_around_graph_s: float


class FrameClock:
    """A clock that is compiled into each function while it is ``installed``, and ticks whenever
    these functions run.
    """

    def __init__(
        self, recording: Recording, wait_for_device: Callable[[], object] | None = None
    ) -> None:
        self._recording = recording
        self._wait = wait_for_device
        self.frames: list[TimedFrame] = []
        self.cuts: dict[int, FrameCut] = {}
        """Position of a frame → the graph break that ends it."""
        self.is_running = True
        """Whether the clock records. A tick of a stopped clock costs well below 0.1 µs."""
        self.is_looking = False
        """Whether the locals of a frame are stored when it is entered."""
        self._keywords: dict[int, str] = {}
        """Frame → the name of its ``**kwargs``; empty if it has none."""
        self.entered: dict[int, EnteredFrame] = {}
        """Frame → how it was entered the first time while the clock was looking."""
        self._codes: dict[int, types.CodeType] = {}
        self._ticks: list[RawTick] = []
        self._compiled: dict[str, _CompilationSoFar] = {}

    def take(self) -> list[Tick]:
        """Return the ticks since this was called last."""
        return [
            Tick(time_s, cast("TickKind", kind), frame) for time_s, kind, frame in self.take_raw()
        ]

    def take_raw(self) -> list[RawTick]:
        """Return the ticks since the last call, including ticks that other clocks added through
        ``add``.
        """
        ticks = list(self._ticks)
        self._ticks.clear()
        return ticks

    @property
    def add(self) -> Callable[[RawTick], None]:
        """A function that appends an external tick to the ticks, in order."""
        return self._ticks.append

    def costs(self, runs: int = 2000) -> ClockCosts:
        """Measure the cost of a tick on this machine. Ticks that were not taken before are lost."""
        frame = len(self.frames)
        self.frames.append(TimedFrame("", is_resume=False, is_cut=False, has_graph=True))
        tick = self._ticker("leave", frame)
        graph = self._timed(_nothing, _CompilationSoFar(None, has_graph=True, frame=frame))
        costs_s = []
        for self.is_running in (True, False):
            costs_s += [_least_s(tick, runs), _least_s(graph, runs)]
            self._ticks.clear()
        self.frames.pop()
        self.is_running = True
        nothing = _least_s(_nothing, runs)
        in_bytecode, around_graph, standing, standing_graph = (
            max(0.0, cost_s - nothing) for cost_s in costs_s
        )
        return ClockCosts(in_bytecode, around_graph / 2, standing, standing_graph / 2)

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            stack.callback(register_bytecode_hook(self._with_ticks).remove)
            stack.enter_context(patched(OutputGraph, "compile_subgraph", self._noting_cuts))
            stack.enter_context(seen_backend_calls(after=self._timed_graph))
            yield

    def _noting_cuts(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def compile_subgraph(
            output_graph: Any, tx: Any, reason: Any, *args: Any, **kwargs: Any
        ) -> Any:
            with self._recording.noting("the line of a graph break", "dynamo"):
                self._note_cut(reason)
            return original(output_graph, tx, reason, *args, **kwargs)

        return compile_subgraph

    def _note_cut(self, reason: Any) -> None:
        cut = None
        if reason.graph_break and reason.user_stack:
            last = reason.user_stack[-1]
            cut = FrameCut(last.filename, last.lineno)
        self._compiled[self._recording.compilation_name()] = _CompilationSoFar(cut)

    def _timed_graph(self, compiled: Callable[..., Any], _: object) -> Callable[..., Any]:
        owner = self._compiled.get(self._recording.compilation_name())
        if owner is None:
            return compiled
        owner.has_graph = True
        return self._timed(compiled, owner)

    def _timed(self, compiled: Callable[..., Any], owner: _CompilationSoFar) -> Callable[..., Any]:
        @functools.wraps(compiled, updated=())
        def graph(*args: Any, **kwargs: Any) -> Any:
            # Without ticks in the bytecode nobody would know what this graph's were a part of.
            if owner.frame < 0 or not self.is_running:
                return compiled(*args, **kwargs)
            self._tick("begin", owner.frame)
            try:
                return compiled(*args, **kwargs)
            finally:
                self._tick("end", owner.frame)

        return graph

    def _tick(self, kind: TickKind, frame: int) -> None:
        if self._wait:
            self._wait()
        self._ticks.append((time.perf_counter(), kind, frame))

    def _with_ticks(
        self, original: types.CodeType, modified: types.CodeType
    ) -> types.CodeType | None:
        """Return the bytecode with ticks; None if that is impossible: then the bytecode runs
        unchanged.
        """
        name = self._recording.compilation_name()
        owner = self._compiled.get(name)
        if owner is None:
            return None
        frame = len(self.frames)
        with self._recording.noting("a clock in compiled code", "dynamo"):
            ticking = with_calls(
                modified, {kind: self._ticker(kind, frame) for kind in IN_BYTECODE}
            )
            is_resume = RESUME.match(original.co_name) is not None
            self.frames.append(TimedFrame(name, is_resume, owner.cut is not None, owner.has_graph))
            if owner.cut:
                self.cuts[frame] = owner.cut
            owner.frame, self._codes[frame], self._keywords[frame] = (
                frame,
                original,
                _keywords_of(original),
            )
            return ticking
        return None

    def _ticker(self, kind: TickKind, frame: int) -> Callable[[], None]:
        """Return a function that ticks. Dynamo, which traces every frame that compiled code calls,
        skips its frame.
        """
        add, wait, clock = self._ticks.append, self._wait, time.perf_counter

        def tick() -> None:
            if not self.is_running:
                return
            if self.is_looking and kind == "enter" and frame not in self.entered:
                code, f_locals = self._codes[frame], dict(sys._getframe(1).f_locals)
                keywords = self._keywords[frame]
                if keywords:  # a dict of this call alone, which the program may continue to fill
                    f_locals[keywords] = dict(f_locals[keywords])
                self.entered[frame] = EnteredFrame(code, f_locals)
            if wait:
                wait()
            add((clock(), kind, frame))

        skip_code(tick.__code__)
        return tick


def with_calls(
    code: types.CodeType, calls: Mapping[TickKind, Callable[[], None]]
) -> types.CodeType:
    """Return ``code`` with a call where it begins, where it loads its rest to call it, before each
    return, and where an exception leaves it.
    """

    def transform(instructions: list[Any], options: dict[str, Any]) -> None:
        # From the end, so that the positions before stay what they are.
        for i in reversed(range(len(instructions))):
            instruction = instructions[i]
            if instruction.opname in ("RETURN_VALUE", "RETURN_CONST"):
                _insert(instructions, i, _call(calls["leave"]))
            elif _loads_rest(instruction):
                _insert(instructions, i, _call(calls["resume"]))
        start = 0
        for i, instruction in enumerate(instructions):
            if instruction.opname == "RESUME":
                start = i + 1
                break
        entering = _call(calls["enter"])
        instructions[start:start] = entering
        if HAS_EXCEPTION_TABLES:
            _at_exceptions(instructions, start + len(entering), _call(calls["raise"]))

    made: types.CodeType = transform_code_object(code, transform)[0]
    return made


def _loads_rest(instruction: Any) -> bool:
    """Return whether an instruction loads the resume function that the frame ends with."""
    return instruction.opname == "LOAD_GLOBAL" and instruction.argval.startswith("__resume_at_")


def _nothing() -> None: ...


def _least_s(run: Callable[[], object], runs: int) -> float:
    """Return the seconds of one run: the fastest of several measurements, because disturbances only
    make a run longer.
    """
    return min(timeit.repeat(run, number=runs, repeat=7)) / runs


def _insert(instructions: list[Any], position: int, added: list[Any]) -> None:
    """Insert instructions before the one at ``position``. A jump to that one now reaches the
    inserted ones first.
    """
    target, first = instructions[position], added[0]
    moved = create_instruction(target.opname, arg=target.arg, argval=target.argval)
    target.opcode, target.opname, target.arg, target.argval = (
        first.opcode,
        first.opname,
        first.arg,
        first.argval,
    )
    instructions[position + 1 : position + 1] = [*added[1:], moved]


def _at_exceptions(instructions: list[Any], start: int, added: list[Any]) -> None:
    """Add a handler that runs ``added`` when an exception leaves the code from ``start`` on, and
    reraises it with the same line and traceback. Exceptions that the code catches itself do not
    reach it.
    """
    # The stack holds where the exception was raised (lasti), what was handled before, and the
    # exception.
    handler = [
        create_instruction("PUSH_EXC_INFO"),
        *added,
        create_instruction("SWAP", arg=2),
        create_instruction("POP_EXCEPT"),
        create_instruction("RERAISE", arg=1),
    ]
    for instruction in instructions[start:]:
        if instruction.exn_tab_entry is None:
            instruction.exn_tab_entry = InstructionExnTabEntry(
                instructions[start], instructions[-1], handler[0], 0, lasti=True
            )
    instructions += handler


def _call(function: Callable[[], None]) -> list[Any]:
    # Unchecked, since torch expects literals only.
    load = add_push_null(create_load_const(function, checked=False))
    return [*load, *create_call_function(0, False), create_instruction("POP_TOP")]


def _keywords_of(code: types.CodeType) -> str:
    """Return the name of a function's ``**kwargs``; empty if it has none."""
    if not code.co_flags & inspect.CO_VARKEYWORDS:
        return ""
    has_rest = bool(code.co_flags & inspect.CO_VARARGS)
    return code.co_varnames[code.co_argcount + code.co_kwonlyargcount + has_rest]


# What the ticks of a call say of its graph breaks.


TickKind = Literal["enter", "begin", "end", "resume", "leave", "raise"]
"""Kind of a tick: a compiled frame is entered, its graph begins and ends, its rest is about to be
called, it is left, or an exception leaves it.
"""


@dataclass(frozen=True, slots=True)
class TimedFrame:
    """One frame that was compiled with the clock in it."""

    compilation: str
    is_resume: bool
    """Whether it is a resume function."""
    is_cut: bool
    """Whether it ends at a graph break."""
    has_graph: bool


@dataclass(frozen=True, slots=True)
class Tick:
    time_s: float
    kind: TickKind
    frame: int
    """Position of the TimedFrame."""


@dataclass
class CallSeconds:
    """Seconds of one call of the program: in graphs, and at each graph break."""

    graphs_s: float = 0.0
    at_cuts_s: dict[int, float] = field(default_factory=dict)
    """Seconds at each graph break, by the frame that ends there."""


@dataclass
class _Running:
    frame: int
    is_open: bool = False
    is_resuming: bool = False
    """Whether its resume function is being called. If that turns out to be compiled, the frame is
    open again.
    """


def spent(ticks: Iterable[Tick], frames: Sequence[TimedFrame]) -> CallSeconds:
    seconds = CallSeconds()
    running: list[_Running] = []
    in_graph, last_s = False, 0.0
    for tick in ticks:
        passed_s, last_s = tick.time_s - last_s, tick.time_s
        _hear_of_rest(tick, frames[tick.frame], running)
        if in_graph:
            seconds.graphs_s += passed_s
        elif owner := _owner(running):
            seconds.at_cuts_s[owner.frame] = seconds.at_cuts_s.get(owner.frame, 0.0) + passed_s
        in_graph = tick.kind == "begin"
        _follow(tick, frames[tick.frame], running)
    return seconds


def _owner(running: Sequence[_Running]) -> _Running | None:
    """Return the innermost running frame that waits at a graph break; None also while the code
    after the break runs in eager mode.
    """
    frames = reversed(running)
    last = next((frame for frame in frames if frame.is_open or frame.is_resuming), None)
    return last if last and last.is_open else None


def _hear_of_rest(tick: Tick, frame: TimedFrame, running: Sequence[_Running]) -> None:
    """Record that the resume function which a frame has called is compiled: its own frame is
    entered right after the call.
    """
    if running and running[-1].is_resuming and tick.kind == "enter" and frame.is_resume:
        running[-1].is_resuming, running[-1].is_open = False, True


def _follow(tick: Tick, frame: TimedFrame, running: list[_Running]) -> None:
    """Bring ``running`` up to date with a tick: which frames run, which of them has an open cut,
    and which waits for its rest.
    """
    if tick.kind == "enter":
        running.append(_Running(tick.frame))
        if frame.is_cut and not frame.has_graph:
            _go_on(frame, running)
            running[-1].is_open = True
        return
    _unwind(tick, running)
    if not running:
        return
    if tick.kind == "end":
        running[-1].is_open = frame.is_cut
    elif tick.kind == "resume":
        running[-1].is_open, running[-1].is_resuming = False, True
    else:
        _go_on(frame, running)
    if tick.kind in ("leave", "raise"):
        running.pop()


def _go_on(frame: TimedFrame, running: list[_Running]) -> None:
    """Note that the resume function has been reached: the graph break before it no longer counts as
    open.
    """
    if frame.is_resume and len(running) > 1:
        running[-2].is_open = False


def _unwind(tick: Tick, running: list[_Running]) -> None:
    """Take away the frames that an exception ended and that left no tick, as before Python 3.11."""
    while running and running[-1].frame != tick.frame:
        running.pop()
