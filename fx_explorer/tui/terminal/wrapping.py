"""Prose on lines that fit: by cells, not characters."""

from __future__ import annotations

from itertools import accumulate

from rich.cells import cell_len


def wrapped(text: str, width: int) -> list[str]:
    """Put words on rows of at most ``width`` cells; a longer word is cut. There is at least one
    row.
    """
    rows = [""]
    for word in text.split(" "):
        if rows[-1] and cell_len(rows[-1]) + 1 + cell_len(word) > width:
            rows.append("")
        rows[-1] = f"{rows[-1]} {word}" if rows[-1] else word
        while cell_len(rows[-1]) > width > 1:
            head = chop(rows[-1], width)
            rows[-1:] = [head, rows[-1][len(head) :]]
    return rows


def chop(text: str, width: int) -> str:
    """Return the longest beginning of the text that fits into ``width`` cells."""
    if text.isascii():
        return text[:width]
    cells = accumulate(map(cell_len, text))
    return text[: sum(1 for used in cells if used <= width)]


def wrapped_text(text: str, width: int) -> str:
    """Wrap several paragraphs, each continuing under its own beginning (past a bullet)."""
    rows: list[str] = []
    for line in text.split("\n"):
        body = line.lstrip(" •")
        indent = line[: len(line) - len(body)]
        first, *rest = wrapped(body, max(10, width - cell_len(indent)))
        rows += [indent + first, *(" " * cell_len(indent) + row for row in rest)]
    return "\n".join(rows)
