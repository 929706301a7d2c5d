"""This module is ``fx-explorer tour``: the app on a sample, with a guide that says where to look
and which key to press.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from fx_explorer.command_line.given_logs import is_on_terminal
from fx_explorer.command_line.starting_app import add_theme_argument, run_app
from fx_explorer.errors import UsageError
from fx_explorer.model import CaptureRequest, Pause

if TYPE_CHECKING:
    from fx_explorer.client import Capture
    from fx_explorer.tui.app import ExplorerApp
    from fx_explorer.tui.config import Config
    from fx_explorer.tui.tour_steps import GuidedTour


EPILOG = """\
examples:
  fx-explorer tour                      continue where you left, or begin
  fx-explorer tour --again              from the start
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "--again", action="store_true", help="begin from the start, with a new copy of the sample"
    )
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter that has torch (default: this one)"
    )
    add_theme_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the tour. Raises UsageError without a terminal, and where the sample cannot be
    written.
    """
    if not is_on_terminal():
        raise UsageError(
            "the tour needs a terminal: it is the app itself, with a guide. docs/start/faq.md "
            "works without one"
        )
    from fx_explorer.tui.tour_steps import begin_walk, tour_folder

    walk = begin_walk(tour_folder(), again=arguments.again)
    return run_app("tour", arguments.theme, lambda config: tour_app(walk, arguments.python, config))


def tour_app(walk: GuidedTour, python: str, config: Config) -> ExplorerApp:
    """Make the app that shows the guided tour, which works on a copy of a sample model. Later
    captures pause after Dynamo, as captures of the app do.
    """
    from fx_explorer.client import Capture
    from fx_explorer.trials import forking_worker
    from fx_explorer.tui.app import ExplorerApp
    from fx_explorer.tui.tour_steps import STEPS

    trial_worker = forking_worker(python, None)
    pauses: list[Pause] = [STEPS[walk.begins_at].pause]

    def make_capture() -> Capture:
        pause = pauses.pop() if pauses else "dynamo"
        app.controllers.tour.captures += 1
        return Capture(
            CaptureRequest(target=str(walk.target), session="", pause=pause, stay=True),
            python,
            None,
            fork_server=trial_worker.fork_server,
        )

    app = ExplorerApp(
        make_capture=make_capture,
        target=str(walk.target),
        watched=[walk.target],
        config=config,
        trial_worker=trial_worker,
        tour=walk,
    )
    return app
