"""These tests check navigation: views, follow, back and forward, find, palette, help, copy, edit."""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer.tui.commands import VIEWS
from fx_explorer.tui.config import Config
from fx_explorer.tui.dialogs.choose import Chooser
from fx_explorer.tui.screens.help import Help
from fx_explorer.tui.screens.inspector import Inspector
from tests.exhaustive import in_exhaustive_runs, with_others
from tests.sessions import Hand
from tests.tui.conftest import OpenApp


async def test_the_first_view_is_the_overview_in_plain_words(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        assert "Everything became one graph: 3 operations." in driver.facts
        assert "mlp.py:MLP" in driver.header
        assert "torch 2.13.0 · cpu · training" in driver.header
        assert "✓ captured in 2.50 s" in driver.header


async def test_each_number_key_opens_its_view(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        for number in (*range(2, 10), 1):
            await driver.press(str(number))
            assert driver.explorer.view == VIEWS[number - 1][0]


@in_exhaustive_runs
async def test_enter_on_a_fact_opens_the_view_it_is_about(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        facts = driver.explorer.facts
        await driver.press_until("down", lambda: facts.fact.topic == "kernels")
        await driver.press("enter")
        assert driver.explorer.view == "kernels"


async def test_enter_on_a_kernel_opens_its_code_beside_its_nodes(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("6", "j", "enter")
        assert driver.explorer.view == "source"
        assert driver.explorer.linked.active.document.title == "kernel"
        assert driver.panes[1].body.marks == {2}  # the gelu of the post-grad graph


async def test_back_and_forward_are_a_browsers(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("3", "7", "enter")
        assert driver.explorer.view == "source"
        place = driver.explorer.place
        await driver.press("b")
        assert driver.explorer.view == "memory"
        await driver.press("b", "b")
        assert driver.explorer.view == "overview"
        await driver.press("B", "B", "B")
        assert driver.explorer.view == "source"
        assert driver.explorer.place == place


@in_exhaustive_runs
async def test_back_leads_to_the_line_the_cursor_was_left_on(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2", "g", "j", "j", "3", "b")
        assert driver.explorer.place.line == 2


async def test_find_in_pane_goes_to_the_match_and_n_to_the_next(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2", "g", "slash", *"self")
        assert "3 lines" in driver.screen
        await driver.press("enter")
        body = driver.explorer.linked.active.body
        assert body.has_focus
        assert body.cursor == 5
        await driver.press("n")
        assert body.cursor == 6
        await driver.press("N")
        assert body.cursor == 5


@in_exhaustive_runs
async def test_escape_ends_a_find(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2", "slash", *"self", "escape")
        assert driver.explorer.linked.active.body.find_pattern == ""
        assert not driver.explorer.find_bar.is_open


async def test_a_find_that_finds_nothing_says_so_and_names_the_key_that_looks_everywhere(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path, size=(80, 24)) as driver:
        await driver.press("2", "slash", *"zebra")
        assert "no match; esc f searches everywhere" in driver.screen
        await driver.press("enter")
        assert driver.explorer.find_bar.is_open, "what it says stays"


@pytest.mark.parametrize(
    ("typed", "title", "line"),
    with_others(
        [("gelu_backward", "Joint graph", 5), ("return", "mlp.py", 7)],
        [("kernel cpp", "kernel", 0)],
    ),
)
async def test_find_anything_goes_to_nodes_kernels_and_source_lines(
    hand: Hand, open_app: OpenApp, typed: str, title: str, line: int
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press(
            "f", *(key.replace(" ", "space").replace("_", "underscore") for key in typed)
        )
        await driver.until(lambda: driver.app.screen._choices)
        await driver.press("enter")
        await driver.until(
            lambda: driver.explorer.place and driver.explorer.place.document.title == title
        )
        assert driver.explorer.place.line == line


async def test_the_outline_folds_and_leads(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        outline = driver.explorer.outline
        outline.focus()
        count = outline.line_count
        await driver.press("j", "j", "left")
        assert outline.line_count < count
        await driver.press("right")
        assert outline.line_count == count
        await driver.press("j", "enter")
        assert driver.explorer.place.document.title == "Dynamo graph"


async def test_enter_in_a_pane_lists_links_with_how_they_are_known(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2", "tab", "g", "j", "j", "enter")
        assert isinstance(driver.app.screen, Chooser)
        assert "the same node, kept or copied by the compiler" in driver.screen
        assert "the scheduler lists the node as an origin" in driver.screen
        await driver.press(*"kernel", "enter")
        assert driver.explorer.place.document.title == "kernel"


async def test_the_inspector_lists_all_facts_and_leads_to_users(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2", "tab", "g", "j", "j", "i")
        assert isinstance(driver.app.screen, Inspector)
        for words in ("aten.gelu.default", "f32[4, 8]", "mlp.py:7 in forward", "addmm_1"):
            assert words in driver.screen
        await driver.press("G", "enter")  # the last entry: used by addmm_1
        assert driver.explorer.place.line == 3


async def test_help_lists_the_keys_as_the_user_mapped_them(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path, config=Config(keys={"preset.joint": ("Z",)})) as driver:
        await driver.press("2", "question_mark")
        assert isinstance(driver.app.screen, Help)
        lines = driver.screen.splitlines()
        assert any(" Z " in line and "partitioner" in line for line in lines)


async def test_a_remapped_key_works_and_the_old_one_does_not(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path, config=Config(keys={"view.stages": ("G", "g")})) as driver:
        await driver.press("3")
        assert driver.explorer.view == "overview"
    async with open_app(hand.path, config=Config(keys={"view.stages": ("ctrl+g",)})) as driver:
        await driver.press("ctrl+g")
        assert driver.explorer.view == "stages"


async def test_the_palette_runs_our_commands(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("ctrl+p")
        await driver.pilot.press(*"forward")
        await driver.until(lambda: "forward | backward" in driver.screen)
        await driver.press("down", "enter")
        await driver.until(lambda: driver.explorer.view == "source")


async def test_copying_says_how_it_was_copied(
    hand: Hand, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("fx_explorer.tui.terminal.other_programs.native_tool", lambda environ: ())
    async with open_app(hand.path) as driver:
        await driver.press("2", "g", "y")
        assert any(
            "1 line copied through the terminal" in note.message
            for note in driver.app._notifications
        )


async def test_edit_opens_the_users_line_in_their_editor(
    hand: Hand, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[str, int]] = []
    monkeypatch.setattr(
        "fx_explorer.tui.controllers.navigation.open_in_editor",
        lambda app, path, line: opened.append((path, line)),
    )
    async with open_app(hand.path) as driver:
        await driver.press("2", "tab", "g", "j", "j", "e")
        assert opened == [("/p/mlp.py", 7)]


async def test_edit_says_when_the_file_is_not_here(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2", "e")
        assert any(
            "/p/mlp.py is not on this machine" in note.message for note in driver.app._notifications
        )


@in_exhaustive_runs
async def test_the_theme_key_switches_between_dark_and_light(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("space", "t")
        assert not driver.app.current_theme.dark
        await driver.press("space", "t")
        assert driver.app.current_theme.dark


async def test_a_saved_session_can_be_saved_again_but_not_over_a_file(
    hand: Hand, open_app: OpenApp, tmp_path: Path
) -> None:
    from fx_explorer.session import SessionReader

    async with open_app(hand.path) as driver:
        target = tmp_path / "copy.fxs"
        for _ in range(2):
            await driver.press("s")
            driver.app.screen._input.value = str(target)
            await driver.press("enter")
        messages = [note.message for note in driver.app._notifications]
        assert any(message.startswith(f"Saved {target}") for message in messages)
        assert any("already exists" in message for message in messages)
    with SessionReader(target) as reader:
        assert reader.meta("target")["name"] == "mlp.py:MLP"


async def test_lines_selected_with_the_mouse_are_copied_together(
    hand: Hand, open_app: OpenApp, copied: list[str]
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2")
        driver.explorer.linked.active.body.select(range(5, 7))
        await driver.press("y")
    assert copied == ["    def forward(self, x):\n        h = F.gelu(self.fc1(x))"]


async def test_the_tabs_of_the_footer_can_be_clicked(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        footer = driver.explorer.footer
        row = footer.region.bottom - 1
        column = driver.screen.splitlines()[row].index("5 guards")
        await driver.pilot.click(offset=(column, row))
        await driver.settle()
        assert driver.explorer.view == "guards"


async def test_panes_behind_tabs_can_be_clicked(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path, size=(80, 24)) as driver:
        await driver.press("2")
        column = driver.screen.splitlines()[2].index("Forward")
        await driver.pilot.click(offset=(column + 2, 2))
        await driver.settle()
        assert driver.explorer.linked.active is driver.panes[1]


async def test_a_click_on_a_step_of_the_pipeline_shows_what_it_did(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path, size=(120, 40)) as driver:
        bar = driver.screen.splitlines()[1]
        await driver.pilot.click(offset=(bar.index("Kernels") + 1, 1))
        await driver.until(lambda: driver.explorer.view == "kernels")
        await driver.pilot.click(offset=(bar.index("AOTAutograd") + 1, 1))
        await driver.until(lambda: driver.explorer.view == "stages")


async def test_one_click_on_a_link_follows_it_and_elsewhere_it_moves_the_cursor(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path, size=(120, 40)) as driver:
        await driver.press("2", "i")
        inspector = driver.app.screen
        assert isinstance(inspector, Inspector)
        lines = driver.screen.splitlines()
        row = next(at for at, line in enumerate(lines) if "→ " in line)
        other = next(
            at for at, line in enumerate(lines) if at != row and "│" in line and "→" not in line
        )
        await driver.pilot.click(offset=(lines[other].index("│") + 16, other))
        assert driver.app.screen is inspector
        await driver.pilot.click(offset=(lines[row].index("→ ") + 1, row))
        await driver.until(lambda: driver.app.screen is not inspector)
