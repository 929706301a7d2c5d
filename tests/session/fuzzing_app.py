"""This module opens a damaged session in the app as ``fx-explorer SESSION`` opens it, and goes
through some of its screens at random.
"""

from __future__ import annotations

import asyncio
import random
import re
import traceback
from pathlib import Path

from fx_explorer.errors import SessionError
from fx_explorer.session import SessionReader
from fx_explorer.tui.app import ExplorerApp
from fx_explorer.tui.config import Config
from fx_explorer.tui.failures import faults_of
from tests.session.limits import UNSHOWN, HungError, limited

KEYS = (
    "1",
    "2",
    "3",
    "4",
    "5",
    "6",
    "7",
    "8",
    "9",
    "down",
    "enter",
    "pagedown",
    "end",
    "i",
    "B",
    "c e",
    "p y",
    "p k",
    "escape",
    "tab",
)

KEYS_EACH = 3
"""An app starts in a tenth of a second; a key takes some hundredths."""


def app_problem(session: Path, chance: random.Random) -> str:
    """Return the problem with the app; empty when it showed the readable part, or ended with
    SessionError.
    """
    keys = [chance.choice(KEYS) for _ in range(KEYS_EACH)]
    try:
        with limited():
            SessionReader(session).close()  # as command_line/starting_app.py does
            return asyncio.run(_went_through(session, keys))
    except SessionError:
        return ""
    except HungError:
        return f"the app hangs at {keys}\n" + traceback.format_exc(limit=-4)
    except BaseException:  # noqa: BLE001 - whatever it is, it is what we look for
        return f"the app at {keys}\n" + traceback.format_exc(limit=-6)


async def _went_through(session: Path, keys: list[str]) -> str:
    app = ExplorerApp(session=session, config=Config())
    shown = ""
    async with app.run_test(size=(140, 40), notifications=True) as pilot:
        for key in ("", *keys):
            await (pilot.press(*key.split()) if key else pilot.pause())
            if not app.is_running:
                break
            shown += "\n".join(strip.text for strip in app.screen._compositor.render_strips())
    if found := re.search(UNSHOWN, shown):
        return f"the app shows {found.group()!r} at {keys}: {shown[max(0, found.start() - 60) : found.end() + 60]!r}"
    if faults := faults_of(app):
        return f"the app at {keys}\n{faults[0]}"
    return (
        ""
        if app.return_code in (None, 0, SessionError.exit_code)
        else f"the app ends with {app.return_code} at {keys}"
    )
