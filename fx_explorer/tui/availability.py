"""This module decides which commands are unavailable now, and why, for menus and the list of
commands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.whole_session import NO_PROGRAM, NOT_BELOW, is_log
from fx_explorer.session import SessionReader, answered_once
from fx_explorer.session.queries.compilations import other_variants
from fx_explorer.session.queries.kernels import may_have_language

Compiler = Literal["none", "works", "pauses", "rests"]
"""The state of the compiler: there is none, it works, it waits at a pause, or everything is
compiled and can be compiled again.
"""


@dataclass(frozen=True, slots=True)
class Situation:
    """The state of the screen and the capture, on which commands depend."""

    reader: SessionReader | None
    compiler: Compiler
    can_run: bool
    """Whether the program can be captured again."""
    ways_to_capture: frozenset[str]
    """Those of ``CAPTURES_OTHERWISE`` for which the program can be captured again."""
    panes: int
    """Number of linked panes on screen; 0 in another view."""
    shows_graph: bool
    """Whether the focused pane shows a graph."""
    is_tour: bool = False
    """Whether the guided tour is running."""


KERNELS_LOOKED_AT = 2_000
"""Maximum number of kernels that are checked for Triton kernels: 100,000 take 12 ms, for each such
command in a menu.
"""

NEEDS_PAUSE = ("step.next", "step.run_to", "step.skip")
NEEDS_COMPILER = (
    "step.again",
    "step.pass",
    "step.fusion",
    "step.what_if",
    "step.mark",
    "step.measure",
)
STEPPING = (*NEEDS_PAUSE, *NEEDS_COMPILER, "step.abort")
"""Commands for a worker that is there: it waits at a pause, or has compiled everything."""

NEEDS_PROGRAM = (
    "capture.run",
    "capture.watch",
    "capture.without_weights",
    "capture.built",
    "step.record_trace",
    "step.record_patterns",
)
CAPTURES_OTHERWISE = {
    "capture.without_weights": (
        "Only for a capture with --gpu whose program uses real tensors, and whose target is "
        "available."
    ),
    "capture.built": (
        "The kernels are already built, or are for a GPU that this machine does not have."
    ),
    "step.record_trace": (
        "Only for a program that can be captured again, and was captured without --record-trace."
    ),
    "step.record_patterns": (
        "Only for a program that can be captured again, and was captured without --record-patterns."
    ),
}
"""Commands that capture the program again in another way → why that is not possible."""

NEEDS_REQUEST = (
    "step.measure",
    "sizes.try",
    "bench.run",
    "ledger.run",
    "numerics.run",
    "remedies.try",
    "breaks.try_all",
    "capture.other_python",
    "step.choice",
)
"""Commands that run the program again in a worker, by the session's request."""

NEEDS_BUILDS = ("preset.below", "pane.machine", "kernel.passes")
"""Commands that need the compiled levels of a Triton kernel (TTIR to SASS)."""

OF_A_LIVE_PROGRAM = (
    *STEPPING,
    *NEEDS_PROGRAM,
    *NEEDS_REQUEST,
    "step.bytecode",
    "step.option",
    "step.export",
    "kernel.bench",
)
"""Commands that need a program, its values or a worker. A log has none of them."""

NEEDS_NO_SESSION = (
    "capture.run",
    "capture.watch",
    "app.theme",
    "app.palette",
    "app.help",
    "app.quit",
    "capture.cancel",
)

NO_COMPILER = (
    "There is no compiler to step through: this is a saved session, or the worker has ended."
)
NO_RECORD = (
    "The effects of this bytecode were not recorded. Capture with --record-bytecode; or open the "
    "target itself, and press this key when its program has run."
)
NO_REQUEST = "This session does not record how it was captured: open its target, FILE.py:OBJECT."
WORKS = "The compiler is running: it takes commands at its next pause."
RESTS = "Everything is compiled; nothing is paused."


