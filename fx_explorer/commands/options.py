"""``fx-explorer options X``: what the options of torch.compile do, their values in force in X, and what other values change."""

from __future__ import annotations

import argparse
import asyncio
import difflib
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fx_explorer.commands.capture_options import add_capture_arguments, option
from fx_explorer.commands.given_session import answer_from
from fx_explorer.errors import UsageError
from fx_explorer.highlight import printable
from fx_explorer.model import CaptureRequest
from fx_explorer.session import SessionReader

if TYPE_CHECKING:
    from fx_explorer.analysis.option_trials import SessionFigures
    from fx_explorer.analysis.options import ConsoleOption

EPILOG = """\
Without X, what the options do; with it, their values in force too, and who set them: the default, the program (where), an
option of fx-explorer, the environment. --try captures X once more by a worker of its own and says what is different.

examples:
  fx-explorer options                                          what there is
  fx-explorer options model.py                                 what is in force
  fx-explorer options model.py --name compile.mode             all about one
  fx-explorer options model.py --try compile.dynamic=True --try compiler.stance=fail_on_recompile
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("target", metavar="X", nargs="?", default="", help="a session (file.fxs), or a target, captured first")
    what = parser.add_argument_group("what to tell")
    what.add_argument("--format", choices=["text", "json"], default="text", help="text (default), or json")
    what.add_argument("--name", default="", help="everything about one option, e.g. compile.dynamic")
    what.add_argument(
        "--try",
        dest="trying",
        metavar="NAME=V",
        action="append",
        default=[],
        type=option,
        help="capture again with this value, and say what changed; several are tried together",
    )
    add_capture_arguments(parser)


@dataclass
class Found:
    """What a session says, kept when it is closed."""

    options: list[ConsoleOption]
    request: CaptureRequest | None
    before: SessionFigures | None


def run(arguments: argparse.Namespace) -> int:
    if not arguments.target:
        return _known(arguments)
    sessions: list[Found] = []
    ended = answer_from(arguments, lambda reader: sessions.append(_found(reader))) or 0
    for found in sessions:
        if arguments.trying:
            return asyncio.run(_try(found, arguments))
        _tell(_chosen(found.options, arguments.name), arguments)
    return ended


def _known(arguments: argparse.Namespace) -> int:
    from fx_explorer.report.compile_options import known_options
    from fx_explorer.report.options_text import known_text

    if arguments.name or arguments.trying:
        raise UsageError("--name and --try need a target or a session: values are those of a torch")
    sys.stdout.write(_as_json(known_options()) if arguments.format == "json" else known_text())
    return 0


def _found(reader: SessionReader) -> Found:
    from fx_explorer.analysis.option_trials import figures_to_compare_with
    from fx_explorer.analysis.options import console_options

    return Found(console_options(reader), reader.request(), figures_to_compare_with(reader))


def _chosen(options: list[ConsoleOption], name: str) -> list[ConsoleOption]:
    """Those of this name, with or without its group; all without one. Raises UsageError when there is none."""
    found = [one for one in options if name in ("", one.name, one.setting.name)]
    if options and not found:
        near = difflib.get_close_matches(name, [one.name for one in options], n=3, cutoff=0.4)
        raise UsageError(
            f"there is no option {name} in the console{'; did you mean ' + ' or '.join(near) + '?' if near else ''}"
        )
    return found


def _tell(options: list[ConsoleOption], arguments: argparse.Namespace) -> None:
    from fx_explorer.report.compile_options import compile_option
    from fx_explorer.report.options_text import option_text, options_text

    if not options:
        print("this session has no list of options: it is older than the list, or torch was never asked", file=sys.stderr)
    if arguments.format == "json":
        sys.stdout.write(_as_json([compile_option(one) for one in options]))
    elif arguments.name:
        sys.stdout.write("\n".join(map(option_text, options)))
    else:
        sys.stdout.write(options_text(options))


async def _try(found: Found, arguments: argparse.Namespace) -> int:
    """1 when the changed program did not come to its end."""
    from fx_explorer.analysis.option_trials import compared, session_figures, settings_in_words
    from fx_explorer.client.option_trial import TIMEOUT_S, try_options
    from fx_explorer.report.options_text import figures_text

    if found.request is None:
        raise UsageError("the session does not say how it was captured, so nothing can be tried; give its target instead")
    settings, limit = dict(arguments.trying), arguments.timeout or TIMEOUT_S
    trial = await try_options(found.request, settings, found.before, session_figures, arguments.python, limit)
    if trial.outcome.kind == "not_started":
        raise UsageError(trial.outcome.message)
    figures = compared(trial.before, trial.after)
    if arguments.format == "json":
        changed = [{"what": one.what, "before": one.left, "after": one.right} for one in figures]
        sys.stdout.write(_as_json({"settings": settings, "outcome": trial.outcome.to_json(), "figures": changed}))
    else:
        print(printable(settings_in_words(settings)))
        if trial.outcome.message or trial.outcome.kind != "finished":
            print(f"  {printable(f'{trial.outcome.kind}: {trial.outcome.message}')}")
        sys.stdout.write(figures_text(figures))
    return int(trial.outcome.kind != "finished")


def _as_json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"
