"""This module writes the manual page (``--print-man-page``) in the language of ``man(7)``, from the
parsers of all commands: what it says is what ``--help`` says.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping

from fx_explorer import __version__

Commands = Mapping[str, tuple[str, argparse.ArgumentParser]]
"""Name of a command → its line of help, and its parser."""

_OF_ARGPARSE = re.compile(r"%\((\w+)\)s")

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")

_VERBATIM = re.compile(r"^( |examples:|exit codes:)")


def man_page(
    summary: str, about: str, groups: Mapping[str, tuple[str, ...]], commands: Commands
) -> str:
    """Return the page. ``summary`` is one line, ``about`` what stands below the commands in the
    general help, ``groups`` purpose → names of commands.
    """
    lines = [
        f'.TH FX-EXPLORER 1 "" "fx-explorer {_escaped(__version__)}" "User Commands"',
        ".SH NAME",
        f"fx-explorer \\- {_escaped(summary)}",
        ".SH SYNOPSIS",
        ".B fx-explorer",
        "TARGET [OPTIONS]",
        ".br",
        ".B fx-explorer",
        "COMMAND [OPTIONS]",
        ".SH DESCRIPTION",
        *_paragraphs(about),
        ".SH COMMANDS",
    ]
    for title, names in groups.items():
        lines.append(f".SS {_escaped(title.capitalize())}")
        for name in names:
            lines += [".TP", f".B {_escaped(name)}", _escaped(commands[name][0])]
    for name, (text, parser) in commands.items():
        lines += _command(name, text, parser)
    lines += [
        ".SH FILES",
        ".TP",
        ".I ~/.config/fx-explorer/config.toml",
        "Theme, keys, and what to do after a fix; see",
        ".B fx-explorer keys --help",
    ]
    return "\n".join(lines) + "\n"


def _command(name: str, text: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f".SH {_escaped(name.upper())}"
    yield f"{_escaped(text[0].upper() + text[1:])}."
    for group in parser._action_groups:
        actions = [action for action in group._group_actions if action.help != argparse.SUPPRESS]
        if not actions:
            continue
        yield f".SS {_escaped((group.title or '').capitalize())}"
        if group.description:
            yield _escaped(group.description)
        for action in actions:
            yield ".TP"
            yield _names(action)
            yield _escaped(_help(action, parser.prog))
    yield from _paragraphs(parser.epilog or "")


def _names(action: argparse.Action) -> str:
    """Return the line with an option's names, in bold, and its value, in italics."""
    if not action.option_strings:
        return f".I {_escaped(str(action.metavar or action.dest))}"
    names = ", ".join(f"\\fB{_escaped(name)}\\fR" for name in action.option_strings)
    if action.nargs == 0:
        return names
    if action.metavar:
        value = str(action.metavar)
    elif action.choices:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    else:
        value = action.dest.upper()
    return f"{names} \\fI{_escaped(value)}\\fR"


def _help(action: argparse.Action, prog: str) -> str:
    """Return the help of an action with its values filled in, as argparse does it."""
    values = {**vars(action), "prog": prog}
    filled = _OF_ARGPARSE.sub(lambda match: str(values.get(match[1], "")), action.help or "")
    return filled.replace("%%", "%")


def _paragraphs(text: str) -> Iterator[str]:
    """Yield a text with its paragraphs; examples and tables keep their lines."""
    for paragraph in text.strip("\n").split("\n\n"):
        if not paragraph:
            continue
        lines = paragraph.splitlines()
        yield ".PP"
        if not any(map(_VERBATIM.match, lines)):
            yield from map(_escaped, lines)
            continue
        yield ".nf"
        yield from map(_escaped, lines)
        yield ".fi"


def _escaped(text: str) -> str:
    """Return a text for roff: no command begins in it, and dashes and quotes stay what they are."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    text = _NOT_ASCII.sub(lambda match: f"\\[u{ord(match[0]):04X}]", text)
    return f"\\&{text}" if text.startswith((".", "\\(aq")) else text
