"""This module reads ``[tool.fx-explorer.check]`` of a project's pyproject.toml: a table of targets,
each with what it must meet. The entries are the options of ``fx-explorer check`` without their
dashes; docs/reference/check-schema.json describes them.

::

    [tool.fx-explorer.check]
    max-recompiles = 0                  # of every target that does not say otherwise

    [tool.fx-explorer.check.encoder]
    target = "nets/encoder.py:Encoder"
    baseline = "baselines/encoder.json"
    expect-fused = [["layer_norm", "gelu"]]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from fx_explorer.command_line.capture_options import add_capture_arguments
from fx_explorer.command_line.given_session import add_target_argument
from fx_explorer.command_line.help_text import HelpParser
from fx_explorer.command_line.judging import add_condition_arguments, wanted_conditions
from fx_explorer.errors import UsageError
from fx_explorer.outside_file import read_toml, shown_value

FILE = "pyproject.toml"

TABLE = "tool.fx-explorer.check"

TARGET, ALLOW = "target", "allow"


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One target of the table."""

    name: str
    arguments: argparse.Namespace
    """As the command line of ``fx-explorer check`` for this target gives them."""


class _EntryParser(HelpParser):
    """Parses the options of an entry; a mistake is an error of the file."""

    where = ""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.where}: {message}")


def entry_parser() -> HelpParser:
    """Return the parser whose options an entry may have."""
    parser = _EntryParser("fx-explorer check", allow_abbrev=False)
    add_target_argument(parser)
    add_condition_arguments(parser)
    add_capture_arguments(parser)
    return parser


def find_table(folder: Path) -> Path | None:
    """Return the pyproject.toml with the table, in ``folder`` or the nearest above it; None without
    one. Raises UsageError for a file that cannot be read.
    """
    for place in (folder, *folder.parents):
        file = place / FILE
        if file.is_file() and _table(file) is not None:
            return file
    return None


def read_table(file: Path, only: tuple[str, ...] = ()) -> list[TableEntry]:
    """Return the targets of the table, those that are called ``only``. Raises UsageError, which
    names the entry, for a mistake.
    """
    table = _table(file) or {}
    shared = {key: value for key, value in table.items() if not isinstance(value, dict)}
    entries = {key: value for key, value in table.items() if isinstance(value, dict)}
    if not entries:
        raise UsageError(f"{file}: [{TABLE}] has no target: add [{TABLE}.NAME] with target = …")
    for name in only:
        if name not in entries:
            known = ", ".join(entries)
            raise UsageError(f"{file}: [{TABLE}] has no target called {name}; it has {known}")
    if TARGET in shared:
        raise UsageError(f"{file}: {TARGET} belongs in [{TABLE}.NAME], not in [{TABLE}]")
    return [
        _entry(name, {**shared, **entry}, f"{file}: [{TABLE}.{name}]")
        for name, entry in entries.items()
        if not only or name in only
    ]


def _table(file: Path) -> Mapping[str, object] | None:
    try:
        content = read_toml(file)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{file} cannot be read: {error}") from error
    found: object = content
    for key in TABLE.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    if found is None or isinstance(found, dict):
        return found
    raise UsageError(f"{file}: [{TABLE}] is {shown_value(found)}, not a table")


def _entry(name: str, entry: Mapping[str, object], where: str) -> TableEntry:
    parser = entry_parser()
    assert isinstance(parser, _EntryParser)
    parser.where = where
    target = entry.get(TARGET)
    if not isinstance(target, str) or not target:
        raise UsageError(f'{where}: it needs a target, such as target = "model.py"')
    actions = {
        option.removeprefix("--"): action
        for action in parser._actions
        for option in action.option_strings
        if option.startswith("--")
    }
    words: list[str] = []
    for key, value in entry.items():
        if key == ALLOW:
            words += _allowed(value, where)
        elif key != TARGET:
            action = actions.get(key)
            if action is None or key in ("help", "update") or key.startswith("allow-"):
                raise UsageError(f"{where}: {key} is not a known entry{_close(key, actions)}")
            words += _words(key, value, action, where)
    arguments = parser.parse_args([*words, "--", target])
    arguments.given = frozenset()
    try:
        wanted_conditions(arguments)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    return TableEntry(name, arguments)


def _close(key: str, actions: Mapping[str, object]) -> str:
    import difflib  # only for a mistake

    close = difflib.get_close_matches(key, [*actions, TARGET, ALLOW], n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _allowed(value: object, where: str) -> Iterator[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise UsageError(f'{where}: {ALLOW} must be a list of names, such as ["gaps"]')
    for name in value:
        yield f"--allow-{name}"


def _words(key: str, value: object, action: argparse.Action, where: str) -> list[str]:
    """Return the words of the command line for one entry of the file."""
    option = f"--{key}"
    if isinstance(value, bool):
        if isinstance(action, argparse.BooleanOptionalAction):
            return [option if value else f"--no-{key}"]
        if action.nargs != 0:
            raise UsageError(f"{where}: {key} needs a value, not {shown_value(value)}")
        return [option] if value else []
    if action.nargs == 0:
        raise UsageError(f"{where}: {key} must be true or false, not {shown_value(value)}")
    if not isinstance(value, list):
        return [option, *_texts(key, [value], where)]
    words: list[str] = []
    for item in value:
        items = item if isinstance(item, list) else [item]
        words += [option, *_texts(key, items, where)]
    return words


def _texts(key: str, values: list[object], where: str) -> list[str]:
    texts = []
    for value in values:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise UsageError(f"{where}: {key} cannot be {shown_value(value)}")
        texts.append(str(value))
    return texts


def entry_options() -> dict[str, argparse.Action]:
    """Return the keys that an entry may have, with the options that they stand for."""
    options = {}
    for action in entry_parser()._actions:
        names = [name.removeprefix("--") for name in action.option_strings if name[:2] == "--"]
        name = names[0] if names else ""
        if name and name not in ("help", "update") and not name.startswith("allow-"):
            options[name] = action
    return options
