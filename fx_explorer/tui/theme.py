"""This module defines two themes, and the look of kinds of text and states of lines in the present
theme: variables of the theme in, rich styles out.

Widgets name Textual's own variables only, so they work with any other theme as well. Textual's
component classes could do what ``Palette`` does, but each is a node that the stylesheet styles for
every pane: with 35 of them in ten panes that was a third of the time to the first paint.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
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
    "comment": Look("foreground", 50, "italic"),
    "decorator": Look("text-accent"),
    "label": Look("text-primary"),
    "offset": Look("foreground", 45),
    # Tones: what rows of a list say besides code.
    "gutter": Look("foreground", 35),
    "annotation": Look("text-secondary"),
    "muted": Look("foreground", 55),
    "strong": Look("foreground", 100, "bold"),
    "link": Look("text-primary", 100, "underline"),
    "good": Look("text-success"),
    "warning": Look("text-warning"),
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
    "header": Look("foreground", 55, "bold"),
    "placeholder": Look("foreground", 55, "italic"),
    "thumb": Look("foreground", 50),
    "tick-mark": Look("warning", 100, "bold"),
    "tick-match": Look("accent", 100, "bold"),
}
"""Kind or tone → its foreground. The kinds are those of highlight.py."""

CURSOR, MARKED, HOVERED, SELECTED = 1, 2, 4, 8
"""Bits of a line's state."""

MATCH = Look("text-warning", 100, "bold underline")

_BACKGROUNDS: Mapping[int, Look] = {
    HOVERED: Look("foreground", 6),
    MARKED: Look("warning", 18),
    SELECTED: Look("secondary", 30),
    CURSOR: Look("foreground", 10),
}
_FOCUSED_CURSOR = Look("primary", 40)

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
        style = Style(color=colour.rich_color, bgcolor=background.rich_color)
        attributes += f" {look_of_kind.attributes} {look.attributes}"
        if self._is_ansi and look.percent < 60:
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
        "text-primary": "#7aa2f7",
        "text-secondary": "#7dcfff",
        "text-accent": "#bb9af7",
        "text-warning": "#ff9e64",
        "text-error": "#f7768e",
        "text-success": "#9ece6a",
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
        "text-primary": "#2e5aac",
        "text-secondary": "#006a8e",
        "text-accent": "#7a3e9d",
        "text-warning": "#a34e00",
        "text-error": "#c4314b",
        "text-success": "#33691e",
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
