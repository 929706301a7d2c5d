"""What a command is: its id, keys and words. Data only; the tables beside this file declare all of
them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from fx_explorer.tui.controllers import Controllers

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

ControllerCall = Callable[["Controllers"], Awaitable[None] | None]
"""Calls a method of a controller: ``lambda c: c.stepping.go_on()``."""

Action = ControllerCall | str
"""What a command does: it calls a controller, or it is an action of what has the scope, as Textual
writes them, without the namespace: ``show_view('graphs')``.
"""


class Declaration(NamedTuple):
    """One line of a table of commands.

    A table that calls controllers stands in a function. Controllers import commands, so mypy comes
    to the commands first, and only the body of a function waits until the controllers' types are
    known.
    """

    id: str
    keys: str
    """Separated by commas."""
    action: Action
    title: str
    help: str
    """One sentence."""


@dataclass(frozen=True, slots=True)
class AppCommand:
    """One thing the user can ask for."""

    id: str
    """Stable name, used in the config file: ``pane.zoom``."""
    keys: tuple[str, ...]
    """Default keys, in Textual's spelling: ``ctrl+p``, ``slash``."""
    action: Action
    title: str
    """Two or three words, for the footer and the palette."""
    help: str
    """One sentence."""
    scope: Scope
    group: Group
    footer: bool = False


def declared(
    scope: Scope, group: Group, *declarations: Declaration, footer: Sequence[str] = ()
) -> tuple[AppCommand, ...]:
    """Return the commands of a table; those named in ``footer`` have a place there."""
    commands = []
    for declaration in declarations:
        command = AppCommand(
            declaration.id,
            tuple(declaration.keys.split(",")),
            declaration.action,
            declaration.title,
            declaration.help,
            scope,
            group,
            declaration.id in footer,
        )
        commands.append(command)
    return tuple(commands)


def keys_of(command: AppCommand, keymap: Keymap) -> tuple[str, ...]:
    """Return the keys of a command once the user's config file has had its say."""
    return tuple(keymap.get(command.id, command.keys))
