"""The glyph beside a source line at which something happened, and its tone in theme.py."""

from __future__ import annotations

from typing import Literal

GLYPHS: dict[Literal["graph break", "recompile"], tuple[str, str]] = {
    "graph break": ("✗", "bad"),
    "recompile": ("↻", "warning"),
}
