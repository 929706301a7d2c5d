"""Every command of the app, declared once: bindings, footer, palette, help and the key table in the docs come from here.

Data only, no Textual: ``fx-explorer keys`` prints it without starting anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Scope = Literal["app", "explorer", "lines", "dialog"]
"""Who carries the command out: the app, the main screen, whatever list or text has the focus, or what is open on top."""

Group = Literal["Views", "Linked panes", "Moving", "Finding", "Selection", "Stepping", "Capture", "Dialogs", "Application"]

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
)

Keymap = Mapping[str, Sequence[str]]
"""Command id → the keys the user's config file gives it."""


@dataclass(frozen=True, slots=True)
class Command:
    """One thing the user can ask for."""

    id: str
    """Stable name, used in the config file: ``pane.zoom``."""
    keys: tuple[str, ...]
    """Default keys, in Textual's spelling: ``ctrl+p``, ``slash``."""
    action: str
    """Textual action, without its namespace: ``show_view('graphs')``."""
    title: str
    """Two or three words, for the footer and the palette."""
    help: str
    """One sentence."""
    scope: Scope
    group: Group
    footer: bool = False


VIEWS: tuple[tuple[str, str, str], ...] = (
    ("overview", "overview", "What happened, in plain words, and what to look at first."),
    ("source", "source", "Source, graph and kernel side by side, linked line by line."),
    ("graphs", "graphs", "Every FX graph, stage by stage."),
    ("breaks", "breaks", "Graph breaks and recompiles: where, why, and what to try."),
    ("guards", "guards", "What must stay true for the compiled code to be reused."),
    ("kernels", "kernels", "The generated kernels and library calls, in the order they run."),
    ("memory", "memory", "What the forward keeps for the backward."),
    ("console", "console", "What your program printed, and what went wrong."),
    ("time", "time", "Where compile time went."),
)
"""(name, footer label, sentence), in the order of the keys 1 to 9."""


MORE_VIEWS: tuple[tuple[str, str, str, str], ...] = (
    ("regions", "R", "regions", "What annotate or you marked: its nodes, whether it was compiled, into which kernels."),
)
"""(name, key, label, sentence) of the views that have no number."""


def sentence_of(view: str) -> str:
    """What a view shows; empty for what is none."""
    more = tuple((name, label, sentence) for name, _, label, sentence in MORE_VIEWS)
    return next((sentence for name, _, sentence in (*VIEWS, *more) if name == view), "")


def _view_commands() -> tuple[Command, ...]:
    numbered = [(name, str(i), label, sentence) for i, (name, label, sentence) in enumerate(VIEWS, start=1)]
    return tuple(
        Command(f"view.{name}", (key,), f"show_view('{name}')", label, sentence, "explorer", "Views", footer=key.isdecimal())
        for name, key, label, sentence in (*numbered, *MORE_VIEWS)
    )


_LINES: tuple[tuple[str, str, str, str, str], ...] = (
    ("line.down", "down,j", "cursor_by(1)", "down", "Move the cursor down."),
    ("line.up", "up,k", "cursor_by(-1)", "up", "Move the cursor up."),
    ("line.page_down", "pagedown,ctrl+f,space", "page_by(1)", "page down", "Move a page down."),
    ("line.page_up", "pageup,ctrl+b", "page_by(-1)", "page up", "Move a page up."),
    ("line.half_down", "ctrl+d", "half_page_by(1)", "half a page down", "Move half a page down."),
    ("line.half_up", "ctrl+u", "half_page_by(-1)", "half a page up", "Move half a page up."),
    ("line.first", "home,ctrl+home,g", "first_line", "first line", "Go to the first line."),
    ("line.last", "end,ctrl+end,G", "last_line", "last line", "Go to the last line."),
    ("line.left", "left,h", "columns_by(-8)", "left", "Scroll left; in the outline, fold."),
    ("line.right", "right,l", "columns_by(8)", "right", "Scroll right; in the outline, unfold."),
    ("line.next_mark", "]", "next_mark", "next linked line", "Go to the next line that is lit."),
    ("line.previous_mark", "[", "previous_mark", "previous linked line", "Go to the lit line before."),
)
"""What every list and text answers to: (id, keys, action, title, sentence). Their bindings stand in widgets/line_view.py."""


