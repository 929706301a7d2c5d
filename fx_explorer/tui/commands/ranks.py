"""Commands of the view of a job's ranks."""

from __future__ import annotations

from fx_explorer.tui.commands.command import Declaration, declared

_RANKS: tuple[Declaration, ...] = (
    Declaration(
        "ranks.compare",
        "c",
        "compare",
        "compare",
        "Among ranks, compare the one under the cursor with the one that is marked.",
    ),
    Declaration(
        "ranks.mark",
        "m",
        "mark",
        "mark",
        "Among ranks, mark the one that others are compared with.",
    ),
    Declaration(
        "ranks.other",
        "tab",
        "other_list",
        "other pane",
        "Among ranks, go from the list to the text below, and back.",
    ),
    Declaration(
        "ranks.back",
        "escape",
        "leave_comparison",
        "back",
        "Among ranks, leave the comparison of two.",
    ),
    Declaration("ranks.quit", "q,ctrl+c", "leave", "quit", "Among ranks, leave."),
)

RANKS_COMMANDS = declared(
    "ranks", "Ranks", *_RANKS, footer=("ranks.compare", "ranks.mark", "ranks.other", "ranks.quit")
)
