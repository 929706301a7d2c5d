"""These tests check the view of what each stage did: after a step, and on a saved session."""

from __future__ import annotations

import gzip
import re
import shutil
from pathlib import Path

from fx_explorer.instruments.kernels.view import kernels_table
from fx_explorer.model import Command, Direction, Gate, Graph, Notice
from fx_explorer.overview.graph_tables import stages_table
from fx_explorer.session import SessionReader
from tests.conftest import Captured
from tests.exhaustive import in_exhaustive_runs
from tests.tui.conftest import Driver, OpenApp
from tests.tui.test_live_capture import FakeCapture, step
from tests.tui.test_stepping import messages

DATA = Path(__file__).parents[1] / "data"

AOTAUTOGRAD = (
    "AOTAutograd: 3 operations became 34: 7 by decomposition, 25 for the backward and 2 views."
)


class SteppedCapture(FakeCapture):
    """A capture whose session has everything already; the test says where it waits."""

    def __init__(self, path: Path, captured: Path) -> None:
        super().__init__(path, lambda _: None)
        self._captured = captured

    async def start(self) -> None:
        shutil.copy(self._captured, self.session_path)

    def pause(self, gate: Gate, direction: Direction = "") -> None:
        self.say(Notice("gate", state="begin", gate=gate, compilation="0/0", direction=direction))

    def leave(self, gate: Gate, direction: Direction = "") -> None:
        self.say(Notice("done", text="on to the next pause"))
        self.say(Notice("gate", state="end", gate=gate, compilation="0/0", direction=direction))


async def test_each_step_shows_what_the_stage_did_and_the_last_one_lists_all(
    open_app: OpenApp, tmp_path: Path, captured: Captured
) -> None:
    capture = SteppedCapture(tmp_path / "s.fxs", captured("mlp"))
    async with open_app(make_capture=lambda: capture, target="mlp.py", size=(120, 40)) as driver:
        capture.pause("pre_grad")
        await driver.until(lambda: "paused after the pre-grad passes" in driver.header)
        assert AOTAUTOGRAD not in driver.explorer.linked.stage_words.sentences
        await driver.press("full_stop")
        assert capture.sent == [Command("step")]
        capture.leave("pre_grad")
        capture.pause("joint")
        await driver.until(lambda: driver.explorer.linked.stage_words.sentences == [AOTAUTOGRAD])
        await driver.until(lambda: "< hidden decomposed" in in_one_line(driver))
        assert [pane.document.title for pane in driver.panes] == ["Pre-grad graph", "Joint graph"]
        assert "← mm backward" in in_one_line(driver)
        assert "· permute view" in in_one_line(driver)
        assert ". continues to the partitioner" in " ".join(driver.screen.split())
        await driver.press("full_stop")
        capture.leave("joint")
        await driver.until(lambda: "continues to" not in driver.screen)  # nothing waits meanwhile
        capture.pause("partition", "forward")
        await driver.until(lambda: len(driver.explorer.linked.stage_words.sentences) == 2)
        await driver.until(lambda: "↔ mul_1 in both" in in_one_line(driver))
        titles = [pane.document.title for pane in driver.panes]
        assert titles == ["Joint graph · after passes", "Forward graph", "Backward graph"]
        await driver.press("full_stop")
        capture.leave("partition", "forward")
        capture.say(Notice("gate", state="begin"))
        await driver.until(lambda: driver.explorer.view == "stages" and "13 rows" in driver.screen)
        capture.end()


@in_exhaustive_runs
async def test_without_a_step_a_pause_leaves_the_screen_as_it_is(
    open_app: OpenApp, tmp_path: Path, captured: Captured
) -> None:
    capture = SteppedCapture(tmp_path / "s.fxs", captured("mlp"))
    async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
        capture.pause("joint")
        await driver.until(lambda: "paused after the joint graph" in driver.header)
        await driver.settle()
        assert driver.explorer.view == "overview"
        capture.end()


@in_exhaustive_runs
async def test_a_stage_of_which_nothing_was_recorded_leaves_the_screen_as_it_is(
    open_app: OpenApp, tmp_path: Path, captured: Captured
) -> None:
    capture = SteppedCapture(tmp_path / "s.fxs", captured("mlp"))
    async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
        capture.pause("dynamo")
        await driver.until(lambda: "paused after Dynamo" in driver.header)
        await driver.press("full_stop")
        capture.leave("dynamo")
        capture.say(Notice("gate", state="begin", gate="joint", compilation="7/7"))
        await driver.until(lambda: "paused after the joint graph [7/7]" in driver.header)
        await driver.settle()
        assert driver.explorer.view == "overview"
        capture.end()


def in_one_line(driver: Driver) -> str:
    """The screen without its line ends and with one space between words."""
    return " ".join(driver.screen.split())


async def opened_stage(driver: Driver, row: int) -> None:
    await driver.press("3", *["down"] * row, "enter")
    await driver.until(lambda: driver.explorer.linked.stage_words.sentences)


async def test_the_stages_of_a_saved_session_open_before_beside_after(
    open_app: OpenApp, captured: Captured
) -> None:
    async with open_app(captured("mlp"), size=(80, 24)) as driver:
        await driver.press("3")
        assert "AOTAutograd" in driver.screen
        assert re.search(r"\d+ operations became .*kernel", driver.screen)
        await opened_stage(driver, 2)
        assert "AOTAutograd: 3 operations became 34: 7 by decomposition" in driver.screen
        assert "< hidden decomposed" in in_one_line(driver)
        assert "continues" not in driver.screen  # nothing waits
        await driver.press("3", "end", "enter")
        assert [pane.document.title for pane in driver.panes] == [
            "Backward · post-grad",
            "Output code · backward",
        ]


