"""This module has the commands for moving: within a list or text, between panes, back and forth,
and to search results.
"""

from __future__ import annotations

from fx_explorer.tui.commands.command import Declaration, declared

_LINES: tuple[Declaration, ...] = (
    Declaration("line.down", "down,j", "cursor_by(1)", "down", "Move the cursor down."),
    Declaration("line.up", "up,k", "cursor_by(-1)", "up", "Move the cursor up."),
    Declaration(
        "line.page_down", "pagedown,ctrl+f", "page_by(1)", "page down", "Move a page down."
    ),
    Declaration("line.page_up", "pageup,ctrl+b", "page_by(-1)", "page up", "Move a page up."),
    Declaration(
        "line.half_down", "ctrl+d", "half_page_by(1)", "half a page down", "Move half a page down."
    ),
    Declaration(
        "line.half_up", "ctrl+u", "half_page_by(-1)", "half a page up", "Move half a page up."
    ),
    Declaration(
        "line.first", "home,ctrl+home,g", "first_line", "first line", "Go to the first line."
    ),
    Declaration("line.last", "end,ctrl+end,G", "last_line", "last line", "Go to the last line."),
    Declaration(
        "line.left",
        "left,h",
        "columns_by(-8)",
        "left",
        "Scroll left; in the outline and the tree of modules, fold.",
    ),
    Declaration(
        "line.right",
        "right,l",
        "columns_by(8)",
        "right",
        "Scroll right; in the outline and the tree of modules, unfold.",
    ),
    Declaration(
        "line.next_mark",
        "],o l",
        "next_mark",
        "next linked line",
        "Go to the next highlighted line.",
    ),
    Declaration(
        "line.previous_mark",
        "[,o L",
        "previous_mark",
        "previous linked line",
        "Go to the highlighted line before.",
    ),
)
"""Commands of every list and text. Their bindings are in widgets/line_view.py."""


def _place_commands() -> tuple[Declaration, ...]:
    return (
        Declaration(
            "pane.next",
            "tab",
            lambda c: c.navigation.next_pane(),
            "next pane",
            "Move the focus to the next pane.",
        ),
        Declaration(
            "pane.previous",
            "shift+tab",
            lambda c: c.navigation.previous_pane(),
            "previous pane",
            "Move the focus to the pane before.",
        ),
        Declaration(
            "outline.toggle",
            "o o",
            lambda c: c.navigation.toggle_outline(),
            "outline",
            "Show or hide the outline of compilations, graphs and kernels.",
        ),
        Declaration(
            "history.back",
            "b,alt+left,o b",
            lambda c: c.navigation.back(),
            "back",
            "Go back to the place before, like a browser.",
        ),
        Declaration(
            "history.forward",
            "B,alt+right,o f",
            lambda c: c.navigation.forward(),
            "forward",
            "Undo going back.",
        ),
    )


def _find_in_pane() -> Declaration:
    return Declaration(
        "find.in_pane",
        "slash",
        lambda c: c.navigation.find_in_pane(),
        "find",
        "Find text in the focused pane.",
    )


_MATCHES: tuple[Declaration, ...] = (
    Declaration("line.find_next", "n", "find_next", "next match", "Go to the next match."),
    Declaration(
        "line.find_previous", "N", "find_previous", "previous match", "Go to the match before."
    ),
)


def _find_anything() -> Declaration:
    return Declaration(
        "find.anything",
        "f",
        lambda c: c.navigation.find_anything(),
        "find anything",
        "Find a node, kernel, source line (model.py:12) or graph break, anywhere in the session.",
    )


MOVING_COMMANDS = (
    *declared("lines", "Moving", *_LINES),
    *declared("explorer", "Moving", *_place_commands(), footer=("history.back",)),
)
FINDING_COMMANDS = (
    *declared("explorer", "Finding", _find_in_pane(), footer=("find.in_pane",)),
    *declared("lines", "Finding", *_MATCHES),
    *declared("explorer", "Finding", _find_anything(), footer=("find.anything",)),
)
