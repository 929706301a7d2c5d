"""``fx-explorer capture TARGET -o s.fxs``: capture without a screen."""

from __future__ import annotations

import argparse
from pathlib import Path

from fx_explorer.command_line.capture_options import add_allow_argument, add_capture_arguments, request_from
from fx_explorer.command_line.outputs import add_force_argument, session_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help="file.py, file.py:object or package.module:object")
    parser.add_argument("-o", "--output", type=Path, default=None, help="session file to write (default: TARGET's name + .fxs)")
    add_force_argument(parser)
    add_allow_argument(parser)
    add_capture_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    from fx_explorer.command_line.narrated_capture import follow

    output = session_output(arguments, default_output(arguments.target))
    assert output is not None
    request = request_from(arguments)
    return follow(request, arguments, output, pass_through=False, may_be_empty=arguments.allow_nothing)


def default_output(target: str) -> str:
    """Return the session file for a target: ``dir/mymodel.py:MLP`` → ``mymodel.fxs``;
    ``pkg.mod:obj`` → ``mod.fxs``, in the working directory.
    """
    if Path(target).name.endswith(".py"):
        return Path(target).stem + ".fxs"
    file = target.rpartition(":")[0] or target
    stem = Path(file).name.removesuffix(".py").rpartition(".")[2]
    return f"{stem or 'session'}.fxs"
