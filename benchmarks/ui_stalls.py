"""How long the app stands still when a key asks for something large: the overview and the outline
of 100,000 kernels, their table, a search among them, a copy of all of them, a graph of 100,000
nodes as Python.

    python -m benchmarks.ui_stalls

The keys go to the app without a terminal (Textual's pilot). Printed for each are the time to the
first frame after it, the longest time for which the event loop answered nothing, and when all of it
was there. CPU time of the drawing thread is given for the longest stall because it is steadier
where other programs run on the machine. A key may keep the others waiting for a frame; one that
makes a whole screen, a view or a dialog, for two (``NEW_SCREEN``).
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from textual import events
from textual.pilot import Pilot

from benchmarks.synthetic_kernels import kernels_session
from fx_explorer.session import SessionReader
from fx_explorer.tui.app import SETTLED_S, ExplorerApp
from fx_explorer.tui.dialogs.choose import Chooser

KERNELS = 100_000
PAINT_BUDGET_MS, STALL_BUDGET_MS = 100, 16
NEW_SCREEN_BUDGET_MS = 30
NEW_SCREEN = (
    "the session opens",
    "f: find anything",
    "8: the first table",
    "6: a table",
    "<: choose a column",
    "2: the linked panes",
    "d: choose a document",
)
"""How what is measured begins, where all of a screen is mounted or laid out anew."""
TICK_S = 0.001
QUIET_S = 0.3
LONGEST_WAIT_S = 60


@dataclass
class Stall:
    """The longest time between two looks at the event loop."""

    wall_ms: float = 0.0
    cpu_ms: float = 0.0
    """CPU time of the drawing thread in the stall that took most of it."""

    def note(self, wall_s: float, cpu_s: float) -> None:
        self.wall_ms = max(self.wall_ms, wall_s * 1000)
        self.cpu_ms = max(self.cpu_ms, cpu_s * 1000)


class Measured:
    """An app that is driven by keys, with a clock at its frames and at its event loop."""

    def __init__(self, app: ExplorerApp, pilot: Pilot[int]) -> None:
        self._app = app
        self._pilot = pilot
        self._frames: list[float] = []
        self._stall = Stall()
        display = app._display

        def displayed(*arguments: object) -> None:
            display(*arguments)  # type: ignore[arg-type]
            self._frames.append(time.perf_counter())

        app._display = displayed  # type: ignore[method-assign,assignment]

    async def watch(self) -> None:
        """Look at the event loop a thousand times a second: what comes late was kept waiting."""
        while True:
            wall, cpu = time.perf_counter(), time.thread_time()
            await asyncio.sleep(TICK_S)
            self._stall.note(time.perf_counter() - wall - TICK_S, time.thread_time() - cpu)

    async def press(self, what: str, key: str, is_there: Callable[[], bool] = lambda: True) -> None:
        """Press a key, wait until what it asks for is there and a frame shows it, and print what it
        took.
        """

        def send() -> None:
            assert self._app._driver is not None
            self._app._driver.send_message(events.Key(key, key if len(key) == 1 else None))

        await self.do(what, send, is_there)

    async def do(
        self, what: str, begin: Callable[[], object], is_there: Callable[[], bool]
    ) -> None:
        """Begin something, wait until it is there and a frame shows it, and print what it took."""
        await self._quiet()
        self._frames.clear()
        self._stall = Stall()
        began = time.perf_counter()
        begin()
        while not (self._frames and is_there()) and time.perf_counter() - began < LONGEST_WAIT_S:
            await asyncio.sleep(0.005)
        there = time.perf_counter()
        await self._quiet()
        first = (self._frames[0] - began) * 1000 if self._frames else float("nan")
        paint = "ok" if first <= PAINT_BUDGET_MS else "OVER"
        budget = NEW_SCREEN_BUDGET_MS if what.startswith(NEW_SCREEN) else STALL_BUDGET_MS
        stall = "ok" if self._stall.cpu_ms <= budget else "OVER"
        print(
            f"{what:<40} first frame {first:7.0f} ms {paint:<5} longest stall {self._stall.wall_ms:7.0f} ms,"
            f" CPU {self._stall.cpu_ms:7.0f} ms, budget {budget} {stall:<5} all there after {(there - began) * 1000:7.0f} ms",
            flush=True,
        )

    async def _quiet(self) -> None:
        """Wait until nothing was painted for a while."""
        seen, since = len(self._frames), time.perf_counter()
        while time.perf_counter() - since < QUIET_S:
            await asyncio.sleep(0.02)
            if len(self._frames) != seen:
                seen, since = len(self._frames), time.perf_counter()


async def measure(path: Path, kernels: int) -> None:
    app = ExplorerApp(session=path)
    async with app.run_test(size=(120, 40)) as pilot:
        measured = Measured(app, pilot)
        watching = asyncio.create_task(measured.watch())
        try:
            await measure_opening(app, measured, path)
            await measure_outline(app, measured)
            await measure_finding(app, measured)
            await measure_table(app, measured, kernels)
            await measure_graph(app, measured, kernels)
        finally:
            watching.cancel()


async def measure_opening(app: ExplorerApp, measured: Measured, path: Path) -> None:
    """Open the session once more: the overview and the outline are made again."""
    await asyncio.sleep(2 * SETTLED_S)  # garbage is collected once after the start
    explorer = app.explorer
    explorer.facts.show([])  # the same facts would paint nothing

    def begin() -> None:
        explorer.open(SessionReader(path))

    await measured.do("the session opens", begin, lambda: bool(explorer.facts.facts))


async def measure_outline(app: ExplorerApp, measured: Measured) -> None:
    outline = app.explorer.outline
    outline.focus()
    at = next(at for at, entry in enumerate(outline._entries) if entry.title.startswith("Kernels"))
    outline.move_to(at)
    for what in ("→: the kernels in the outline", "→: the first range of them"):
        lines = outline.line_count
        await measured.press(what, "right", lambda lines=lines: outline.line_count > lines)  # type: ignore[misc]
        outline.move_to(outline.cursor + 1)
    await measured.press("left in it", "left")


async def measure_finding(app: ExplorerApp, measured: Measured) -> None:
    def is_found() -> bool:
        return (
            isinstance(app.screen, Chooser)
            and not app.screen._is_looking
            and bool(app.screen._choices)
        )

    await measured.press("f: find anything", "f")
    for letter in "erf":
        await measured.press(f"type {letter}", letter, is_found)
    await measured.press("escape", "escape")


async def measure_table(app: ExplorerApp, measured: Measured, kernels: int) -> None:
    explorer = app.explorer

    def rows() -> int:
        return explorer.table.rows.line_count if explorer.table else 0

    def totals() -> str:
        return explorer.table._totals.text if explorer.table else ""

    def is_sorted() -> bool:
        return bool(explorer.table and explorer.table.sort)

    await measured.press("8: the first table", "8")
    await measured.press(
        f"6: a table of {kernels:,} kernels", "6", lambda: rows() == kernels and " rows" in totals()
    )
    for key in ("down", "pagedown", "end", "home"):
        await measured.press(f"{key} in it", key)
    await measured.press("<: choose a column", "less_than_sign")
    for letter in "your":
        await measured.press(f"type {letter}", letter)
    await measured.press(
        "enter: sort by your line",
        "enter",
        lambda: bool(explorer.table and explorer.table.sort) and "100,000 rows" in totals(),
    )
    await measured.press("Y", "Y")
    await measured.press(
        "Y a: copy all of it",
        "a",
        lambda: any(
            "lines" in one.message and "Copying" not in one.message for one in app._notifications
        ),
    )
    await measured.press("1: the overview", "1")
    await measured.press(
        "6: the kernels again", "6", lambda: rows() == kernels and " rows" in totals()
    )


async def measure_graph(app: ExplorerApp, measured: Measured, nodes: int) -> None:
    linked = app.explorer.linked

    def shows(kind: str) -> bool:
        return bool(
            linked.active and linked.active.document and linked.active.document.kind == kind
        )

    await measured.press("2: the linked panes", "2")
    await measured.press("p", "p")
    await measured.press("d: choose a document", "d")
    for letter in "post":
        await measured.press(f"type {letter}", letter)
    await measured.press(f"enter: a graph of {nodes:,} nodes", "enter", lambda: shows("graph"))
    for kind in ("code", "table", "graph"):
        await measured.press("p", "p")
        await measured.press(f"p c: the graph as {kind}", "c", lambda kind=kind: shows(kind))  # type: ignore[misc]
        await measured.press("down in it", "down")
    await measured.press("up in it", "up")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernels", type=int, default=KERNELS)
    parser.add_argument(
        "--session",
        type=Path,
        help="measure on this session instead of a synthetic one of as many kernels",
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.session or kernels_session(Path(folder) / "kernels.fxs", options.kernels)
        asyncio.run(measure(path, options.kernels))


if __name__ == "__main__":
    main()
