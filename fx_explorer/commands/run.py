"""``fx-explorer run SCRIPT [-- ARGS]``: run an unmodified script and capture every compilation in
it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fx_explorer.command_line.capture_options import (
    add_gpu_arguments,
    add_setting_argument,
    add_strictness_arguments,
    add_worker_arguments,
    request_from,
)
from fx_explorer.command_line.outputs import add_force_argument, session_output
from fx_explorer.commands.capture import default_output
from fx_explorer.model import DEFAULT_BACKEND, CaptureRequest

EPILOG = """\
examples:
  fx-explorer run train.py                               as `python train.py`, recorded into \
train.fxs
  fx-explorer run train.py -- --epochs 1 --lr 0.1        its own arguments follow --
  fx-explorer run train.py -o first.fxs --no-build       kernels are only generated
  torchrun -m fx_explorer run train.py                   each rank writes its own session
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a script, which itself decides how it compiles."""
    parser.epilog = EPILOG
    parser.add_argument(
        "target", metavar="SCRIPT", help="the script; it runs as under `python SCRIPT ARGS`"
    )
    parser.add_argument(
        "arguments", metavar="ARGS", nargs="*", help="arguments of the script, after --"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=None,
        help="session file to write (default: SCRIPT's name + .fxs)",
    )
    add_force_argument(parser)
    parser.add_argument(
        "--build",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="build and run the kernels as in a normal run, or only generate them (default: "
        "build, except with --gpu)",
    )
    add_gpu_arguments(parser)
    parser.add_argument(
        "--backend",
        metavar="NAME",
        default="",
        help="use this backend for every torch.compile of the script: a registered one, or "
        "FILE.py:FUNCTION",
    )
    add_setting_argument(parser)
    add_strictness_arguments(parser)
    parser.add_argument(
        "--use-caches",
        action="store_true",
        help="let torch use its compile caches, and show cache hits",
    )
    add_worker_arguments(parser)
    parser.usage = "%(prog)s [OPTIONS] SCRIPT [-- ARGS]"
    # The script says itself how it compiles.
    parser.set_defaults(as_script=True, mode="", dynamic=None, option=[])


def run(arguments: argparse.Namespace) -> int:
    """Run the script and return its own exit code."""
    from fx_explorer.command_line.narrated_capture import follow

    output = session_output(arguments, default_output(arguments.target))
    assert output is not None
    return follow(request_of_run(arguments), arguments, output, pass_through=True)


def request_of_run(arguments: argparse.Namespace) -> CaptureRequest:
    """Return the request. A script builds its kernels, as it would alone, unless they are for a
    virtual GPU.
    """
    if arguments.build is None:
        arguments.build = arguments.gpu is None
    if arguments.backend:
        arguments.setting = [*arguments.setting, ("compile.backend", arguments.backend)]
    arguments.backend = arguments.backend or DEFAULT_BACKEND
    return request_from(arguments)
