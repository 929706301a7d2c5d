"""These tests run programs that close, replace or run out of descriptors: not a byte of ours goes
into a file of theirs.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fx_explorer.errors import SessionWriteError
from fx_explorer.program.guarded_writer import GuardedWriter
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.undisturbed import ROOM, SPARE, Descriptor, high_numbers, moved_up
from tests.exhaustive import with_others
from tests.worker.capturing import capture

warm = pytest.mark.usefixtures("warm_workers")

COMPILING = """
import os, sys, torch
def compiled(size):
    torch._dynamo.reset()
    torch.compile(lambda x: x.sin() + 1, backend="eager")(torch.ones(size))
compiled(2)
"""

LATER = """
mine = [open(f"mine{i}", "w+b", buffering=0) for i in range(60)]
for file in mine:
    file.write(b"mine\\n" * 5000)
for size in range(3, 9):
    compiled(size)
for file in mine:
    file.seek(0)
    assert file.read() == b"mine\\n" * 5000, file.name
print("all of mine is mine", flush=True)
"""

REPLACING = """
with open("mine", "w+b", buffering=0) as file:
    for number in os.listdir("/proc/self/fd"):
        if int(number) > 2 and int(number) != file.fileno():
            try:
                os.fstat(int(number))
            except OSError:
                continue
            os.dup2(file.fileno(), int(number))
    compiled(3)
    file.seek(0)
    assert file.read() == b"", file.read()
"""


def intact(session: Path) -> bool:
    with sqlite3.connect(session) as db:
        return bool(db.execute("PRAGMA integrity_check").fetchone() == ("ok",))


@warm
@pytest.mark.parametrize("highest", with_others([1024], [200]))
async def test_a_program_that_sweeps_descriptors_is_recorded_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, highest: int
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "daemon.py").write_text(f"{COMPILING}\nos.closerange(3, {highest})\n{LATER}")
    ended = await capture(tmp_path / "daemon.py", as_script=True)
    assert ended.printed() == ["all of mine is mine"]
    assert ended.outcome.kind == "finished"
    assert ended.compilations == 7


@warm
@pytest.mark.parametrize(
    "sweep",
    with_others(
        [pytest.param(REPLACING, id="replaced")],
        [pytest.param("os.closerange(3, 1 << 16)", id="closed")],
    ),
)
async def test_a_program_that_takes_all_descriptors_keeps_its_files_and_is_told_that_recording_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sweep: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "daemon.py").write_text(f"{COMPILING}\n{sweep}\n{LATER}")
    ended = await capture(tmp_path / "daemon.py", as_script=True, output=tmp_path / "s.fxs")
    assert ended.printed() == ["all of mine is mine"]
    assert ended.outcome.kind == "incomplete"
    assert ended.outcome.message.startswith(
        "the program closed file descriptors that it did not open"
    )
    assert ended.outcome.message.endswith("The program continued: finished")
    assert ended.outcome.exit_code == 0
    assert ended.compilations == 1, "the part captured before is kept"
    assert intact(tmp_path / "s.fxs")


@warm
async def test_forked_children_that_close_and_leave_in_any_way_do_not_touch_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    children = """
import gc, time
for leave in ("sys.exit(0)", "os._exit(0)", "gc.collect()", "os.closerange(0, 1 << 16); os._exit(0)"):
    child = os.fork()
    if child == 0:
        os.closerange(3, 1 << 16)
        mine = [os.open(f"child{i}", os.O_CREAT | os.O_RDWR) for i in range(20)]
        exec(leave)
        os._exit(0)
    print(os.waitpid(child, 0)[1])
print(sum(os.path.getsize(f"child{i}") for i in range(20)))
"""
    (tmp_path / "forking.py").write_text(f"{COMPILING}{children}compiled(3)\n")
    ended = await capture(tmp_path / "forking.py", as_script=True, output=tmp_path / "s.fxs")
    assert ended.outcome.kind == "finished", ended.outcome.message
    assert ended.printed() == ["0", "0", "0", "0", "0"]
    assert ended.compilations == 2
    assert intact(tmp_path / "s.fxs")


@warm
async def test_stdout_and_stderr_that_are_closed_or_replaced_are_the_programs_own_affair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quiet.py").write_text(
        f"{COMPILING}\nos.closerange(0, 3)\n{LATER.partition('print')[0]}\nraise KeyError('x')"
    )
    ended = await capture(tmp_path / "quiet.py", as_script=True)
    assert (ended.outcome.kind, ended.outcome.exit_code) == ("raised", 1)
    assert ended.outcome.message.startswith("KeyError: 'x'")
    assert ended.compilations == 7
    assert (tmp_path / "mine0").stat().st_size == 5000 * 5


@warm
async def test_functions_of_os_that_the_program_replaces_stop_no_recording(tmp_path: Path) -> None:
    breaking = "for name in ('fstat', 'getpid', 'write', 'read'):\n    setattr(os, name, lambda *_: None)\n"
    (tmp_path / "breaking.py").write_text(f"{COMPILING}{breaking}compiled(3)\nprint('through')\n")
    ended = await capture(tmp_path / "breaking.py", as_script=True)
    assert ended.outcome.kind == "finished", ended.outcome.message
    assert ended.printed() == ["through"]
    assert ended.compilations == 2


# the writer itself


def progress_seen_elsewhere(session: Path) -> str:
    """SQLite shares what it knows of a file among all connections of a process, also that its
    descriptors are gone.
    """
    asked = "import sys; from fx_explorer.session import SessionReader; print(SessionReader(sys.argv[1]).meta('progress'))"
    command = [sys.executable, "-c", asked, str(session)]
    said = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    return said.stdout.strip()


def test_a_writer_whose_descriptors_were_replaced_writes_nothing_more_even_when_it_is_closed_and_freed(
    tmp_path: Path,
) -> None:
    writer = SessionWriter(tmp_path / "s.fxs", beside_program=True)
    writer.set_meta("progress", "before")
    assert len(writer._descriptors) == 3, "the file, its log and the index of that"
    (tmp_path / "mine").write_bytes(b"mine")
    with (tmp_path / "mine").open("r+b") as mine:
        for one in writer._descriptors:
            os.dup2(mine.fileno(), one.number)
        with pytest.raises(SessionWriteError, match="closed file descriptors that it did not open"):
            writer.set_meta("progress", "after")
        with (
            pytest.raises(SessionWriteError, match="closed file descriptors that it did not open"),
            writer.transaction(),
        ):
            pass
        numbers = [one.number for one in writer._descriptors]
        writer.close()
        del writer
        gc.collect()
        for number in numbers:
            os.close(number)  # still open: to close them was the program's business
    assert (tmp_path / "mine").read_bytes() == b"mine"
    assert progress_seen_elsewhere(tmp_path / "s.fxs") == "before"


def test_a_reader_that_another_thread_opens_at_the_same_moment_is_not_taken_for_the_writers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the app readers come and go in threads. Once one was closed, the writer said that the
    program had closed it.
    """
    SessionWriter(tmp_path / "s.fxs").close()
    opened = []
    connect = sqlite3.connect

    def connect_meanwhile(*args: Any, **options: Any) -> sqlite3.Connection:
        monkeypatch.undo()
        opened.append(SessionReader(tmp_path / "s.fxs"))
        return connect(*args, **options)

    monkeypatch.setattr(sqlite3, "connect", connect_meanwhile)
    with SessionWriter(tmp_path / "s.fxs") as writer:
        opened.pop().close()
        writer.set_meta("progress", "after")
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert reader.meta("progress") == "after"


