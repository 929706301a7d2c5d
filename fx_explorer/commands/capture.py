"""``fx-explorer capture TARGET -o s.fxs``: capture without a screen."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fx_explorer.command_line.capture_options import (
    add_allow_argument,
    add_capture_arguments,
    request_from,
)
from fx_explorer.command_line.given_session import is_of_package, shown_name
from fx_explorer.command_line.outputs import add_force_argument, session_output
from fx_explorer.output.terminal import print_fitted

EPILOG = """\
examples:
  fx-explorer capture model.py -o model.fxs              then: fx-explorer model.fxs, here or \
elsewhere
  fx-explorer capture model.py --gpu h100                for a GPU that is not there
  fx-explorer capture model.py --build --mode max-autotune
  fx-explorer capture model.py --backend aot_eager --no-train
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "target",
        metavar="TARGET",
        help="file.py, file.py:object, package.module:object or model.pt2",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=None,
        help="session file to write (default: TARGET's name + .fxs)",
    )
    add_force_argument(parser)
    add_allow_argument(parser)
    add_capture_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    from fx_explorer.command_line.narrated_capture import follow

    output = session_output(arguments, default_output(shown_name(arguments)))
    assert output is not None
    if is_of_package(arguments):
        return _keep(arguments, output)
    request = request_from(arguments)
    return follow(
        request, arguments, output, pass_through=False, may_be_empty=arguments.allow_nothing
    )


def _keep(arguments: argparse.Namespace, output: Path) -> int:
    """Save the session of an AOTInductor package. A package is neither run nor compiled."""
    from fx_explorer.client.session_files import copy_session, session_file
    from fx_explorer.command_line.given_session import refuse_capture_options

    refuse_capture_options(arguments, also=("gpu", "no_weights", "python", "timeout"))
    never = (Path(shown_name(arguments)),)
    copy_session(Path(arguments.target), session_file(output, force=arguments.force, never=never))
    print_fitted(
        f"fx-explorer: session: {output} (look at it with: fx-explorer {output})", sys.stderr
    )
    return 0


def default_output(target: str) -> str:
    """Return the session file for a target: ``dir/mymodel.py:MLP`` → ``mymodel.fxs``;
    ``pkg.mod:obj`` → ``mod.fxs``, in the working directory.
    """
    if Path(target).suffix in (".py", ".pt2") or Path(target).is_file():
        return Path(target).stem + ".fxs"
    file = target.rpartition(":")[0] or target
    if Path(file).is_file():
        stem = Path(file).stem
    else:
        stem = Path(file).name.removesuffix(".py").rpartition(".")[2]
    return f"{stem or 'session'}.fxs"
