"""This module writes the script with which a shell completes commands, options and files
(``--print-completion``). shtab makes it from the parsers of all commands.

The first word may be a target instead of a command, which shtab does not know; where the shell lets
us, files are offered there, too.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path

from fx_explorer.errors import UsageError

SHELLS = ("bash", "zsh", "tcsh")

NO_LIBRARY = (
    "shell completion is written by shtab, which is not installed: pip install "
    "'fx-explorer[completion]'"
)

FILES = frozenset({"target", "other", "paths", "python"})
"""Arguments that may be a file and whose type is text, because they may be something else, too."""

PREFIX = "_shtab_fx_explorer"

FILES_TOO = {
    "bash": f"{PREFIX}_pos_0_COMPGEN=_shtab_compgen_files",
    "zsh": f"""\
functions[{PREFIX}_named_commands]=$functions[{PREFIX}_commands]
{PREFIX}_commands() {{
  _alternative 'commands:command:{PREFIX}_named_commands' 'targets:target:_files'
}}""",
}
"""Shell → lines that offer files for the first word, too."""


def completion_script(
    shell: str, commands: Mapping[str, tuple[str, argparse.ArgumentParser]], default: str
) -> str:
    """Return the script for a shell. ``commands``: name → its line of help, and its parser;
    ``default`` is the command that runs without a name. Raises UsageError for another shell, and
    without shtab.
    """
    if shell not in SHELLS:
        raise UsageError(
            f"--print-completion takes {', '.join(SHELLS[:-1])} or {SHELLS[-1]}, not {shell!r}"
        )
    try:
        import shtab
    except ImportError as error:
        raise UsageError(NO_LIBRARY) from error
    whole = argparse.ArgumentParser("fx-explorer", add_help=False)
    _add_options(whole, commands[default][1]._actions)
    whole.add_argument("--version", action="store_true", help="print the version")
    named = whole.add_subparsers()
    for name, (text, parser) in commands.items():
        command = named.add_parser(name, help=_plain(text), add_help=False)
        _add_options(command, parser._actions)
        for action in parser._actions:
            if not action.option_strings:
                command._add_action(action)
    for parser in (whole, *(named.choices[name] for name in commands)):
        for action in parser._actions:
            if action.help:
                action.help = _plain(action.help)
            if _takes_file(action):
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    lines = FILES_TOO.get(shell, "")
    return shtab.complete(whole, shell, root_prefix="fx-explorer", preamble=lines)


def _add_options(parser: argparse.ArgumentParser, actions: Iterable[argparse.Action]) -> None:
    for action in actions:
        if action.option_strings:
            parser._add_action(action)


def _takes_file(action: argparse.Action) -> bool:
    return action.type is Path or action.dest in FILES


def _plain(text: str) -> str:
    """Return a help without signs that are not plain text for every shell."""
    return text.replace("%%", "%").replace("%", "%%").replace("`", "'")