def why_not(command_id: str, now: Situation) -> str:
    """Return why a command is unavailable now; empty if it is, or may be, available."""
    if now.reader and (of_log := why_not_of_a_log(command_id, now.reader)):
        return of_log
    if command_id in STEPPING and (not_stepping := _why_not_stepping(command_id, now.compiler)):
        return not_stepping
    if command_id.startswith("tour.") or command_id == "capture.history":
        return _why_not_in_tour(command_id, is_tour=now.is_tour)
    if command_id in NEEDS_PROGRAM and not now.can_run and now.compiler == "none":
        return "This is a saved session: there is no program to run."
    if command_id in CAPTURES_OTHERWISE and command_id not in now.ways_to_capture:
        return CAPTURES_OTHERWISE[command_id]
    if now.reader is None:
        if command_id in NEEDS_NO_SESSION or command_id.startswith("view."):
            return ""
        return "Nothing is captured yet."
    if command_id in NEEDS_REQUEST and now.reader.request() is None:
        return NO_REQUEST
    if needs_the_rest(command_id, now):
        return ""
    if now.compiler == "none" and command_id in _OF_A_RECORD:
        return _OF_A_RECORD[command_id](now.reader)
    check = _OF_SESSION.get(command_id)
    if check:
        return check(now.reader)
    return _why_not_in_panes(command_id, now)


def why_not_of_a_log(command_id: str, reader: SessionReader) -> str:
    """Return why a session that was read from a log cannot carry out a command; empty when it can,
    and for any other session.
    """
    if command_id not in (*OF_A_LIVE_PROGRAM, *NEEDS_BUILDS) or not is_log(reader):
        return ""
    if command_id in OF_A_LIVE_PROGRAM:
        return NO_PROGRAM
    return "" if reader.has(model.KernelBuild) else NOT_BELOW


@answered_once
def absent_commands(reader: SessionReader, *, is_saved: bool) -> tuple[str, ...]:
    """Return the commands that footer and help leave out: those that a log cannot carry out, the
    backward graph where there is none, what is below a Triton kernel where no kernel is one, and
    with ``is_saved``, where no worker is there, what steps through the compiler and what is not
    recorded.
    """
    absent = list(absent_from_log(reader))
    if not reader.has(model.Graph, stage="backward"):
        absent.append("preset.backward")
    if reader.has(model.Kernel) and _no_triton(reader):
        absent += NEEDS_BUILDS
        if not reader.has(model.KernelBuild):
            absent.append("view.candidates")
    if is_saved:
        absent += STEPPING
        absent += [command for command, check in _OF_A_RECORD.items() if check(reader)]
    return tuple(dict.fromkeys(absent))


def absent_from_log(reader: SessionReader) -> tuple[str, ...]:
    """Return the commands that a session cannot carry out because it was read from a log."""
    commands = (*OF_A_LIVE_PROGRAM, *NEEDS_BUILDS)
    if not is_log(reader):
        return ()
    return tuple(command for command in commands if why_not_of_a_log(command, reader))


def _why_not_in_tour(command_id: str, *, is_tour: bool) -> str:
    if command_id == "capture.history":
        return "Captures of the tour are not kept." if is_tour else ""
    return "" if is_tour else "No tour is running: start it with fx-explorer tour."


def _why_not_stepping(command_id: str, compiler: Compiler) -> str:
    if compiler == "none":
        return NO_COMPILER
    if command_id == "step.abort":
        return RESTS if compiler == "rests" else ""
    if compiler == "works":
        return WORKS
    if compiler == "rests" and command_id in NEEDS_PAUSE:
        return RESTS
    return ""


def _why_not_in_panes(command_id: str, now: Situation) -> str:
    if command_id in ("graph.form", "graph.script") and not now.shows_graph:
        return "The focused pane shows no graph."
    if command_id == "pane.close" and now.panes < 2:
        return "There is only one pane, or none."
    return ""


def needs_the_rest(command_id: str, now: Situation) -> bool:
    """Return whether the compiler pauses before the stage that a command needs. Such a command asks
    whether to continue to the end, and runs then.
    """
    lacks = LACKS.get(command_id)
    return (
        lacks is not None
        and now.compiler == "pauses"
        and now.reader is not None
        and lacks(now.reader)
    )


def _lacks_kernels(reader: SessionReader) -> bool:
    return not reader.has(model.Kernel)


def _lacks_autograd(reader: SessionReader) -> bool:
    """Return whether AOTAutograd has not traced any graph yet."""
    stages: tuple[model.Stage, ...] = ("joint", "forward", "backward", "post_grad")
    return not any(reader.has(model.Graph, stage=stage) for stage in stages)


