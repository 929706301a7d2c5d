"""Records docs/images/tour.svg: the guided tour of the real app on a real capture, as an animated picture.

python docs/record_tour.py

Every step is done by pressing the keys that it names; a step that is not done in time ends the recording with an error.
"""

from __future__ import annotations

import asyncio
import html
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI
from textual.pilot import Pilot

from fx_explorer.commands.tour import tour_app
from fx_explorer.tui.app import ExplorerApp
from fx_explorer.tui.config import Config
from fx_explorer.tui.controllers.guided_tour import WAITS
from fx_explorer.tui.screens.tour_panel import TourPanel
from fx_explorer.tui.tour_steps import STEPS, begin_walk

PICTURE = Path(__file__).parent / "images" / "tour.svg"
COLUMNS, ROWS = 110, 30
STEP_LIMIT_S = 240
READ_S, SEEN_S = 3.0, 0.9
"""How long a step is shown, and what comes between two steps."""
FEW_KEYS = 3
"""Of more keys, which are a word that is typed, only what the last two do is shown."""

KEYS: dict[str, tuple[str, ...]] = {
    "overview": ("down", "down"),
    "breaks": ("4",),
    "source": ("enter",),
    "fixes": ("x", "x"),
    "try": ("r",),
    "write": ("s", "y", "enter"),
    "close": ("escape",),
    "again": ("r",),
    "step": ("full_stop",),
    "stages": ("full_stop", "full_stop"),
    "go": ("r",),
    "linked": ("p", "s"),
    "lit": ("slash", "F", "full_stop", *"gelu", "enter"),
    "kernels": ("6",),
    "code": ("enter",),
    "time": ("9",),
    "find": ("f", *"gelu", "enter"),
    "help": ("question_mark",),
}
"""Step → the keys that do it."""

Row = tuple[tuple[str, Style], ...]
Frame = tuple[Row, ...]


@dataclass(frozen=True)
class Shown:
    """A frame, and for how long it is shown."""

    frame: Frame
    seconds: float


async def recorded(app: ExplorerApp) -> list[Shown]:
    """Walk through the tour, and return what was on screen."""
    shown: list[Shown] = []
    tour, began = app.controllers.tour, time.monotonic()
    async with app.run_test(size=(COLUMNS, ROWS)) as pilot:
        for number, step in enumerate(STEPS):
            await until(
                pilot,
                lambda number=number: STEPS.index(tour.step) >= number,
                f"the step before {step.id}",
            )
            await until(pilot, lambda: WAITS not in panel_text(app), f"what {step.id} waits for")
            print(f"{step.id}: {time.monotonic() - began:.0f} s", file=sys.stderr)
            await settled(pilot)
            shown.append(Shown(frame_of(app), READ_S))
            keys = KEYS.get(step.id, ())
            for left, key in zip(reversed(range(len(keys))), keys, strict=True):
                await pilot.press(key)
                await settled(pilot)
                if len(keys) <= FEW_KEYS or left < 2:
                    shown.append(Shown(frame_of(app), SEEN_S))
        await app.controllers.leaving.leave()  # or the worker, which waits for commands, would stay
    return merged(shown)


def panel_text(app: ExplorerApp) -> str:
    """Return what the panel says; what means to wait, while there is none yet."""
    for panel in app.screen.query(TourPanel):
        return panel.render().plain
    return WAITS


async def until(pilot: Pilot[int], is_so: Callable[[], bool], what: str) -> None:
    for _ in range(int(STEP_LIMIT_S / 0.2)):
        if is_so():
            return
        await pilot.pause(0.2)
    sys.exit(f"not recorded: {what} was not done within {STEP_LIMIT_S} s")


async def settled(pilot: Pilot[int]) -> None:
    for _ in range(4):
        await pilot.pause(0.15)


def frame_of(app: ExplorerApp) -> Frame:
    strips = app.screen._compositor.render_strips()
    return tuple(joined(strip) for strip in strips[:ROWS])


def joined(strip: Iterable[Segment]) -> Row:
    """Return a row with neighbours of one style joined."""
    pieces: list[tuple[str, Style]] = []
    for text, style, _ in strip:
        style = style or Style()
        if pieces and pieces[-1][1] == style:
            pieces[-1] = (pieces[-1][0] + text, style)
        else:
            pieces.append((text, style))
    return tuple(pieces)


def merged(shown: list[Shown]) -> list[Shown]:
    """Return the frames with equal ones joined."""
    kept: list[Shown] = []
    for one in shown:
        if kept and kept[-1].frame == one.frame:
            kept[-1] = Shown(one.frame, max(kept[-1].seconds, one.seconds))
        else:
            kept.append(one)
    return kept