_DIALOG: tuple[tuple[str, str, str, str, str], ...] = (
    ("dialog.close", "escape", "leave", "close", "Close what is open on top; in the find line, end the find."),
    ("dialog.down", "down", "move(1)", "next line", "Go to the next line, or the next match, while typing."),
    ("dialog.up", "up", "move(-1)", "line before", "Go to the line, or the match, before."),
    ("dialog.page_down", "pagedown", "move(10)", "page down", "Go ten lines down while typing."),
    ("dialog.page_up", "pageup", "move(-10)", "page up", "Go ten lines up while typing."),
)
"""What everything with a line to type in answers to."""


def _line_commands() -> tuple[Command, ...]:
    return tuple(
        Command(id, tuple(keys.split(",")), action, title, sentence, "lines", "Moving")
        for id, keys, action, title, sentence in _LINES
    )


_STEPPING: tuple[tuple[str, str, str, str, str], ...] = (
    ("step.next", "full_stop", "step", "step", "Go on to the next gate, and pause there."),
    ("step.go", "c", "go_on", "go on", "Go on without pausing again."),
    ("step.run_to", "greater_than_sign", "run_to", "run to", "Go on to a gate you choose."),
    ("step.skip", "K", "skip_graph", "skip graph", "Do not compile this graph: run it eagerly, and go on."),
    ("step.abort", "X", "abort_compile", "abort", "Give up what is being compiled; what was captured is kept."),
    ("step.option", "O", "change_option", "options", "Change options of the compiler for what follows."),
    ("step.pass", "P", "apply_pass", "pass file", "Apply a Python file with a function pass_(gm) to the graph at this gate."),
    ("step.again", "A", "again_from", "again from", "Take another way: compile again from a stage that is finished."),
    ("step.mark", "m", "mark_region", "mark region", "Mark the selected nodes, module or source lines as a region."),
)
"""What can be asked of a compiler that waits. The keys of debuggers are taken: n is the next match, r captures again."""

AT_A_GATE: tuple[str, ...] = tuple(entry[0] for entry in _STEPPING)
AT_HAND: tuple[str, ...] = ("step.again", "step.option", "step.mark")
"""Commands that come first in the footer while the compiler waits at a gate, and once everything is compiled and at hand."""


def _stepping_commands() -> tuple[Command, ...]:
    return tuple(
        Command(id, (key,), action, title, sentence, "app", "Stepping") for id, key, action, title, sentence in _STEPPING
    )


def _dialog_commands() -> tuple[Command, ...]:
    return tuple(
        Command(id, (key,), action, title, sentence, "dialog", "Dialogs") for id, key, action, title, sentence in _DIALOG
    )


