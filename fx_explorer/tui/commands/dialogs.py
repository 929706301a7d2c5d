"""This module has the commands of screens above the main screen, or without it: dialogs,
comparisons, options, and the view of a job's ranks.
"""

from __future__ import annotations

from fx_explorer.tui.commands.command import Declaration, declared

_DIALOG: tuple[Declaration, ...] = (
    Declaration(
        "dialog.close",
        "escape",
        "leave",
        "close",
        "Close the topmost dialog; in the find line, end the search.",
    ),
    Declaration(
        "dialog.down",
        "down",
        "move(1)",
        "next line",
        "Go to the next line, or the next match, while typing.",
    ),
    Declaration(
        "dialog.up",
        "up",
        "move(-1)",
        "line before",
        "Go to the previous line, or the previous match, while typing.",
    ),
    Declaration(
        "dialog.page_down", "pagedown", "move(10)", "page down", "Go ten lines down while typing."
    ),
    Declaration(
        "dialog.page_up", "pageup", "move(-10)", "page up", "Go ten lines up while typing."
    ),
)
"""Commands of every dialog with an input line."""

_COMPARISON: tuple[Declaration, ...] = (
    Declaration(
        "compare.next",
        "n",
        "next_difference(1)",
        "next difference",
        "In a comparison, go to the next difference.",
    ),
    Declaration(
        "compare.previous",
        "N",
        "next_difference(-1)",
        "difference before",
        "In a comparison, go to the previous difference.",
    ),
    Declaration(
        "compare.other",
        "tab",
        "other_list",
        "other list",
        "In a comparison, go from the figures to the difference, and back.",
    ),
)

_FIXES: tuple[Declaration, ...] = (
    Declaration(
        "fixes.try",
        "r",
        "try_fix",
        "try",
        "In the list of fixes, run the program with the fix at the cursor, and compare results.",
    ),
    Declaration(
        "fixes.try_all",
        "asterisk",
        "try_all",
        "try all",
        "In the list of fixes, try all untried fixes, most promising first, and go to the best.",
    ),
    Declaration(
        "fixes.accept",
        "s",
        "accept",
        "accept",
        "In the list of fixes, ask, then write the fix at the cursor to your file.",
    ),
    Declaration(
        "fixes.other",
        "tab",
        "other_list",
        "diff",
        "In the list of fixes, go from the list to the diff, and back.",
    ),
)

_STEPS: tuple[Declaration, ...] = (
    Declaration(
        "steps.forward",
        "right,l",
        "go('forward')",
        "next instruction",
        "In recorded steps, continue by one step.",
    ),
    Declaration(
        "steps.back",
        "left,h",
        "go('back')",
        "instruction before",
        "In recorded steps, go back by one step.",
    ),
    Declaration(
        "steps.next_line",
        "down,j",
        "go('next_line')",
        "next line",
        "In recorded steps, go to the next line without stepping into calls.",
    ),
    Declaration(
        "steps.line_before",
        "up,k",
        "go('line_before')",
        "line before",
        "In recorded steps, go back to the previous line.",
    ),
    Declaration(
        "steps.into",
        "enter",
        "go('into')",
        "into",
        (
            "In recorded bytecode, step into the resume function that is called next; in Dynamo's "
            "trace, into the call that is inlined next."
        ),
    ),
    Declaration(
        "steps.out",
        "B",
        "go('out')",
        "out of",
        "In recorded steps, step out of the function, to the place where its caller continues.",
    ),
    Declaration(
        "steps.caller",
        "b",
        "go('caller')",
        "caller",
        "In recorded steps, go back to the call of this function.",
    ),
    Declaration(
        "steps.next_graph",
        "n",
        "go('next_graph')",
        "next graph",
        (
            "In recorded bytecode, continue to the next call of a compiled graph; in Dynamo's "
            "trace, to the next node or event."
        ),
    ),
    Declaration(
        "steps.graph_before",
        "N",
        "go('graph_before')",
        "graph before",
        "In recorded steps, go back to the previous such call, node or event.",
    ),
    Declaration(
        "steps.first",
        "g,home",
        "go('first')",
        "first step",
        "In recorded steps, go to the first step.",
    ),
    Declaration(
        "steps.last",
        "G,end",
        "go('last')",
        "last step",
        "In recorded steps, go to the last step.",
    ),
)

_SETTINGS: tuple[Declaration, ...] = (
    Declaration(
        "settings.try",
        "ctrl+r",
        "try_options",
        "try",
        (
            "In the options, capture again with your changes and compare. Without a change, the "
            "option at the cursor gets its next value, if its values can be listed."
        ),
    ),
    Declaration(
        "settings.words_down",
        "shift+down",
        "scroll_description(3)",
        "words down",
        "In the options, scroll the description down.",
    ),
    Declaration(
        "settings.words_up",
        "shift+up",
        "scroll_description(-3)",
        "words up",
        "In the options, scroll the description up.",
    ),
)

DIALOG_COMMANDS = (
    *declared("dialog", "Dialogs", *_DIALOG),
    *declared("compare", "Dialogs", *_COMPARISON),
    *declared("fixes", "Dialogs", *_FIXES),
    *declared("steps", "Dialogs", *_STEPS),
    *declared("settings", "Dialogs", *_SETTINGS),
)


_RANKS: tuple[Declaration, ...] = (
    Declaration(
        "ranks.compare",
        "c",
        "compare",
        "compare",
        "In the table of ranks, compare the rank at the cursor with the marked rank.",
    ),
    Declaration(
        "ranks.mark",
        "m",
        "mark",
        "mark",
        "In the table of ranks, mark the rank to compare others with.",
    ),
    Declaration(
        "ranks.other",
        "tab",
        "other_list",
        "other pane",
        "In the table of ranks, go from the list to the text below, and back.",
    ),
    Declaration(
        "ranks.back",
        "escape",
        "leave_comparison",
        "back",
        "In the table of ranks, close the comparison of two ranks.",
    ),
    Declaration("ranks.quit", "q,ctrl+c", "leave", "quit", "Close the table of ranks."),
)

RANKS_COMMANDS = declared(
    "ranks", "Ranks", *_RANKS, footer=("ranks.compare", "ranks.mark", "ranks.other", "ranks.quit")
)
