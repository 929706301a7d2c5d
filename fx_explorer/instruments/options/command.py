"""This module is ``fx-explorer options X``: it shows what the options of torch.compile do, their
values in force in X, and what other values change.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import json
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.argument_types import option
from fx_explorer.command_line.capture_options import add_allow_argument, add_capture_arguments
from fx_explorer.command_line.given_session import answer_from, check_program
from fx_explorer.errors import UsageError
from fx_explorer.folders import temporary_folder
from fx_explorer.highlight import printable
from fx_explorer.model import CaptureRequest, Outcome
from fx_explorer.output.formats import json_text
from fx_explorer.output.terminal import print_fitted, width_for
from fx_explorer.session import SessionReader

if TYPE_CHECKING:
    from fx_explorer.instruments.options.explained_options import ExplainedOption
    from fx_explorer.instruments.options.trial import Baseline

EPILOG = """\
Without X: what the options do. With X, also their values in force, and who set them: the default,
the program (where), an option of fx-explorer, or the environment. --try captures X again in a
separate worker and shows the differences: figures, and how many kernels have other code.

examples:
  fx-explorer options                                          what there is
  fx-explorer options --name compile.mode                      all that is known about one
  fx-explorer options model.py                                 what is in force
  fx-explorer options model.py --name compile.mode             all about one
  fx-explorer options model.py --try compile.dynamic=True --try compiler.stance=fail_on_recompile