@in_exhaustive_runs
async def test_going_elsewhere_leaves_the_stage_and_its_marks(
    open_app: OpenApp, captured: Captured
) -> None:
    async with open_app(captured("mlp")) as driver:
        await opened_stage(driver, 2)
        assert driver.panes[1].work
        await driver.press("6", "enter")
        assert driver.explorer.linked.stage_words.sentences == []
        assert "AOTAutograd:" not in driver.screen
        assert not any(pane.work for pane in driver.panes)
        await opened_stage(driver, 2)
        await driver.press("p", "s")
        assert driver.explorer.linked.stage_words.sentences == []
        assert [pane.slot for pane in driver.panes] == ["source", "graph", "kernel"]
        assert "decomposed" not in driver.screen


async def test_the_linked_operations_light_up_across_a_stage(
    open_app: OpenApp, captured: Captured
) -> None:
    """gelu of the graph before is seven of AOTAutograd's: mul, mul, erf, add, mul, and in the
    backward.
    """
    async with open_app(captured("mlp"), size=(120, 40)) as driver:
        await opened_stage(driver, 2)
        await driver.press("down")
        joint = driver.panes[1]
        nodes = driver.explorer.reader.nodes(driver.explorer.reader.get(Graph, joint.document.id))
        lit = {nodes[line].name for line in joint.lit}
        assert {"mul", "mul_1", "erf", "add", "mul_2"} <= lit
        assert "addmm" not in lit


async def test_what_needs_all_stages_asks_once_and_goes_on_by_itself(
    open_app: OpenApp, tmp_path: Path
) -> None:
    capture = FakeCapture(tmp_path / "s.fxs", step)
    async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
        await driver.until(lambda: driver.explorer.reader)
        capture.say(Notice("gate", state="begin", gate="joint", compilation="0/0"))
        await driver.until(lambda: "paused after the joint graph" in driver.header)
        await driver.press("x", "t")
        assert "Compile to the end, then build and run it, to measure its time?" in driver.screen
        await driver.press("n")
        assert capture.sent == []
        await driver.press("x", "t", "y")
        assert capture.sent == [Command("go")]
        capture.say(Notice("done", text="continuing"))
        capture.say(Notice("gate", state="end", gate="joint", compilation="0/0"))
        capture.stay()
        capture.say(Notice("gate", state="begin"))
        await driver.until(lambda: "Build and run, to measure the time" in driver.screen)
        await driver.press("escape")
        capture.end()


async def test_levels_below_a_kernel_that_is_not_compiled_yet_are_asked_for_when_it_is(
    open_app: OpenApp, tmp_path: Path
) -> None:
    capture = FakeCapture(tmp_path / "s.fxs", step)
    async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
        await driver.until(lambda: driver.explorer.reader)
        capture.say(Notice("gate", state="begin", gate="dynamo"))
        await driver.until(lambda: "paused after Dynamo" in driver.header)
        await driver.press("p", "k")
        assert "Compile to the end, then “below the kernel”?" in driver.screen
        await driver.press("y")
        capture.say(Notice("gate", state="end", gate="dynamo"))
        capture.stay()
        capture.say(Notice("gate", state="begin"))
        await driver.until(
            lambda: "Triton" in messages(driver)
        )  # the kernel that is there then is none of Triton's
        assert capture.sent == [Command("go")]
        capture.end()


async def test_a_changed_operation_says_what_changed_and_those_kept_are_folded(
    open_app: OpenApp, captured: Captured
) -> None:
    """Inductor's post-grad passes write aten.view as aten.reshape, in both panes on one row."""
    session = captured("transformer")
    async with open_app(session, size=(120, 40)) as driver:
        await driver.press("3")
        table = driver.explorer.views.table
        assert table
        rows = [
            row for row in range(len(table.rows.source)) if "post-grad" in table.rows.line_text(row)
        ]
        await opened_stage(driver, rows[0])
        assert [pane.document.title for pane in driver.panes] == [
            "Forward graph",
            "Forward · post-grad",
        ]
        assert "changed    view → reshape" in driver.screen
        assert "aten.view → aten.reshape" not in driver.screen
        assert " kept" in driver.screen
        shown = [len(pane.body.source) for pane in driver.panes]
        nodes = [pane.document.line_count for pane in driver.panes]
        assert all(rows < count for rows, count in zip(shown, nodes, strict=True))
        assert "view → reshape ·" in driver.screen  # the line below the panes, about the cursor
        folded = next(
            row
            for row in range(shown[0])
            if " kept" in driver.panes[0].body.line_text(row)
            and "▸" in driver.panes[0].body.line_text(row)
        )
        driver.panes[0].body.move_to(folded)
        await driver.press("enter")
        assert len(driver.panes[0].body.source) == nodes[0]


def test_the_answer_counts_kernels_as_their_view_does_and_no_variant_twice(tmp_path: Path) -> None:
    """The session has three variants of a compilation, of which the program runs one."""
    session = tmp_path / "whole.fxs"
    session.write_bytes(gzip.decompress((DATA / "screens" / "whole.fxs.gz").read_bytes()))
    with SessionReader(session) as reader:
        answer = stages_table(reader).answer
        kernels = kernels_table(reader)
    counts = re.findall(r"\d+ (?:generated kernel|library call)s?", answer)
    assert len(counts) == 2
    assert all(count in kernels.notice for count in counts), kernels.notice