# the picture

CELL, LINE, FONT, MARGIN = 8.4, 18, 14, 12
BACKGROUND = "#15161e"
SHORT = 5
"""A text of so few cells stays in its place in any font."""


def animated(shown: list[Shown]) -> str:
    """Return an SVG that shows the frames one after the other, for ever. Rows that several frames have are
    written once.
    """
    names: dict[Row, str] = {}
    total = sum(one.seconds for one in shown)
    frames, rules, began = [], [], 0.0
    for number, one in enumerate(shown):
        uses = [
            f'<use href="#{names.setdefault(row, f"r{len(names)}")}" y="{at * LINE}"/>'
            for at, row in enumerate(one.frame)
        ]
        frames.append(f'<g class="f" style="animation-name:k{number}">{"".join(uses)}</g>')
        start, stop = 100 * began / total, 100 * (began + one.seconds) / total
        before = "0%{visibility:hidden}" if number else ""
        rules.append(
            f"@keyframes k{number}{{{before}{start:.3f}%{{visibility:visible}}{stop:.3f}%{{visibility:hidden}}}}"
        )
        began += one.seconds
    width, height = COLUMNS * CELL + 2 * MARGIN, ROWS * LINE + 2 * MARGIN
    classes: dict[str, str] = {}
    rows = "".join(f'<g id="{name}">{row_svg(row, classes)}</g>' for row, name in names.items())
    rules += [f".{name}{{{css}}}" for css, name in classes.items()]
    style = (
        f"text{{font-family:ui-monospace,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:{FONT}px;"
        f"white-space:pre}}.f{{visibility:hidden;animation-duration:{total:.1f}s;animation-iteration-count:infinite;"
        f"animation-timing-function:step-end}}{''.join(rules)}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img">'
        f"<title>fx-explorer tour</title><style>{style}</style><defs>{rows}</defs>"
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>'
        f'<g transform="translate({MARGIN} {MARGIN})">{"".join(frames)}</g></svg>\n'
    )


def row_svg(row: Row, classes: dict[str, str]) -> str:
    """Return a row: what is behind the text, and one text with a piece for each style."""
    pieces, column = [], 0
    for text, style in row:
        shown = text.strip()
        if shown:
            x = (column + len(text) - len(text.lstrip())) * CELL
            length = f' textLength="{cell_len(shown) * CELL:.1f}"' if len(shown) > SHORT else ""
            name = named(text_css(style), classes)
            pieces.append(
                f'<tspan x="{x:.1f}"{length} class="{name}">{html.escape(shown, quote=False)}</tspan>'
            )
        column += cell_len(text)
    return backgrounds(row, classes) + (
        f'<text y="{LINE - 5}">{"".join(pieces)}</text>' if pieces else ""
    )


def backgrounds(row: Row, classes: dict[str, str]) -> str:
    """Return a rectangle for each stretch of one background."""
    rectangles, column = [], 0
    for back, pieces in groupby(row, key=lambda piece: colours(piece[1])[1] or BACKGROUND):
        cells = sum(cell_len(text) for text, _ in pieces)
        if back != BACKGROUND:
            name = named(f"fill:{back}", classes)
            rectangles.append(
                f'<rect x="{column * CELL:.1f}" width="{cells * CELL:.1f}" height="{LINE}" class="{name}"/>'
            )
        column += cells
    return "".join(rectangles)


def text_css(style: Style) -> str:
    bold, line = (
        (";font-weight:bold" if style.bold else ""),
        (";text-decoration:underline" if style.underline else ""),
    )
    return f"fill:{colours(style)[0]}{bold}{line}"


def named(css: str, classes: dict[str, str]) -> str:
    """Return the class that stands for a style."""
    return classes.setdefault(css, f"c{len(classes)}")


def colours(style: Style) -> tuple[str, str]:
    """Return the colour of the text and that of its background, empty for the terminal's own."""
    fore = style.color.get_truecolor(DIMMED_MONOKAI).hex if style.color else "#c8d0e8"
    back = (
        style.bgcolor.get_truecolor(DIMMED_MONOKAI, foreground=False).hex if style.bgcolor else ""
    )
    return (back or BACKGROUND, fore) if style.reverse else (fore, back)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        app = tour_app(begin_walk(Path(folder), again=True), sys.executable, Config(theme="dark"))
        shown = asyncio.run(recorded(app))
    PICTURE.write_text(animated(shown), encoding="utf-8")
    print(
        f"{PICTURE}: {len(shown)} frames, {sum(one.seconds for one in shown):.0f} s, {PICTURE.stat().st_size:,} bytes"
    )


if __name__ == "__main__":
    main()
