"""``fx-explorer bisect --good REV --bad REV -- CONDITION``: which commit, or which release of
torch, made a condition fail, and what changed with it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fx_explorer.bisection.bisect_run import bisect_commits, bisect_interpreters
from fx_explorer.bisection.condition import Condition
from fx_explorer.bisection.report import bisect_lines, bisect_report
from fx_explorer.errors import UsageError
from fx_explorer.output.formats import json_text
from fx_explorer.output.terminal import print_fitted

EPILOG = """\
examples:
  fx-explorer bisect --good v1.2 --bad HEAD -- model.py --max-graph-breaks 0
  fx-explorer bisect --good v1.2 --bad HEAD -- model.py --baseline model.baseline.json
  fx-explorer bisect --good v1.2 --bad HEAD -- model.py --close-to-eager
  fx-explorer bisect --python old/bin/python --python new/bin/python -- model.py --max-kernels 9

After -- follows a condition, as for fx-explorer check: a target, what it must meet, and how it is
compiled. Each commit is checked out in a worktree in a temporary folder: your checkout is not
touched. Sixty commits take at most seven captures. A commit that cannot be checked out, or whose
program does not start, is skipped. If the program of --bad raises an error, bisect looks for the
first commit that raises it.

exit codes: 0 the commit was found · 1 it is one of several, because some could not be judged · 2
bad usage, or --good is not good, or --bad is not bad
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.usage = "%(prog)s --good REV --bad REV [OPTIONS] -- CONDITION"
    parser.add_argument(
        "arguments",
        metavar="CONDITION",
        nargs="*",
        help="arguments of fx-explorer check: a target and its conditions, after --",
    )
    between = parser.add_argument_group("between what")
    between.add_argument("--good", metavar="REV", default="", help="a commit that meets it")
    between.add_argument(
        "--bad", metavar="REV", default="", help=("a later commit that does not meet it")
    )
    between.add_argument(
        "--python",
        metavar="PYTHON",
        action="append",
        default=[],
        help="instead of commits: interpreters with releases of torch, from the good one to the "
        "bad one; at least two",
    )
    between.add_argument(
        "--link",
        metavar="PATH",
        action="append",
        default=[],
        help="an untracked file or folder of your checkout that each commit needs, such as data; "
        "may be repeated",
    )
    written = parser.add_argument_group("what to write")
    written.add_argument(
        "--format", choices=["text", "json"], default="text", help="text (default) or json"
    )
    written.add_argument(
        "--keep",
        metavar="FOLDER",
        type=Path,
        help="save the sessions of the last good and the first bad commit as good.fxs and "
        "bad.fxs, for fx-explorer diff",
    )


def run(arguments: argparse.Namespace) -> int:
    pythons: list[str] = arguments.python
    is_of_torch = bool(pythons)
    if is_of_torch and (arguments.good or arguments.bad or arguments.link):
        raise UsageError(
            "--python before -- names releases of torch, in place of --good, --bad and --link; "
            "the interpreter for commits goes after --"
        )
    if is_of_torch and len(pythons) < 2:
        raise UsageError("--python is needed at least twice: the good interpreter and the bad one")
    if not is_of_torch and not (arguments.good and arguments.bad):
        raise UsageError("bisect needs --good REV and --bad REV, or --python twice")
    condition = Condition(arguments.arguments)
    if is_of_torch:
        bisect = bisect_interpreters(condition, pythons, arguments.keep)
    else:
        links = _linked(arguments.link)
        bisect = bisect_commits(condition, arguments.good, arguments.bad, links, arguments.keep)
    if arguments.format == "json":
        sys.stdout.write(json_text(bisect_report(bisect)))
    else:
        for line in bisect_lines(bisect):
            print_fitted(line)
    return int(len(bisect.search.suspects) > 1)


def _linked(names: list[str]) -> list[str]:
    """Return the given paths relative to the root of the checkout. Raises UsageError for one that
    is not in it.
    """
    from fx_explorer.bisection.repository import Repository

    if not names:
        return []
    top = Repository.of(Path.cwd()).top
    linked = []
    for name in names:
        path = Path.cwd() / name
        if not path.exists():
            raise UsageError(f"--link {name}: there is no such file")
        if not path.is_relative_to(top):
            raise UsageError(f"--link {name} is not in your checkout: name it by its absolute path")
        linked.append(str(path.relative_to(top)))
    return linked
