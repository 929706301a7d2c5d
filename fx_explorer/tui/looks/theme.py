"""fx-explorer's two themes. Widgets name Textual's own variables only, so they work with any other
theme as well.
"""

from __future__ import annotations

import os

from textual.theme import Theme

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
"""Themes to be among ``App.available_themes``; ``default_theme`` says which one to start with."""


def default_theme(background_is_light: bool | None = None) -> str:
    """Return the theme to start with: the one that goes with the terminal's background.

    Where the terminal has not said (None), ``COLORFGBG`` may, as rxvt, Konsole and others set it:
    the last number is the background, 7 and 15 are light. Else it is dark.
    """
    if background_is_light is not None:
        return LIGHT.name if background_is_light else DARK.name
    background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT.name if background in {"7", "15"} else DARK.name
