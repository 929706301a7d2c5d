"""What a command is: its id, keys and words. Data only; the tables beside this file declare all of
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Scope = Literal[
    "app", "explorer", "lines", "dialog", "compare", "fixes", "steps", "settings", "ranks"
]
"""Who carries the command out: the app, the main screen, whatever list or text has the focus, what
is open on top with a line to type in, the comparison of two variants, the fixes of a break, the
recorded steps of the bytecode, the options, or the view of a job's ranks.
"""

ON_TOP: tuple[Scope, ...] = ("dialog", "compare", "fixes", "steps", "settings", "ranks")
"""Scopes of what opens above the main screen, or without it: their keys hold only there, and mean
something else below.
"""

Group = Literal[
    "Views",
    "Linked panes",
    "Moving",
    "Finding",
    "Selection",
    "Stepping",
    "Capture",
    "Dialogs",
    "Application",
    "Tour",
    "Ranks",
]

GROUPS: tuple[Group, ...] = (
    "Views",
    "Linked panes",
    "Moving",
    "Finding",
    "Selection",
    "Stepping",
    "Capture",
    "Dialogs",
    "Application",
    "Tour",
    "Ranks",
)

Keymap = Mapping[str, Sequence[str]]
"""Command id → the keys the user's config file gives it."""

HelpEntry = tuple[str, str, str, str, str]
"""One line of a table of commands: id, keys separated by commas, action, title, sentence."""


@dataclass(frozen=True, slots=True)
class AppCommand:
    """One thing the user can ask for."""

    id: str
    """Stable name, used in the config file: ``pane.zoom``."""
    keys: tuple[str, ...]
    """Default keys, in Textual's spelling: ``ctrl+p``, ``slash``."""
    action: str
    """Textual action, without its namespace: ``show_view('graphs')``; or a controller of the app
    and its method: ``stepping.go_on``, ``panes.widen(6)``.
    """
    title: str
    """Two or three words, for the footer and the palette."""
    help: str
    """One sentence."""
    scope: Scope
    group: Group
    footer: bool = False

    @property
    def is_of_controller(self) -> bool:
        """Return whether a controller carries it out, for the app."""
        return "." in self.action.partition("(")[0]


def declared(
    scope: Scope, group: Group, *entries: HelpEntry, footer: Sequence[str] = ()
) -> tuple[AppCommand, ...]:
    """Return the commands of a table; those named in ``footer`` have a place there."""
    return tuple(
        AppCommand(id, tuple(keys.split(",")), action, title, sentence, scope, group, id in footer)
        for id, keys, action, title, sentence in entries
    )


def keys_of(command: AppCommand, keymap: Keymap) -> tuple[str, ...]:
    """Return the keys of a command once the user's config file has had its say."""
    return tuple(keymap.get(command.id, command.keys))
