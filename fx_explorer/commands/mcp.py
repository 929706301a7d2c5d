"""This module is ``fx-explorer mcp``: the questions of ``fx-explorer ask`` as tools of the Model
Context Protocol, over standard input and output.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

from fx_explorer.errors import UsageError

EPILOG = """\
examples:
  fx-explorer mcp                     sessions and logs in the current folder
  fx-explorer mcp runs/ model.fxs     those, and nothing else
  fx-explorer mcp . --allow-run       programs in the folder may be captured, too

An MCP client starts it, for example: claude mcp add fx-explorer -- fx-explorer mcp /path It
writes nothing into PATH. With --allow-run it runs the program that a client names; the session
is kept in a temporary folder until the server ends, and in the history like every capture.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        type=Path,
        help="folders and files that a client may read (default: the current folder)",
    )
    parser.add_argument(
        "--allow-run", action="store_true", help="let a client capture programs inside of PATH"
    )


def run(arguments: argparse.Namespace) -> int:
    _check_package()
    from fx_explorer.command_line.mcp_server import serve

    paths = arguments.paths or [Path.cwd()]
    for path in paths:
        if not path.exists():
            raise UsageError(f"there is no file or folder {str(path)!r}")
    serve(paths, may_run=arguments.allow_run)
    return 0


def _check_package() -> None:
    """Raise UsageError where the package of the protocol is not installed."""
    if importlib.util.find_spec("mcp") is None:
        raise UsageError(
            "fx-explorer mcp needs the package mcp, which is not installed: "
            "pip install 'fx-explorer[mcp]'"
        )
