"""This module starts the app for a command line. Without a terminal, the overview is printed as
text.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fx_explorer.command_line.capture_options import request_from
from fx_explorer.command_line.given_files import resolve_files
from fx_explorer.command_line.given_logs import is_of_ranks, is_on_terminal
from fx_explorer.command_line.given_session import is_session, refuse_capture_options, refuse_gpu
from fx_explorer.command_line.outputs import session_output
from fx_explorer.command_line.profile_files import session_with_profile
from fx_explorer.errors import UsageError
from fx_explorer.highlight import printable, printable_text
from fx_explorer.model import CaptureRequest, Pause
from fx_explorer.session import SessionReader
from fx_explorer.tui.terminal.beginning import add_to_splash, splash, text_to_show

if TYPE_CHECKING:
    from fx_explorer.command_line.logs import LogReadingProcess
    from fx_explorer.instruments.ranks.screen import RanksApp, RanksState
    from fx_explorer.tui.app import ExplorerApp
    from fx_explorer.tui.config import Config


def explore(arguments: argparse.Namespace) -> int:
    """Show the app on a terminal, and otherwise print the overview. Raises UsageError for options
    that do not fit the target.
    """
    log: Path | None = getattr(arguments, "reads_log", None)
    if log is None and is_of_ranks(arguments.target):
        return explore_ranks(arguments)
    if arguments.profile:
        return _explore_with_profile(arguments)
    if log is None and is_session(arguments.target):
        session = Path(arguments.target)
    else:
        session = None
    given = session or log
    if arguments.save and not getattr(arguments, "is_saved", False):
        raise UsageError("--save works on TORCH_TRACE logs. To save a capture: -o FILE")
    if given and arguments.output:
        raise UsageError("-o works on targets: a session is already saved")
    if given and (arguments.run or arguments.step):
        raise UsageError("--run and --step work on targets: a saved session is not compiled again")
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
            "--step needs a terminal: the compiler would wait for keys that cannot be pressed. "
            "Leave it out"
        )
    from fx_explorer.command_line.captured_first import capture_first

    return asyncio.run(capture_first(arguments, _print_overview, session_output(arguments)))


def _explore_with_profile(arguments: argparse.Namespace) -> int:
    """Show a session with the times of a profile; without a terminal, print the overview with them.
    Raises UsageError if it is not a session, or grows meanwhile.
    """
    if arguments.follow:
        raise UsageError(
            "--profile needs a complete log, and --follow reads one that still grows. Leave "
            "--follow out"
        )
    with contextlib.ExitStack() as until:
        session = session_with_profile(arguments.target, arguments.profile, until)
        return explore(
            argparse.Namespace(**{**vars(arguments), "target": str(session), "profile": None})
        )


def explore_ranks(arguments: argparse.Namespace) -> int:
    """Show the ranks of a directory, and the session of each that is chosen; without a terminal,
    the answer as text.

    Raises SessionError where no log can be read.
    """
    from fx_explorer.command_line.given_logs import ReadingProgress
    from fx_explorer.instruments.ranks.compared import compare
    from fx_explorer.instruments.ranks.report import ranks_text
    from fx_explorer.output.formats import text_lines

    if arguments.output or arguments.run or arguments.step:
        raise UsageError(
            "-o, --run and --step work on targets: the logs of ranks are not compiled again"
        )
    refuse_gpu(arguments)
    refuse_capture_options(arguments)
    with ReadingProgress(sys.stderr) as progress:
        ranks = compare([Path(arguments.target)], progress=progress.show_progress)
    if not is_on_terminal():
        print("\n".join(text_lines(ranks_text(ranks), None)))
        return 0
    from fx_explorer.instruments.ranks.screen import RanksState

    state = RanksState(ranks)
    while True:
        app = themed_app(
            arguments.target,
            arguments.theme,
            lambda config: _ranks_app(state, arguments.target, config),
        )
        chosen = app.run()
        if chosen is None:
            return app.return_code or 0
        path = next(summary.path for summary in ranks.summaries if summary.rank == chosen)
        with contextlib.ExitStack() as until:
            of_rank = argparse.Namespace(**{**vars(arguments), "target": path})
            resolve_files("explore", of_rank, until)
            explore(of_rank)


def _ranks_app(state: RanksState, where: str, config: Config) -> RanksApp:
    from fx_explorer.instruments.ranks.screen import RanksApp

    return RanksApp(state, where, describe_compared, config)


def describe_compared(left: Path, right: Path, names: tuple[str, str]) -> str:
    """Return the text of ``fx-explorer diff`` for two sessions or logs."""
    from fx_explorer.instruments.diff.report import text_of_both
    from fx_explorer.instruments.ranks.reading import opened

    with opened(left) as left_reader, opened(right) as right_reader:
        return "\n".join(text_of_both(left_reader, right_reader, names))


def _show(arguments: argparse.Namespace, session: Path | None) -> int:
    if arguments.target == "-":
        arguments.standard_input = keyboard_in_place_of_input()
    log: Path | None = getattr(arguments, "reads_log", None)
    with contextlib.ExitStack() as until:
        begin: Callable[[], list[str]] | None = None
        if log:
            begin = partial(_begin_reading, arguments, log, until)
        elif session is None:
            begin = partial(_begin_importing, arguments)
        return run_app(
            arguments.target,
            arguments.theme,
            lambda config: app_for(arguments, session, config),
            begin,
            partial(_open_next, arguments),
        )


def _open_next(arguments: argparse.Namespace, capture: str) -> int:
    """Show a capture of the history that was chosen in the app."""
    nothing_given: dict[str, object] = {
        "given": frozenset(),
        "gpu": None,
        "output": None,
        "packages": {},
        "profile": None,
        "reads_log": None,
        "run": False,
        "save": None,
        "step": False,
        "follow": False,
    }
    opened = argparse.Namespace(**{**vars(arguments), **nothing_given, "target": capture})
    with contextlib.ExitStack() as until:
        resolve_files("explore", opened, until)
        return explore(opened)


def _begin_reading(
    arguments: argparse.Namespace, log: Path, until: contextlib.ExitStack
) -> list[str]:
    """Start reading the log while Textual is imported, and return a description of its beginning.
    ``until`` ends it.
    """
    from fx_explorer.command_line.logs import LogReadingProcess, describe_log_start

    arguments.reading = LogReadingProcess(
        log,
        getattr(arguments, "standard_input", -1),
        follows=arguments.follow,
        origin=getattr(arguments, "origin", None),
    )
    until.callback(arguments.reading.discard)
    arguments.reading.begin()
    return describe_log_start(log)


def _begin_importing(arguments: argparse.Namespace) -> list[str]:
    """Have torch imported while Textual is, for a program that does not import it itself, and
    return the lines of the program.
    """
    files = watched_files(arguments.target)
    text = text_to_show(files[0]) if files else ""
    if not text:
        return []
    from fx_explorer.client.forked_workers import fork_server
    from fx_explorer.session.untrusted.given_program import offers_target, split_target

    _, name = split_target(arguments.target)
    is_called = name or arguments.call or arguments.inputs or offers_target(files[0])
    if is_called and not arguments.gpu:
        fork_server().prepare(arguments.python)
    return text.expandtabs(4).splitlines()


def _print_overview(reader: SessionReader) -> None:
    from fx_explorer.report.overview_text import overview_text

    sys.stdout.write(overview_text(reader))


# The app for what was given: a saved session, a log, or a target with what captures it.


def app_for(arguments: argparse.Namespace, session: Path | None, config: Config) -> ExplorerApp:
    """Make the app for a saved session, or for a target with the functions that capture it."""
    from fx_explorer.trials import forking_worker
    from fx_explorer.tui.app import ExplorerApp

    trial_worker = forking_worker(arguments.python, arguments.timeout)
    if session:
        # What cannot be read is explained here, not in an app that closes at once.
        SessionReader(session).close()
        return ExplorerApp(
            session=session,
            config=config,
            trial_worker=trial_worker,
            trusts_sessions=arguments.trust,
        )
    log = getattr(arguments, "reads_log", None)
    if log:
        read_log = partial(_read_log, arguments, log, [arguments.reading])
        return ExplorerApp(
            read_log=read_log, target=str(log), config=config, trial_worker=trial_worker
        )
    from fx_explorer.client import Capture
    from fx_explorer.client.history import history_to_keep

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
    history = history_to_keep()

    def capture_for(request: CaptureRequest) -> Capture:
        return Capture(
            request,
            arguments.python,
            arguments.timeout,
            output=output,
            force=arguments.force,
            fork_server=trial_worker.fork_server,
            history=history,
        )

    def make_capture() -> Capture:
        return capture_for(request)

    def make_without_weights() -> Capture:
        return capture_for(replace(request, no_weights=True))

    def make_built(raised: str) -> Capture:
        # Without a pause: what is wanted is whether the compiled program raises.
        return capture_for(replace(request, build=True, raised_inspecting=raised, pause=""))

    def make_traced() -> Capture:
        return capture_for(replace(request, record_trace=True, pause=""))

    def make_with_patterns() -> Capture:
        return capture_for(replace(request, record_patterns=True, pause=""))

    can_be_built = not request.build and not request.gpu
    offered_built = make_built if can_be_built else None
    can_be_without_weights = request.gpu and not request.no_weights
    offered_without_weights = make_without_weights if can_be_without_weights else None
    return ExplorerApp(
        make_capture=make_capture,
        make_built=offered_built,
        make_without_weights=offered_without_weights,
        make_traced=None if request.record_trace else make_traced,
        make_with_patterns=None if request.record_patterns else make_with_patterns,
        target=arguments.target,
        watched=watched_files(arguments.target),
        config=config,
        trial_worker=trial_worker,
        trusts_sessions=arguments.trust,
        asks_to_load=asks_to_load,
    )


def _read_log(
    arguments: argparse.Namespace, log: Path, begun: list[LogReadingProcess]
) -> LogReadingProcess:
    """Return a reading of a log: first the one that has ``begun`` already, then new ones."""
    from fx_explorer.command_line.logs import LogReadingProcess

    if begun:
        return begun.pop()
    standard_input = getattr(arguments, "standard_input", -1)
    origin = getattr(arguments, "origin", None)
    return LogReadingProcess(log, standard_input, follows=arguments.follow, origin=origin)


def pause_wanted(arguments: argparse.Namespace) -> Pause:
    """Return where the app pauses automatically. Graph breaks are known once Dynamo has finished,
    before the cost of Inductor, so it pauses there.
    """
    if arguments.step:
        return "step"
    if arguments.run:
        return ""
    return "dynamo"


def watched_files(target: str) -> list[Path]:
    """Return the file that a target names; empty for ``package.module:object``."""
    for name in (target, target.rpartition(":")[0]):
        if name and Path(name).is_file():
            return [Path(name)]
    return []


# Running an app on the terminal, in colours that go with it.

if TYPE_CHECKING:
    from fx_explorer.instruments.ranks.screen import RanksApp
    from fx_explorer.tui.app import ExplorerApp
    from fx_explorer.tui.config import Config

    AppT = TypeVar("AppT", ExplorerApp, RanksApp)


def add_theme_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--theme",
        choices=("auto", "dark", "light"),
        default="",
        help="colours (default: theme in the config file, else those that go with the "
        "terminal's background)",
    )


def run_app(
    title: str,
    theme: str,
    make_app: Callable[[Config], ExplorerApp],
    begin: Callable[[], list[str]] | None = None,
    open_next: Callable[[str], int] | None = None,
) -> int:
    """Run an app on the terminal, and return the exit code. ``title`` is shown until it is ready,
    with the text from ``begin`` below it; ``theme`` is the command line's. ``open_next`` opens the
    capture of the history that the user chose.
    """
    app = themed_app(title, theme, make_app, begin)
    app.run()
    for sentence in app.controllers.leaving.last_words:
        from fx_explorer.output.terminal import print_fitted

        print_fitted(f"fx-explorer: {printable(sentence)}", sys.stderr)
    from fx_explorer.tui.failures import faults_of

    for fault in faults_of(app):
        print(
            f"fx-explorer: an internal error that fx-explorer survived:\n{printable_text(fault)}",
            file=sys.stderr,
        )
    if open_next and app.controllers.leaving.opens_next:
        return open_next(app.controllers.leaving.opens_next)
    return app.return_code or 0


def themed_app(
    title: str,
    theme: str,
    make_app: Callable[[Config], AppT],
    begin: Callable[[], list[str]] | None = None,
) -> AppT:
    """Make an app in the colours that go with the terminal.

    Its modules are imported here: textual costs 180 ms that nothing else needs.
    """
    from fx_explorer.tui.config import config_path, load_config
    from fx_explorer.tui.terminal.beginning import asked

    gc.disable()  # until the first paint: collecting while importing costs a tenth of the start
    with splash(f"fx-explorer  {title}  ▷ starting"):
        if begin:
            add_to_splash(begin())
        config = load_config(config_path())
        wish = theme or config.theme
        is_asked = wish in ("", "auto")
        asks = asked(sys.__stdin__, sys.stdout) if is_asked else contextlib.nullcontext()
        with asks as question:
            from fx_explorer.tui.app import ExplorerApp  # noqa: F401 - while the terminal answers

            answers = question.wait() if question else None
        if is_asked:
            wish = ""
            if answers and answers.background_is_light is not None:
                wish = "light" if answers.background_is_light else "dark"
        app = make_app(replace(config, theme=wish))
        app.terminal_answers = answers
        app.typed_before = question.typed if question else ""
    return app


def keyboard_in_place_of_input() -> int:
    """Read keys from the terminal if the standard input is a log, and return the descriptor of the
    log.
    """
    log = os.dup(0)
    keyboard = os.open("/dev/tty", os.O_RDWR)
    os.dup2(keyboard, 0)
    os.close(keyboard)
    return log
