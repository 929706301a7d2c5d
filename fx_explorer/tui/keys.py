"""This module looks up keys: commands as Textual's bindings, and a table of the keys that Textual
does not bind, which open menus, or which the user has assigned to commands without a default key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from textual.binding import Binding, BindingType

from fx_explorer.tui.commands import (
    AppCommand,
    Keymap,
    Menu,
    Scope,
    by_id,
    key_label,
    keys_of,
    menus,
    of_scope,
    singles,
)


class Meaning(NamedTuple):
    """The effect of a key on the main screen: it opens a menu or runs a command."""

    menu: Menu | None = None
    command: AppCommand | None = None


class KeyTable:
    """Looks up keys in the user's mapping. The user's own choices take precedence."""

    def __init__(self, commands: Sequence[AppCommand], keymap: Keymap) -> None:
        self._chosen = fallbacks(commands, keymap)
        self._menus = menus(commands, keymap)
        self.leaders = frozenset(self._menus)
        """The keys that open a menu."""

    def lookup(self, key: str, character: str) -> Meaning:
        """Return the effect of a key, by its name or by its character."""
        for name in (key, character):
            if name in self._chosen:
                return Meaning(command=self._chosen[name])
            if name in self._menus:
                return Meaning(menu=self._menus[name])
        return Meaning()


# Commands as Textual bindings. Every binding carries its command's id, so the user's config file
# can remap it.

NEVER = "never"
"""A key name that no terminal sends, for commands without a key."""


def bindings_of(*scopes: Scope) -> list[BindingType]:
    """Return the bindings of all commands of these scopes, for a class's ``BINDINGS``."""
    return [_binding(command) for command in of_scope(*scopes) if singles(command.keys)]


def priority_bindings(*scopes: Scope) -> list[BindingType]:
    """Return bindings for a screen whose keys have another meaning in the lists on it: the screen's
    take precedence.
    """
    return [replace(_binding(command), priority=True) for command in of_scope(*scopes)]


def _binding(command: AppCommand) -> Binding:
    # The focus chain of Textual also binds tab; ours must win.
    return Binding(
        ",".join(singles(command.keys)),
        textual_action(command),
        command.title,
        show=command.footer,
        key_display=key_label(command.keys[0]),
        tooltip=command.help,
        id=command.id,
    )


def textual_action(command: AppCommand) -> str:
    """Return the action that Textual calls: for controllers, an action of the app."""
    if isinstance(command.action, str):
        return command.action
    return f"app.call_controller({command.id!r})"


def closing_bindings(*command_ids: str) -> list[BindingType]:
    """Return bindings for a dialog: the keys that opened it close it too, however the user has
    mapped them.
    """
    return [
        Binding(",".join(singles(by_id(i).keys)), "leave", "Close", show=False, id=i)
        for i in ("dialog.close", *command_ids)
    ]


def reused_bindings(actions: Mapping[str, str]) -> list[BindingType]:
    """Return bindings for a screen on top that carries out some commands itself, with the same
    keys. ``actions``: id of a command → action of that screen.
    """
    return [
        replace(_binding(by_id(command_id)), action=action, priority=True)
        for command_id, action in actions.items()
    ]


def textual_keymap(keymap: Keymap) -> dict[str, str]:
    """Return the user's keys as ``App.set_keymap`` wants them."""
    return {command_id: ",".join(singles(keys)) or NEVER for command_id, keys in keymap.items()}


def keys_text(command: AppCommand, keymap: Keymap) -> str:
    """Return all keys of a command, as people write them: ``b alt+←``, ``i, o i``."""
    labels = [key_label(key) for key in keys_of(command, keymap)]
    separator = ", " if any(" " in label for label in labels) else " "
    return separator.join(labels)


def first_key(command: AppCommand, keymap: Keymap) -> str:
    """Return the one key to show for a command; empty if the user unbound it."""
    return next(iter(map(key_label, keys_of(command, keymap))), "")


def clashes(commands: Iterable[AppCommand], keymap: Keymap) -> dict[str, list[AppCommand]]:
    """Return the keys with more than one of these commands, and those that hide a sequence: if
    ``v`` is a command, ``v b`` cannot be typed.
    """
    owners: dict[str, list[AppCommand]] = {}
    commands = list(commands)
    for command in commands:
        for key in keys_of(command, keymap):
            owners.setdefault(key, []).append(command)
    for longer in list(owners):
        for end in (at for at, letter in enumerate(longer) if letter == " "):
            ended_by = owners.get(longer[:end], [])
            ended_by += [command for command in owners[longer] if command not in ended_by]
    return {key: wanted for key, wanted in owners.items() if len(wanted) > 1}


def fallbacks(commands: Iterable[AppCommand], keymap: Keymap) -> dict[str, AppCommand]:
    """Return the main screen's keys that Textual does not know: the user's keys for commands
    without a default key.
    """
    command_of_key = {}
    for command in commands:
        if command.scope not in ("app", "explorer") or singles(command.keys):
            continue
        for key in singles(keys_of(command, keymap)):
            command_of_key[key] = command
    return command_of_key
