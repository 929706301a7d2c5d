"""``fx-explorer history``: the captures of a project that were kept by themselves, listed, opened,
compared and forgotten.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from fx_explorer.analysis.words import counted, size
from fx_explorer.argument_types import count
from fx_explorer.client.history import History, KeptCapture, history_to_keep, project_of_folder
from fx_explorer.client.history_settings import read_history_settings
from fx_explorer.client.interrupted import news_of_leftovers
from fx_explorer.errors import UsageError
from fx_explorer.folders import config_path
from fx_explorer.highlight import printable
from fx_explorer.output.formats import text_lines
from fx_explorer.output.table import Column, Table
from fx_explorer.output.terminal import print_fitted, width_for
from fx_explorer.overview.history_rows import MOST_CHARACTERS, HistoryRow, history_row, row_object

EPILOG = """\
examples:
  fx-explorer history                                    the captures of this project, newest first
  fx-explorer history:17                                 open one; history:-1 is the newest
  fx-explorer history diff 16 17                         compare two
  fx-explorer history forget 16                          remove some, or all of the project (--all)
  fx-explorer history --json --limit 5                   for programs
  fx-explorer report history:17 --format text            any command takes history:N as its session

Every capture of a target is kept: from the app, capture, run, report, check, diagnose and diff,
including captures that were stopped and programs that crashed. Trials are not. A project is a git
repository, or the target's folder outside of one. Nothing leaves the machine: only you can read
the sessions, in ~/.local/state/fx-explorer/history ($XDG_STATE_HOME). The oldest are removed
when a project has more than 20, or when all take more than 2 GB. The configuration file
changes these limits, or switches the history off:

    [history]
    keep = false
    sessions = 20
    megabytes = 2000
