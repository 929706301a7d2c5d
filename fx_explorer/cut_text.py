"""This module shortens texts to a number of cells on a terminal, where a character may take two."""

from __future__ import annotations

from rich.cells import cell_len, get_character_cell_size


def cell_count(text: str) -> int:
    """Return the cells that a text takes. It is faster than rich for ASCII without control
    characters, the most frequent case.
    """
    if text.isascii():
        return len(text)
    return cell_len(text)


def cut_cells(text: str, start: int, stop: int) -> str:
    """Return cells ``start`` to ``stop`` of ``text``."""
    if text.isascii():
        return text[start:stop]
    shown: list[str] = []
    cell = 0
    for character in text:
        size = get_character_cell_size(character)
        if cell >= stop:
            break
        if cell >= start and cell + size <= stop:
            shown.append(character)
        elif size == 2 and (cell + 1 == start or cell + 1 == stop):
            shown.append(" ")
        cell += size
    return "".join(shown)


def cut_in_middle(text: str, width: int) -> str:
    """Return a text in at most ``width`` cells, keeping both ends, since the end distinguishes
    names.
    """
    cells = cell_len(text)
    if cells <= width:
        return text
    if width < 3:
        return cut_cells(text, 0, max(0, width))
    end = width // 2
    return cut_cells(text, 0, width - 1 - end) + "…" + cut_cells(text, cells - end, cells)