def _lacks_guards(reader: SessionReader) -> bool:
    return not reader.has(model.Guard)


def _lacks_times(reader: SessionReader) -> bool:
    return not reader.has(model.Span)


def _has_not_ended(reader: SessionReader) -> bool:
    return reader.meta("outcome") is None


LACKS: dict[str, Callable[[SessionReader], bool]] = {
    "view.guards": _lacks_guards,
    "view.kernels": _lacks_kernels,
    "view.memory": _lacks_autograd,
    "view.time": _lacks_times,
    "view.step_memory": _lacks_kernels,
    "view.candidates": _lacks_kernels,
    "preset.backward": _lacks_autograd,
    "preset.joint": _lacks_autograd,
    "preset.below": _lacks_kernels,
    "kernel.passes": _lacks_kernels,
    "kernel.bench": _lacks_kernels,
    "copy.kernel": _lacks_kernels,
    "step.fusion": _lacks_kernels,
    "step.choice": _lacks_kernels,
    "breaks.fix": _has_not_ended,
    "breaks.try_all": _has_not_ended,
    "capture.other_python": _has_not_ended,
}
"""Commands that need a stage which may lie ahead → whether a session lacks its results. A fix is
compared with the figures of a whole capture.
"""

SHOWN_ANYWAY = ("preset.backward", "preset.joint", "breaks.fix")
"""Commands that run even if the user declines to continue: they say what is missing. Views are
shown before the question.
"""


def _no_kernel(reader: SessionReader) -> str:
    if reader.has(model.Kernel):
        return ""
    return "No kernel was generated."


def _no_triton(reader: SessionReader) -> str:
    """Return why there is no Triton kernel, from the first kernels alone: a menu needs this before
    its first frame.
    """
    if may_have_language(reader, "triton", KERNELS_LOOKED_AT):
        return ""
    return "There is no Triton kernel in this session."


def _no_backward(reader: SessionReader) -> str:
    if reader.has(model.Graph, stage="backward"):
        return ""
    return "There is no backward: no gradient was asked for."


def _no_graph(reader: SessionReader) -> str:
    if reader.has(model.Graph):
        return ""
    return "No graph was recorded."


def _no_break(reader: SessionReader) -> str:
    few = reader.count(model.Compilation) < 2
    if few and not reader.has(model.GraphBreak):
        return "There is no graph break, and nothing was recompiled."
    return ""


def _no_other(reader: SessionReader) -> str:
    if reader.count(model.Compilation) < 2:
        return "There is only one compilation: nothing to compare it with."
    return ""


def _no_bytecode_record(reader: SessionReader) -> str:
    return "" if reader.has(model.BytecodeStep) else NO_RECORD


def _no_trace(reader: SessionReader) -> str:
    if reader.has(model.TraceStep):
        return ""
    from fx_explorer.instruments.trace.view import why_empty  # not needed for the first paint

    return why_empty(reader)


@answered_once
def _no_marks(reader: SessionReader) -> str:
    """Return why there are no marks. Each was put on a graph that waited, or began a variant."""
    if reader.has(model.Intervention, kind="mark") or other_variants(reader):
        from fx_explorer.analysis.hand_marks import hand_marks  # not needed for the first paint

        if hand_marks(reader):
            return ""
    return "Nothing was marked by hand."


_OF_A_RECORD: dict[str, Callable[[SessionReader], str]] = {
    "step.bytecode": _no_bytecode_record,
    "step.trace": _no_trace,
    "step.export": _no_marks,
}
"""Commands that show what the session has, and that a worker could add to it → why a session
without a worker has nothing to show.
"""

_OF_SESSION: dict[str, Callable[[SessionReader], str]] = {
    "step.fusion": _no_kernel,
    "step.choice": _no_kernel,
    "view.candidates": _no_kernel,
    "kernel.bench": _no_kernel,
    "kernel.passes": _no_triton,
    "preset.below": _no_triton,
    "pane.machine": _no_triton,
    "preset.neighbourhood": _no_graph,
    "preset.backward": _no_backward,
    "preset.joint": _no_backward,
    "breaks.fix": _no_break,
    "breaks.try_all": _no_break,
    "variants.compare": _no_other,
}
