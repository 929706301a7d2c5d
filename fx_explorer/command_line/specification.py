"""This module writes all commands, options and questions as JSON (``--spec``), from the parsers of
the command line: what it says is what ``--help`` says.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fx_explorer import __version__
from fx_explorer.answers.questions import QUESTIONS
from fx_explorer.command_line.man_page import Commands

SCHEMA = "fx-explorer/spec/1"

EXIT_CODES = {
    "0": "fine",
    "1": "a check failed",
    "2": "bad usage, target not found, nothing compiled",
    "3": "the program raised (the session is kept)",
    "4": "the worker died or timed out (the session is kept)",
    "5": "the session or .pt2 file cannot be read, or is something else",
    "130": "ended by Ctrl-C",
    "143": "ended by SIGTERM",
    "129": "ended by a closed terminal",
}
"""Exit code → what it means."""

Json = dict[str, Any]


def specification(groups: Mapping[str, tuple[str, ...]], commands: Commands) -> str:
    """Return the JSON. ``groups`` has the purpose of each command."""
    purposes = {name: purpose for purpose, names in groups.items() for name in names}
    described = [
        _command(name, purposes.get(name, ""), text, parser)
        for name, (text, parser) in commands.items()
    ]
    content = {
        "schema": SCHEMA,
        "version": __version__,
        "commands": described,
        "shared_options": _shared_options(described),
        "questions": [
            {"name": question.name, "takes": question.takes, "does": question.does}
            for question in QUESTIONS
        ],
        "exit_codes": EXIT_CODES,
    }
    return json.dumps(content, indent=1, ensure_ascii=True) + "\n"


def _shared_options(commands: Sequence[Json]) -> dict[str, Json]:
    """Take the options that several commands have out of them, where they are the same in each;
    the command keeps their names. Return them by name.
    """
    counts: Counter[str] = Counter()
    for command in commands:
        counts.update(_identity(option) for option in command["options"])
    shared: dict[str, Json] = {}
    for command in commands:
        own = []
        names = []
        for option in command["options"]:
            name = option["names"][-1]
            is_first = name not in shared or _identity(shared[name]) == _identity(option)
            if counts[_identity(option)] > 1 and is_first:
                shared[name] = option
                names.append(name)
            else:
                own.append(option)
        command["options"] = own
        command["shared_options"] = names
    return shared


def _identity(option: Json) -> str:
    return json.dumps(option, sort_keys=True)


def _command(name: str, purpose: str, text: str, parser: argparse.ArgumentParser) -> Json:
    actions = [action for action in parser._actions if action.dest != "help"]
    return {
        "name": name,
        "purpose": purpose,
        "does": text,
        "arguments": [_argument(each, parser) for each in actions if not each.option_strings],
        "options": [_argument(each, parser) for each in actions if each.option_strings],
    }


def _argument(action: argparse.Action, parser: argparse.ArgumentParser) -> Json:
    """Return an argument or an option; what it does not have is left out."""
    default = action.default
    if not isinstance(default, str | int | float | bool):
        default = None
    takes_nothing = action.nargs == 0
    content: Json = {
        "names": list(action.option_strings),
        "value": None if takes_nothing else str(action.metavar or action.dest),
        "choices": list(action.choices or ()),
        "required": action.required or None,
        "may_be_repeated": _is_list(action) or None,
        "default": default,
        "does": _help_text(action, parser),
    }
    return {name: value for name, value in content.items() if value not in (None, [], "")}


def _is_list(action: argparse.Action) -> bool:
    return action.nargs in ("*", "+") or isinstance(action, argparse._AppendAction)


def _help_text(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    if not action.help or action.help == argparse.SUPPRESS:
        return ""
    return parser._get_formatter()._expand_help(action)
