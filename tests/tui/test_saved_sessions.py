"""These tests check that a saved session offers no key that needs a worker: footer and help leave
it out, menus and the list of commands say why, and every other key of the menu of compiling works.
"""

from __future__ import annotations

import re

import pytest

from fx_explorer.tui.availability import NO_COMPILER, NO_RECORD, STEPPING
from fx_explorer.tui.commands import COMMANDS, OF_VIEW, VIEWS, by_id
from fx_explorer.tui.commands.view_commands import MORE_VIEWS
from fx_explorer.tui.controllers.stepping import SAVED
from fx_explorer.tui.controllers.variants import NOTHING_MARKED
from fx_explorer.tui.keys import first_key
from tests.sessions import Hand
from tests.tui.conftest import OpenApp

OF_THE_MENU = [
    command.id for command in COMMANDS if any(key.startswith("c ") for key in command.keys)
]
REFUSALS = (SAVED, NO_RECORD, NOTHING_MARKED)


@pytest.mark.parametrize("is_trusted", [True, False])
async def test_a_key_for_compiling_works_or_says_why_not(
    open_app: OpenApp, hand: Hand, is_trusted: bool
) -> None:
    assert len(OF_THE_MENU) > 12
    async with open_app(hand.path, trusts_sessions=is_trusted) as driver:
        why_not = driver.app.controllers.command_runs.why_not
        assert {why_not(command) for command in STEPPING} == {NO_COMPILER}
        offered = [command for command in OF_THE_MENU if not why_not(command)]
        assert offered == ["step.option"]
        for command in offered:
            await driver.press(*by_id(command).keys[0].split())
            told = [note.message for note in driver.app._notifications]
            assert not {*told}.intersection(REFUSALS), command


async def test_no_view_of_a_saved_session_offers_a_key_for_the_compiler(
    open_app: OpenApp, hand: Hand
) -> None:
    async with open_app(hand.path, size=(200, 50)) as driver:
        explorer = driver.explorer
        absent = explorer.absent_commands()
        assert {"step.fusion", "step.what_if", "step.mark", "step.measure"} <= {*absent}
        left_out = 0
        for view in sorted(name for name, *_ in (*VIEWS, *MORE_VIEWS)):
            words = {one: word for one, word in OF_VIEW.get(view, ()) if one in absent}
            if not words:
                continue
            await explorer.action_show_view(view)
            await driver.until(lambda view=view: explorer.view == view)
            footer = {part.strip() for part in re.split(r"  +|\n", explorer.footer.render().plain)}
            for command, word in words.items():
                assert f"{first_key(by_id(command), explorer.keymap)} {word}" not in footer, view
                left_out += 1
        assert left_out > 4
