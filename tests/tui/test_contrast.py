"""These tests check that every text can be read: 4.5:1 with its background in both themes, 3:1 for
what is disabled and for signs that are no text (WCAG 2, level AA).
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from rich.color import Color as RichColor
from textual.color import Color
from textual.theme import Theme

import fx_explorer
from fx_explorer.tui.theme import (
    CURSOR,
    DARK,
    DISABLED_CONTRAST,
    HOVERED,
    KINDS,
    LIGHT,
    MARKED,
    SELECTED,
    TEXT_CONTRAST,
    THEMES,
    Palette,
    contrast,
    readable,
)
from tests.sessions import Hand
from tests.tui.conftest import Driver, OpenApp
from tests.tui.screens.kept import FOLDER

GROUNDS = ("background", "surface", "panel", "tour", "message")
"""Grounds of text: three variables of the theme, the tour's panel, and a message in the corner."""

SIGNS = {"thumb", "tick-mark", "tick-match"}
"""Kinds of the palette that are no text: the scroll track."""

PACKAGE = Path(fx_explorer.__file__).parent
SHOWN_BY = (*(PACKAGE / "tui").rglob("*.py"), *(PACKAGE / "instruments").rglob("*.py"))

WITH_A_DIALOG = {"asked-to-go-on", "options", "menu", "compare"}
"""Kept screens with a dialog: what is behind it is disabled."""

COLOUR = r"\$[a-z][\w-]*(?: \d+%)?"
STYLE = re.compile(rf"(?:(?:bold|italic|underline|reverse) )*({COLOUR})(?: on ({COLOUR}))?")
CSS_COLOUR = re.compile(rf"(?<![-\w])color: ({COLOUR})")

themes = pytest.mark.parametrize("theme", [DARK, LIGHT], ids=["dark", "light"])


def test_the_contrast_is_that_of_the_standard() -> None:
    # w3.org/TR/WCAG22: 21 for black on white; #777777 on white is known to miss 4.5 narrowly.
    white = Color.parse("#ffffff")
    assert contrast(Color.parse("#000000"), white) == pytest.approx(21)
    assert contrast(white, white) == pytest.approx(1)
    assert contrast(Color.parse("#777777"), white) == pytest.approx(4.48, abs=0.01)
    assert contrast(Color.parse("#767676"), white) == pytest.approx(4.54, abs=0.01)


def test_a_colour_that_can_be_read_stays_and_another_moves_no_further_than_it_must() -> None:
    ground = Color.parse("#ffffff")
    assert readable(Color.parse("#123456"), ground) == Color.parse("#123456")
    moved = readable(Color.parse("#ff9e64"), ground)
    assert TEXT_CONTRAST <= contrast(moved, ground) < TEXT_CONTRAST + 0.8
    assert moved.r > moved.g > moved.b, "its hue stays"


@themes
def test_every_kind_of_text_can_be_read_in_every_line(theme: Theme) -> None:
    unreadable = []
    for name, ground in grounds(theme).items():
        for focus, kind, state, is_match in itertools.product(
            (False, True), KINDS, states(), (False, True)
        ):
            palette = Palette(
                variables(theme), ground, has_focus=focus, is_ansi=False, is_colourless=False
            )
            style = palette.style(kind, state, is_match)
            ratio = contrast(opaque(style.color), opaque(style.bgcolor))
            if ratio < (DISABLED_CONTRAST if kind in SIGNS else TEXT_CONTRAST):
                unreadable.append(f"{kind} in state {state} on {name}: {ratio:.2f}")
    assert not unreadable


@themes
def test_the_line_under_the_cursor_differs_from_the_others(theme: Theme) -> None:
    ground = grounds(theme)["background"]
    backgrounds = set()
    for focus, state in itertools.product((False, True), (0, MARKED, SELECTED, CURSOR)):
        palette = Palette(
            variables(theme), ground, has_focus=focus, is_ansi=False, is_colourless=False
        )
        backgrounds.add(palette.style("text", state).bgcolor)
    assert len(backgrounds) == 5, "plain, marked, selected, and the cursor with and without focus"


@themes
def test_every_style_that_the_source_names_can_be_read(theme: Theme) -> None:
    checked, unreadable = 0, []
    for where, colour, ground in named_styles():
        behind = {ground: on(theme, ground)} if ground else grounds(theme)
        for name, behind_it in behind.items():
            ratio = contrast(on(theme, colour, behind_it), behind_it)
            checked += 1
            if ratio < least_of(colour):
                unreadable.append(f"{where}: {colour} on {name}: {ratio:.2f}")
    assert checked > 100
    assert not unreadable


@themes
def test_every_text_of_the_kept_screens_can_be_read(theme: Theme) -> None:
    checked, unreadable = 0, set()
    for path in sorted(FOLDER.glob("*-120x40.txt")):
        is_behind = path.stem.removesuffix("-120x40") in WITH_A_DIALOG
        for text, colour, ground in drawn_texts(path.read_text(), theme):
            is_disabled = is_behind or shows_disabled(theme, colour)
            least = DISABLED_CONTRAST if is_disabled else TEXT_CONTRAST
            ratio = contrast(colour, ground)
            checked += 1
            if ratio < least:
                unreadable.add(f"{path.stem}: {text!r} {colour.hex} on {ground.hex}: {ratio:.2f}")
    assert checked > 1000
    assert not unreadable