COMMANDS: tuple[Command, ...] = (
    *_view_commands(),
    Command(
        "preset.source",
        ("S",),
        "preset('source')",
        "source | graph | kernel",
        "Show the source, the graph the kernels are made from, and the generated code, linked.",
        "explorer",
        "Linked panes",
    ),
    Command(
        "preset.backward",
        ("F",),
        "preset('backward')",
        "forward | backward",
        "Show the forward graph beside the backward graph, linked.",
        "explorer",
        "Linked panes",
    ),
    Command(
        "preset.joint",
        ("J",),
        "preset('joint')",
        "joint | forward | backward",
        "Show what the partitioner made of the joint graph, linked.",
        "explorer",
        "Linked panes",
    ),
    Command(
        "ways.compare",
        ("equals_sign",),
        "compare_ways",
        "compare two ways",
        "Show two ways of a compilation, or two compilations, side by side, with what differs.",
        "explorer",
        "Views",
    ),
    Command(
        "pane.document",
        ("d",),
        "pick_document",
        "choose document",
        "Choose what the focused pane shows: source, any graph, bytecode, IR, generated code, a kernel.",
        "explorer",
        "Linked panes",
        footer=True,
    ),
    Command(
        "pane.add",
        ("a",),
        "add_pane",
        "add pane",
        "Put another pane beside the others.",
        "explorer",
        "Linked panes",
    ),
    Command("pane.close", ("x",), "close_pane", "close pane", "Close the focused pane.", "explorer", "Linked panes"),
    Command(
        "pane.zoom",
        ("z",),
        "zoom_pane",
        "zoom",
        "Give the focused pane the whole width, or give it back.",
        "explorer",
        "Linked panes",
        footer=True,
    ),
    *_line_commands(),
    Command("pane.next", ("tab",), "next_pane", "next pane", "Move the focus to the next pane.", "explorer", "Moving"),
    Command(
        "pane.previous",
        ("shift+tab",),
        "previous_pane",
        "previous pane",
        "Move the focus to the pane before.",
        "explorer",
        "Moving",
    ),
    Command(
        "outline.toggle",
        ("o",),
        "toggle_outline",
        "outline",
        "Show or hide the outline of compilations, graphs and kernels.",
        "explorer",
        "Moving",
    ),
    Command(
        "history.back",
        ("b", "alt+left"),
        "back",
        "back",
        "Go back to the place before, like a browser.",
        "explorer",
        "Moving",
        footer=True,
    ),
    Command("history.forward", ("B", "alt+right"), "forward", "forward", "Undo going back.", "explorer", "Moving"),
    Command(
        "find.in_pane",
        ("slash",),
        "find_in_pane",
        "find",
        "Find text in the focused pane.",
        "explorer",
        "Finding",
        footer=True,
    ),
    Command("line.find_next", ("n",), "find_next", "next match", "Go to the next match.", "lines", "Finding"),
    Command("line.find_previous", ("N",), "find_previous", "previous match", "Go to the match before.", "lines", "Finding"),
    Command(
        "find.anything",
        ("f",),
        "find_anything",
        "find anything",
        "Find a node, kernel, source line or graph break by name, anywhere in the session.",
        "explorer",
        "Finding",
        footer=True,
    ),
    Command(
        "line.follow",
        ("enter",),
        "follow",
        "follow",
        "Go to what the line under the cursor stands for; in a linked pane, list where its links lead.",
        "lines",
        "Selection",
        footer=True,
    ),
    Command(
        "place.inspect",
        ("i",),
        "inspect",
        "all facts",
        "Show everything known about the selected node, with its producers, users and links.",
        "explorer",
        "Selection",
        footer=True,
    ),
    Command(
        "place.copy",
        ("y",),
        "copy",
        "copy",
        "Copy the line under the cursor, or the text selected with the mouse, and say how it was copied.",
        "explorer",
        "Selection",
        footer=True,
    ),
    Command(
        "place.edit",
        ("e",),
        "edit",
        "edit",
        "Open the line of your source that this came from in $EDITOR.",
        "explorer",
        "Selection",
    ),
    *_stepping_commands(),
    Command(
        "capture.again",
        ("r",),
        "capture_again",
        "run",
        "Run: at a gate, go on without pausing again; otherwise capture again.",
        "app",
        "Capture",
    ),
    Command(
        "capture.watch",
        ("w",),
        "watch",
        "watch",
        "Watch the target's file and capture again whenever it is saved, keeping the place.",
        "app",
        "Capture",
    ),
    Command(
        "capture.save",
        ("s",),
        "save",
        "save session",
        "Save the session as a .fxs file that can be opened later, anywhere.",
        "app",
        "Capture",
    ),
    Command(
        "capture.cancel",
        ("escape",),
        "cancel",
        "cancel",
        "Stop the running capture, keeping what was found (at a gate, press it twice); otherwise close what is open on top.",
        "app",
        "Capture",
    ),
    *_dialog_commands(),
    Command(
        "app.theme",
        ("t",),
        "toggle_theme",
        "light / dark",
        "Switch between the light and the dark theme.",
        "app",
        "Application",
    ),
    Command(
        "app.palette",
        ("ctrl+p",),
        "command_palette",
        "commands",
        "Find a command by name and run it.",
        "app",
        "Application",
    ),
    Command(
        "app.help",
        ("question_mark", "f1"),
        "help",
        "help",
        "Show what the focused pane shows and the keys that work in it.",
        "app",
        "Application",
        footer=True,
    ),
    Command(
        "app.quit",
        ("q", "ctrl+q"),
        "quit",
        "quit",
        "Quit; a running capture is stopped and leaves no process behind.",
        "app",
        "Application",
        footer=True,
    ),
)


def by_id(command_id: str) -> Command:
    """The command with this id. Raises KeyError when there is none."""
    for command in COMMANDS:
        if command.id == command_id:
            return command
    raise KeyError(command_id)


def of_scope(*scopes: Scope) -> list[Command]:
    return [command for command in COMMANDS if command.scope in scopes]


def keys_of(command: Command, keymap: Keymap) -> tuple[str, ...]:
    """The keys of a command once the user's config file has had its say."""
    return tuple(keymap.get(command.id, command.keys))


_KEY_NAMES = {
    "slash": "/",
    "full_stop": ".",
    "greater_than_sign": ">",
    "question_mark": "?",
    "equals_sign": "=",
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
    """A key as people write it: ``ctrl+p``, ``/``, ``?``."""
    *modifiers, name = key.split("+")
    return "+".join((*modifiers, _KEY_NAMES.get(name, name)))
