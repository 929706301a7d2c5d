"""Every command of the app, declared once: bindings, footer, palette, help and the key table in the
docs come from here.

Data only, no Textual: ``fx-explorer keys`` prints it without starting anything.
"""

from __future__ import annotations

from fx_explorer.tui.commands.application import APPLICATION_COMMANDS, CAPTURE_COMMANDS
from fx_explorer.tui.commands.command import (
    GROUPS,
    ON_TOP,
    AppCommand,
    Group,
    Keymap,
    Scope,
    keys_of,
)
from fx_explorer.tui.commands.dialogs import DIALOG_COMMANDS
from fx_explorer.tui.commands.key_names import key_label
from fx_explorer.tui.commands.leaders import LEADERS, Menu, is_sequence, menus, singles
from fx_explorer.tui.commands.moving import FINDING_COMMANDS, MOVING_COMMANDS
from fx_explorer.tui.commands.of_views import OF_A_PLACE, OF_TRITON, OF_VIEW
from fx_explorer.tui.commands.panes import PANE_COMMANDS, SELECTION_COMMANDS
from fx_explorer.tui.commands.ranks import RANKS_COMMANDS
from fx_explorer.tui.commands.stepping import AT_A_GATE, AT_HAND, GOES_ON, STEPPING_COMMANDS
from fx_explorer.tui.commands.tour import TOUR_COMMANDS
from fx_explorer.tui.commands.views import VIEW_COMMANDS, VIEWS, sentence_of

__all__ = [
    "AT_A_GATE",
    "AT_HAND",
    "COMMANDS",
    "GOES_ON",
    "GROUPS",
    "LEADERS",
    "OF_A_PLACE",
    "OF_TRITON",
    "OF_VIEW",
    "ON_TOP",
    "VIEWS",
    "AppCommand",
    "Group",
    "Keymap",
    "Menu",
    "Scope",
    "by_id",
    "is_sequence",
    "key_label",
    "keys_of",
    "menus",
    "of_scope",
    "sentence_of",
    "singles",
]

COMMANDS: tuple[AppCommand, ...] = (
    *VIEW_COMMANDS,
    *PANE_COMMANDS,
    *MOVING_COMMANDS,
    *FINDING_COMMANDS,
    *SELECTION_COMMANDS,
    *STEPPING_COMMANDS,
    *CAPTURE_COMMANDS,
    *DIALOG_COMMANDS,
    *APPLICATION_COMMANDS,
    *TOUR_COMMANDS,
    *RANKS_COMMANDS,
)


def by_id(command_id: str) -> AppCommand:
    """Return the command with this id. Raises KeyError when there is none."""
    for command in COMMANDS:
        if command.id == command_id:
            return command
    raise KeyError(command_id)


def of_scope(*scopes: Scope) -> list[AppCommand]:
    return [command for command in COMMANDS if command.scope in scopes]
