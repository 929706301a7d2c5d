"""``fx-explorer backends``: the backends of torch.compile, what each does, and whether it can be
used here.
"""

from __future__ import annotations

import argparse
import sys

from fx_explorer.errors import UsageError
from fx_explorer.instruments.backends.known_backends import Backend, backends_of, groups
from fx_explorer.output.formats import json_text
from fx_explorer.output.terminal import terminal_width
from fx_explorer.output.text import text_of

EPILOG = """\
A backend is what torch.compile gives the graphs to (--backend NAME). Each is tried on a small graph. Beside those that are
registered, any function of yours can be one (--backends FILE.py:FUNCTION of fx-explorer bench). Packages register theirs under
the entry point torch_dynamo_backends.

examples:
  fx-explorer backends                                what there is
  fx-explorer backends --all                          those for tests of torch itself, too
  fx-explorer backends --python ../venv/bin/python    of another interpreter
  fx-explorer bench model.py --backends eager,aot_eager,inductor    hold them against each other
"""

SCHEMA = "fx-explorer/backends/1"

TRIED = "✓ compiled a small graph rightly on the CPU, without gradients."


LEAST_WIDTH = 40
"""Cells of a line at least: what a backend does is indented."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("names", metavar="NAME", nargs="*", help="these only")
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter that has torch (default: this one)"
    )
    parser.add_argument(
        "--all", action="store_true", help="those that torch has for its own tests, too"
    )
    parser.add_argument(
        "--format", choices=["text", "json"], default="text", help="text (default), or json"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the backends. Raises UsageError for a name that is none, and WorkerError where the
    interpreter cannot say them.
    """
    release, found = backends_of(arguments.python, arguments.names)
    unknown = set(arguments.names) - {one.name for one in found}
    if unknown:
        raise UsageError(
            f"torch {release} has no backend {', '.join(sorted(unknown))}: fx-explorer "
            "backends lists them"
        )
    shown = [one for one in found if arguments.all or arguments.names or not one.is_for_tests]
    if arguments.format == "json":
        listed = [one.to_json() for one in shown]
        sys.stdout.write(json_text({"schema": SCHEMA, "torch": release, "backends": listed}))
    else:
        lines = [f"Backends of torch {release} ({arguments.python})", TRIED]
        for title, members in groups(shown):
            lines += ["", title]
            for backend in members:
                lines += _lines(backend)
        sys.stdout.write(text_of(lines, max(terminal_width(), LEAST_WIDTH)))
    return 0


def _lines(one: Backend) -> list[str]:
    """Return the name of a backend, what it does, and what is missing for it."""
    missing = f"{one.missing[:1].upper()}{one.missing[1:]}." if one.missing else ""
    sentences = [" " * 6 + sentence for sentence in (one.does, missing) if sentence]
    return [f"  {'✗' if one.missing else '✓'} {one.name}", *sentences]
