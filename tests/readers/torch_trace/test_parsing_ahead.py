"""Texts of a long log are parsed in a second process; the session is the same without it."""

from __future__ import annotations

import contextlib
import gzip
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fx_explorer.readers.torch_trace import parsing_ahead, read_log
from fx_explorer.readers.torch_trace.parsing_ahead import PARSERS, ParsingProcess
from fx_explorer.readers.torch_trace.read_log import LogReading
from fx_explorer.second_process import cores

LOGS = Path(__file__).parents[2] / "data" / "torch_trace"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("log") / "train.log"
    file.write_bytes(gzip.decompress((LOGS / "h200_llama_train.log.gz").read_bytes()))
    return file


@pytest.fixture(scope="module")
def alone(log: Path) -> list[str]:
    """Return the rows that one process writes."""
    session = log.with_name("alone.fxs")
    with LogReading(log, session) as reading:
        reading.find()
        reading.decode()
    return _rows(session)


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing_ahead, "is_gain", lambda: True)


def _rows(session: Path) -> list[str]:
    with sqlite3.connect(session) as database:
        return sorted(database.iterdump())  # indexes are made later when all is decoded at once


def test_a_log_parsed_ahead_gives_the_same_rows(
    log: Path, alone: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = []
    with_parsed = ParsingProcess.with_parsed

    def counted(process: ParsingProcess, record: parsing_ahead.Record) -> parsing_ahead.Record:
        complete = with_parsed(process, record)
        parsed.append((record.name, complete.parsed is not None))
        return complete

    monkeypatch.setattr(ParsingProcess, "with_parsed", counted)
    session = log.with_name("ahead.fxs")
    read_log(log, session)
    assert _rows(session) == alone
    assert len(parsed) > 10
    assert all(is_parsed == (name in PARSERS) for name, is_parsed in parsed)


def test_a_log_parsed_ahead_in_small_steps_gives_the_same_rows(
    log: Path, alone: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parsing_ahead, "MOST_AHEAD", 100_000)
    session = log.with_name("steps.fxs")
    read_log(log, session)
    assert _rows(session) == alone


def test_a_parsing_process_that_is_killed_changes_no_row(
    log: Path, alone: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = ParsingProcess.ask
    asked = []

    def killed_at_the_third(process: ParsingProcess, record: parsing_ahead.Record) -> None:
        asked.append(record)
        if len(asked) == 3:
            os.kill(process._pid, signal.SIGKILL)
        ask(process, record)

    monkeypatch.setattr(ParsingProcess, "ask", killed_at_the_third)
    session = log.with_name("killed.fxs")
    read_log(log, session)
    assert len(asked) > 3
    assert _rows(session) == alone


def test_what_cannot_be_parsed_ahead_is_counted_as_without_it(log: Path) -> None:
    whole = log.read_bytes()
    at = whole.index(b"class GraphModule(torch.nn.Module)")
    broken = log.with_name("broken.log")
    broken.write_bytes(whole[:at] + b"klass" + whole[at + 5 :])
    sessions = log.with_name("broken_alone.fxs"), log.with_name("broken_ahead.fxs")
    with LogReading(broken, sessions[0]) as reading:
        reading.find()
        reading.decode()
    read_log(broken, sessions[1])
    assert _rows(sessions[0]) == _rows(sessions[1])


def test_the_process_ends_with_the_reading(log: Path, tmp_path: Path) -> None:
    with LogReading(log, tmp_path / "log.fxs") as reading:
        reading.parse_ahead()
        assert reading._ahead is not None
        number = reading._ahead._pid
    assert not _is_running(number)


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or cores() < 2, reason="needs two cores of Linux"
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_report_is_the_same_on_one_core_and_on_two(log: Path, form: str) -> None:
    command = [sys.executable, "-m", "fx_explorer", "report", str(log), "--format", form]
    one = next(iter(os.sched_getaffinity(0)))
    reports = []
    for limit in (None, lambda: os.sched_setaffinity(0, {one})):
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, preexec_fn=limit)
        reports.append(done.stdout)
    assert reports[0] == reports[1]


@pytest.fixture(autouse=True)
def _no_children_left() -> Iterator[None]:
    """The test leaves no process behind. Others that ran in this process may have servers."""
    before = _children()
    yield
    assert _children() <= before


def _children() -> set[int]:
    """Return the processes that this one has started and not waited for."""
    children = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            parent = status.read_text(errors="replace").rpartition(") ")[2].split()[1]
            if int(parent) == os.getpid():
                children.add(int(status.parent.name))
    return children


def _is_running(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True
