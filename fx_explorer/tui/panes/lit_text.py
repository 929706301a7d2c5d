"""Scrolling a text sideways to where its lit lines begin."""

from __future__ import annotations

from fx_explorer.tui.widgets.lines.code_view import CodeView

MAX_LINES_MEASURED = 50

MARGIN_CELLS = 4

CELLS_SEEN = 12
"""What is seen at least of a lit line."""


def show_beginning(code: CodeView) -> None:
    """Scroll sideways so that each lit line on screen shows some of its text: code may be indented
    so deeply that it lies right of what is shown.
    """
    room = code.body_width
    if not code.marks or room <= 0:  # no width yet: this is called again
        return
    lit = [row for row in sorted(code.marks) if row in code.visible_lines] or sorted(code.marks)
    texts = [code.shown_text(row).rstrip() for row in lit[:MAX_LINES_MEASURED]]
    begins = [len(text) - len(text.lstrip()) for text in texts if text]
    if begins and not code.wraps:
        seen = min(CELLS_SEEN, room // 2)
        left = min(begins) - MARGIN_CELLS if min(begins) > room // 2 else 0
        left = max(left, max(begins) + seen - room)
        code.scroll_columns_to(min(left, min(len(text) for text in texts if text) - seen))
