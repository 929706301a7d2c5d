"""This module plans a bench: which cells it measures and for how long. The cells are all
combinations of the requested options, at every size.

The options that a plan is made of are parsed here too, for the command line and for the app alike;
and so is the session written that holds a bench and no capture.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NoReturn

from fx_explorer import __version__
from fx_explorer.argument_types import count, counts, seconds, words
from fx_explorer.errors import UsageError
from fx_explorer.model import GUARD_FILTER, BenchCell, CaptureRequest, InputDim, InputSize, Outcome
from fx_explorer.session import SessionWriter

UNCOMPILED = "uncompiled"

MODE_BACKENDS = ("inductor",)
"""Backends that take a mode."""


@dataclass(frozen=True)
class BenchPlan:
    """The ways and sizes that a bench compares, and the time it may take."""

    request: CaptureRequest
    """The part of the request that all contenders share."""
    backends: tuple[str, ...] = ("eager", "aot_eager", "inductor")
    modes: tuple[str, ...] = ("",)
    dynamics: tuple[bool | None, ...] = (None,)
    stances: tuple[str, ...] = ("",)
    sizes: tuple[tuple[InputSize, ...], ...] = ()
    """Each item is one size with its values; every combination is measured."""
    threads: int = 0
    others: tuple[Contender, ...] = ()
    """Further ways of running the program."""
    budget_s: float | None = None
    """About how many seconds the bench may take; None: until the figures are steady."""
    timeout_s: float | None = None
    """Maximum number of seconds for a cell to get ready, and for a round."""

    def contenders(self) -> list[Contender]:
        """Return the ways of running the program, the uncompiled one first, each once."""
        product = itertools.product(self.backends, self.modes, self.dynamics, self.stances)
        ways = (self._contender(*way) for way in product)
        return [
            Contender(UNCOMPILED, self.request, is_compiled=False),
            *dict.fromkeys(ways),
            *self.others,
        ]

    def _contender(self, backend: str, mode: str, dynamic: bool | None, stance: str) -> Contender:
        mode = mode if backend in MODE_BACKENDS else ""
        sizes = "" if dynamic is None else f"dynamic={dynamic}"
        words = (backend, mode, sizes, stance)
        options = dict(self.request.options)
        takes_all = backend in MODE_BACKENDS and not mode
        if not takes_all:
            options = {name: options[name] for name in options if name == GUARD_FILTER}
        request = replace(
            self.request,
            backend=backend,
            mode=mode,
            dynamic=dynamic,
            stance=stance,
            options=options,
        )
        return Contender(" ".join(filter(None, words)), request)

    def combinations(self) -> Iterator[tuple[InputSize, ...]]:
        """Yield the combinations of input sizes; one empty combination if no sizes are given."""
        yield from itertools.product(*self.sizes)

    def check(self) -> None:
        """Raise UsageError for contradictory options."""
        names = [size[0].name for size in self.sizes]
        twice = next((name for name in names if names.count(name) > 1), "")
        if twice:
            raise UsageError(f"the size {twice} is given twice; name all its values in one option")
        if any(self.modes) and self.request.options.keys() - {GUARD_FILTER}:
            raise UsageError(
                "--modes and --option cannot be combined (torch.compile takes one of them)"
            )
        if any(self.modes) and not set(self.backends) & set(MODE_BACKENDS):
            raise UsageError(
                f"--modes works with {' and '.join(MODE_BACKENDS)}, which is not among --backends"
            )


@dataclass(frozen=True)
class Contender:
    """One way of running the program."""

    name: str
    request: CaptureRequest
    is_compiled: bool = True

    def __hash__(self) -> int:
        return hash(self.name)

    def cell(self, sizes: tuple[InputSize, ...], bench: int) -> BenchCell:
        values: dict[str, object] = {size.name: size.value for size in sizes}
        return BenchCell(0, self.name, ", ".join(map(str, sizes)), values, self.is_compiled, bench)


def begin_session(writer: SessionWriter, plan: BenchPlan) -> None:
    """Write the entries that every session needs."""
    with writer.transaction():
        writer.set_meta("fx_explorer", __version__)
        writer.set_meta("request", asdict(plan.request))
        writer.set_meta(
            "started", datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        )
        writer.set_meta("target", {"name": Path(plan.request.target).name, "kind": "bench"})


def end_session(writer: SessionWriter, *, was_stopped: bool) -> None:
    """Write how it ended."""
    outcome = Outcome("finished")
    if was_stopped:
        outcome = Outcome("cancelled", "the bench was stopped; the figures so far are kept")
    writer.set_meta("outcome", asdict(outcome))


# The options that say what a bench compares.


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
        help="threads of an operator (default: as torch chooses)",
    )
    parser.add_argument(
        "--budget",
        metavar="SECONDS",
        type=seconds,
        default=None,
        help="approximate time limit (default: until the figures are steady)",
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
        help="dynamic shapes: none (as torch decides), true, false",
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
        help="batch sizes; the bench finds the batch dimension and reports it",
    )
    group.add_argument(
        "--size",
        metavar="NAME:DIM=N,N",
        action="append",
        default=[],
        type=sizes,
        help="sizes of a dimension of an input, by its parameter name; NAME:DIM,NAME:DIM=N for "
        "several at once; may be repeated, and every combination is measured",
    )


def plan_from(
    arguments: argparse.Namespace, request: CaptureRequest, timeout_s: float | None = None
) -> BenchPlan:
    """Return the plan that the arguments make. Raises UsageError where they contradict each
    other.
    """
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
    return tuple(map(_mode, words(text)))


def _mode(word: str) -> str:
    """Return a mode as torch.compile takes it; empty for its default."""
    return "" if word == "default" else word


def _dynamics(text: str) -> tuple[bool | None, ...]:
    given = words(text.lower())
    wrong = [word for word in given if word not in DYNAMIC]
    if wrong:
        raise argparse.ArgumentTypeError(f"{wrong[0]!r} is not one of {', '.join(DYNAMIC)}")
    return tuple(DYNAMIC[word] for word in given)


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
