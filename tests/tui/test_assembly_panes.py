"""These tests check PTX and SASS in their panes: columns, folded directives, control bits on
demand, and the explanation of the instruction under the cursor.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from fx_explorer.analysis.kernel_lines import instruction_lines, sass_instruction_lines
from fx_explorer.instruments.kernels.assembly_text import parts_of
from fx_explorer.instruments.kernels.live_registers import control_words, live_registers
from fx_explorer.tui.content import inspect
from fx_explorer.tui.controllers.kernel_builds import KernelBuilds
from fx_explorer.tui.panes.assembly import columns_of
from fx_explorer.tui.screens.inspector import Inspector
from fx_explorer.tui.widgets.row_list import RowList
from tests.analysis.kernel_ir.built_sessions import write_kernel
from tests.analysis.kernel_ir.samples import NAMES, sample
from tests.analysis.kernel_ir.test_control_words import ENCODED
from tests.exhaustive import in_exhaustive_runs
from tests.tui.conftest import Driver, OpenApp
from tests.tui.test_below import FakeBuilds


@pytest.fixture(autouse=True)
def no_builder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is built: no process is started to build more."""
    monkeypatch.setattr(
        KernelBuilds,
        "make_builds",
        staticmethod(lambda gpu, python: FakeBuilds(sample("h100_softmax"))),
    )


@pytest.fixture
def encoded(tmp_path: Path) -> Path:
    """A session with a built kernel whose SASS has its encoding."""
    one = sample("h100_softmax")
    levels = {**one.levels, "sass": ENCODED["softmax_sm_90a"]["sass"]}
    return write_kernel(tmp_path / "encoded.fxs", dataclasses.replace(one, levels=levels)).path


async def below(driver: Driver, level: str):  # type: ignore[no-untyped-def]
    """The pane of a level, with the focus."""
    await driver.press("6", "p", "k")
    pane = next(pane for pane in driver.panes if pane.slot == level)
    await driver.until(lambda: pane.document)
    driver.explorer.linked.activate(pane)
    await driver.settle()
    return pane


def rows(pane) -> list[str]:  # type: ignore[no-untyped-def]
    body = pane.body
    return ["".join(text for text, _ in body.line_tokens(row)) for row in range(body.line_count)]


@pytest.mark.parametrize("name", NAMES)
def test_every_instruction_is_shown_whole_in_its_columns(name: str) -> None:
    one = sample(name)
    for level, text in one.levels.items():
        if level not in ("ptx", "sass", "amdgcn"):
            continue
        lines = text.split("\n")
        numbers = sass_instruction_lines(text) if level == "sass" else instruction_lines(text)
        for room in (0, 40, 200):
            columns = columns_of(level, text).fitted(room)
            for line in (lines[number - 1] for number in numbers):
                parts = parts_of(level, line)
                assert parts, line
                expected = [
                    line[slice(*span)] for span in (parts.guard, parts.name, parts.operands)
                ]
                shown = columns.text(line)
                assert shown == "".join(text for text, _ in columns.tokens([(line, "text")])), line
                assert shown.partition("//")[0].split() == " ".join(expected).split(), line


async def test_operands_stand_below_each_other_and_no_address_is_shown(
    encoded: Path, open_app: OpenApp
) -> None:
    async with open_app(encoded, size=(200, 50)) as driver:
        pane = await below(driver, "sass")
        shown = rows(pane)
        assert not [row for row in shown if "/*0" in row]
        fmul = {row.index("R", row.index("FMUL") + 4) for row in shown if " FMUL " in row}
        mov = {
            row.index("R", row.index("MOV") + 3) for row in shown if row.strip().startswith("MOV ")
        }
        assert fmul == mov
        assert len(fmul) == 1


@in_exhaustive_runs
async def test_columns_are_laid_out_again_when_the_pane_is_resized(
    encoded: Path, open_app: OpenApp
) -> None:
    async with open_app(encoded, size=(200, 50)) as driver:
        pane = await below(driver, "ptx")
        wide = rows(pane)
        await driver.pilot.resize_terminal(40, 30)
        await driver.settle()
        narrow = rows(pane)
        assert narrow != wide
        assert [row.split() for row in narrow] == [row.split() for row in wide]
        add = next(row for row in range(len(wide)) if wide[row].strip().startswith("add.s32"))
        assert narrow[add].index("%") < wide[add].index("%")


