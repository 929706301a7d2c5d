"""The app for what was given: a saved session, a log, or a target with what captures it."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.command_line.capture_options import request_from
from fx_explorer.command_line.outputs import session_output
from fx_explorer.model import Pause
from fx_explorer.session import SessionReader

if TYPE_CHECKING:
    from fx_explorer.tui.app import ExplorerApp
    from fx_explorer.tui.config import Config


def app_for(arguments: argparse.Namespace, session: Path | None, config: Config) -> ExplorerApp:
    """Make the app for a saved session, or for a target with what captures it."""
    from fx_explorer.trials.recapture import TrialWorker
    from fx_explorer.tui.app import ExplorerApp

    trial_worker = TrialWorker(arguments.python, arguments.timeout)
    if session:
        SessionReader(
            session
        ).close()  # what cannot be read is explained here, not in an app that closes at once
        return ExplorerApp(
            session=session,
            config=config,
            trial_worker=trial_worker,
            trusts_sessions=arguments.trust,
        )
    if log := getattr(arguments, "reads_log", None):
        from fx_explorer.client.log_reading import LogReadingProcess

        begun, standard_input = [arguments.reading], getattr(arguments, "standard_input", -1)

        def read_log() -> LogReadingProcess:
            return (
                begun.pop()
                if begun
                else LogReadingProcess(log, standard_input, follows=arguments.follow)
            )

        return ExplorerApp(
            read_log=read_log, target=str(log), config=config, trial_worker=trial_worker
        )
    from fx_explorer.client import Capture

    asks_to_load = getattr(arguments, "asks_to_load", None)
    # The app captures nothing before the user has agreed.
    trusts_target = arguments.trust or asks_to_load is not None
    request = replace(
        request_from(arguments),
        pause=pause_wanted(arguments),
        stay=True,
        trusts_target=trusts_target,
    )
    output = session_output(arguments)

    def make_capture() -> Capture:
        return Capture(
            request, arguments.python, arguments.timeout, output=output, force=arguments.force
        )

    def make_without_weights() -> Capture:
        without = replace(request, no_weights=True)
        return Capture(
            without, arguments.python, arguments.timeout, output=output, force=arguments.force
        )

    def make_built(raised: str) -> Capture:
        # Without a pause: what is wanted is whether the compiled program raises.
        built = replace(request, build=True, raised_inspecting=raised, pause="")
        return Capture(
            built, arguments.python, arguments.timeout, output=output, force=arguments.force
        )

    return ExplorerApp(
        make_capture=make_capture,
        make_built=None if request.build or request.gpu else make_built,
        make_without_weights=make_without_weights
        if request.gpu and not request.no_weights
        else None,
        target=arguments.target,
        watched=watched_files(arguments.target),
        config=config,
        trial_worker=trial_worker,
        trusts_sessions=arguments.trust,
        asks_to_load=asks_to_load,
    )


def pause_wanted(arguments: argparse.Namespace) -> Pause:
    """Return where the app pauses by itself. Graph breaks are seen once Dynamo is through, before
    Inductor is paid for, so it stops there.
    """
    if arguments.step:
        return "step"
    return "" if arguments.run else "dynamo"


def watched_files(target: str) -> list[Path]:
    """Return the file that a target names; empty for ``package.module:object``."""
    for name in (target, target.rpartition(":")[0]):
        if name and Path(name).is_file():
            return [Path(name)]
    return []
