"""The options that say what a bench compares, for the command line and for the app alike."""

from __future__ import annotations

import argparse
import shlex
from typing import NoReturn

from fx_explorer.argument_types import count, counts, seconds, words
from fx_explorer.errors import UsageError
from fx_explorer.instruments.bench.plan import BenchPlan
from fx_explorer.model import CaptureRequest, InputDim, InputSize

DYNAMIC = {"none": None, "true": True, "false": False}


def add_bench_arguments(parser: argparse.ArgumentParser) -> None:
    """Add contenders, sizes, threads and the budget, in the groups of the help."""
    _add_contenders(parser.add_argument_group("what to compare"))
    _add_sizes(parser.add_argument_group("at which sizes"))
    parser.add_argument(
        "--threads",
        metavar="N",
        type=count,
        default=0,
        help="threads of an operator (default: as torch)",
    )
    parser.add_argument(
        "--budget",
        metavar="SECONDS",
        type=seconds,
        default=None,
        help="about how long it may take (default: until it is steady)",
    )


def _add_contenders(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--backends",
        metavar="A,B",
        type=words,
        default=("eager", "aot_eager", "inductor"),
        help="backends by name, or file.py:function (default: eager,aot_eager,inductor)",
    )
    group.add_argument(
        "--modes",
        metavar="A,B",
        type=_modes,
        default=("",),
        help="modes of inductor: default,reduce-overhead,max-autotune …",
    )
    group.add_argument(
        "--dynamic",
        metavar="A,B",
        type=_dynamics,
        default=(None,),
        help="dynamic shapes: none (as torch), true, false",
    )
    group.add_argument(
        "--stance",
        metavar="A,B",
        type=words,
        default=("",),
        help="as torch.compiler.set_stance takes it",
    )


def _add_sizes(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--batch",
        metavar="N,N",
        type=_batches,
        default=None,
        help="batches; which dimension that is, is found out and told",
    )
    group.add_argument(
        "--size",
        metavar="NAME:DIM=N,N",
        action="append",
        default=[],
        type=sizes,
        help="sizes of a dimension of an input, by the name of its parameter; "
        "NAME:DIM,NAME:DIM=N for several at once; may be "
        "repeated, and every combination is measured",
    )


def plan_from(
    arguments: argparse.Namespace, request: CaptureRequest, timeout_s: float | None = None
) -> BenchPlan:
    """Return the plan that the arguments make. Raises UsageError where they contradict each other."""
    plan = BenchPlan(
        request,
        backends=arguments.backends,
        modes=arguments.modes,
        dynamics=arguments.dynamic,
        stances=arguments.stance,
        sizes=tuple(filter(None, (arguments.batch, *arguments.size))),
        threads=arguments.threads,
        budget_s=arguments.budget,
        timeout_s=timeout_s,
    )
    plan.check()
    return plan


def typed_plan(text: str, request: CaptureRequest) -> BenchPlan:
    """Return the plan of options that were typed, as on the command line. Raises UsageError."""
    parser = _Parser(add_help=False)
    add_bench_arguments(parser)
    try:
        typed = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{text!r} cannot be read: {error}") from error
    return plan_from(parser.parse_args(typed), request)


class _Parser(argparse.ArgumentParser):
    """A parser that raises where argparse would end the process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def _modes(text: str) -> tuple[str, ...]:
    return tuple("" if word == "default" else word for word in words(text))


def _dynamics(text: str) -> tuple[bool | None, ...]:
    found = words(text.lower())
    wrong = [word for word in found if word not in DYNAMIC]
    if wrong:
        raise argparse.ArgumentTypeError(f"{wrong[0]!r} is none of {', '.join(DYNAMIC)}")
    return tuple(DYNAMIC[word] for word in found)


def _batches(text: str) -> tuple[InputSize, ...]:
    return tuple(map(InputSize, counts(text)))


def sizes(text: str) -> tuple[InputSize, ...]:
    """Parse ``NAME:DIM[,NAME:DIM…]=N[,N…]``."""
    names, equals, numbers = text.partition("=")
    dims = []
    for name in names.split(","):
        given, colon, dim = name.strip().rpartition(":")
        if not (equals and colon and given and dim.isdecimal()):
            raise argparse.ArgumentTypeError(
                f"{text!r} is not NAME:DIM=N,N, for example input_ids:1=128,512"
            )
        dims.append(InputDim(given, int(dim)))
    return tuple(InputSize(number, tuple(dims)) for number in counts(numbers))
