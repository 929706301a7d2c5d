"""This module prints ``--help``: first what the command does and examples, then usage, options and
the fine print. Headings are bold on a terminal.
"""

from __future__ import annotations

import argparse
import re
import sys
from itertools import pairwise
from typing import TYPE_CHECKING

from fx_explorer.output.terminal import Hanging, Line, is_read_in_colour, width_for, wrapped

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

EXAMPLES = "examples:\n"

SOURCE_COLUMNS = 100
"""The columns that the fine print is written in."""

PRINTED_COLUMNS = 128
"""The columns that it is printed in at most: longer lines are hard to read."""

_HEADING = re.compile(r"^(?! )([^\n]{1,70}:)$", re.MULTILINE)
_USAGE = re.compile(r"^usage:", re.MULTILINE)


class HelpParser(argparse.ArgumentParser):
    """Takes the examples out of the epilog, where commands keep them, and puts them first."""

    def format_help(self) -> str:
        examples, rest = split_examples(self.epilog or "")
        formatter = self._get_formatter()
        formatter.add_text(self.description)
        formatter.add_text(examples)
        formatter.add_usage(self.short_usage(), [], [])
        for group in self._action_groups:
            formatter.start_section(group.title)
            formatter.add_text(group.description)
            formatter.add_arguments(group._group_actions)
            formatter.end_section()
        formatter.add_text(rest)
        return formatter.format_help()

    def format_usage(self) -> str:
        formatter = self._get_formatter()
        formatter.add_usage(self.short_usage(), [], [])
        return formatter.format_help()

    def short_usage(self) -> str:
        """Return one line: with 40 options, a complete usage would hide the important part."""
        if self.usage:
            return self.usage
        needed = (_shown(action) for action in self._actions if not action.option_strings)
        return " ".join(["%(prog)s", *needed, "[OPTIONS]"])

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        out = sys.stdout if file is None else file
        width = width_for(out)
        lines: list[str] = []
        for line in reflowed(self.format_help()).split("\n"):
            if width and width < PRINTED_COLUMNS:
                lines += wrapped(_written(line), width)
            elif line.startswith(" "):
                lines.append(line)
            else:
                lines += wrapped(line, PRINTED_COLUMNS)
        text = "\n".join(lines)
        if is_read_in_colour(out):
            text = emphasised(text)
        out.write(text)


_BESIDE = re.compile(r"^(.*\S {2,})(?=\S)(.*)$")
"""Matches a line of help with a description beside the option, after two spaces or more."""


def _written(line: str) -> Line:
    """Return a line in the form of the help: an example, a command or an option with its
    description, or a sentence.
    """
    beside = _BESIDE.match(line)
    if not beside:
        return line
    return Hanging(beside[1], beside[2])


def _shown(action: argparse.Action) -> str:
    """Return a positional argument as the usage names it, in brackets where it may be left out."""
    name = str(action.metavar or action.dest)
    return {"?": f"[{name}]", "*": f"[{name} …]"}.get(str(action.nargs), name)


def split_examples(epilog: str) -> tuple[str, str]:
    """Return the paragraph of examples, and everything else."""
    paragraphs = epilog.strip("\n").split("\n\n")
    examples = [paragraph for paragraph in paragraphs if paragraph.startswith(EXAMPLES)]
    others = [paragraph for paragraph in paragraphs if paragraph not in examples]
    return "\n\n".join(examples), "\n\n".join(others)


def reflowed(text: str) -> str:
    """Return the text with the lines of a paragraph joined where they were only broken for want of
    columns.
    """
    lines = text.split("\n")
    joined = lines[0]
    for before, line in pairwise(lines):
        goes_on = line[:1] not in ("", " ") and _is_full(before, line)
        joined += f" {line}" if goes_on else f"\n{line}"
    return joined


def _is_full(line: str, following: str) -> bool:
    """Return whether the first word of the following line did not fit in this one."""
    return len(line) + 1 + len(following.split(" ", 1)[0]) > SOURCE_COLUMNS


def emphasised(text: str) -> str:
    """Return the help with its headings in bold."""
    bold = "\x1b[1m{}\x1b[0m"
    text = _HEADING.sub(lambda match: bold.format(match[1]), text)
    return _USAGE.sub(bold.format("usage:"), text)
