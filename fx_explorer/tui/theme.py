"""This module defines two themes, and the look of kinds of text and states of lines in the present
theme: variables of the theme in, rich styles out.

Widgets name Textual's own variables only, so they work with any other theme as well. Textual's
component classes could do what ``Palette`` does, but each is a node that the stylesheet styles for
every pane: with 35 of them in ten panes that was a third of the time to the first paint.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from rich.style import Style
from textual.color import Color
from textual.theme import Theme


class Look(NamedTuple):
    """A theme variable, how strongly it is mixed with the background, and attributes as rich writes
    them.
    """

    variable: str
    percent: int = 100
    attributes: str = ""
    mixed_with: str = ""
    """Another variable of the theme, mixed in equal parts into a colour that the theme does not
    have.
    """


TEXT_CONTRAST = 4.5
"""Least contrast of text with its background (WCAG 2, level AA)."""

DISABLED_CONTRAST = 3.0
"""Least contrast of what is disabled, and of signs that are no text, such as the scroll track."""


def contrast(colour: Color, ground: Color) -> float:
    """Return the contrast of two opaque colours, from 1 to 21 (WCAG 2, "contrast ratio")."""
    darker, lighter = sorted((_luminance(colour), _luminance(ground)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: Color) -> float:
    """Return the relative luminance, from 0 (black) to 1 (white), as WCAG 2 defines it."""
    red, green, blue = (_linear(channel) for channel in colour.normalized)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(channel: float) -> float:
    if channel <= 0.04045:
        return channel / 12.92
    return float(((channel + 0.055) / 1.055) ** 2.4)


_WHITE, _BLACK = Color(255, 255, 255), Color(0, 0, 0)


@cache
def readable(colour: Color, ground: Color, least: float = TEXT_CONTRAST) -> Color:
    """Return the colour, moved towards white or black as far as it must be to have ``least``
    contrast with the ground. Its hue stays, so that kinds of text can still be told apart.
    """
    if contrast(_WHITE, ground) >= contrast(_BLACK, ground):
        end = _WHITE
    else:
        end = _BLACK
    for percent in range(0, 100, 5):
        moved = colour.blend(end, percent / 100, 1)
        if contrast(moved, ground) >= least:
            return moved
    return end


KINDS: Mapping[str, Look] = {
    "text": Look("foreground"),
    "keyword": Look("text-accent"),
    "constant": Look("text-warning"),
    "builtin": Look("text-secondary"),
    "function": Look("text-primary"),
    "type": Look("text-secondary"),
    "variable": Look("foreground", 100, "italic"),
    "string": Look("text-success"),
    "number": Look("text-warning"),
    "comment": Look("foreground", 70, "italic"),
    "decorator": Look("text-accent"),
    "label": Look("text-primary"),
    "offset": Look("foreground", 65),
    # Tones: what rows of a list say besides code.
    "gutter": Look("foreground", 60),
    "annotation": Look("text-secondary"),
    "muted": Look("foreground", 75),
    "bar": Look("foreground", 75),
    "strong": Look("foreground", 100, "bold"),
    "link": Look("text-primary", 100, "underline"),
    "good": Look("text-success"),
    "warning": Look("text-warning"),
    "differs": Look("text-warning", 100, "bold underline"),
    "bad": Look("text-error", 100, "bold"),
    # Regions, told apart by colour beside their name (drawing/colours.py).
    "region-0": Look("text-secondary"),
    "region-1": Look("text-accent"),
    "region-2": Look("text-success"),
    "region-3": Look("text-warning"),
    "region-4": Look("text-primary"),
    # The same once more, in bold: a theme has no more colours that differ on any background.
    "region-5": Look("text-secondary", 100, "bold"),
    "region-6": Look("text-accent", 100, "bold"),
    "region-7": Look("text-success", 100, "bold"),
    "region-8": Look("text-warning", 100, "bold"),
    "region-9": Look("text-primary", 100, "bold"),
    # Kernels, told apart by colour beside their number (kernel_marks.py).
    "kernel-0": Look("text-primary"),
    "kernel-1": Look("text-warning"),
    "kernel-2": Look("text-success"),
    "kernel-3": Look("text-accent"),
    "kernel-4": Look("text-success", mixed_with="text-warning"),
    "kernel-5": Look("text-secondary"),
    "kernel-6": Look("text-accent", mixed_with="text-warning"),
    "kernel-7": Look("text-secondary", mixed_with="text-success"),
    # Parts of the view itself.
    "pointer": Look("primary", 100, "bold"),
    "mark-glyph": Look("warning"),
    "header": Look("foreground", 75, "bold"),
    "placeholder": Look("foreground", 75, "italic"),
    "thumb": Look("foreground", 50),
    "tick-mark": Look("warning", 100, "bold"),
    "tick-match": Look("accent", 100, "bold"),
}
"""Kind or tone → its foreground. The kinds are those of highlight.py."""

_SIGNS = {"thumb", "tick-mark", "tick-match"}
"""Kinds that are no text."""

CURSOR, MARKED, HOVERED, SELECTED = 1, 2, 4, 8
"""Bits of a line's state."""

