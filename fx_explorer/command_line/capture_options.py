"""Every command that captures has these options in common, and the request they make."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from fx_explorer.argument_types import option, seconds, words
from fx_explorer.errors import UsageError
from fx_explorer.model import (
    DEFAULT_BACKEND,
    FRONT_END_LIMIT_S,
    FRONT_ENDS,
    GUARD_FILTER,
    CaptureRequest,
    Gpu,
)


def add_allow_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--allow-nothing",
        action="store_true",
        help="exit with 0 instead of 2 when nothing was compiled",
    )


def add_capture_arguments(
    parser: argparse.ArgumentParser, *, of_two: bool = False, build: bool = False
) -> None:
    """Add ``--call`` … ``--timeout``, in the groups of the help. ``of_two``: the command captures
    two, so ``--gpu`` and ``--python`` may be repeated, and are lists. ``build`` is the default of
    ``--build``.
    """
    what = parser.add_argument_group("what to compile")
    add_call_arguments(what)
    add_gpu_arguments(what, several=of_two)
    add_compile_arguments(parser, build=build)
    parser.add_argument(
        "--record-bytecode",
        action="store_true",
        help="call the target once more and record each instruction of Dynamo's bytecode with its "
        "effect",
    )
    parser.add_argument(
        "--record-trace",
        action="store_true",
        help="record every instruction that Dynamo traces, with its symbolic stack and local "
        "variables (without this option: every line)",
    )
    parser.add_argument(
        "--record-patterns",
        action="store_true",
        help="record which patterns of Inductor's passes, and your own patterns, did not match, "
        "and the check that failed",
    )
    add_front_end_arguments(parser)
    add_worker_arguments(parser, several=of_two)


def add_budget_argument(
    parser: argparse._ActionsContainer,
    default_s: float,
    limits: str = "stop trying after this time",
) -> None:
    """Add ``--budget``; ``limits`` says what it limits."""
    parser.add_argument(
        "--budget",
        metavar="SECONDS",
        type=seconds,
        default=default_s,
        help=f"{limits} (default: {default_s:.0f})",
    )


def add_front_end_arguments(parser: argparse.ArgumentParser) -> None:
    beside = parser.add_argument_group("other front ends beside Dynamo")
    beside.add_argument(
        "--frontend",
        metavar="NAME",
        action="extend",
        default=[],
        type=front_ends,
        help="also show the graph that these front ends make of the target: "
        f"{', '.join(FRONT_ENDS)}, all; A,B or repeated",
    )
    beside.add_argument(
        "--frontend-limit",
        metavar="SECONDS",
        type=seconds,
        default=FRONT_END_LIMIT_S,
        help="stop each front end after this time (default: 120)",
    )


def front_ends(text: str) -> tuple[str, ...]:
    """Parse ``symbolic_trace,export``, or ``all``."""
    wanted = words(text)
    unknown = [name for name in wanted if name not in (*FRONT_ENDS, "all")]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"{unknown[0]!r} is not a front end; there are {', '.join(FRONT_ENDS)}, and all"
        )
    if "all" in wanted:
        return FRONT_ENDS
    return wanted


def add_call_arguments(parser: argparse._ActionsContainer) -> None:
    """Add the options for the call: the function, its inputs, and the device."""
    parser.add_argument(
        "--call",
        metavar="EXPR",
        default="",
        help="expression that makes the model or function, using names from the target",
    )
    parser.add_argument(
        "--inputs",
        metavar="EXPR",
        default="",
        help="expression for the inputs: a tuple, a dict (by name) or one value",
    )
    parser.add_argument(
        "--train",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="with or without backward (default: with, when something requires grad)",
    )
    parser.add_argument(
        "--device", default="", help="first move the model and its inputs to this device, e.g. cuda"
    )


def add_gpu_arguments(parser: argparse._ActionsContainer, *, several: bool = False) -> None:
    help_line = (
        "generate code for this GPU, which this machine need not have: h100, a100 … or a TOML "
        "file (doctor --gpus lists them)"
    )
    if several:
        parser.add_argument(
            "--gpu",
            metavar="NAME",
            action="append",
            default=[],
            help=help_line + "; twice to compare",
        )
    else:
        parser.add_argument("--gpu", metavar="NAME", default=None, help=help_line)
    parser.add_argument(
        "--no-weights",
        action="store_true",
        help="with --gpu: tensors have shapes but no content, so a model of any size fits",
    )


def add_compile_arguments(parser: argparse.ArgumentParser, *, build: bool) -> None:
    """Add how to compile. ``build`` is the default of ``--build``."""
    how = parser.add_argument_group("how to compile")
    add_backend_arguments(
        how,
        "a torch._inductor.config entry, e.g. max_fusion_size=8, or guard_filter_fn=NAME: a "
        "filter from torch.compiler, or FILE.py:FUNCTION, which chooses the guards to drop; may "
        "be repeated",
    )
    add_setting_argument(how)
    add_strictness_arguments(how)
    built_by_default = "build" if build else "only generate"
    how.add_argument(
        "--build",
        action=argparse.BooleanOptionalAction,
        default=build,
        help=f"build and run the kernels, or only generate them (default: {built_by_default})",
    )
    how.add_argument(
        "--use-caches",
        action="store_true",
        help="let torch use its compile caches, and show cache hits",
    )


def add_backend_arguments(how: argparse._ActionsContainer, option_help: str) -> None:
    """Add the arguments of torch.compile; ``option_help`` says what ``--option`` takes."""
    how.add_argument(
        "--backend",
        default=DEFAULT_BACKEND,
        help="any backend that torch knows, or FILE.py:FUNCTION (default: inductor)",
    )
    how.add_argument("--mode", default="", help="mode of torch.compile, e.g. max-autotune")
    how.add_argument(
        "--dynamic",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="make every shape dynamic, or none (default: as torch decides)",
    )
    how.add_argument(
        "--option",
        metavar="K=V",
        action="append",
        default=[],
        type=option,
        help=option_help,
    )


def add_setting_argument(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--setting",
        metavar="NAME=V",
        action="append",
        default=[],
        type=option,
        help="any option of torch's compiler by full name, e.g. "
        "dynamo.capture_scalar_outputs=True; may be repeated",
    )


def add_strictness_arguments(parser: argparse._ActionsContainer) -> None:
    """Add ``--fullgraph`` and ``--stance``, which also apply where the program calls torch.compile
    itself.
    """
    parser.add_argument(
        "--fullgraph",
        action="store_true",
        help="require one graph: a graph break ends the program with an error",
    )
    parser.add_argument(
        "--stance",
        metavar="NAME",
        default="",
        help="as torch.compiler.set_stance takes it, e.g. fail_on_recompile; fx-explorer "
        "options explains each",
    )


def add_worker_arguments(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    where = parser.add_argument_group("where it runs")
    add_trust_argument(where)
    where.add_argument(
        "--as-python",
        action="store_true",
        help="the target is a Python file, whatever its name",
    )
    help_line = "Python interpreter for the program (default: this one)"
    if several:
        where.add_argument(
            "--python", action="append", default=[], help=help_line + "; twice to compare"
        )
    else:
        where.add_argument("--python", default=sys.executable, help=help_line)
    where.add_argument(
        "--timeout", metavar="SECONDS", type=seconds, default=None, help="stop after this time"
    )


def request_from(arguments: argparse.Namespace, session: str = "") -> CaptureRequest:
    """Return the request that these arguments make. ``session`` may stay empty: the client chooses
    the file. Raises UsageError for options that contradict each other.
    """
    options = dict(arguments.option)
    if arguments.mode and options.keys() - {GUARD_FILTER}:
        raise UsageError(
            "--mode and --option cannot be combined (torch.compile takes one of them); "
            "give the mode's entries with --option"
        )
    gpu = _gpu(getattr(arguments, "gpu", None))
    _check_gpu(gpu, arguments)
    request = CaptureRequest(
        target=arguments.target,
        session=session,
        # Not every command that captures has all of the options.
        as_script=getattr(arguments, "as_script", False),
        as_python=getattr(arguments, "as_python", False),
        trusts_target=getattr(arguments, "trust", False),
        arguments=tuple(getattr(arguments, "arguments", ())),
        call=getattr(arguments, "call", ""),
        inputs=getattr(arguments, "inputs", ""),
        train=getattr(arguments, "train", None),
        backend=arguments.backend,
        mode=arguments.mode,
        dynamic=arguments.dynamic,
        options=options,
        build=arguments.build,
        use_caches=arguments.use_caches,
        device=getattr(arguments, "device", ""),
        fullgraph=arguments.fullgraph,
        stance=arguments.stance,
        settings=dict(arguments.setting),
        ledger=getattr(arguments, "ledger", False),
        workspaces=getattr(arguments, "workspaces", False),
        record_bytecode=getattr(arguments, "record_bytecode", False),
        record_trace=getattr(arguments, "record_trace", False),
        record_patterns=getattr(arguments, "record_patterns", False),
        front_ends=tuple(dict.fromkeys(getattr(arguments, "frontend", ()))),
        front_end_limit_s=getattr(arguments, "frontend_limit", FRONT_END_LIMIT_S),
        gpu=gpu,
        no_weights=getattr(arguments, "no_weights", False),
        all_settings=getattr(arguments, "all_settings", False),
    )
    # The worker cannot tell a default that was given from one that was not.
    if "backend" in getattr(arguments, "given", ()) and request.backend == DEFAULT_BACKEND:
        return _with_default_backend(request)
    return request


def _with_default_backend(request: CaptureRequest) -> CaptureRequest:
    """Return the request in which a script's own calls of torch.compile take the default backend,
    too.
    """
    from fx_explorer.session.untrusted.given_program import runs_as_script

    if not Path(request.target).is_file() or not runs_as_script(request):
        return request
    settings = {"compile.backend": DEFAULT_BACKEND, **request.settings}
    return replace(request, settings=settings)


def _gpu(name: str | None) -> Gpu | None:
    """Return the GPU of this name; None without a name. Raises UsageError for an unknown one."""
    if name is None:
        return None
    from fx_explorer.gpus import find_gpu

    return find_gpu(name)


GPU_BACKENDS = ("inductor", "regional_inductor")


def _check_gpu(gpu: Gpu | None, arguments: argparse.Namespace) -> None:
    """Raise UsageError for options that need the device."""
    if gpu is None:
        if getattr(arguments, "no_weights", False):
            raise UsageError(
                "--no-weights needs --gpu: tensors without content can be compiled for, but "
                "nothing can run"
            )
        return
    if arguments.build:
        raise UsageError("--build cannot be combined with --gpu: nothing can run on a virtual GPU")
    if arguments.use_caches:
        raise UsageError(
            "--use-caches cannot be combined with --gpu: a virtual GPU must not use torch's caches"
        )
    if arguments.backend not in GPU_BACKENDS:
        raise UsageError(
            f"--gpu needs the backend {' or '.join(GPU_BACKENDS)}: {arguments.backend} runs the "
            "graphs, which a virtual GPU cannot do"
        )


# ``--trust``, which every command has that captures or answers from a session.


def add_trust_argument(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--trust",
        action="store_true",
        help="trust X, a session from another machine or user, or a .pt2 file: allow fx-explorer "
        "to compile its kernels, run the program it names, and load it",
    )
