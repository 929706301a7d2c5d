"""These tests open the app on a TORCH_TRACE log, which is read in a separate process meanwhile."""

from __future__ import annotations

import asyncio
import gzip
import re
import time
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.command_line.logs import LogReadingProcess
from fx_explorer.instruments.kernels.candidates import why_no_kernels
from fx_explorer.model import Notice
from fx_explorer.overview.overview import overview
from fx_explorer.overview.view_tables import TABLES
from fx_explorer.readers.torch_trace.read_log import LogReading, read_log
from fx_explorer.session import SessionReader
from fx_explorer.tui.availability import NEEDS_REQUEST, absent_from_log
from fx_explorer.tui.commands import OF_VIEW, VIEWS, by_id
from fx_explorer.tui.commands.view_commands import MORE_VIEWS
from fx_explorer.tui.keys import first_key
from fx_explorer.tui.screens.help import _TEXTS, help_rows, topic_of
from tests.exhaustive import in_exhaustive_runs, with_others
from tests.sessions import write_training_step
from tests.tui.conftest import OpenApp
from tests.tui.test_live_capture import FakeCapture
from tests.worker.capturing import processes_with

LOGS = Path(__file__).parents[1] / "data" / "torch_trace"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    unpacked = tmp_path / "job.log"
    unpacked.write_bytes(gzip.decompress((LOGS / "h200_graph_breaks.log.gz").read_bytes()))
    return unpacked


class FakeReading(FakeCapture):
    """A reading whose news the test sends."""

    looked_at = 0

    def look_at(self, compilation: int) -> None:
        self.looked_at = compilation


async def test_what_happened_is_on_screen_while_the_rest_is_read_and_a_bar_says_how_far_it_is(
    open_app: OpenApp, log: Path, tmp_path: Path
) -> None:
    session = tmp_path / "s.fxs"
    with LogReading(log, session) as reading:
        reading.find()

        def decode(_: Path) -> None:
            reading.decode()

        capture = FakeReading(session, decode)
        async with open_app(read_log=lambda: capture, target="job.log") as driver:
            capture.say(
                Notice("worker", text="decoding graphs ▰▰▰▱▱▱▱▱▱▱▱▱ 25 % of 7 compilations")
            )
            await driver.until(lambda: "▰▰▰▱▱▱▱▱▱▱▱▱ 25 %" in driver.header)
            assert "The log is still being read." in driver.screen
            assert "breaks the graph" in driver.screen
            await driver.press("s")
            assert "The log is still being read: save it" in driver.screen
            assert capture.looked_at == driver.explorer.reader.rows(model.Compilation)[0].id
            capture.end()
            await driver.until(
                lambda: "✓ read" in driver.header and "The code became" in driver.screen
            )
            await driver.press("r")
            assert (
                "there is nothing to run again" in driver.screen.replace("\n", " ")
                or "no program to run" in driver.screen
            )


async def test_a_log_is_read_beside_the_app_and_leaves_nothing_behind(
    open_app: OpenApp, log: Path
) -> None:
    before = log.read_bytes()
    made: list[LogReadingProcess] = []

    def read_log() -> LogReadingProcess:
        made.append(LogReadingProcess(log))
        return made[-1]

    async with open_app(read_log=read_log, target="job.log") as driver:
        await driver.until(lambda: "✓ read" in driver.header)
        reader = driver.explorer.reader
        assert reader.count(model.Graph, stage="dynamo") == 4
        scripts = [
            row for row in reader.rows(model.Artifact) if row.title == "Script that runs the graph"
        ]
        assert scripts
        assert all("import torch" in reader.text(row.text) for row in scripts)
        await driver.press("q")
    assert made[0].outcome == model.Outcome("finished")
    assert not made[0].session_path.parent.exists()
    assert [path.name for path in log.parent.iterdir()] == ["job.log"]
    assert log.read_bytes() == before


@in_exhaustive_runs
async def test_a_reading_that_is_stopped_keeps_what_was_found(log: Path) -> None:
    log.write_bytes(log.read_bytes() * 40)
    reading = LogReadingProcess(log)
    await reading.start()
    first = await anext(reading.notices())
    assert first.text.startswith(("finding records", "decoding graphs"))
    outcome = await reading.cancel()
    assert outcome.kind == "cancelled"
    with SessionReader(reading.session_path) as reader:
        said = "\n".join(fact.text for fact in overview(reader))
        assert "Reading the log was stopped" in said
        assert "it was not read to its end" in said
        assert "all of them read" not in said
        assert "No graph was made" not in said
        assert why_no_kernels(reader) == "The log was not read to its end."
    with SessionReader(reading.session_path) as reader:
        assert reader.meta("outcome")["kind"] == "cancelled"
        assert reader.count(model.Compilation) > 0
    reading.discard()


@in_exhaustive_runs
async def test_a_log_is_read_before_anybody_follows_it(log: Path) -> None:
    reading = LogReadingProcess(log)
    reading.begin()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with SessionReader(reading.session_path) as reader:
            if reader.meta("log"):
                break
        await asyncio.sleep(0.02)
    await reading.start()
    assert [notice async for notice in reading.notices()]
    assert await reading.wait() == model.Outcome("finished")
    with SessionReader(reading.session_path) as reader:
        assert reader.count(model.Compilation) > 0
    reading.discard()
    assert not reading.session_path.parent.exists()