async def test_directives_are_one_row_that_enter_opens(encoded: Path, open_app: OpenApp) -> None:
    async with open_app(encoded, size=(200, 50)) as driver:
        pane = await below(driver, "ptx")
        first = rows(pane)[0]
        assert first.startswith("▸ ")
        assert ".target sm_90a" in first
        assert not [
            row for row in rows(pane) if ".param .u64" in row or row.strip().startswith(".reg")
        ]
        await driver.press("g")
        place = pane.place
        await driver.press("enter")
        assert [row for row in rows(pane) if ".param .u64" in row]
        assert not [row for row in rows(pane) if row.startswith("▸")]
        assert pane.place == place


@in_exhaustive_runs
async def test_a_find_looks_into_folded_directives(encoded: Path, open_app: OpenApp) -> None:
    async with open_app(encoded, size=(200, 50)) as driver:
        pane = await below(driver, "ptx")
        await driver.press("slash", *"reqntid", "enter")
        await driver.settle()
        assert ".reqntid" in pane.body.line_text(pane.body.cursor)


async def test_a_key_shows_addresses_and_control_bits_and_hides_them(
    encoded: Path, open_app: OpenApp
) -> None:
    async with open_app(encoded, size=(200, 50)) as driver:
        pane = await below(driver, "sass")
        before = driver.screen
        assert "B------:R-:W0" not in before
        await driver.press("p", "i")
        words = control_words(ENCODED["softmax_sm_90a"]["sass"])
        load = next(row for row, text in enumerate(rows(pane)) if "LDG.E" in text)
        number = pane.place.document and pane._line_of(load) + 1
        gutter = "".join(text for text, _ in pane.body.gutter_tokens(load))
        assert words[number].address in gutter
        assert f"S{words[number].stall:02}" in gutter
        await driver.press("p", "i")
        assert driver.screen == before


@in_exhaustive_runs
async def test_a_pane_without_control_bits_says_so(
    encoded: Path, open_app: OpenApp, tmp_path: Path
) -> None:
    async with open_app(encoded, size=(200, 50)) as driver:
        await below(driver, "ptx")
        await driver.press("p", "i")
        assert any(
            "has addresses and control bits" in notice.message
            for notice in driver.app._notifications
        )
    plain = write_kernel(tmp_path / "plain.fxs", sample("h100_softmax")).path
    async with open_app(plain, size=(200, 50)) as driver:
        await below(driver, "sass")
        await driver.press("p", "i")
        assert any("has no machine words" in notice.message for notice in driver.app._notifications)


@in_exhaustive_runs
async def test_a_line_of_the_triton_source_adds_up_its_instructions(
    encoded: Path, open_app: OpenApp
) -> None:
    async with open_app(encoded, size=(200, 50)) as driver:
        pane = await below(driver, "kernel")
        line = next(row for row, text in enumerate(rows(pane)) if "tl.store(" in text)
        pane.body.user_moves_to(line)
        await driver.settle()
        sass = next(pane for pane in driver.panes if pane.slot == "sass")
        text = ENCODED["softmax_sm_90a"]["sass"]
        words, live = control_words(text), live_registers(text)
        made = [number + 1 for number in sass.lit]
        assert made
        facts = {
            entry.label: entry.text for entry in inspect.entries(driver.explorer.reader, pane.place)
        }
        assert facts["SASS"].startswith(
            f"{len(made)} instructions, stalls of {sum(words[at].stall for at in made)} cycles"
        )
        told = " ".join(entry.text for entry in inspect.entries(driver.explorer.reader, pane.place))
        assert f"up to {max(live[at] for at in made)} registers live" in told


async def test_the_instruction_under_the_cursor_is_explained(
    encoded: Path, open_app: OpenApp
) -> None:
    async with open_app(encoded, size=(200, 50)) as driver:
        pane = await below(driver, "sass")
        pane.body.user_moves_to(
            next(row for row, text in enumerate(rows(pane)) if "MUFU.RCP" in text)
        )
        await driver.settle()
        line = next(
            line
            for line in driver.screen.splitlines()[-3:]
            if "MUFU.RCP: Computes 1 divided by a value" in line
        )
        assert "sets barrier" in line
        await driver.press("i")
        assert "opcode" in driver.screen
        assert "control " in driver.screen
        inspector = driver.app.screen
        assert isinstance(inspector, Inspector)
        shown = inspector.query_one(RowList)
        at = next(row for row in range(shown.line_count) if shown.row(row)[0] == "control")
        await driver.press(*["down"] * at)
        assert "read from bits 105 to 125" in driver.screen
