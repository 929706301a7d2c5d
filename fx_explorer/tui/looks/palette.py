"""What kinds of text and states of lines look like in the theme at hand. Variables of the theme in,
rich styles out.

Textual's component classes could do this, but each is a node that the stylesheet styles for every
pane: with 35 of them in ten panes that was a third of the time to the first paint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rich.style import Style
from textual.color import Color


class Look(NamedTuple):
    """A theme variable, how strongly it is mixed with the background, and attributes as rich writes
    them.
    """

    variable: str
    percent: int = 100
    attributes: str = ""
    mixed_with: str = ""
    """Another variable, half of which makes a colour that a theme does not have."""


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
    # Regions, told apart by colour beside their name (region_colours.py).
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
"""What stands for a background where there are 16 colours or none; a cursor with the focus is
reversed.
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
                background = self._mixed(_FOCUSED_CURSOR if is_active else look, self._background)
            else:
                attributes += " reverse" if is_active else " " + _ATTRIBUTES[bit]
        look = MATCH if is_match else KINDS.get(kind, KINDS["text"])
        colour = self._mixed(look, background)
        style = Style(color=colour.rich_color, bgcolor=background.rich_color)
        attributes += f" {KINDS[kind].attributes if kind in KINDS else ''} {look.attributes}"
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