"""


NO_LIST = (
    "this session has no list of options: the program ended before it compiled (or an old version "
    "of fx-explorer captured it)"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "target",
        metavar="X",
        nargs="?",
        default="",
        help="a session (file.fxs), or a target, which is captured first",
    )
    what = parser.add_argument_group("what to show")
    what.add_argument(
        "--format", choices=["text", "json"], default="text", help="text (default), or json"
    )
    what.add_argument(
        "--name", default="", help="everything about one option, e.g. compile.dynamic"
    )
    what.add_argument(
        "--try",
        dest="trying",
        metavar="NAME=V",
        action="append",
        default=[],
        type=option,
        help="capture again with this value, and show the differences; several are tried together",
    )
    add_allow_argument(parser)
    add_capture_arguments(parser)


@dataclass
class SessionOptions:
    """The options of a session and the facts that a trial needs. Stays valid after the session is
    closed.
    """

    options: list[ExplainedOption]
    request: CaptureRequest | None
    baseline: Baseline | None
    ending: Outcome | None
    """How its program ended; None while it is running."""


def run(arguments: argparse.Namespace) -> int:
    if not arguments.target:
        return _known(arguments)
    with temporary_folder() as folder:
        return _of_target(arguments, folder)


def _of_target(arguments: argparse.Namespace, folder: Path) -> int:
    """Show or try options of a target. The sessions of a trial are kept in ``folder``."""
    sessions: list[SessionOptions] = []
    arguments.all_settings = bool(arguments.name)
    kept_in = folder if arguments.trying else None
    read = partial(_read_options, kept_in)
    ended = answer_from(arguments, lambda reader: sessions.append(read(reader))) or 0
    for options in sessions:
        if arguments.trying:
            return asyncio.run(_try(options, folder, arguments))
        if not options.options:
            print_fitted(NO_LIST, sys.stderr)
        _print_options(_chosen(options.options, arguments.name), arguments)
    return ended


def _known(arguments: argparse.Namespace) -> int:
    from fx_explorer.instruments.options.option_words import WORDS
    from fx_explorer.instruments.options.report import known_options, known_text

    if arguments.trying:
        raise UsageError("--try needs a target or a session")
    _check_name(arguments.name, list(WORDS), OF_CONSOLE)
    if arguments.format == "json":
        sys.stdout.write(json_text(known_options(arguments.name)))
    else:
        sys.stdout.write(known_text(arguments.name, width_for(sys.stdout)))
    return 0


def _read_options(folder: Path | None, reader: SessionReader) -> SessionOptions:
    """Read the options of a session. Where something is tried, the session is copied to ``folder``,
    because that of a target is gone after this.
    """
    from fx_explorer.instruments.options.explained_options import all_options
    from fx_explorer.instruments.options.trial import baseline_of
    from fx_explorer.trials import keep_session

    ending = reader.meta("outcome")
    outcome = Outcome.from_json(ending) if ending else None
    baseline = baseline_of(reader)
    if baseline and folder:
        baseline = replace(baseline, session=keep_session(reader, folder / "before.fxs"))
    return SessionOptions(all_options(reader), reader.request(), baseline, outcome)


def _chosen(options: list[ExplainedOption], name: str) -> list[ExplainedOption]:
    """Return the options of this name, with or without its group; without a name, all that have an
    explanation. Raises UsageError when there is none.
    """
    from fx_explorer.instruments.options.explained_options import OTHERS, is_called

    if not name:
        return [option for option in options if option.group != OTHERS or option.in_force]
    lists_all = any(option.group == OTHERS for option in options)
    remark = "" if lists_all else OF_CONSOLE
    if options:
        _check_name(name, [option.name for option in options], remark)
    return [option for option in options if is_called(option.name, name)]


OF_CONSOLE = (
    "; only options that fx-explorer explains are listed here; with a target, every option of its "
    "torch is listed"
)


def _check_name(name: str, known: list[str], remark: str) -> None:
    """Raise UsageError, which ends with ``remark``, for an unknown option."""
    from fx_explorer.instruments.options.explained_options import is_called

    if any(is_called(option, name) for option in known):
        return
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    message = f"there is no option {name}"
    if near:
        message += f"; did you mean {' or '.join(near)}?"
    raise UsageError(message + remark)


def _print_options(options: list[ExplainedOption], arguments: argparse.Namespace) -> None:
    from fx_explorer.instruments.options.report import compile_option, option_text, options_text

    if arguments.format == "json":
        listed = []
        for option in options:
            at_start = json.loads(option.setting.value)
            listed.append({**compile_option(option), "at_start": at_start})
        sys.stdout.write(json_text(listed))
    elif arguments.name:
        width = width_for(sys.stdout)
        sys.stdout.write("\n".join(option_text(option, width) for option in options))
    else:
        sys.stdout.write(options_text(options, width_for(sys.stdout)))


async def _try(options: SessionOptions, folder: Path, arguments: argparse.Namespace) -> int:
    """Try the values. Returns 1 when the changed program did not run to its end."""
    from fx_explorer.instruments.diff.kernel_pairs import count_pairs
    from fx_explorer.instruments.options.report import figures_text
    from fx_explorer.instruments.options.trial import (
        describe_ended,
        describe_settings,
        figures_of,
        try_options,
    )
    from fx_explorer.trials import forking_worker

    if options.request is None:
        raise UsageError(
            "the session does not record how it was captured, so fusions cannot be tried; give "
            "its target instead"
        )
    check_program(arguments)
    settings, worker = dict(arguments.trying), forking_worker(arguments.python, arguments.timeout)
    trial = await try_options(
        options.request, settings, options.baseline, folder, count_pairs, worker
    )
    if trial.outcome.kind == "not_started":
        raise UsageError(trial.outcome.message)
    figures = figures_of(trial)
    if arguments.format == "json":
        changed = [
            {"what": figure.what, "before": figure.left, "after": figure.right}
            for figure in figures
        ]
        sys.stdout.write(
            json_text(
                {"settings": settings, "outcome": trial.outcome.to_json(), "figures": changed}
            )
        )
    else:
        print_fitted(printable(describe_settings(settings)))
        if trial.outcome.message or trial.outcome.kind != "finished":
            print_fitted(f"  {printable(describe_ended(trial.outcome, options.ending))}")
        sys.stdout.write(figures_text(figures, width_for(sys.stdout)))
        if trial.code:
            print_fitted(f"  {trial.code.words}")
    return int(trial.outcome.kind != "finished")
