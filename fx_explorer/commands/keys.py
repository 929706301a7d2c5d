"""``fx-explorer keys``: every key of the app, as the user's config file has them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence

from fx_explorer.output.formats import text_table
from fx_explorer.output.table import Column, Table
from fx_explorer.output.terminal import LEAST_PROSE, heading, width_for
from fx_explorer.tui.commands import COMMANDS, GROUPS, AppCommand, Keymap, key_label, keys_of

EPILOG = """\
examples:
  fx-explorer keys                                       as your config file has them
  fx-explorer keys --default --format markdown

Keys are remapped in ~/.config/fx-explorer/config.toml ($XDG_CONFIG_HOME is honoured). The same file
sets the theme, and the action after a fix was written ("ask", "capture" again, "nothing"):

    theme = "light"
    after_fix = "capture"

    [keys]
    "pane.zoom" = "Z"
    "history.back" = ["b", "backspace"]
"""


COLUMNS = (
    Column("keys"),
    Column("id"),
    Column("what it does", narrowing="wrapped", least=LEAST_PROSE),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--format",
        choices=("text", "markdown", "json"),
        default="text",
        help="how to write the table",
    )
    parser.add_argument(
        "--default", action="store_true", help="the default keys, ignoring the config file"
    )


def run(arguments: argparse.Namespace) -> int:
    from fx_explorer.tui.config import Config, config_path, load_config

    config = Config() if arguments.default else load_config(config_path())
    for problem in config.problems:
        print(problem, file=sys.stderr)
    writers: dict[str, Callable[[Sequence[AppCommand], Keymap], str]]
    writers = {"text": as_text, "markdown": as_markdown, "json": as_json}
    sys.stdout.write(writers[arguments.format](COMMANDS, config.keys))
    return 0


def as_text(commands: Sequence[AppCommand], keymap: Keymap) -> str:
    """Return the table by groups: keys, ids, and sentences, which are wrapped on a terminal."""
    in_groups: list[AppCommand] = []
    for group in GROUPS:
        in_groups += [command for command in commands if command.group == group]
    rows = [_row(command, keymap) for command in in_groups]
    table = Table(COLUMNS, rows, indent=2, has_titles=False)
    laid_out = text_table(table, width_for(sys.stdout)).rows
    lines = []
    for group in GROUPS:
        lines += ["", heading(group, sys.stdout)]
        for command, row in zip(in_groups, laid_out, strict=True):
            if command.group == group:
                lines += row
    return "\n".join(lines[1:]) + "\n"


def _row(command: AppCommand, keymap: Keymap) -> tuple[str, str, str]:
    return _keys(command, keymap), command.id, command.help


def as_markdown(commands: Iterable[AppCommand], keymap: Keymap) -> str:
    commands = list(commands)
    lines = []
    for group in GROUPS:
        lines += [f"## {group}", "", "| keys | what it does | id |", "| --- | --- | --- |"]
        lines += [
            _markdown_row(command, keymap) for command in commands if command.group == group
        ] + [""]
    return "\n".join(lines[:-1]) + "\n"


def _markdown_row(command: AppCommand, keymap: Keymap) -> str:
    keys = " ".join(f"`{key_label(key)}`" for key in keys_of(command, keymap))
    text = command.help.replace("|", "\\|")
    return f"| {keys} | {text} | `{command.id}` |"


def as_json(commands: Iterable[AppCommand], keymap: Keymap) -> str:
    entries = [_entry(command, keymap) for command in commands]
    return json.dumps(entries, indent=2, ensure_ascii=False) + "\n"


def _entry(command: AppCommand, keymap: Keymap) -> dict[str, object]:
    return {
        "id": command.id,
        "keys": list(keys_of(command, keymap)),
        "title": command.title,
        "help": command.help,
        "group": command.group,
    }


def _keys(command: AppCommand, keymap: Keymap) -> str:
    return " ".join(key_label(key) for key in keys_of(command, keymap))
