"""``fx-explorer recover``: sessions that a killed capture left in a temporary directory, listed,
taken out or removed.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from fx_explorer.client.session_files import (
    Leftover,
    leftovers,
    note_reported,
    place_session,
    remove_leftover,
    session_file,
)
from fx_explorer.commands.capture import default_output
from fx_explorer.errors import UsageError
from fx_explorer.highlight import printable
from fx_explorer.output.terminal import Hanging, print_fitted
from fx_explorer.output_file import never_ours

EPILOG = """\
examples:
  fx-explorer recover                                    list them
  fx-explorer recover 1 -o model.fxs                     get the first one
  fx-explorer recover --remove                           remove them all

While a capture runs, its session is in a temporary directory. When fx-explorer itself is killed
(kill -9, a machine that runs out of memory), the session stays there. The next start moves it into
the history (fx-explorer history). If the history is switched off or cannot be written, the next
start says so, and this command saves the session.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "number",
        metavar="N",
        nargs="?",
        type=int,
        help="number in the list; without it, print the list",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=None,
        help="session file to write (default: TARGET's name + .fxs)",
    )
    parser.add_argument(
        "--remove", action="store_true", help="remove it instead; without N, remove all of them"
    )


def run(arguments: argparse.Namespace) -> int:
    listed = leftovers()
    if arguments.number is not None and not 1 <= arguments.number <= len(listed):
        raise UsageError(
            f"there is no {arguments.number} in the list of interrupted captures: it has "
            f"{len(listed)}"
        )
    if arguments.number is None:
        chosen = listed
    else:
        chosen = [listed[arguments.number - 1]]
    if arguments.remove:
        for leftover in chosen:
            remove_leftover(leftover)
            print(f"removed {printable(str(leftover.session))}")
    elif arguments.number is None:
        _list(listed)
    else:
        _recover(chosen[0], arguments.output or Path(default_output(chosen[0].target)))
    return 0


def _list(listed: list[Leftover]) -> None:
    for number, leftover in enumerate(listed, 1):
        note_reported(leftover.directory)
        print_fitted(Hanging(f"{number:>3}  ", printable(str(leftover))))
    if listed:
        print_fitted(
            "\n"
            "recover one: fx-explorer recover N [-o FILE] remove one, or all: fx-explorer recover "
            "[N] --remove"
        )
    else:
        print("no capture was interrupted")


def _recover(leftover: Leftover, output: Path) -> None:
    """Move a leftover to its place. Only a free name is used: an older complete session of the same
    target is not replaced by a partial new one.
    """
    place = replace(session_file(output), is_ours=never_ours)
    try:
        place.check()
        place_session(leftover.session, place)
    except UsageError as error:
        raise UsageError(f"{error}. It is still in {leftover.session}") from error
    remove_leftover(leftover)
    print(
        f"recovered {printable(str(output))} (look at it with: fx-explorer "
        f"{printable(str(output))})"
    )
