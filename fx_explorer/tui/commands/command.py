"""A command is declared by its id, keys and words; its keys may be a sequence like ``v b``, which
goes through menus.

Data only: the tables beside this file declare all commands. ``fx-explorer keys`` and the docs are
written from them, and screens/menu.py draws the menus.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    from fx_explorer.tui.controllers import Controllers


Scope = Literal[
    "app", "explorer", "lines", "dialog", "compare", "fixes", "steps", "settings", "ranks"
]
"""The receiver of the command: the app, the main screen, the list or text with the focus, a dialog
with an input line, the comparison of two variants, the fixes of a break, the recorded steps of the
bytecode, the options, or the view of a job's ranks.
"""

ON_TOP: tuple[Scope, ...] = ("dialog", "compare", "fixes", "steps", "settings", "ranks")
"""Scopes of screens above the main screen, or without it: their keys are valid only there, and have
another meaning below.
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

GROUPS: tuple[Group, ...] = get_args(Group)

Keymap = Mapping[str, Sequence[str]]
"""Command id → the keys the user's config file gives it."""

ControllerCall = Callable[["Controllers"], Awaitable[None] | None]
"""Calls a method of a controller: ``lambda c: c.stepping.go_on()``."""

Action = ControllerCall | str
"""The effect of a command: a call of a controller, or an action of the receiver in Textual's form,
without the namespace: ``show_view('graphs')``.
"""


class Declaration(NamedTuple):
    """One line of a table of commands.

    A table that calls controllers stands in a function. Controllers import commands, so mypy comes
    to the commands first, and only the body of a function waits until the controllers' types are
    known.
    """

    id: str
    keys: str
    """The keys, as Textual names them, separated by commas."""
    action: Action
    title: str
    help: str
    """One sentence on what the command does."""


@dataclass(frozen=True, slots=True)
class AppCommand:
    """A command of the app, with its keys and texts."""

    id: str
    """Stable name, used in the config file: ``pane.zoom``."""
    keys: tuple[str, ...]
    """Default keys, in Textual's spelling: ``ctrl+p``, ``slash``."""
    action: Action
    title: str
    """Two or three words, for the footer and the palette."""
    help: str
    """One sentence on what the command does."""
    scope: Scope
    group: Group
    footer: bool = False


def declared(
    scope: Scope, group: Group, *declarations: Declaration, footer: Sequence[str] = ()
) -> tuple[AppCommand, ...]:
    """Return the commands of a table; those named in ``footer`` are shown there."""
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
    """Return the keys of a command from the user's config file, else the default ones."""
    return tuple(keymap.get(command.id, command.keys))


LEADERS: Mapping[str, str] = {
    "space": "everything",
    "v": "views",
    "c": "compile",
    "x": "fix and measure",
    "o": "go",
    "p": "panes",
    "Y": "copy",
}
"""Key → the title of its menu. All except the first are also entries in the menu of everything."""

SYNONYMS: Mapping[str, str] = {
    "view.kernels": "slow triton fuse fusion slowest",
    "view.stages": "fuse fusion passes decompositions lowering",
    "view.modules": "layers expensive slow",
    "view.time": "slow compile",
    "view.flame": "slow compile flame chart",
    "view.memory": "saved tensors activations checkpointing",
    "view.step_memory": "memory peak oom out of memory",
    "view.breaks": "graph break recompile fullgraph",
    "view.guards": "recompile guard failure",
    "view.sizes": "symbolic symint mark_dynamic recompile",
    "view.console": "output log error traceback print",
    "view.bench": "speed speedup slow faster",
    "view.profile": "slow gpu idle chrome trace",
    "view.roofline": "slow bandwidth flops",
    "view.trace": "dynamo symbolic inline call tree trace_source trace_bytecode what did dynamo do",
    "step.trace": "dynamo symbolic stack trace_bytecode line by line",
    "view.side_effects": "mutation attribute global list append replay after the graph",
    "view.values": "alias aliases view mutation mutated input output copy back dtensor subclass",
    "view.collectives": "all_reduce all_gather communication distributed process group overlap",
    "view.passes": "pass pattern decomposition rewrite who made this node",
    "step.record_patterns": "pattern matcher did not match why not nearly match failed",
    "capture.other_python": "release version upgrade torch interpreter compare diff",
    "step.choice": "try layout channels_last contiguous candidate template autotune option",
    "view.fusion": "fuse fusion unfused scheduler why apart",
    "view.decisions": "why library call extern fallback copy layout transpose vectorized parallel",
    "view.ledger": "overhead slow call",
    "view.numerics": "accuracy wrong nan results differ",
    "view.backend": "custom backend",
    "preset.below": "ptx sass assembly llvm amdgcn",
    "kernel.bench": "slow speed bandwidth",
    "breaks.fix": "repair solve graph break",
    "breaks.undo": "revert restore take back",
    "capture.run": "continue restart capture again compile rerun",
    "capture.history": "previous earlier past captures runs sessions compare recent",
    "capture.save": "export write fxs html page send share browser",
    "step.again": "compile again recompile",
    "step.option": "settings config inductor mode",
    "app.quit": "exit close",
    "app.theme": "colours dark light",
}
"""Command id → words by which the palette finds it, besides its name and its sentence."""