def test_a_log_that_nobody_comes_to_follow_leaves_nothing_and_no_process(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOT_FOLLOWED", "1")
    log.write_bytes(log.read_bytes() * 40)
    reading = LogReadingProcess(log)
    reading.begin()
    deadline = time.monotonic() + 10
    # A process that was begun just now has no environment in /proc for an instant.
    while not processes_with("NOT_FOLLOWED"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    reading.discard()
    assert not reading.session_path.parent.exists()
    assert processes_with("NOT_FOLLOWED") == []


async def test_a_log_that_is_gone_is_told(tmp_path: Path) -> None:
    reading = LogReadingProcess(tmp_path / "gone.log")
    await reading.start()
    assert [notice async for notice in reading.notices()] == []
    outcome = await reading.wait()
    assert (outcome.kind, outcome.exit_code) == ("incomplete", 4)
    assert "gone.log cannot be read: No such file" in outcome.message
    reading.discard()


async def test_a_log_of_tritonparse_is_in_the_panes_of_a_capture(open_app: OpenApp) -> None:
    log = LOGS.parent / "tritonparse" / "autotuned_mapped.ndjson.gz"
    async with open_app(read_log=lambda: LogReadingProcess(log), target=log.name) as driver:
        await driver.until(lambda: "✓ read" in driver.header)
        assert "2 Triton kernels compiled, in 5 configurations" in driver.screen.replace("\n", " ")
        await driver.press("6")
        await driver.until(lambda: "launches" in driver.screen)
        assert "Inductor" not in driver.screen.partition("The Triton kernels")[2]
        await driver.press("enter", "p", "k")
        await driver.until(lambda: "TTGIR" in driver.screen)
        assert "The log has no SASS" in driver.screen.replace("\n", " ")
        await driver.press("6", "v", "c")
        await driver.until(lambda: "● picked" in driver.screen)


async def test_a_log_offers_no_command_that_needs_a_program(
    open_app: OpenApp, log: Path, tmp_path: Path
) -> None:
    """Neither the footer nor the help of any view; menus and the list of commands say why not."""
    read_log(log, tmp_path / "s.fxs")
    async with open_app(tmp_path / "s.fxs", size=(200, 50)) as driver:
        explorer = driver.explorer
        absent = absent_from_log(explorer.reader)
        assert {*NEEDS_REQUEST, "capture.run", "step.what_if", "kernel.passes"} <= {*absent}
        why_not = driver.app.controllers.command_runs.why_not
        assert [command for command in absent if not why_not(command)] == []
        for view in sorted(name for name, *_ in (*VIEWS, *MORE_VIEWS)):
            await explorer.action_show_view(view)
            await driver.until(lambda view=view: explorer.view == view)
            here = [(by_id(one), word) for one, word in OF_VIEW.get(view, ()) if one in absent]
            keys = {f"{first_key(command, explorer.keymap)} {word}" for command, word in here}
            footer = re.split(r"  +|\n", explorer.footer.render().plain)
            assert not keys & {part.strip() for part in footer}
            topic = explorer.help_topic()
            helped = str(help_rows(topic, explorer.keymap, 80, absent)).partition("Views")[0]
            assert not [word for _, word in here if f"'{word}: " in helped]


def named_keys(text: str, absent: tuple[str, ...]) -> list[str]:
    """Keys of these commands that a text names: those of several keys, which are no words."""
    keys = [key for command in absent for key in by_id(command).keys if " " in key]
    return [key for key in keys if re.search(rf"(?<![\w.]){re.escape(key)}(?!\w)", text)]


BY_SIZE = sorted(LOGS.glob("*.log.gz"), key=lambda log: log.stat().st_size)


@pytest.mark.parametrize("name", [log.name for log in with_others(BY_SIZE[:3], BY_SIZE[3:])])
def test_no_text_of_a_log_names_a_key_that_needs_a_program(tmp_path: Path, name: str) -> None:
    """Neither a view, empty or full, nor what stands below its rows, nor the help about it."""
    (tmp_path / "job.log").write_bytes(gzip.decompress((LOGS / name).read_bytes()))
    read_log(tmp_path / "job.log", tmp_path / "s.fxs")
    with SessionReader(tmp_path / "s.fxs") as reader:
        absent = absent_from_log(reader)
        for view, table_of in TABLES.items():
            table = table_of(reader)
            below = [row.detail().text for row in table.rows[:30] if row.detail]
            empty = "" if table.rows else table.empty
            text = "\n".join((table.shows, table.notice, table.origin, empty, *below))
            assert named_keys(text, absent) == [], view
    for view in _TEXTS:
        assert named_keys(topic_of(view).text_without(absent), absent) == [], view
        assert topic_of(view).text_without(()) == topic_of(view).text


def test_a_sentence_that_names_an_absent_key_is_left_out_of_help_and_no_other() -> None:
    assert (
        topic_of("stages").text_without(("step.next",))
        == (topic_of("stages").text.partition(" While the compiler is paused, .")[0])
    )
    assert "x p" not in topic_of("bench").text_without(("bench.run",))
    assert "Below the list: " in topic_of("bench").text_without(("bench.run",))


def test_a_captured_session_lacks_no_command_of_a_log(tmp_path: Path) -> None:
    write_training_step(tmp_path / "s.fxs")
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert absent_from_log(reader) == ()
