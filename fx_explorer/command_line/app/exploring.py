"""Showing what was given: the app on a terminal, and the overview as text elsewhere."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.command_line.app.made_app import app_for
from fx_explorer.command_line.app.starting import keyboard_in_place_of_input, made_app, run_app
from fx_explorer.command_line.given_files import resolve_files
from fx_explorer.command_line.given_session import is_session, refuse_gpu
from fx_explorer.command_line.logs.followed_log import is_on_terminal
from fx_explorer.command_line.outputs import session_output
from fx_explorer.command_line.profiles.given_profile import session_with_profile
from fx_explorer.command_line.ranks.given_directory import is_of_ranks
from fx_explorer.command_line.unused_options import refuse_capture_options
from fx_explorer.errors import UsageError
from fx_explorer.session import SessionReader

if TYPE_CHECKING:
    from fx_explorer.tui.config import Config
    from fx_explorer.tui.ranks.app import RanksApp
    from fx_explorer.tui.ranks.state import RanksState


def explore(arguments: argparse.Namespace) -> int:
    """Show the app on a terminal, and the overview as text elsewhere. Raises UsageError for options
    that do not go with what was given.
    """
    log: Path | None = getattr(arguments, "reads_log", None)
    if log is None and is_of_ranks(arguments.target):
        return explore_ranks(arguments)
    if arguments.profile:
        return _explore_with_profile(arguments)
    session = Path(arguments.target) if log is None and is_session(arguments.target) else None
    given = session or log
    if arguments.save and not getattr(arguments, "is_saved", False):
        raise UsageError("--save is for TORCH_TRACE logs. Keep a capture with: -o FILE")
    if given and arguments.output:
        raise UsageError("-o is for targets: a session that is opened is saved already")
    if given and (arguments.run or arguments.step):
        raise UsageError("--run and --step are for targets: a saved session is not compiled again")
    if given:
        refuse_gpu(arguments)
        refuse_capture_options(arguments)
    if is_on_terminal() or (log and str(log) == "-"):
        return _show(arguments, session)
    if session:
        with SessionReader(session) as reader:
            _print_overview(reader)
        return 0
    if arguments.step:
        raise UsageError(
            "--step needs a terminal: the compiler would wait for keys that nobody can press. Leave it out"
        )
    from fx_explorer.command_line.capture_first import capture_first

    return asyncio.run(capture_first(arguments, _print_overview, session_output(arguments)))


def _explore_with_profile(arguments: argparse.Namespace) -> int:
    """Show a session with the times of a profile; without a terminal, the overview with them. Raises UsageError for what
    is no session, or grows while it is looked at.
    """
    if arguments.follow:
        raise UsageError(
            "--profile is for a log that is complete, and one that is followed grows. Leave --follow out"
        )
    with contextlib.ExitStack() as until:
        session = session_with_profile(arguments.target, arguments.profile, until)
        return explore(
            argparse.Namespace(**{**vars(arguments), "target": str(session), "profile": None})
        )


def explore_ranks(arguments: argparse.Namespace) -> int:
    """Show the ranks of a directory, and the session of each that is chosen; without a terminal, the answer as text.

    Raises SessionError where no log can be read.
    """
    from fx_explorer.command_line.ranks.progress import ReadingProgress
    from fx_explorer.output.text import text_lines
    from fx_explorer.ranks.compared import compare
    from fx_explorer.report.ranks.text import ranks_text

    if arguments.output or arguments.run or arguments.step:
        raise UsageError(
            "-o, --run and --step are for targets: the logs of ranks are not compiled again"
        )
    refuse_gpu(arguments)
    refuse_capture_options(arguments)
    with ReadingProgress(sys.stderr) as progress:
        ranks = compare([Path(arguments.target)], progress=progress.tell)
    if not is_on_terminal():
        print("\n".join(text_lines(ranks_text(ranks), None)))
        return 0
    from fx_explorer.tui.ranks.state import RanksState

    state = RanksState(ranks)
    while True:
        app = made_app(
            arguments.target,
            arguments.theme,
            lambda config: _ranks_app(state, arguments.target, config),
        )
        chosen = app.run()
        if chosen is None:
            return app.return_code or 0
        path = next(one.path for one in ranks.summaries if one.rank == chosen)
        with contextlib.ExitStack() as until:
            of_rank = argparse.Namespace(**{**vars(arguments), "target": path})
            resolve_files("explore", of_rank, until)
            explore(of_rank)


def _ranks_app(state: RanksState, where: str, config: Config) -> RanksApp:
    from fx_explorer.tui.ranks.app import RanksApp

    return RanksApp(state, where, compared_in_words, config)


def compared_in_words(left: Path, right: Path, names: tuple[str, str]) -> str:
    """Return what ``fx-explorer diff`` says of two sessions or logs."""
    from fx_explorer.ranks.reading import opened
    from fx_explorer.report.two_sessions_text import text_of_both

    with opened(left) as one, opened(right) as two:
        return "\n".join(text_of_both(one, two, names))


def _show(arguments: argparse.Namespace, session: Path | None) -> int:
    if arguments.target == "-":
        arguments.standard_input = keyboard_in_place_of_input()
    log: Path | None = getattr(arguments, "reads_log", None)
    with contextlib.ExitStack() as until:
        begin = partial(_begin_reading, arguments, log, until) if log else None
        return run_app(
            arguments.target,
            arguments.theme,
            lambda config: app_for(arguments, session, config),
            begin,
        )


def _begin_reading(
    arguments: argparse.Namespace, log: Path, until: contextlib.ExitStack
) -> list[str]:
    """Let the log be read while Textual is imported, and return what its beginning says. ``until`` ends it."""
    from fx_explorer.client.log_reading import LogReadingProcess
    from fx_explorer.command_line.logs.first_words import first_words

    arguments.reading = LogReadingProcess(
        log, getattr(arguments, "standard_input", -1), follows=arguments.follow
    )
    until.callback(arguments.reading.discard)
    arguments.reading.begin()
    return first_words(log)


def _print_overview(reader: SessionReader) -> None:
    from fx_explorer.report.overview_text import overview_text

    sys.stdout.write(overview_text(reader))
