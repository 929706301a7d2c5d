"""These tests check compiled functions that an exception leaves at a graph break: their nesting is
known by hand.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable

import pytest
import torch

from fx_explorer.capture.dynamo.frame_clock import HAS_EXCEPTION_TABLES, FrameClock
from fx_explorer.capture.recorder import recording
from fx_explorer.instruments.ledger.measure.timeline import CallStep, steps
from fx_explorer.model import CaptureRequest
from fx_explorer.session.writer import IN_MEMORY, SessionWriter

pytestmark = pytest.mark.skipif(
    not HAS_EXCEPTION_TABLES, reason="before Python 3.11 an exception leaves no tick"
)

Function = Callable[[torch.Tensor], torch.Tensor]


def in_the_breaks_rest(x: torch.Tensor) -> torch.Tensor:
    x = x.sin()
    torch._dynamo.graph_break()
    raise ValueError


@torch._dynamo.disable
def failing() -> None:
    raise ValueError


def in_the_breaks_python(x: torch.Tensor) -> torch.Tensor:
    x = x.sin()
    failing()
    return x.cos()


def in_a_function_called_behind_a_break(x: torch.Tensor) -> torch.Tensor:
    x = x.cos()
    torch._dynamo.graph_break()
    return in_the_breaks_rest(x)


@torch._dynamo.disable
def going_on(x: torch.Tensor) -> torch.Tensor:
    try:
        return compiled(in_the_breaks_rest)(x)
    except ValueError:
        return x


def caught_within(x: torch.Tensor) -> torch.Tensor:
    x = going_on(x.exp())
    return x * 2


def works(x: torch.Tensor) -> torch.Tensor:
    return x.tan()


def compiled(function: Function) -> Function:
    return torch.compile(function, backend="eager")


def call(function: Function) -> None:
    """Call the function and another one, both compiled: the code after the exception is the
    program's.
    """
    with contextlib.suppress(ValueError):
        compiled(function)(torch.ones(3))
    compiled(works)(torch.ones(3))


def nesting(ticks: list[tuple[float, str, int]]) -> str:
    """Write down which frames lie in which, one letter for each in the order in which they are
    entered first.
    """
    letters: dict[int, str] = {}
    told = ""
    for _, kind, frame in ticks:
        if kind == "enter":
            told += letters.setdefault(frame, chr(ord("a") + len(letters))) + "("
        elif kind in ("leave", "raise"):
            told += ")" if kind == "leave" else "!)"
    return told


def followed(function: Function) -> tuple[str, list[CallStep], list[tuple[float, str, int]]]:
    torch._dynamo.reset()
    with (
        SessionWriter(IN_MEMORY) as writer,
        recording(writer, CaptureRequest("test", ""), lambda notice: None) as state,
    ):
        clock = FrameClock(state)
        with clock.installed():
            call(function)
        clock.take()
        call(function)
        ticks = clock.take_raw()
        ticks = [(ticks[0][0], "forward", 0), *ticks, (ticks[-1][0], "over", 0)]
        found = steps(ticks, clock.frames, [])
    torch._dynamo.reset()
    return nesting(ticks), found, ticks


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (in_the_breaks_rest, "a(!)b()"),
        (in_the_breaks_python, "a(!)b()"),
        (in_a_function_called_behind_a_break, "a(b(c(!)!)!)d()"),
        (caught_within, "a(b(!)c())d()"),
    ],
)
def test_a_frame_ends_where_the_exception_leaves_it(function: Function, expected: str) -> None:
    told, found, ticks = followed(function)
    assert told == expected
    open_frames: list[int] = []
    for (_, kind, frame), step in zip(ticks, found, strict=False):
        if kind == "enter":
            open_frames.append(frame)
        elif kind in ("leave", "raise"):
            assert open_frames.pop() == frame
        assert step.frame == (open_frames[-1] if open_frames else -1), (kind, frame)
    assert len(found) == len(ticks) - 1, "a step is what passes between two ticks, so they add up"


def test_an_exception_is_the_programs_own_with_a_clock_too() -> None:
    def told(function: Function) -> list[tuple[str, int | None]]:
        with pytest.raises(ValueError) as raised:  # noqa: PT011, it has no text
            function(torch.ones(3))
        assert raised.value.__context__ is None
        assert sys.exc_info() == (None, None, None)
        return [
            (one.name, one.lineno)
            for one in traceback.extract_tb(raised.value.__traceback__)
            if one.filename == __file__
        ]

    torch._dynamo.reset()
    expected = told(compiled(in_a_function_called_behind_a_break))
    torch._dynamo.reset()
    with (
        SessionWriter(IN_MEMORY) as writer,
        recording(writer, CaptureRequest("test", ""), lambda notice: None) as state,
    ):
        clock = FrameClock(state)
        with clock.installed():
            assert told(compiled(in_a_function_called_behind_a_break)) == expected
    assert [tick.kind for tick in clock.take()].count("raise") == 3
    torch._dynamo.reset()
