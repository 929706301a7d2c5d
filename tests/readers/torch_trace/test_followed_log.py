"""These tests read a log while a job writes it: the result is the same, wherever it was cut when it
was read.
"""

from __future__ import annotations

import gzip
import itertools
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.analysis.whole_session import not_decoded
from fx_explorer.command_line.given_logs import followed_log
from fx_explorer.command_line.logs import LogReadingProcess
from fx_explorer.errors import SessionError, UsageError
from fx_explorer.overview.ending import LOST_ITS_NAME, run_facts
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.readers.torch_trace.growing import GrowingLog, log_to_follow
from fx_explorer.readers.torch_trace.read_log import LogReading
from fx_explorer.readers.torch_trace.records import Damage, records
from fx_explorer.session import SessionReader
from tests.conftest import ROOT
from tests.readers.torch_trace.test_found_first import told_by

LOGS = Path(__file__).parents[2] / "data" / "torch_trace"

NAMES = ("h200_graph_breaks", "h200_recompiles", "h200_ranks_diverge/rank_1")


@pytest.fixture(params=NAMES)
def content(request: pytest.FixtureRequest) -> bytes:
    return gzip.decompress((LOGS / f"{request.param}.log.gz").read_bytes())


def as_it_grows(content: bytes, seed: int) -> Iterator[bytes]:
    """Yield pieces that end anywhere, with a look between them that finds nothing new."""
    chance = random.Random(seed)
    cuts = sorted(chance.sample(range(len(content)), 300))
    for begin, end in zip([0, *cuts], [*cuts, len(content)], strict=True):
        yield content[begin:end]
        yield b""


@pytest.mark.parametrize("seed", range(3))
def test_wherever_it_was_cut_when_it_was_looked_at_its_records_are_the_same(
    content: bytes, seed: int
) -> None:
    whole, damage = Damage(), Damage()
    expected = [record for record in records([content], whole) if record]
    found = [record for record in records(as_it_grows(content, seed), damage) if record]
    assert found == expected
    assert damage == whole


def test_a_record_that_is_complete_is_known_before_the_next_one_comes(content: bytes) -> None:
    every = [record for record in records([content], Damage()) if record]
    begin = content.rfind(b"\n", 0, len(content) - 1) + 1
    assert content[begin:].startswith((b"V", b"\t"))
    assert sum(record is not None for record in records([content, b""], Damage())) == len(every)


