"""How much one key of the app does: the files of the package that it enters, how often it goes from
one to another, and the statements that it gives to SQLite.

    python -m benchmarks.key_steps SESSION [--open 2,tab] [--keys down,up] [--list]

The app runs without a terminal at 200×50. ``--open`` are the keys that lead to the view. What
happens in half a second after a key counts too; files that are entered in such a time without a key
are counted separately. ``--list`` names the files and the statements.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sqlite3
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

from textual.pilot import Pilot

from benchmarks.common import ROOT
from fx_explorer.command_line.starting_app import app_for
from fx_explorer.commands import explore
from fx_explorer.tui.config import Config

PACKAGE = str(ROOT / "fx_explorer")
SIZE = (200, 50)
SETTLED_S = 0.5
"""After so long what a key began is over."""

WAITED_S = 4 * SETTLED_S
"""For so long it is seen what the app does without a key."""

LOOKS_FOR_NEWS = "PRAGMA data_version"
"""What a reader asks to know whether its session has grown."""


class Steps:
    """What is done between ``begin`` and ``end``."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._last_file = ""
        self.files: set[str] = set()
        self.moves = 0
        self.statements: Counter[str] = Counter()

    def begin(self) -> None:
        self._connection.set_trace_callback(self._add_statement)
        sys.setprofile(self._enter)

    def end(self) -> None:
        sys.setprofile(None)
        self._connection.set_trace_callback(None)

    def _add_statement(self, statement: str) -> None:
        self.statements[re.sub(r"\d+", "#", " ".join(statement.split()))] += 1

    def _enter(self, frame: FrameType, event: str, argument: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(PACKAGE):
            self.files.add(file)
            self.moves += file != self._last_file
            self._last_file = file


async def measure(session: Path, opening: list[str], keys: list[str], *, is_listed: bool) -> None:
    parser = argparse.ArgumentParser()
    explore.add_arguments(parser)
    app = app_for(parser.parse_args([str(session)]), session, Config())
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause(3 * SETTLED_S)
        for key in opening:
            await _press(pilot, key)
        reader = vars(app.explorer.reader)
        connection = next(part for part in reader.values() if isinstance(part, sqlite3.Connection))
        waiting = Steps(connection)
        waiting.begin()
        await pilot.pause(WAITED_S)
        waiting.end()
        for key in keys:
            steps = Steps(connection)
            steps.begin()
            await _press(pilot, key)
            steps.end()
            looks = steps.statements.pop(LOOKS_FOR_NEWS, 0)
            files = steps.files - waiting.files
            print(
                f"{key}: {len(files)} files and {len(steps.files & waiting.files)} that are "
                f"entered without a key, {steps.moves} moves between them, "
                f"{steps.statements.total()} statements and {looks} looks for news"
            )
            if is_listed:
                for file in sorted(files):
                    print(f"  {file.removeprefix(PACKAGE + os.sep)}")
                for statement, times in steps.statements.most_common():
                    print(f"  {times} × {statement[:160]}")


async def _press(pilot: Pilot[object], key: str) -> None:
    await pilot.press(key)
    await pilot.pause(SETTLED_S)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("session", type=Path)
    parser.add_argument("--open", default="2", help="keys before, by commas (default: 2)")
    parser.add_argument("--keys", default="down,down,up", help="keys that are measured")
    parser.add_argument("--list", action="store_true", help="list the files and the statements")
    given = parser.parse_args()
    opening, keys = given.open.split(","), given.keys.split(",")
    asyncio.run(measure(given.session, opening, keys, is_listed=given.list))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
