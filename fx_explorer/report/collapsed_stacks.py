"""This module writes flame charts as collapsed stacks, which FlameGraph, inferno and speedscope
read: a line for each stack, its frames from the outermost in with ``;`` between them, and the
microseconds that were spent in the innermost frame itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fx_explorer.analysis.flame import FlameFrame
from fx_explorer.errors import UsageError
from fx_explorer.highlight import printable
from fx_explorer.instruments.compile_time.timing import compile_time
from fx_explorer.instruments.compile_time.view import why_no_time
from fx_explorer.instruments.ledger.figures import ledger_figures
from fx_explorer.instruments.ledger.flame_chart import flame
from fx_explorer.session import SessionReader

SIGN = "fx-explorer: "
"""How the outermost frame begins, by which our files are known."""


def collapsed_text(reader: SessionReader, section: str = "flame") -> str:
    """Return one section of ``SECTIONS`` as collapsed stacks. Raises UsageError where it is
    empty.
    """
    with reader.snapshot():
        return collapsed_stacks(SECTIONS[section](reader))


def _compiling(reader: SessionReader) -> FlameFrame:
    whole = compile_time(reader)
    if whole is None:
        raise UsageError(why_no_time(reader))
    return whole.root


def _call(reader: SessionReader) -> FlameFrame:
    figures = ledger_figures(reader)
    if figures is None:
        raise UsageError(
            "this session has no ledger; make one with: fx-explorer ledger TARGET -o s.fxs"
        )
    return flame(figures)


SECTIONS: Mapping[str, Callable[[SessionReader], FlameFrame]] = {
    "flame": _compiling,
    "ledger": _call,
}
"""Section of a report → the frame that contains all others."""


def collapsed_stacks(root: FlameFrame) -> str:
    """Return the stacks in the order in which they first occur; equal ones are one line. The
    microseconds are whole, and those of all lines add up to those of the whole, rounded once.
    """
    spent_s: dict[str, float] = {}
    waiting = [(root, SIGN + _frame_name(root))]
    while waiting:  # no recursion: a file may hold phases within phases as deep as it likes
        frame, stack = waiting.pop()
        spent_s[stack] = spent_s.get(stack, 0.0) + frame.self_s
        waiting += [(child, f"{stack};{_frame_name(child)}") for child in reversed(frame.children)]
    lines = []
    whole_s, written = 0.0, 0
    for stack, took_s in spent_s.items():
        whole_s += took_s
        microseconds = round(whole_s * 1e6) - written
        if microseconds > 0:
            lines.append(f"{stack} {microseconds}\n")
            written += microseconds
    return "".join(lines)


def _frame_name(frame: FlameFrame) -> str:
    """Return the name of a frame without the sign that separates frames."""
    return printable(frame.name).replace(";", ":") or "?"
