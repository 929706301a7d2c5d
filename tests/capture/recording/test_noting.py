"""These tests check that our errors stay inside the recording, and the program's errors pass
through it.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from types import FrameType
from typing import Any

import pytest
from torch._C._dynamo.eval_frame import set_eval_frame

from fx_explorer.capture.recording import noting
from fx_explorer.capture.recording.noting import DynamoOff, Noting
from tests.session.test_raised_while_writing import Late, programs_handler

__all__ = ["programs_handler"]


def is_looking() -> object:
    """What Dynamo does with frames."""
    looking = set_eval_frame(None)
    set_eval_frame(looking)
    return looking


class Wall:
    def __init__(self) -> None:
        self.faults: list[Exception] = []

    def noting(self) -> Noting:
        return Noting(lambda what, stage, error: self.faults.append(error), "it", None, DynamoOff())


@pytest.fixture
def wall() -> Wall:
    return Wall()


class Shown:
    """An object of the program's that cannot be shown."""

    def __repr__(self) -> str:
        raise Late


def test_a_fault_of_ours_and_of_an_object_that_is_shown_stays_inside(wall: Wall) -> None:
    for fault in (lambda: 1 / 0, lambda: repr(Shown())):
        with wall.noting():
            fault()
    assert [type(error) for error in wall.faults] == [ZeroDivisionError, Late]


@pytest.mark.usefixtures("programs_handler")
def test_a_time_out_of_the_program_reaches_it_when_the_record_is_made(wall: Wall) -> None:
    made, before = [], is_looking()

    def record() -> None:
        signal.raise_signal(signal.SIGALRM)
        made.append("a record")

    with pytest.raises(Late), wall.noting():
        record()
    assert made == ["a record"]
    assert wall.faults == []
    assert is_looking() is before, "Dynamo is as it was"


def test_what_a_trace_function_or_another_thread_raises_goes_on_to_the_program(wall: Wall) -> None:
    def tracer(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_name == "called":
            raise Late
        return tracer

    def called() -> None:
        pass

    sys.settrace(tracer)
    with pytest.raises(Late), wall.noting():
        called()
    sys.settrace(None)
    assert wall.faults == []
    # As where a record is made: in a frame of a file of ours.
    ours = compile("raise_in(thread, late)\nsum(range(9))", noting.__file__, "exec")
    names = {
        "raise_in": ctypes.pythonapi.PyThreadState_SetAsyncExc,
        "thread": ctypes.c_ulong(threading.get_ident()),
        "late": ctypes.py_object(Late),
    }
    with pytest.raises(Late), wall.noting():
        exec(ours, names)
    assert wall.faults == []
