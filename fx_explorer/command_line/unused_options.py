"""Options of capturing that are given with a saved session or with a package of AOTInductor:
nothing is captured, so each is refused, and none is silently left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from fx_explorer.command_line.capture_options import add_allow_argument, add_capture_arguments
from fx_explorer.command_line.shown_names import is_of_package, shown_name
from fx_explorer.errors import UsageError

ALSO_OF_SESSIONS = ("trust", "python", "timeout", "as_python", "gpu", "no_weights")
"""What trials and builds of a saved session use, too, and what is refused with words of its own."""


def refuse_capture_options(arguments: argparse.Namespace, also: Sequence[str] = ()) -> None:
    """Raise UsageError for the first option given that says how to capture what is captured
    already, and for any of ``also``.
    """
    parser = argparse.ArgumentParser(add_help=False)
    add_capture_arguments(parser)
    add_allow_argument(parser)
    for action in parser._actions:
        if action.dest not in getattr(arguments, "given", ()) or (
            action.dest in ALSO_OF_SESSIONS and action.dest not in also
        ):
            continue
        option = action.option_strings[-1 if getattr(arguments, action.dest) is False else 0]
        what = "is compiled already" if is_of_package(arguments) else "is captured already"
        raise UsageError(
            f"{option} is for targets: {shown_name(arguments)} {what}. Capture its "
            f"program with {option}."
        )
