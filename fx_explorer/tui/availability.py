"""Which commands do something now, and why the others do not, for menus and the list of commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fx_explorer import model
from fx_explorer.session import SessionReader

Compiler = Literal["none", "works", "pauses", "rests"]
"""What the compiler does: there is none, it works, it waits at a pause, or all is compiled and kept
at hand.
"""


@dataclass(frozen=True, slots=True)
class Situation:
    """What is on screen, and what runs."""

    reader: SessionReader | None
    compiler: Compiler
    can_run: bool
    """Whether the program can be captured again."""
    has_gpu: bool
    """Whether it was asked for code of a GPU that is not here."""
    panes: int
    """Linked panes on screen; 0 in another view."""
    shows_graph: bool
    """Whether the focused pane shows a graph."""


NEEDS_PAUSE = ("step.next", "step.go", "step.run_to", "step.skip", "step.pass")
NEEDS_COMPILER = ("step.again", "step.what_if", "step.mark")
OF_KERNELS = ("preset.below", "view.candidates", "kernel.passes", "kernel.bench")
"""Commands that are there while the compiler waits and no kernel is made: they go on first."""
NEEDS_PROGRAM = ("capture.again", "capture.watch", "capture.without_weights")
NEEDS_NO_SESSION = ("capture.again", "capture.watch", "app.theme", "app.palette", "app.help", "app.quit", "capture.cancel")

NO_COMPILER = "There is no compiler to step through: this is a saved session, or the worker has ended."
WORKS = "The compiler is working: it listens at its next pause."
RESTS = "Everything is compiled, and nothing waits."


def why_not(command_id: str, now: Situation) -> str:
    """Return why a command does nothing now; empty when it does something, or may."""
    if command_id in (*NEEDS_PAUSE, *NEEDS_COMPILER, "step.abort"):
        return _why_not_stepping(command_id, now.compiler)
    if command_id in NEEDS_PROGRAM and not now.can_run and now.compiler == "none":
        return "This is a saved session: there is no program to run."
    if command_id == "capture.without_weights" and not now.has_gpu:
        return "Only for a program that is captured with --gpu."
    if now.reader is None:
        return "" if command_id in NEEDS_NO_SESSION or command_id.startswith("view.") else "Nothing is captured yet."
    if command_id in OF_KERNELS and now.compiler == "pauses" and has_no_kernel(now.reader):
        return ""
    check = _OF_SESSION.get(command_id)
    return check(now.reader) if check else _why_not_in_panes(command_id, now)


def _why_not_stepping(command_id: str, compiler: Compiler) -> str:
    if compiler == "none":
        return NO_COMPILER
    if command_id == "step.abort":
        return RESTS if compiler == "rests" else ""
    if compiler == "works":
        return WORKS
    return RESTS if compiler == "rests" and command_id in NEEDS_PAUSE else ""


def _why_not_in_panes(command_id: str, now: Situation) -> str:
    if command_id in ("graph.form", "graph.script") and not now.shows_graph:
        return "The focused pane shows no graph."
    if command_id == "pane.close" and now.panes < 2:
        return "There is only one pane, or none."
    return ""


def has_no_kernel(reader: SessionReader | None) -> bool:
    """Return whether nothing was compiled as far as a kernel."""
    return reader is not None and not reader.count(model.Kernel)


def _no_kernel(reader: SessionReader) -> str:
    return "" if reader.count(model.Kernel) else "No kernel was generated."


def _no_triton(reader: SessionReader) -> str:
    return "" if reader.count(model.Kernel, language="triton") else "There is no Triton kernel in this session."


def _no_backward(reader: SessionReader) -> str:
    return "" if reader.count(model.Graph, stage="backward") else "There is no backward: no gradient was asked for."


def _no_graph(reader: SessionReader) -> str:
    return "" if reader.count(model.Graph) else "No graph was recorded."


def _no_break(reader: SessionReader) -> str:
    few = reader.count(model.Compilation) < 2
    return "There is no graph break, and nothing was compiled again." if few and not reader.count(model.GraphBreak) else ""


def _no_other(reader: SessionReader) -> str:
    return "There is only one compilation: nothing to compare it with." if reader.count(model.Compilation) < 2 else ""


_OF_SESSION: dict[str, Callable[[SessionReader], str]] = {
    "view.candidates": _no_kernel,
    "kernel.bench": _no_kernel,
    "kernel.passes": _no_triton,
    "preset.below": _no_triton,
    "pane.machine": _no_triton,
    "preset.neighbourhood": _no_graph,
    "preset.backward": _no_backward,
    "preset.joint": _no_backward,
    "breaks.fix": _no_break,
    "variants.compare": _no_other,
}