@themes
async def test_every_text_of_a_dialog_can_be_read(
    theme: Theme, hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        driver.app.theme = theme.name
        for keys in (("?",), ("space",), ("c", "o"), ("p", "d")):
            await driver.press(*keys)
            assert driver.app.screen.is_modal
            inside, behind = unreadable_on_screen(driver, theme)
            assert not inside, keys
            assert not behind, f"behind the dialog that {keys} opens"
            await driver.press("escape")
            assert driver.app.screen is driver.explorer


@themes
async def test_messages_and_what_is_typed_can_be_read(
    theme: Theme, hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        driver.app.theme = theme.name
        for severity in ("information", "warning", "error"):
            driver.app.notify(
                f"text of {severity}", title=f"title of {severity}", severity=severity, timeout=600
            )
        await driver.press("2", "slash", "x")
        await driver.until(lambda: "title of error" in driver.screen)
        unreadable, _ = unreadable_on_screen(driver, theme)
        assert "text of warning" in driver.screen
    assert not unreadable


def unreadable_on_screen(driver: Driver, theme: Theme) -> tuple[list[str], list[str]]:
    """Return the texts with too little contrast: those of the screen, and those behind a dialog."""
    screen = driver.app.screen
    dialog = screen.children[0].region if screen.is_modal else screen.region
    inside, behind = [], []
    for y, strip in enumerate(screen._compositor.render_strips()):
        x = 0
        for segment in strip:
            style, start = segment.style, x
            x += segment.cell_length
            if style is None or style.color is None or style.bgcolor is None:
                continue
            if not has_words(segment.text):
                continue
            colour, ground = opaque(style.color), opaque(style.bgcolor)
            ratio = contrast(colour, ground)
            problem = f"{segment.text!r}: {ratio:.2f}"
            if not dialog.contains(start, y):
                if ratio < DISABLED_CONTRAST:
                    behind.append(problem)
            elif ratio < (DISABLED_CONTRAST if shows_disabled(theme, colour) else TEXT_CONTRAST):
                inside.append(problem)
    return inside, behind


# colours


@cache
def _variables(name: str) -> dict[str, str]:
    theme = next(theme for theme in THEMES if theme.name == name)
    return theme.to_color_system().generate() | dict(theme.variables)


def variables(theme: Theme) -> dict[str, str]:
    return _variables(theme.name)


def grounds(theme: Theme) -> dict[str, Color]:
    plain = {name: on(theme, f"${name}") for name in ("background", "surface", "panel")}
    tour = on(theme, "$primary 20%", plain["background"])
    return {**plain, "tour": tour, "message": on(theme, "$panel-lighten-1")}


def states() -> list[int]:
    bits = (HOVERED, MARKED, SELECTED, CURSOR)
    return [sum(chosen) for n in range(5) for chosen in itertools.combinations(bits, n)]


def on(theme: Theme, colour: str, ground: Color | None = None) -> Color:
    """Return a colour as Textual writes it (``$foreground 60%``), opaque on its ground."""
    name, _, percent = colour.removeprefix("$").partition(" ")
    value = variables(theme)[name]
    behind = ground or Color.parse(variables(theme)["background"])
    assert not value.startswith("auto"), f"{colour} depends on its ground: give it in the theme"
    share = int(percent.removesuffix("%")) / 100 if percent else 1
    parsed = Color.parse(value)
    return behind.blend(parsed.with_alpha(1), share * parsed.a, 1)


def opaque(colour: RichColor | None) -> Color:
    assert colour is not None
    return Color.from_rich_color(colour)


def least_of(colour: str) -> float:
    return DISABLED_CONTRAST if colour == "$text-disabled" else TEXT_CONTRAST


def shows_disabled(theme: Theme, colour: Color) -> bool:
    return colour == Color.parse(variables(theme)["text-disabled"])


# what is drawn


def named_styles() -> Iterator[tuple[str, str, str]]:
    """Return every style in the source: where it stands, its colour, and its ground if it names
    one. Tones of charts are grounds of the text in the foreground.
    """
    for path in SHOWN_BY:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            where = f"{path.relative_to(PACKAGE)}:{node.lineno}"
            for colour in CSS_COLOUR.findall(node.value):
                if not colour.startswith("$border"):
                    yield where, colour, ""
            style = STYLE.fullmatch(node.value)
            if not style or style[1].startswith("$border"):
                continue
            if is_tone(style[1]):
                yield where, "$foreground", style[1]
            else:
                yield where, style[1], style[2] or ""


def is_tone(colour: str) -> bool:
    """Return whether a colour is that of a block in a chart."""
    is_faint = colour.startswith("$foreground ") and int(colour.split()[1].strip("%")) < 40
    return is_faint or (colour.endswith("-muted") and colour != "$text-muted")


def has_words(text: str) -> bool:
    return any(character.isalnum() for character in text)


def drawn_texts(kept: str, theme: Theme) -> Iterator[tuple[str, Color, Color]]:
    """Return the texts of a kept screen with their colour and ground."""
    wanted = "dark" if theme is DARK else "light"
    sections = re.split(r"^=== ", kept, flags=re.MULTILINE)
    by_title = {title: body for title, _, body in (part.partition("\n") for part in sections)}
    rows = next(
        body.split("¶\n")
        for title, body in by_title.items()
        if title.startswith("characters") and wanted in title
    )
    styles = by_title[f"styles: {wanted}"].splitlines()
    legend = dict(line.split(" = ") for line in styles if " = " in line)
    lines = [line.partition(": ")[2] for line in styles if re.match(r"\s*\d+: ", line)]
    for row, line in zip(rows, lines, strict=False):
        at = 0
        for run in line.split(", "):
            cells, name = run.split()
            text = row[at : at + int(cells)]
            at += int(cells)
            hexes = re.findall(r"#[0-9a-f]{6}", legend[name])
            if has_words(text) and len(hexes) == 2:
                yield text, Color.parse(hexes[0]), Color.parse(hexes[1])
