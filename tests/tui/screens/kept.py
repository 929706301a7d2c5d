"""This module stores a screen as text: its characters, and the style of each stretch of them.

A style has a short name made of what it is, so that it stays the same when others come or go, and
the difference of two kept screens is the difference of the screens.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from rich.style import Style
from textual.app import App

FOLDER = Path(__file__).parent / "snapshots"


@dataclass(frozen=True)
class Shot:
    """A Shot is the content of the screen."""

    characters: tuple[str, ...]
    """Rows, without the blanks at their ends."""
    styles: tuple[str, ...]
    """A row each: ``12 a3f, 3 b01`` are 12 cells of one style and 3 of another."""
    legend: Mapping[str, str]
    """Name of a style → its definition: ``bold #7aa2f7 on #262a3a``."""


def shot_of(app: App[int]) -> Shot:
    """Return a shot of the app's screen as the terminal would show it."""
    width, height = app.size
    rows, styles, legend = [], [], {}
    for strip in app.screen._compositor.render_strips()[:height]:
        cells = strip.crop(0, width)
        rows.append(cells.text.rstrip())
        runs = []
        for words, run in groupby(
            ((_words(segment.style), segment.cell_length) for segment in cells),
            key=lambda one: one[0],
        ):
            name = hashlib.sha256(words.encode()).hexdigest()[:4]
            assert legend.setdefault(name, words) == words, (
                "two styles have one name: make the names longer"
            )
            runs.append(f"{sum(length for _, length in run)} {name}")
        styles.append(", ".join(runs))
    return Shot(tuple(rows), tuple(styles), legend)


def _words(style: Style | None) -> str:
    """Describe a style, without what it means for the mouse (links, actions)."""
    if style is None:
        return "plain"
    marks = [
        name
        for name in ("bold", "dim", "italic", "underline", "reverse", "strike")
        if getattr(style, name)
    ]
    colour = style.color.name if style.color else ""
    ground = f"on {style.bgcolor.name}" if style.bgcolor else ""
    return " ".join(part for part in (*marks, colour, ground) if part) or "plain"


def as_text(shots: Mapping[str, Shot], *, with_styles: bool) -> str:
    """Write the shots of one screen, a name (of its theme) each. Themes with the same characters
    share them.
    """
    sections = []
    for characters, names in _by_characters(shots):
        sections.append(
            _section(f"characters: {', '.join(names)}", [f"{row}¶" for row in characters])
        )
    for name, shot in shots.items() if with_styles else ():
        legend = [
            f"{key} = {words}" for key, words in sorted(shot.legend.items(), key=lambda one: one[1])
        ]
        sections.append(
            _section(
                f"styles: {name}",
                [*legend, *(f"{i:>2}: {row}" for i, row in enumerate(shot.styles))],
            )
        )
    return "\n".join(sections)


def _by_characters(shots: Mapping[str, Shot]) -> list[tuple[tuple[str, ...], list[str]]]:
    found: dict[tuple[str, ...], list[str]] = {}
    for name, shot in shots.items():
        found.setdefault(shot.characters, []).append(name)
    return list(found.items())


def _section(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"=== {title}", *lines, ""])


def problem_of(name: str, drawn: str, *, update: bool) -> str:
    """Compare a screen with the kept one. Return how they differ; empty when they do not. With
    ``update``, the new screen is kept.
    """
    path = FOLDER / f"{name}.txt"
    if update:
        path.write_text(drawn)
        return ""
    if not path.is_file():
        return f"{path.name} is not kept yet: draw it with make snapshots, and look at it."
    kept = path.read_text()
    if kept == drawn:
        return ""
    lines = list(
        difflib.unified_diff(
            kept.splitlines(), drawn.splitlines(), "kept", "drawn now", n=1, lineterm=""
        )
    )
    shown = lines[:80] + ([f"… and {len(lines) - 80} more lines"] if len(lines) > 80 else [])
    return "\n".join(
        [
            f"The screen {name} is another one. If that is meant: make snapshots, and look at git diff.",
            *shown,
        ]
    )