class Followed:
    """Follows a log in a thread. What ends it is kept."""

    def __init__(self, log: Path, session: Path) -> None:
        self._log, self._session = log, session
        self.ended: SessionError | None = None
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def _follow(self) -> None:
        with LogReading(self._log, self._session) as reading, GrowingLog(self._log) as growing:
            try:
                reading.follow(growing)
            except SessionError as error:
                self.ended = error

    def join(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()


def eventually(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def records_read(session: Path) -> int:
    try:
        with SessionReader(session) as reader:
            return int((reader.meta("log") or {}).get("records", 0))
    except SessionError:  # it is just being made
        return 0


def test_what_is_added_while_it_is_followed_is_in_the_session_as_if_it_had_been_read_at_once(
    content: bytes, tmp_path: Path
) -> None:
    (tmp_path / "whole.log").write_bytes(content)
    read_log(tmp_path / "whole.log", tmp_path / "whole.fxs")
    log, session = tmp_path / "job.log", tmp_path / "followed.fxs"
    log.write_bytes(b"")
    followed = Followed(log, session)
    written = 0
    for share in (0.2, 0.5, 0.51, 1.0):
        with log.open("ab") as opened:
            opened.write(content[written : int(share * len(content))])
        written = int(share * len(content))
        whole = content[: content.rfind(b"\n", 0, written) + 1]
        least = sum(record is not None for record in records([whole], Damage())) - 1
        eventually(lambda least=least: records_read(session) >= least)
    eventually(lambda: records_read(session) == records_read(tmp_path / "whole.fxs"))
    log.unlink()
    followed.join()
    assert followed.ended is None
    with SessionReader(session) as reader, SessionReader(tmp_path / "whole.fxs") as expected:
        assert told_by(reader) == told_by(expected)
        assert reader.meta("skipped_records") == expected.meta("skipped_records") == 0
        assert reader.meta("log")["wrong_hashes"] == 0


@pytest.mark.parametrize("change", ["cut", "replaced"])
def test_a_log_that_is_cut_or_replaced_ends_it_and_what_was_read_is_kept(
    change: str, tmp_path: Path
) -> None:
    """One that was replaced was read to its end; of one that was cut nobody knows."""
    content = gzip.decompress((LOGS / "h200_recompiles.log.gz").read_bytes())
    log, session = tmp_path / "job.log", tmp_path / "s.fxs"
    log.write_bytes(content)
    followed = Followed(log, session)
    eventually(lambda: records_read(session) > 0)
    if change == "cut":
        os.truncate(log, 1000)
    else:
        (tmp_path / "other.log").write_bytes(content * 2)
        (tmp_path / "other.log").replace(log)
    followed.join()
    assert (change == "cut") == ("was truncated while it was followed" in str(followed.ended))
    with SessionReader(session) as reader:
        assert reader.count(model.Compilation) > 1
        assert not_decoded(reader) == (
            "" if change == "replaced" else "None so far; the log is still being read."
        )
        told = [fact.text for fact in run_facts(reader)]
        assert (change == "replaced") == (LOST_ITS_NAME in told)


def test_what_is_added_just_before_the_log_loses_its_name_is_read(
    content: bytes, tmp_path: Path
) -> None:
    total = sum(record is not None for record in records([content], Damage()))
    log, session = tmp_path / "job.log", tmp_path / "s.fxs"
    log.write_bytes(content[: len(content) // 2])
    followed = Followed(log, session)
    eventually(lambda: records_read(session) > 0)
    with log.open("ab") as opened:
        opened.write(content[len(content) // 2 :])
    log.rename(tmp_path / "job.log.1")
    log.write_bytes(content)
    followed.join()
    assert followed.ended is None
    assert records_read(session) == total
    (tmp_path / "whole.log").write_bytes(content)
    read_log(tmp_path / "whole.log", tmp_path / "whole.fxs")
    with SessionReader(session) as reader, SessionReader(tmp_path / "whole.fxs") as expected:
        assert told_by(reader) == told_by(expected)


def test_a_log_that_was_cut_and_has_grown_again_is_no_continuation(tmp_path: Path) -> None:
    content = gzip.decompress((LOGS / "h200_recompiles.log.gz").read_bytes())
    log = tmp_path / "job.log"
    log.write_bytes(content[: len(content) // 3])
    with GrowingLog(log) as growing:
        assert b"".join(itertools.takewhile(bool, growing.blocks())) == content[: len(content) // 3]
        with log.open("r+b") as opened:
            opened.truncate()
            opened.write(content[1000:])
        with pytest.raises(SessionError, match="was truncated while it was followed"):
            growing.wait(lambda: None)


def test_a_record_that_was_being_written_when_the_following_ends_is_read_or_counted(
    tmp_path: Path,
) -> None:
    content = gzip.decompress((LOGS / "h200_recompiles.log.gz").read_bytes())
    begin = content.find(b'"dynamo_output_graph"')
    middle = content.find(b"\n\t", begin) + 40
    log, session = tmp_path / "job.log", tmp_path / "s.fxs"
    log.write_bytes(content[:middle])
    followed = Followed(log, session)
    eventually(lambda: records_read(session) > 0)
    log.unlink()
    followed.join()
    with SessionReader(session) as reader:
        assert reader.meta("log")["kinds"]["dynamo_output_graph"] == 1
        assert reader.meta("log")["wrong_hashes"] == 1


async def test_texts_of_a_log_that_lost_its_name_are_still_there(tmp_path: Path) -> None:
    content = gzip.decompress((LOGS / "h200_graph_breaks.log.gz").read_bytes())
    total = sum(record is not None for record in records([content], Damage()))
    (tmp_path / "whole.log").write_bytes(content)
    read_log(tmp_path / "whole.log", tmp_path / "whole.fxs")
    log = tmp_path / "job.log"
    log.write_bytes(content)
    reading = LogReadingProcess(log, follows=True)
    await reading.start()
    async for _ in reading.notices():
        if records_read(reading.session_path) == total:
            break
    log.rename(tmp_path / "job.log.1")
    log.write_bytes(content[5000:])
    assert (await reading.wait()).kind == "finished"
    with (
        SessionReader(reading.session_path) as reader,
        SessionReader(tmp_path / "whole.fxs") as expected,
    ):
        assert reader.meta("skipped_records") == 0
        texts, whole = (
            [one.text(row.text) for row in one.rows(model.Artifact)] for one in (reader, expected)
        )
        assert texts == whole
        assert not any("is not in" in text for text in texts)
    reading.discard()


def test_a_file_that_goes_away_while_a_directory_is_looked_at_is_no_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = gzip.decompress((LOGS / "h200_recompiles.log.gz").read_bytes())
    (tmp_path / "t_rank_0_.log").write_bytes(content)
    listed = [tmp_path / "gone", *tmp_path.iterdir()]
    monkeypatch.setattr(Path, "iterdir", lambda _: iter(listed))
    assert log_to_follow(tmp_path) == tmp_path / "t_rank_0_.log"


def test_of_a_directory_the_newest_log_of_the_lowest_rank_is_followed(tmp_path: Path) -> None:
    assert log_to_follow(tmp_path) is None
    (tmp_path / "notes.txt").write_text("no log")
    (tmp_path / "dedicated_log_torch_trace_rank_0_empty.log").write_text("")
    assert log_to_follow(tmp_path) is None
    line = 'V1125 10:00:00.000000 1 torch/a.py:1] {"str": ["a", 0]}\n'
    for age, name in enumerate(("rank_1_new", "rank_0_new", "rank_0_old")):
        file = tmp_path / f"dedicated_log_torch_trace_{name}_.log"
        file.write_text(line)
        os.utime(file, (1000 - age, 1000 - age))
    found = log_to_follow(tmp_path)
    assert found is not None
    assert found.name == "dedicated_log_torch_trace_rank_0_new_.log"
    with pytest.raises(SessionError, match="cannot be read"):
        log_to_follow(tmp_path / "none")


async def test_the_process_says_what_comes_and_a_reading_that_is_stopped_keeps_it(
    tmp_path: Path,
) -> None:
    content = gzip.decompress((LOGS / "h200_recompiles.log.gz").read_bytes())
    total = sum(record is not None for record in records([content], Damage()))
    log = tmp_path / "job.log"
    log.write_bytes(content[: len(content) // 2])
    reading = LogReadingProcess(log, follows=True)
    await reading.start()
    told = [(await anext(reading.notices())).text]
    with log.open("ab") as opened:
        opened.write(content[len(content) // 2 :])
    async for notice in reading.notices():
        told.append(notice.text)
        if records_read(reading.session_path) == total:
            break
    assert all(text.startswith("following the log, ") for text in told)
    assert (await reading.cancel()).kind == "cancelled"
    with SessionReader(reading.session_path) as reader:
        assert reader.count(model.Recompile) > 0
    reading.discard()


def test_without_a_terminal_it_is_said_what_to_do(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fx_explorer", "--follow", "job.log"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    assert "needs a terminal" in ended.stderr


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("missing.log", "the directory that TORCH_TRACE names: .*missing.log is"),
        ("model.py", "the directory that TORCH_TRACE names: .*model.py is"),
        ("job.log.gz", "compressed: no job is writing to it"),
    ],
)
def test_what_no_job_writes_to_is_refused(
    given: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fx_explorer.command_line.given_logs.is_on_terminal", lambda: True)
    (tmp_path / "model.py").write_text("x = 1\n")
    (tmp_path / "job.log.gz").write_bytes((LOGS / "h200_recompiles.log.gz").read_bytes())
    with pytest.raises(UsageError, match=told):
        followed_log(tmp_path / given)