MATCH = Look("text-warning", 100, "bold underline")

_BACKGROUNDS: Mapping[int, Look] = {
    HOVERED: Look("foreground", 6),
    MARKED: Look("warning", 18),
    SELECTED: Look("secondary", 25),
    CURSOR: Look("foreground", 10),
}
_FOCUSED_CURSOR = Look("primary", 30)

_ATTRIBUTES: Mapping[int, str] = {
    HOVERED: "",
    MARKED: "bold",
    SELECTED: "reverse",
    CURSOR: "underline",
}
"""Text attributes that replace a background on terminals with 16 colours or none. The cursor in the
focused widget is reversed.
"""


class Palette:
    """The styles of one view: its theme, background and focus."""

    def __init__(
        self,
        variables: Mapping[str, str],
        background: Color,
        *,
        has_focus: bool,
        is_ansi: bool,
        is_colourless: bool,
    ) -> None:
        self._variables = variables
        self._background = background
        self._has_focus = has_focus
        self._is_ansi = is_ansi
        self._mixes = not (is_ansi or is_colourless)

    def style(self, kind: str, state: int = 0, is_match: bool = False) -> Style:
        """Return the style of text of this kind in a line in this state. An unknown kind looks like
        text.
        """
        background = self._background
        attributes = ""
        for bit, look in _BACKGROUNDS.items():  # later ones lie above
            if not state & bit:
                continue
            is_active = bit == CURSOR and self._has_focus
            if self._mixes:
                mixed_in = _FOCUSED_CURSOR if is_active else look
                background = self._mixed(mixed_in, self._background)
            else:
                attributes += " reverse" if is_active else " " + _ATTRIBUTES[bit]
        look_of_kind = KINDS.get(kind, KINDS["text"])
        look = MATCH if is_match else look_of_kind
        colour = self._mixed(look, background)
        if self._mixes:
            least = DISABLED_CONTRAST if kind in _SIGNS else TEXT_CONTRAST
            colour = readable(colour, background, least)
        style = Style(color=colour.rich_color, bgcolor=background.rich_color)
        attributes += f" {look_of_kind.attributes} {look.attributes}"
        if self._is_ansi and look.percent < 80:
            attributes += " dim"
        return style + Style.parse(" ".join(dict.fromkeys(attributes.split())))

    def _mixed(self, look: Look, background: Color) -> Color:
        colour = Color.parse(self._variables[look.variable])
        if self._is_ansi:
            return colour
        if look.mixed_with:
            colour = colour.blend(Color.parse(self._variables[look.mixed_with]), 0.5, 1)
        return background.blend(colour, look.percent / 100, 1)


DARK = Theme(
    name="fx-dark",
    dark=True,
    primary="#7aa2f7",
    secondary="#7dcfff",
    accent="#bb9af7",
    warning="#e0af68",
    error="#f7768e",
    success="#9ece6a",
    foreground="#c8d0e8",
    background="#15161e",
    surface="#1c1e2a",
    panel="#262a3a",
    variables={
        "text-primary": "#7fa6f8",
        "text-secondary": "#7dcfff",
        "text-accent": "#bb9af7",
        "text-warning": "#ff9e64",
        "text-error": "#fa8da1",
        "text-success": "#9ece6a",
        "text-muted": "#a0a8c2",
        "text-disabled": "#8389a4",
        "border": "#3b4261",
        "border-blurred": "#2a2e42",
        "footer-key-foreground": "#7aa2f7",
        "block-cursor-foreground": "#15161e",
    },
)

LIGHT = Theme(
    name="fx-light",
    dark=False,
    primary="#2e5aac",
    secondary="#006a8e",
    accent="#7a3e9d",
    warning="#b15c00",
    error="#c4314b",
    success="#3b7a1e",
    foreground="#343b58",
    background="#f7f7fa",
    surface="#ededf2",
    panel="#e1e2ea",
    variables={
        "text-primary": "#28519e",
        "text-secondary": "#005f80",
        "text-accent": "#733893",
        "text-warning": "#8f4400",
        "text-error": "#ad243d",
        "text-success": "#2f611b",
        "text-muted": "#50566f",
        "text-disabled": "#70758c",
        "border": "#a8aecb",
        "border-blurred": "#cfd2e0",
        "footer-key-foreground": "#2e5aac",
    },
)

THEMES: tuple[Theme, ...] = (DARK, LIGHT)
"""The app's own themes. ``default_theme`` returns the one to start with."""


def default_theme(background_is_light: bool | None = None) -> str:
    """Return the theme to start with, according to the terminal's background.

    Where the terminal has not said (None), ``COLORFGBG`` may, as rxvt, Konsole and others set it:
    the last number is the background, 7 and 15 are light. Else it is dark.
    """
    if background_is_light is not None:
        return LIGHT.name if background_is_light else DARK.name
    background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    if background in {"7", "15"}:
        return LIGHT.name
    return DARK.name
