"""These tests raise exceptions between two instructions of a session's writer: by signal handlers,
trace functions, other threads.
"""

from __future__ import annotations

import ctypes
import itertools
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from fx_explorer import model
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.undisturbed import defer_handlers, undisturbed

STEP = 61
"""Only every 61st instruction is tried, because there are some 2,800."""


class Late(Exception):
    """Late is an exception that the program raises."""


def write(writer: SessionWriter, number: int) -> None:
    """Rows that belong together, and one by itself."""
    with writer.transaction():
        text = writer.text(f"a text of row {number} " * 20)
        file = writer.add(model.SourceFile(0, f"/together{number}.py", text, 1, is_user=True))
        frame = model.Frame(f"/together{number}.py", 1, "f", "x")
        writer.add_stack(model.Stack(0, (frame,)), {frame.file: file})
    writer.add(model.SourceFile(0, f"/alone{number}.py", 0))


def raise_at_once() -> None:
    raise Late


def raise_by_signal() -> None:
    signal.raise_signal(signal.SIGALRM)


def raise_from_thread() -> None:
    thread = ctypes.c_ulong(threading.get_ident())
    ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(Late))


class At:
    """At is a trace function that raises at one instruction of the writer."""

    def __init__(self, instruction: int, cause: Callable[[], None]) -> None:
        self._left = instruction
        self._cause = cause

    @property
    def has_come(self) -> bool:
        return self._left <= 0

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        file = frame.f_code.co_filename
        if "/fx_explorer/" not in file and not file.endswith("contextlib.py"):
            return self if frame.f_code is write.__code__ else None
        frame.f_trace_opcodes = True
        self._left -= 1
        if self._left == 0:
            self._cause()
        return self


def paths(session: Path) -> set[str]:
    with SessionReader(session) as reader:
        rows = reader.rows(model.SourceFile)
        assert all(reader.text(row.text) for row in rows if row.text)
        assert reader.count(model.Stack) == sum(row.path.startswith("/together") for row in rows)
        return {row.path for row in rows}


def raised_while_writing(
    session: Path, instruction: int, cause: Callable[[], None]
) -> tuple[bool, Late | None]:
    """Write a second time, with an exception raised, and then continue in this thread and in
    another.
    """
    at, raised = At(instruction, cause), None
    with SessionWriter(session) as writer:
        write(writer, 0)
        sys.settrace(at)
        try:
            write(writer, 1)
        except Late as late:
            raised = late  # kept, and with it all frames that it came through
        finally:
            sys.settrace(None)
        write(writer, 2)
        thread = threading.Thread(target=write, args=(writer, 3))
        thread.start()
        thread.join(30)
        assert not thread.is_alive(), "another thread waits for a lock that nobody releases"
        write(writer, 4)
    return at.has_come, raised


@pytest.mark.parametrize("cause", [raise_at_once, raise_from_thread])
def test_what_is_raised_at_any_instruction_of_writing_leaves_the_session_whole(
    cause: Callable[[], None], tmp_path: Path
) -> None:
    undisturbed_rows = {f"/{kind}{n}.py" for kind in ("together", "alone") for n in range(5)}
    for instruction in itertools.count(1, STEP):
        session = tmp_path / f"{instruction}.fxs"
        has_come, raised = raised_while_writing(session, instruction, cause)
        kept = paths(session)
        if not has_come:
            assert kept == undisturbed_rows
            assert instruction > 1_000, "the writer was looked at"
            break
        assert raised is not None
        assert kept >= undisturbed_rows - {"/together1.py", "/alone1.py"}
        session.unlink()


@pytest.fixture
def programs_handler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A time-out as programs have it: the handler of a signal raises."""
    before = {number: signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGINT)}
    for name in ("signal", "getsignal"):
        monkeypatch.setattr(signal, name, getattr(signal, name))  # to be put back
    defer_handlers()

    def late(number: int, frame: FrameType | None) -> None:
        raise Late

    signal.signal(signal.SIGALRM, late)
    assert signal.getsignal(signal.SIGALRM) is late, "the program sees its own handler"
    yield
    monkeypatch.undo()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("programs_handler")
def test_what_a_signal_handler_raises_comes_when_the_record_is_whole(tmp_path: Path) -> None:
    for instruction in itertools.count(1, STEP):
        session = tmp_path / f"{instruction}.fxs"
        has_come, raised = raised_while_writing(session, instruction, raise_by_signal)
        if not has_come:
            break
        assert raised is not None, "it reaches the program"
        kept = paths(session)
        # Each of the two transactions is there whole, or had not begun.
        assert kept >= {f"/{kind}{n}.py" for kind in ("together", "alone") for n in (0, 2, 3, 4)}
        session.unlink()


@pytest.mark.usefixtures("programs_handler")
def test_within_one_block_nothing_is_lost_however_often_a_signal_comes(tmp_path: Path) -> None:
    def again(frame: FrameType, event: str, _: object) -> Any:
        frame.f_trace_opcodes = True
        signal.raise_signal(signal.SIGALRM)
        return again

    session = tmp_path / "s.fxs"

    def write_disturbed(writer: SessionWriter) -> None:
        with undisturbed:
            sys.settrace(again)
            write(writer, 0)
            sys.settrace(None)

    with SessionWriter(session) as writer, pytest.raises(Late):
        write_disturbed(writer)
    assert paths(session) == {"/together0.py", "/alone0.py"}


@pytest.mark.usefixtures("programs_handler")
def test_where_the_user_is_waited_for_a_handler_is_called_at_once() -> None:
    with undisturbed:
        with pytest.raises(Late), undisturbed.lifted():
            signal.raise_signal(signal.SIGALRM)
        signal.raise_signal(signal.SIGALRM)  # and is not, where a record is written again
        with pytest.raises(Late):
            undisturbed.__exit__()
        undisturbed.__enter__()
