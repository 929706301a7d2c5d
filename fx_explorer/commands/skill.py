"""This module is ``fx-explorer skill``: it prints or installs the instructions with which an agent
uses fx-explorer.
"""

from __future__ import annotations

import argparse
import importlib.resources
import sys
from pathlib import Path

from fx_explorer.command_line.outputs import START, add_force_argument
from fx_explorer.errors import UsageError
from fx_explorer.output_file import OutputFile

NAME = "fx-explorer"

FILE = "SKILL.md"

SIGN = b"name: fx-explorer"
"""Text near the beginning of the file: one with it may be replaced."""

EPILOG = """\
examples:
  fx-explorer skill                              print it
  fx-explorer skill --install .claude/skills     for this project
  fx-explorer skill --install ~/.agents/skills   for all of your projects

The file is fx-explorer/SKILL.md in that folder.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "--install",
        metavar="FOLDER",
        type=Path,
        help=f"write {NAME}/{FILE} into this folder of skills",
    )
    add_force_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    text = skill_text()
    if arguments.install is None:
        sys.stdout.write(text)
        return 0
    path = arguments.install.expanduser() / NAME / FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path.parent} cannot be made: {error.strerror}") from error
    output = OutputFile(path, "skill", _is_ours, arguments.force, option="--install FOLDER")
    output.check()
    output.write_text(text)
    print(f"written: {path}")
    return 0


def _is_ours(path: Path) -> bool:
    with path.open("rb") as opened:
        return SIGN in opened.read(START)


def skill_text() -> str:
    """Return the instructions."""
    return importlib.resources.files("fx_explorer.answers").joinpath(FILE).read_text("utf-8")
