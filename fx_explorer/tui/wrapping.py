"""Prose on lines that fit: by cells, not characters. Pure."""

from __future__ import annotations

from rich.cells import cell_len


def wrapped(text: str, width: int) -> list[str]:
    """Words on rows of at most ``width`` cells; a longer word is cut. At least one row."""
    rows = [""]
    for word in text.split(" "):
        if rows[-1] and cell_len(rows[-1]) + 1 + cell_len(word) > width:
            rows.append("")
        rows[-1] = f"{rows[-1]} {word}" if rows[-1] else word
        while len(rows[-1]) > width:
            rows[-1:] = [rows[-1][:width], rows[-1][width:]]
    return rows


def wrapped_text(text: str, width: int) -> str:
    """Several paragraphs, each going on under its own beginning (past a bullet)."""
    rows: list[str] = []
    for line in text.split("\n"):
        body = line.lstrip(" •")
        indent = line[: len(line) - len(body)]
        first, *rest = wrapped(body, max(10, width - cell_len(indent)))
        rows += [indent + first, *(" " * cell_len(indent) + row for row in rest)]
    return "\n".join(rows)
