"""These tests check the screens below a kernel: panes, configurations and passes. The kernels, and
their links, are recorded (tests/data/kernel_ir).
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.errors import WorkerError
from fx_explorer.model import BuildAnswer, KernelBuild
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.tui.content import inspect
from fx_explorer.tui.controllers.kernel_builds import KernelBuilds
from tests.analysis.kernel_ir.built_sessions import Written, write_kernel
from tests.analysis.kernel_ir.samples import Sample, dump, sample
from tests.exhaustive import in_exhaustive_runs, with_others
from tests.sessions import Hand
from tests.tui.conftest import Driver, OpenApp

SOFTMAX = "h100_softmax"
SIZES = (1, 2)
"""XBLOCK of the configurations that the fake builders know."""


class FakeBuilds:
    """FakeBuilds writes recorded builds into the session, when ``gate`` is open."""

    def __init__(self, one: Sample) -> None:
        self.sample = one
        self.asked: list[tuple[str, int]] = []
        self.answered: set[tuple[int, int]] = set()
        """(kernel, position)"""
        self.gate = asyncio.Event()
        self.stuck: set[int] = set()
        """Positions that never come to an end."""
        self.error = ""
        self.refusal = ""

    async def warm_up(self) -> BuildAnswer:
        return BuildAnswer(0, "ready")

    def ask(
        self, task: model.BuildTask, session: Path, kernel: int, position: int = 0
    ) -> asyncio.Task[BuildAnswer]:
        self.asked.append((task, position))
        return asyncio.create_task(self._answer(task, session, kernel, position))

    async def close(self) -> None:
        """Nothing runs."""

    async def _answer(self, task: str, session: Path, kernel: int, position: int) -> BuildAnswer:
        await self.gate.wait()
        if position in self.stuck:
            await asyncio.Event().wait()
        if self.refusal:
            raise WorkerError(self.refusal)
        with SessionReader(session) as reader, SessionWriter(session) as writer:
            rows = reader.rows(KernelBuild, kernel=kernel) or self._candidates(
                reader, writer, kernel
            )
            row = rows[position]
            if task in ("build", "resources"):
                writer.update(self._failed(row) if self.error else self._built(writer, row, task))
            elif task == "passes":
                writer.update(dataclasses.replace(row, passes=writer.text(dump())))
        self.answered.add((kernel, position))
        return BuildAnswer(1, "failed" if self.error else "built", row.id)

    def _candidates(
        self, reader: SessionReader, writer: SessionWriter, kernel: int
    ) -> list[KernelBuild]:
        for position, size in enumerate(SIZES):
            options = {"XBLOCK": size, "num_warps": 8, "num_stages": 1}
            writer.add(KernelBuild(0, kernel, position, options, self.sample.gpu))
        return reader.rows(KernelBuild, kernel=kernel)

    def _failed(self, row: KernelBuild) -> KernelBuild:
        return dataclasses.replace(row, state="failed", error=self.error)

    def _built(self, writer: SessionWriter, row: KernelBuild, task: str) -> KernelBuild:
        """SASS comes only when a whole build is asked for."""
        levels = {
            level: writer.add(
                model.Artifact(
                    0,
                    1,
                    level,
                    "kernel",
                    "forward",
                    level,
                    level,
                    writer.text(text),
                    text.count("\n"),
                )
            )
            for level, text in self.sample.levels.items()
            if task == "build" or level != "sass"
        }
        return dataclasses.replace(
            row,
            state="built",
            file=self.sample.file.name,
            lines_before=0 if row.source else 1,
            threads=self.sample.fields["threads"],
            registers=30 + row.position,
            spill_bytes=8 * row.position,
            shared_bytes=self.sample.fields["shared_bytes"],
            levels={**row.levels, **levels},
        )


@dataclasses.dataclass
class Below:
    written: Written
    builds: FakeBuilds

    def lines(self, level: model.Level, node: str) -> set[int]:
        """Lines of a level, from 0, that were made from the Triton lines that compute a node: from
        the record alone.
        """
        triton = {
            int(line)
            for line, nodes in self.builds.sample.fields["fx_lines"].items()
            if node in nodes
        }
        return {
            line - 1
            for line, sources in self.builds.sample.lines(level).items()
            if triton & set(sources)
        }


BelowOf = Callable[..., Below]


@pytest.fixture
def below_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BelowOf:
    """A session with a kernel and nothing built, and what builds it."""

    def made(name: str = SOFTMAX, is_open: bool = True) -> Below:
        one = sample(name)
        builds = FakeBuilds(one)
        if is_open:
            builds.gate.set()
        monkeypatch.setattr(KernelBuilds, "make_builds", staticmethod(lambda gpu, python: builds))
        return Below(write_kernel(tmp_path / "below.fxs", one, built=False), builds)

    return made


def shown(driver: Driver, slot: str) -> str:
    """Return the text of a pane."""
    return next(pane.body.text for pane in driver.panes if pane.slot == slot)


def said(driver: Driver, slot: str) -> str:
    """The same without its line breaks, which depend on the width."""
    return " ".join(shown(driver, slot).split())


def pane_of(driver: Driver, slot: str):  # type: ignore[no-untyped-def]
    return next(pane for pane in driver.panes if pane.slot == slot)


def titles(driver: Driver) -> list[str]:
    return [pane.document.title if pane.document else "" for pane in driver.panes]


async def test_one_key_shows_the_levels_below_the_kernel_under_the_cursor(
    below_of: BelowOf, open_app: OpenApp
) -> None:
    below = below_of()
    async with open_app(below.written.path, size=(240, 50)) as driver:
        await driver.press("6", "p", "k")
        await driver.until(lambda: pane_of(driver, "sass").document)
        assert [title.partition(" ·")[0] for title in titles(driver)[2:]] == [
            below.builds.sample.fields["kernel"],
            "TTGIR",
            "PTX",
            "SASS",
        ]
        assert "HFMA2" in shown(driver, "sass")
        assert below.builds.asked == [("build", 0)]


async def test_a_node_lights_up_its_instructions_in_every_pane(
    below_of: BelowOf, open_app: OpenApp
) -> None:
    below = below_of()
    async with open_app(below.written.path, size=(240, 50)) as driver:
        await driver.press("6", "p", "k")
        await driver.until(lambda: pane_of(driver, "sass").document)
        graph = pane_of(driver, "graph")
        row = next(n.position for n in driver.explorer.reader.rows(model.Node) if n.name == "erf")
        driver.explorer.linked.activate(graph)
        graph.body.user_moves_to(row)
        await driver.settle()
        for level in ("ttgir", "ptx", "sass"):
            assert pane_of(driver, level).lit == below.lines(level, "erf"), level  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("several", "told"), with_others([(True, "2 kernels compute the selection")], [(False, "")])
)
async def test_that_several_kernels_compute_a_node_is_said(
    below_of: BelowOf, open_app: OpenApp, several: bool, told: str
) -> None:
    below = below_of()
    if several:
        _add_second_kernel(below.written)
    async with open_app(below.written.path, size=(240, 50)) as driver:
        await driver.press("6", "p", "k")
        await driver.until(lambda: pane_of(driver, "sass").document)
        said_before = [notice.message for notice in driver.app._notifications]
        assert not any("kernels compute" in message for message in said_before), (
            "the row of a kernel is that kernel"
        )
        graph = pane_of(driver, "graph")
        row = next(n.position for n in driver.explorer.reader.rows(model.Node) if n.name == "erf")
        driver.explorer.linked.activate(graph)
        graph.body.user_moves_to(row)
        await driver.settle()
        await driver.press("p", "k")
        await driver.settle()
        said_now = [n.message for n in driver.app._notifications if "kernels compute" in n.message]
        assert [message.partition(";")[0] for message in said_now] == ([told] if told else [])


def _add_second_kernel(written: Written) -> None:
    """Add a kernel of another text that computes the same nodes."""
    with SessionReader(written.path) as reader, SessionWriter(written.path) as writer:
        artifact = writer.add(
            dataclasses.replace(reader.get(model.Artifact, written.artifact), id=0, title="second")
        )
        kernel = dataclasses.replace(
            reader.get(model.Kernel, written.kernel),
            id=0,
            position=1,
            name="second",
            artifact=artifact,
        )
        call = writer.add(model.KernelCall(0, writer.add(kernel), 1, 0))
        rows = reader.rows(model.LineNode, artifact=written.artifact)
        writer.add_all(dataclasses.replace(row, artifact=artifact, call=call) for row in rows)


@pytest.mark.parametrize("size", with_others([(80, 24)], [(120, 40), (200, 50)]))
async def test_below_a_kernel_the_footer_and_the_help_begin_with_the_key_to_the_next_level(
    below_of: BelowOf, open_app: OpenApp, size: tuple[int, int]
) -> None:
    below = below_of()
    async with open_app(below.written.path, size=size) as driver:
        await driver.press("6", "p", "k")
        await driver.until(lambda: pane_of(driver, "ptx").document)
        await driver.until(lambda: "tab next pane  ⏎ links" in driver.screen)
        assert "p k below" not in driver.screen
        await driver.press("question_mark")
        await driver.until(lambda: "Help · below" in driver.screen)
        assert "next pane: Move the focus to the next pane." in driver.screen


async def test_an_instruction_lights_up_the_line_and_the_node_it_is_from(
    below_of: BelowOf, open_app: OpenApp
) -> None:
    below = below_of()
    async with open_app(below.written.path, size=(240, 50)) as driver:
        await driver.press("6", "p", "k")
        await driver.until(lambda: pane_of(driver, "sass").document)
        sass = pane_of(driver, "sass")
        driver.explorer.linked.activate(sass)
        text = sass.body.text.split("\n")
        sass.body.user_moves_to(next(i for i, line in enumerate(text) if "STG" in line))
        await driver.settle()
        kernel = pane_of(driver, "kernel")
        (line,) = kernel.lit
        assert kernel.body.line_text(line).strip().startswith("tl.store(")
        assert pane_of(driver, "graph").lit
        assert "st.global" in "".join(
            pane_of(driver, "ptx").body.line_text(row) for row in pane_of(driver, "ptx").body.marks
        )
        assert any("from line" in line for line in driver.screen.splitlines()[-3:])


@in_exhaustive_runs
async def test_lines_that_only_say_where_others_are_from_are_left_out(
    below_of: BelowOf, open_app: OpenApp
) -> None:
    below = below_of()
    async with open_app(below.written.path, size=(240, 50)) as driver:
        await driver.press("6", "p", "k")
        await driver.until(lambda: pane_of(driver, "sass").document)
        assert "//## File" in below.builds.sample.levels["sass"]
        assert "//## File" not in shown(driver, "sass")
        assert ".loc" not in shown(driver, "ptx")
        assert "#loc1 = " not in shown(driver, "ttgir")
        numbered = pane_of(driver, "ptx").body
        last = numbered.line_count - 1
        number = int(numbered.gutter_tokens(last)[0][0])
        whole = below.builds.sample.levels["ptx"].expandtabs(4).split("\n")
        assert whole[number - 1] == numbered.line_text(last).expandtabs(4)


@in_exhaustive_runs
async def test_a_second_look_asks_no_builder(below_of: BelowOf, open_app: OpenApp) -> None:
    below = below_of()
    async with open_app(below.written.path, size=(240, 50)) as driver:
        await driver.press("6", "p", "k")
        await driver.until(lambda: pane_of(driver, "sass").document)
        await driver.press("1", "6", "p", "k")
        assert pane_of(driver, "sass").document
        assert below.builds.asked == [("build", 0)]


async def test_while_it_is_compiled_a_pane_says_so_and_escape_cancels(
    below_of: BelowOf, open_app: OpenApp
) -> None:
    below = below_of(is_open=False)
    async with open_app(below.written.path, size=(240, 50)) as driver:
        await driver.press("6", "p", "k")
        await driver.until(lambda: "Compiling" in said(driver, "sass"))
        assert "for NVIDIA H100" in said(driver, "sass")
        assert "esc cancels" in said(driver, "sass")
        await driver.press("escape")
        await driver.until(lambda: "Cancelled. Press p k" in said(driver, "sass"))
        await driver.press("j", "k")  # to move about does not begin anew
        assert below.builds.asked == [("build", 0)]
        below.builds.gate.set()
        await driver.press("p", "k")
        await driver.until(lambda: pane_of(driver, "sass").document)


@in_exhaustive_runs
async def test_what_ptxas_said_is_shown_in_the_pane(below_of: BelowOf, open_app: OpenApp) -> None:
    below = below_of()
    below.builds.error = (
        "ptxas error: Entry function uses too much shared data\n(0x5dc00 bytes, 0x38c00 max)"
    )
    async with open_app(below.written.path, size=(240, 50)) as driver:
        await driver.press("6", "p", "k")
        await driver.until(lambda: "too much shared data" in said(driver, "sass"))
        assert "0x38c00 max" in said(driver, "ptx")
        assert len(below.builds.asked) == 1


async def test_why_nothing_can_be_built_is_shown_in_the_pane(
    below_of: BelowOf, open_app: OpenApp
) -> None:
    below = below_of()
    below.builds.refusal = "kernels cannot be built here: No module named 'triton'"
    async with open_app(below.written.path, size=(240, 50)) as driver:
        await driver.press("6", "p", "k")
        await driver.until(lambda: "No module named 'triton'" in said(driver, "sass"))


@in_exhaustive_runs
async def test_at_80_columns_the_levels_are_tabs(below_of: BelowOf, open_app: OpenApp) -> None:
    below = below_of()
    async with open_app(below.written.path, size=(80, 24)) as driver:
        await driver.press("6", "p", "k")
        await driver.until(lambda: pane_of(driver, "sass").document)
        assert [pane.slot for pane in driver.panes if pane.display] == ["kernel"]
        tabs = driver.screen.splitlines()[2]
        assert all(name in tabs for name in ("TTGIR", "PTX", "SASS"))
        await driver.press("tab", "tab", "tab")
        assert [pane.slot for pane in driver.panes if pane.display] == ["sass"]


async def test_three_panes_stand_side_by_side_at_200_columns_and_two_at_120(
    below_of: BelowOf, open_app: OpenApp
) -> None:
    below = below_of()
    for size, slots in (((200, 50), ["kernel", "ptx", "sass"]), ((120, 40), ["kernel", "sass"])):
        async with open_app(below.written.path, size=size) as driver:
            await driver.press("6", "p", "k")
            await driver.until(lambda: pane_of(driver, "sass").document)
            assert [pane.slot for pane in driver.panes if pane.display] == slots
            await driver.press(*["tab"] * (len(slots) - 1))
            assert driver.explorer.linked.active.slot == "sass"
            assert [pane.slot for pane in driver.panes if pane.display] == slots
            await driver.press(*["tab"] * 4)  # by the source, the graph and the kernel
            assert driver.explorer.linked.active.slot == "ttgir"


@in_exhaustive_runs
async def test_what_is_shown_stays_while_the_focus_is_among_it(
    below_of: BelowOf, open_app: OpenApp
) -> None:
    below = below_of()
    async with open_app(below.written.path, size=(200, 50)) as driver:
        await driver.press("6", "p", "k")
        await driver.until(lambda: pane_of(driver, "sass").document)
        await driver.press("tab", "tab")
        before = [pane.slot for pane in driver.panes if pane.display]
        await driver.press("shift+tab")
        assert (
            [pane.slot for pane in driver.panes if pane.display]
            == before
            == ["kernel", "ptx", "sass"]
        )


async def test_an_amd_gpu_has_amdgcn_instead(below_of: BelowOf, open_app: OpenApp) -> None:
    below = below_of("mi300x_softmax")
    async with open_app(below.written.path, size=(240, 50)) as driver:
        await driver.press("6", "p", "k")
        await driver.until(lambda: pane_of(driver, "amdgcn").document)
        assert [pane.slot for pane in driver.panes][3:] == ["ttgir", "llir", "amdgcn"]
        assert "v_exp_f32" in shown(driver, "amdgcn")


@in_exhaustive_runs
async def test_any_level_can_be_chosen_for_a_pane(below_of: BelowOf, open_app: OpenApp) -> None:
    below = below_of()
    async with open_app(below.written.path, size=(240, 50)) as driver:
        await driver.press("6", "enter", "tab", "p", "d", *"llvm", "enter")
        await driver.until(lambda: any(title.startswith("LLVM IR") for title in titles(driver)))


async def test_a_kernel_in_cpp_has_no_levels_and_is_told_so(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("6", "j", "p", "k")
        assert any("this one is C++" in notice.message for notice in driver.app._notifications)


@in_exhaustive_runs
async def test_from_the_overview_the_first_kernel_is_opened(
    below_of: BelowOf, open_app: OpenApp
) -> None:
    below = below_of()
    async with open_app(below.written.path, size=(240, 50)) as driver:
        await driver.press("1", "p", "k")
        await driver.until(lambda: pane_of(driver, "sass").document)
        assert titles(driver)[2].startswith(below.builds.sample.fields["kernel"])
        assert any(
            "this is the first one, triton_" in notice.message
            for notice in driver.app._notifications
        )


async def test_from_the_overview_of_a_session_for_the_cpu_the_gpu_to_give_is_told(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("1", "p", "k")
        assert any(
            "Capture it with --gpu h100" in notice.message for notice in driver.app._notifications
        )
        assert not [pane for pane in driver.panes if pane.slot == "sass"]


async def test_that_the_gpu_is_not_there_is_seen_at_80_columns(
    below_of: BelowOf, open_app: OpenApp
) -> None:
    below = below_of()
    with SessionWriter(below.written.path) as writer:
        writer.set_meta(
            "environment",
            {"torch": "2.13.0+cpu", "device": "cuda", "virtual_gpu": "NVIDIA H100 SXM 80 GB"},
        )
    async with open_app(below.written.path, size=(80, 24)) as driver:
        assert "virtual NVIDIA H100" in driver.header


# configurations


@in_exhaustive_runs
async def test_every_configuration_stands_in_a_table_with_its_resources(
    below_of: BelowOf, open_app: OpenApp
) -> None:
    below = below_of()
    async with open_app(below.written.path, size=(80, 24)) as driver:
        await driver.press("6", "v", "c")
        await driver.until(
            lambda: len(below.builds.asked) == 3 and "30" in driver.screen and "31" in driver.screen
        )
        assert "XBLOCK" in driver.screen
        assert (
            "XBLOCK 1 · 8" in driver.screen
        )  # what all have is said below the row, in one line above it there is no room
        assert "warps · 1 stage" in driver.screen
        assert "it times them on" in driver.screen  # the pick cannot be known
        assert "8 B" in driver.screen  # spilled by the second
        assert "an estimate" in driver.screen


async def test_enter_on_a_configuration_shows_its_levels(
    below_of: BelowOf, open_app: OpenApp
) -> None:
    below = below_of()
    async with open_app(below.written.path, size=(240, 50)) as driver:
        await driver.press("6", "v", "c")
        await driver.until(lambda: len(below.builds.asked) == 3)
        await driver.press("j", "enter")
        await driver.until(lambda: pane_of(driver, "sass").document)
        assert titles(driver)[-1].startswith("SASS · XBLOCK 2")
        first, *resources, last = below.builds.asked
        assert (first, sorted(resources), last) == (
            ("candidates", 0),
            [("resources", 0), ("resources", 1)],
            ("build", 1),
        )


async def test_escape_stops_the_compiling_of_configurations(
    below_of: BelowOf, open_app: OpenApp
) -> None:
    below = below_of(is_open=False)
    async with open_app(below.written.path, size=(120, 40)) as driver:
        await driver.press("6", "v", "c")
        await driver.until(lambda: below.builds.asked)
        await driver.press("escape")
        await driver.until(lambda: "Cancelled" in driver.screen)


@in_exhaustive_runs
async def test_what_was_compiled_before_escape_is_kept_and_the_key_goes_on_from_there(
    below_of: BelowOf, open_app: OpenApp
) -> None:
    below = below_of()
    below.builds.stuck.add(1)
    async with open_app(below.written.path, size=(120, 40)) as driver:
        await driver.press("6", "v", "c")
        await driver.until(
            lambda: "1 of 2 configurations are compiled" in " ".join(driver.screen.split())
        )
        await driver.press("j", "k")  # the screen answers meanwhile
        await driver.press("escape")
        await driver.until(lambda: "Cancelled" in driver.screen)
        assert "not yet" in driver.screen
        below.builds.stuck.clear()
        await driver.press("v", "c")
        await driver.until(lambda: "not yet" not in driver.screen)
        assert sorted(position for task, position in below.builds.asked if task == "resources") == [
            0,
            1,
            1,
        ]


# pass by pass


async def test_the_passes_that_changed_something_are_told_apart_and_shown(
    below_of: BelowOf, open_app: OpenApp
) -> None:
    below = below_of()
    async with open_app(below.written.path, size=(140, 50)) as driver:
        await driver.press("6", "v", "i")
        await driver.until(lambda: "passes changed the IR" in driver.screen)
        await driver.until(lambda: "line" in driver.screen and "changed" in driver.screen)
        assert ("passes", 0) in below.builds.asked
        assert "● " in driver.screen
        await driver.press("enter", "n", "escape")
        assert driver.explorer.view == "kernels"


@in_exhaustive_runs
async def test_all_facts_of_a_kernel_say_that_its_time_is_an_estimate(
    below_of: BelowOf, open_app: OpenApp
) -> None:
    below = below_of()
    async with open_app(below.written.path, size=(160, 50)) as driver:
        await driver.press("6", "p", "k")
        await driver.until(lambda: pane_of(driver, "sass").document)
        place = pane_of(driver, "kernel").place
        facts = inspect.entries(driver.explorer.reader, place)
        told = " ".join(entry.text for entry in facts)
        assert (
            "reads and writes 516.0 kB: 0.15 µs at 3.35 TB/s, an estimate; so short that its "
            "launch takes longer" in told
        )
        assert "30 registers of 255 a thread, no spills" in told
        await driver.press("i")
        assert "reads and writes 516.0 kB: 0.15 µs at 3.35 TB/s" in driver.screen