EVERYTHING = "space"

AMONG_EVERYTHING: tuple[str, ...] = (
    "find.anything",
    "find.in_pane",
    "place.copy",
    "place.edit",
    "capture.run",
    "capture.watch",
    "capture.save",
    "step.next",
    "app.help",
    "app.quit",
)
"""Commands with a key of their own that are listed in the menu of everything too, so that it
teaches their keys.
"""


@dataclass(frozen=True, slots=True)
class Menu:
    """One menu: its keys with their commands."""

    title: str
    keys: tuple[str, ...]
    """The keys that lead here."""
    entries: dict[str, AppCommand | Menu] = field(default_factory=dict)

    def entry(self, key: str) -> AppCommand | Menu | None:
        return self.entries.get(key)


def is_sequence(key: str) -> bool:
    """Return whether ``key`` is a sequence of several keys."""
    return " " in key


def singles(keys: Iterable[str]) -> tuple[str, ...]:
    """Return those of ``keys`` that are pressed alone."""
    return tuple(key for key in keys if not is_sequence(key))


def menus(commands: Iterable[AppCommand], keymap: Keymap) -> dict[str, Menu]:
    """Return leader → its menu, as the user has mapped the keys."""
    commands = list(commands)
    leaders = {key: Menu(title, (key,)) for key, title in LEADERS.items()}
    for command in commands:
        for sequence in filter(is_sequence, keys_of(command, keymap)):
            _put(leaders, sequence.split(), command)
    everything = leaders[EVERYTHING]
    for key, menu in leaders.items():
        if key != EVERYTHING:
            everything.entries.setdefault(key, menu)
    by_id = {command.id: command for command in commands}
    for command_id in AMONG_EVERYTHING:
        if command_id in by_id:
            for key in singles(keys_of(by_id[command_id], keymap))[:1]:
                everything.entries.setdefault(key, by_id[command_id])
    return {key: menu for key, menu in leaders.items() if menu.entries}


def _put(leaders: dict[str, Menu], keys: list[str], command: AppCommand) -> None:
    """Add a command at the end of its key sequence. If two commands have the same sequence, the
    first keeps it.
    """
    menu = leaders.setdefault(keys[0], Menu(keys[0], (keys[0],)))
    for depth, key in enumerate(keys[1:-1], start=2):
        below = menu.entries.setdefault(key, Menu(key, tuple(keys[:depth])))
        if not isinstance(below, Menu):
            return
        menu = below
    menu.entries.setdefault(keys[-1], command)


_KEY_NAMES = {
    "slash": "/",
    "full_stop": ".",
    "greater_than_sign": ">",
    "less_than_sign": "<",
    "question_mark": "?",
    "equals_sign": "=",
    "ampersand": "&",
    "asterisk": "*",
    "plus": "+",
    "percent_sign": "%",
    "at": "@",
    "vertical_line": "|",
    "comma": ",",
    "semicolon": ";",
    "backslash": "\\",
    "enter": "⏎",
    "escape": "esc",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "pageup": "pgup",
    "pagedown": "pgdn",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
}


def key_label(key: str) -> str:
    """Return a key, or a sequence of keys, as people write it: ``ctrl+p``, ``/``, ``v b``."""
    return " ".join(map(_one_label, key.split()))


def _one_label(key: str) -> str:
    *modifiers, name = key.split("+")
    return "+".join((*modifiers, _KEY_NAMES.get(name, name)))
