"""Commands of what opens above the main screen."""

from __future__ import annotations

from fx_explorer.tui.commands.command import Entry, declared

_DIALOG: tuple[Entry, ...] = (
    ("dialog.close", "escape", "leave", "close", "Close what is open on top; in the find line, end the find."),
    ("dialog.down", "down", "move(1)", "next line", "Go to the next line, or the next match, while typing."),
    ("dialog.up", "up", "move(-1)", "line before", "Go to the line, or the match, before."),
    ("dialog.page_down", "pagedown", "move(10)", "page down", "Go ten lines down while typing."),
    ("dialog.page_up", "pageup", "move(-10)", "page up", "Go ten lines up while typing."),
)
"""What everything with a line to type in answers to."""

_COMPARISON: tuple[Entry, ...] = (
    ("compare.next", "n", "next_difference(1)", "next difference", "In a comparison, go to the next difference."),
    ("compare.previous", "N", "next_difference(-1)", "difference before", "In a comparison, go to the difference before."),
    ("compare.other", "tab", "other_list", "other list", "In a comparison, go from the figures to the difference, and back."),
)

_MENDS: tuple[Entry, ...] = (
    (
        "mends.try",
        "t",
        "try_mend",
        "try",
        "Among mends, run the program with the one under the cursor, and compare the results.",
    ),
    (
        "mends.accept",
        "a",
        "accept",
        "accept",
        "Among mends, write the one under the cursor to your file, after a trial and asking.",
    ),
    ("mends.other", "tab", "other_list", "diff", "Among mends, go from the list to the diff, and back."),
)

DIALOG_COMMANDS = (
    *declared("dialog", "Dialogs", *_DIALOG),
    *declared("compare", "Dialogs", *_COMPARISON),
    *declared("mends", "Dialogs", *_MENDS),
)
