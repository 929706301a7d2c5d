"""These tests check that code that the first screen does not need is imported while the user reads
it: neither before it, nor by the key that needs the code.
"""

from __future__ import annotations

import json
import subprocess
import sys

from tests.sessions import Hand

PROGRAM = """
import asyncio, json, sys
from pathlib import Path
from fx_explorer.tui.app import ExplorerApp

def ours():
    return {name for name in sys.modules if name.partition(".")[0] in ("fx_explorer", "textual", "libcst")}

async def main():
    app = ExplorerApp(session=Path(sys.argv[1]))
    async with app.run_test(size=(120, 40)) as pilot:
        await asyncio.to_thread(app.later_imports.wait)
        found = {}
        for key in sys.argv[2].split():
            known = ours()
            await pilot.press(key)
            await pilot.pause()
            if ours() - known:
                found[key] = sorted(ours() - known)
        json.dump(found, sys.stderr)

asyncio.run(main())
"""

KEYS = (
    "1 3 4 5 6 7 8 9 less_than_sign escape v f escape Y a v m v b v r v l v g v u v h v s 2 p j p d escape p c down p c p c "
    "p k p n f escape i escape question_mark escape x x escape escape space escape o b 2 tab p a escape enter escape"
)
"""Tables, dialogs, menus, pictures and forms of graphs."""


def told_by(program: str, *arguments: str) -> object:
    """Return the JSON that a fresh interpreter wrote to its standard error."""
    command = [sys.executable, "-c", program, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return json.loads(ended.stderr.splitlines()[-1])


def test_no_key_imports_a_module_once_the_first_screen_was_read(hand: Hand) -> None:
    assert told_by(PROGRAM, str(hand.path), KEYS) == {}


UNNEEDED = (
    "fx_explorer.overview.view_tables",
    "fx_explorer.tui.tour_steps",
    "fx_explorer.tui.screens.tour_panel",
    "fx_explorer.tui.content.inspect",
    "fx_explorer.tui.screens.help",
    "fx_explorer.instruments.kernels.costs",
    "fx_explorer.instruments.ledger",
    "fx_explorer.instruments.bench",
    "fx_explorer.instruments.front_ends",
    "fx_explorer.instruments.profile",
    "fx_explorer.readers.torch_trace",
    "libcst",
)


def test_the_first_screen_of_a_saved_session_does_without_what_few_sessions_and_later_keys_need() -> (
    None
):
    program = (
        "import sys, json, fx_explorer.commands.explore, fx_explorer.tui.app\n"
        f"json.dump([one for one in sys.modules if one.startswith({UNNEEDED!r})], sys.stderr)"
    )
    assert told_by(program) == []