def test_descriptors_lost_within_a_transaction_leave_it_undone(tmp_path: Path) -> None:
    """What is recorded may call the program's own code: a ``__repr__`` that closes everything."""
    with GuardedWriter(tmp_path / "s.fxs") as writer:
        writer.set_meta("progress", "before")
        with contextlib.suppress(SessionWriteError), writer.transaction():
            writer.set_meta("progress", "half")
            for one in writer._descriptors:
                os.close(one.number)
        files = [(tmp_path / f"mine{i}").open("wb") for i in range(3)]
    for file in files:
        file.close()
    assert [file.stat().st_size for file in tmp_path.glob("mine*")] == [0, 0, 0]
    assert progress_seen_elsewhere(tmp_path / "s.fxs") == "before"
    assert isinstance(writer.failure, SessionWriteError)


def test_after_a_write_that_failed_no_other_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would wait for the lock, or the disk, again."""
    monkeypatch.setattr("fx_explorer.session.writer.BUSY_TIMEOUT_MS", 1)
    writer = GuardedWriter(tmp_path / "s.fxs")
    other = sqlite3.connect(tmp_path / "s.fxs", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(SessionWriteError, match="locked") as first, writer.transaction():
        pass
    other.execute("ROLLBACK")
    for _ in range(3):
        with pytest.raises(SessionWriteError, match="locked") as again, writer.transaction():
            pass
        assert again.value is first.value
    writer.close()
    other.close()


LIMITED = f"""
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({{soft}}, {{hard}}))
from fx_explorer.session.undisturbed import moved_up
from fx_explorer.program.guarded_writer import GuardedWriter
before = resource.getrlimit(resource.RLIMIT_NOFILE)
with GuardedWriter(sys.argv[1]) as writer:
    print(sorted(one.number for one in writer._descriptors), moved_up(os.dup(0)).number)
    os.closerange(3, {{soft}} if {{hard}} > {{soft}} + {ROOM} else max(3, {{soft}} - {ROOM}))
    writer.set_meta("progress", "written")
    print(before == resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard"), with_others([(64, 4096), (20, 20)], [(80, 80), (1024, 1024), (256, 300)])
)
def test_a_low_limit_is_enough_and_is_as_it_was_afterwards(
    tmp_path: Path, soft: int, hard: int
) -> None:
    command = [sys.executable, "-c", LIMITED.format(soft=soft, hard=hard), str(tmp_path / "s.fxs")]
    said = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    ).stdout
    numbers, is_as_before = said.splitlines()
    assert is_as_before == "True"
    if hard > soft + ROOM:
        assert numbers == f"[{soft}, {soft + 1}, {soft + 2}] {soft + 3}", (
            "above what the program can open, or would close"
        )
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert reader.meta("progress") == "written"


def test_what_is_ours_is_told_from_what_got_its_number(tmp_path: Path) -> None:
    read, write = os.pipe()
    held = moved_up(read)
    assert held.number >= min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 4096) - ROOM
    assert not os.get_inheritable(held.number)
    assert held.is_ours
    os.dup2(write, held.number)
    assert held.is_ours, (
        "the other end of the same pipe: to write there is to write to whoever listens"
    )
    with (tmp_path / "mine").open("wb") as mine:
        os.dup2(mine.fileno(), held.number)
        assert not held.is_ours
    os.close(held.number)
    assert not held.is_ours
    os.close(write)


def test_numbers_are_free_again_after_the_block() -> None:
    low = os.open(os.devnull, os.O_RDONLY)
    os.close(low)
    with high_numbers():
        high = os.open(os.devnull, os.O_RDONLY)
    again = os.open(os.devnull, os.O_RDONLY)
    os.close(again)
    os.close(high)
    assert again == low
    assert high > low + SPARE
    assert Descriptor(high, 0, 0).is_ours is False