"""

SCHEMA = "fx-explorer/history/1"

MOST_PROJECTS = 10
"""Maximum number of other projects that are named."""

ACTIONS = ("list", "forget")

COLUMNS = (
    Column("N", is_number=True),
    Column("ended"),
    Column("target", narrowing="cut", least=12),
    Column("what came out", narrowing="wrapped", least=24),
    Column("size", is_number=True, priority=1),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.usage = "%(prog)s [show N | diff A B | forget N… | forget --all] [OPTIONS]"
    parser.add_argument(
        "action",
        metavar="ACTION",
        nargs="?",
        default="list",
        help="list (default) or forget; show N opens one, diff A B compares two",
    )
    parser.add_argument(
        "numbers",
        metavar="N",
        nargs="*",
        type=int,
        help="with forget: numbers of captures, as listed; -1 is the newest",
    )
    parser.add_argument(
        "--project",
        metavar="DIR",
        type=Path,
        help="the project to list or forget (default: that of the working directory)",
    )
    parser.add_argument(
        "--limit",
        metavar="N",
        type=count,
        default=20,
        help="the maximum number of captures that are listed (default: 20)",
    )
    parser.add_argument(
        "--all", action="store_true", help=("with forget: all captures of the project")
    )
    parser.add_argument("--json", action="store_true", help="print the list as JSON")


def run(arguments: argparse.Namespace) -> int:
    for line in news_of_leftovers(history_to_keep()):
        print_fitted(f"fx-explorer: {printable(line)}", sys.stderr)
    history = History(read_history_settings())
    for problem in history.settings.problems:
        print_fitted(f"fx-explorer: {printable(problem)}", sys.stderr)
    project = _project(history, arguments.project)
    if arguments.action not in ACTIONS:
        raise UsageError(
            f"history has no action {arguments.action!r}. To open one capture: fx-explorer "
            "history:17"
        )
    if arguments.action == "forget":
        return _forget(history, project, arguments)
    if arguments.all or arguments.numbers:
        raise UsageError(
            "--all and numbers work only with forget. To open one: fx-explorer history:17"
        )
    captures = history.captures()
    if arguments.json:
        _print_json(captures, project, arguments.limit)
    else:
        _print(captures, project, arguments.limit, history)
    return 0


def _project(history: History, directory: Path | None) -> str:
    """Return the project of a directory. One that is gone may still have captures."""
    folder = Path.cwd()
    if directory is not None:
        folder = folder / directory.expanduser()
        if any(capture.project == str(folder) for capture in history.captures()):
            return str(folder)
    return project_of_folder(folder.resolve())


def _forget(history: History, project: str, arguments: argparse.Namespace) -> int:
    """Remove captures, each with a line that says so. Raises UsageError for one that is not there
    before any is removed, and for one that cannot be removed.
    """
    if arguments.all == bool(arguments.numbers):
        raise UsageError(
            "say which to forget: fx-explorer history forget N…, or --all of this project"
        )
    if arguments.all:
        chosen = [capture for capture in history.captures() if capture.project == project]
    else:
        chosen = [history.find(number) for number in dict.fromkeys(arguments.numbers)]
    if not chosen:
        print_fitted(f"no capture of {printable(project)} is kept")
    for capture in chosen:
        history.forget(capture)
        print_fitted(f"forgot {capture.name} ({printable(capture.target)})")
    return 0


def _of_project(
    captures: Sequence[KeptCapture], project: str, limit: int
) -> tuple[list[HistoryRow], int]:
    """Return the newest captures of a project, and how many older ones there are."""
    own = [capture for capture in captures if capture.project == project]
    return [history_row(capture) for capture in own[:limit]], len(own[limit:])


def _print(captures: Sequence[KeptCapture], project: str, limit: int, history: History) -> None:
    rows, left_out = _of_project(captures, project, limit)
    if not history.settings.keep:
        print_fitted(f"New captures are not kept: keep = false in {printable(str(config_path()))}")
    if not rows:
        print_fitted(f"No capture of {printable(project)} is kept.")
    else:
        shown_size = size(sum(row.capture.size_bytes for row in rows))
        print_fitted(f"captures of {printable(project)} ({len(rows)}, {shown_size}):\n")
        cells = [
            (str(row.capture.number), row.when, row.name, row.result, size(row.capture.size_bytes))
            for row in rows
        ]
        for line in text_lines([Table(COLUMNS, cells)], width_for(sys.stdout)):
            print(line)
    if left_out:
        print_fitted(f"and {counted(left_out, 'older capture')} (--limit)")
    if rows:
        newest = rows[0].capture.number
        other = rows[1].capture.number if len(rows) > 1 else newest
        print_fitted(
            f"\nopen one: fx-explorer history:{newest}   compare two: fx-explorer history diff "
            f"{other} {newest}   remove: fx-explorer history forget N…"
        )
    for line in _describe_others(captures, project):
        print_fitted(line)


def _projects(captures: Sequence[KeptCapture]) -> dict[str, list[KeptCapture]]:
    """Return the projects, that of the newest capture first, with their captures."""
    projects: dict[str, list[KeptCapture]] = {}
    for capture in captures:
        projects.setdefault(capture.project, []).append(capture)
    return projects


def _describe_others(captures: Sequence[KeptCapture], project: str) -> Iterable[str]:
    others = _projects(captures)
    others.pop(project, None)
    if not others:
        return
    yield "\nother projects with captures (--project DIR):"
    for name, kept in list(others.items())[:MOST_PROJECTS]:
        where = printable(name or "unknown")
        yield f"  {where} ({len(kept)}, {size(sum(capture.size_bytes for capture in kept))})"
    if len(others) > MOST_PROJECTS:
        yield f"  and {len(others) - MOST_PROJECTS} more"


def _print_json(captures: Sequence[KeptCapture], project: str, limit: int) -> None:
    rows, left_out = _of_project(captures, project, limit)
    others = _projects(captures)
    others.pop(project, None)
    content = {
        "schema": SCHEMA,
        "project": project,
        "captures": [row_object(row) for row in rows],
        "left_out": left_out,
        "other_projects": [
            {"project": name[:MOST_CHARACTERS], "captures": len(kept)}
            for name, kept in list(others.items())[:MOST_PROJECTS]
        ],
    }
    print(json.dumps(content, indent=2))
