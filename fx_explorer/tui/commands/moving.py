"""Commands that move: within a list or text, between panes, back and forth, and to what is
found.
"""

from __future__ import annotations

from fx_explorer.tui.commands.command import HelpEntry, declared

_LINES: tuple[HelpEntry, ...] = (
    ("line.down", "down,j", "cursor_by(1)", "down", "Move the cursor down."),
    ("line.up", "up,k", "cursor_by(-1)", "up", "Move the cursor up."),
    ("line.page_down", "pagedown,ctrl+f", "page_by(1)", "page down", "Move a page down."),
    ("line.page_up", "pageup,ctrl+b", "page_by(-1)", "page up", "Move a page up."),
    ("line.half_down", "ctrl+d", "half_page_by(1)", "half a page down", "Move half a page down."),
    ("line.half_up", "ctrl+u", "half_page_by(-1)", "half a page up", "Move half a page up."),
    ("line.first", "home,ctrl+home,g", "first_line", "first line", "Go to the first line."),
    ("line.last", "end,ctrl+end,G", "last_line", "last line", "Go to the last line."),
    (
        "line.left",
        "left,h",
        "columns_by(-8)",
        "left",
        "Scroll left; in the outline and the tree of modules, fold.",
    ),
    (
        "line.right",
        "right,l",
        "columns_by(8)",
        "right",
        "Scroll right; in the outline and the tree of modules, unfold.",
    ),
    (
        "line.next_mark",
        "],o l",
        "next_mark",
        "next linked line",
        "Go to the next line that is lit.",
    ),
    (
        "line.previous_mark",
        "[,o L",
        "previous_mark",
        "previous linked line",
        "Go to the lit line before.",
    ),
)
"""What every list and text answers to. Their bindings stand in widgets/lines/line_view.py."""

_PLACES: tuple[HelpEntry, ...] = (
    ("pane.next", "tab", "navigation.next_pane", "next pane", "Move the focus to the next pane."),
    (
        "pane.previous",
        "shift+tab",
        "navigation.previous_pane",
        "previous pane",
        "Move the focus to the pane before.",
    ),
    (
        "outline.toggle",
        "o o",
        "navigation.toggle_outline",
        "outline",
        "Show or hide the outline of compilations, graphs and kernels.",
    ),
    (
        "history.back",
        "b,alt+left,o b",
        "navigation.back",
        "back",
        "Go back to the place before, like a browser.",
    ),
    ("history.forward", "B,alt+right,o f", "navigation.forward", "forward", "Undo going back."),
)

_FIND_IN_PANE: HelpEntry = (
    "find.in_pane",
    "slash",
    "navigation.find_in_pane",
    "find",
    "Find text in the focused pane.",
)

_MATCHES: tuple[HelpEntry, ...] = (
    ("line.find_next", "n", "find_next", "next match", "Go to the next match."),
    ("line.find_previous", "N", "find_previous", "previous match", "Go to the match before."),
)

_FIND_ANYTHING: HelpEntry = (
    "find.anything",
    "f",
    "navigation.find_anything",
    "find anything",
    "Find a node, kernel, source line (model.py:12) or graph break, anywhere in the session.",
)

MOVING_COMMANDS = (
    *declared("lines", "Moving", *_LINES),
    *declared("explorer", "Moving", *_PLACES, footer=("history.back",)),
)
FINDING_COMMANDS = (
    *declared("explorer", "Finding", _FIND_IN_PANE, footer=("find.in_pane",)),
    *declared("lines", "Finding", *_MATCHES),
    *declared("explorer", "Finding", _FIND_ANYTHING, footer=("find.anything",)),
)
