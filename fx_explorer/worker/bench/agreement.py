"""Whether a contender gives the uncompiled program's results, and which of the two is nearer to a run
in float64.

The process of the uncompiled program writes its results to a file beside the session; the others
compare theirs with it.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from fx_explorer.model import AgreementKind
from fx_explorer.worker.bench.calls import OTHER_SEED, Caller, Results, State, observed, state_of
from fx_explorer.worker.ending.explaining import one_line
from fx_explorer.worker.verify.observed.plain_values import own_parts

AS_EXACT = 2.0
"""A result is as exact as the uncompiled program's when its error is at most so many times as large.
torch's own benchmarks ask for the same (``same`` in torch/_dynamo/utils.py).
"""

NO_EXACT = "there is no run in float64 to compare with"

CALLED_AGAIN = "it is another one at each call of the uncompiled program, too"

RANDOM = "with other random numbers (dropout?) it is another one, and compiled code draws its own; in eval mode it can be compared"

OTHER_BEGINNING = (
    "not compared: the program has other parameters or inputs in each process, from random numbers that are not torch's, "
    "NumPy's or Python's default ones, or that have a seed of their own"
)

_RANKS: tuple[AgreementKind, ...] = ("equal", "close", "as_exact", "not_compared", "wrong")


@dataclass(frozen=True)
class Reference:
    """What the uncompiled program gave: with the example inputs, and with other values."""

    results: list[Results]
    exact: list[Results] = field(default_factory=list)
    """The results in float64; empty where there is no such run."""
    no_exact: str = ""
    """Why there is no such run."""
    varies: dict[str, str] = field(default_factory=dict)
    """Name of a result that is not the same at each call → why, in words."""
    content: list[float] = field(default_factory=list)

    def save(self, path: str) -> None:
        torch.save(vars(self), path)

    @classmethod
    def load(cls, path: str) -> Reference:
        return cls(**torch.load(path, weights_only=True))


@dataclass(frozen=True)
class Difference:
    """How one result stands to that of the uncompiled program."""

    kind: AgreementKind
    name: str
    largest: float = 0.0
    error: float = 0.0
    reference_error: float = 0.0
    words: str = ""
    is_another_kind: bool = False
    """Whether it is missing, new, or of another shape or dtype."""

    @property
    def rank(self) -> tuple[int, float]:
        return _RANKS.index(self.kind), self.largest


def reference_of(caller: Caller) -> Reference:
    """Call the uncompiled program: as the others will be called, once more, with other random numbers,
    and in float64.
    """
    state = State(caller.target.network)
    first = observed(caller, state)
    second = observed(caller.with_other_values(), state)
    random = dict.fromkeys(_apart(first, observed(caller, state, OTHER_SEED)), RANDOM)
    again = dict.fromkeys(_apart(first, observed(caller, state)), CALLED_AGAIN)
    exact, why = _in_float64(caller)
    return Reference([first, second], exact, why, {**random, **again}, content(caller))


def content(caller: Caller) -> list[float]:
    """Return a number for each parameter, buffer and input, by which other contents are told."""
    found = [*state_of(caller.target.network), *caller.target.arguments.tensors()]
    return [
        float(sum(float(_wide(part).abs().sum()) for part in own_parts(tensor).values()))
        for tensor in found
    ]


def agreement(
    reference: Reference, results: list[Results], begins_with: list[float]
) -> dict[str, Any]:
    """Return the fields of a BenchCell that say how the results stand to the reference, call by
    call.
    """
    if not _is_same_content(reference.content, begins_with):
        return {"agreement": "not_compared", "agreement_words": OTHER_BEGINNING}
    if not any(name.startswith("output") for name in reference.results[0] | results[0]):
        return {
            "agreement": "not_compared",
            "agreement_words": "not compared: it returns no tensor",
        }
    try:
        # Of calls that are equally wrong, the first is told.
        worst = max(_worst_of_calls(reference, results), key=lambda one: _RANKS.index(one.kind))
    except (
        RuntimeError,
        NotImplementedError,
        TypeError,
    ) as error:  # a kind of tensor that torch cannot compare
        return {"agreement": "not_compared", "agreement_words": f"not compared: {one_line(error)}"}
    return {
        "agreement": worst.kind,
        "agreement_words": worst.words or reference.no_exact,
        "largest_difference": worst.largest,
        "where": worst.name,
        "error": worst.error,
        "reference_error": worst.reference_error,
    }


def _worst_of_calls(reference: Reference, results: list[Results]) -> Iterator[Difference]:
    """Yield, for each call, the result that differs most from the uncompiled program's."""
    exact = reference.exact or [{}] * len(results)
    for ours, theirs, of_call, place in zip(
        results, reference.results, exact, PLACES, strict=False
    ):
        found = (
            _judged(name, reference, ours.get(name), theirs.get(name), of_call.get(name))
            for name in theirs | ours
        )
        worst = max(found, key=lambda one: one.rank)
        yield replace(worst, name=f"{worst.name}{place}")


def _judged(
    name: str,
    reference: Reference,
    ours: torch.Tensor | None,
    theirs: torch.Tensor | None,
    exact: torch.Tensor | None,
) -> Difference:
    """Compare one result; one that differs from call to call uncompiled, too, is not judged by its
    values.
    """
    found = _difference(name, ours, theirs, exact)
    if (
        found.kind in ("as_exact", "wrong")
        and not found.is_another_kind
        and name in reference.varies
    ):
        return Difference(
            "not_compared", name, words=f"not compared: {name}, since {reference.varies[name]}"
        )
    return found


PLACES = ("", ", with other values")
"""What is added to the name of a result of each call."""


def _is_same_content(one: list[float], other: list[float]) -> bool:
    return len(one) == len(other) and all(map(_is_same_number, one, other))


def _is_same_number(one: float, other: float) -> bool:
    return one == other or math.isclose(one, other) or (math.isnan(one) and math.isnan(other))


def _difference(
    name: str, ours: torch.Tensor | None, theirs: torch.Tensor | None, exact: torch.Tensor | None
) -> Difference:
    if ours is None or theirs is None:
        return Difference(
            "wrong",
            name,
            words=f"{name} is {'missing' if ours is None else 'new'}",
            is_another_kind=True,
        )
    for what, one, other in (
        ("shape", list(theirs.shape), list(ours.shape)),
        ("dtype", theirs.dtype, ours.dtype),
    ):
        if one != other:
            words = f"the {what} of {name} is {other}, and {one} uncompiled"
            return Difference("wrong", name, words=words, is_another_kind=True)
    if _is_equal(ours, theirs):
        return Difference("equal", name)
    error, reference_error = (
        (_error(tensor, exact) for tensor in (ours, theirs)) if exact is not None else (0.0, 0.0)
    )
    largest = _largest(ours, theirs)
    if _is_close(ours, theirs):
        return Difference("close", name, largest, error, reference_error)
    is_as_exact = exact is not None and error <= max(
        AS_EXACT * reference_error, _rounding(ours, exact)
    )
    kind: AgreementKind = "as_exact" if is_as_exact and math.isfinite(error) else "wrong"
    return Difference(kind, name, largest, error, reference_error)


def _in_float64(caller: Caller) -> tuple[list[Results], str]:
    """Return the results in float64; or nothing, and why."""
    if _bytes_in_float64(caller) > _free_bytes():
        return [], f"{NO_EXACT}: there is no room for the model in float64"
    try:
        wide = caller.in_float64()
        state = State(wide.target.network)
        results = [observed(one, state) for one in (wide, wide.with_other_values())]
    except Exception as error:  # noqa: BLE001 - the program was not written for float64: any error of its own
        return [], f"{NO_EXACT}: {one_line(error)}"
    narrow = [
        name
        for name, one in results[0].items()
        if one.is_floating_point() and one.dtype != torch.float64
    ]
    if narrow:
        return [], f"{NO_EXACT}: {narrow[0]} stays {results[0][narrow[0]].dtype}"
    return results, ""


def _bytes_in_float64(caller: Caller) -> int:
    """Return what a copy of the model in float64 takes, with its state and gradients."""
    return 3 * 8 * sum(tensor.numel() for tensor in state_of(caller.target.network))


def _free_bytes() -> int:
    """Return how much memory a program can still get (proc(5), MemAvailable); without limit where that
    is not told. A GPU says itself, by an error, when there is no more.
    """
    try:
        found = re.search(
            r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE
        )
    except OSError:
        found = None
    return 1024 * int(found[1]) if found else sys.maxsize


def _apart(one: Results, other: Results) -> list[str]:
    """Return the names of results that differ between two calls of the uncompiled program."""
    return [
        name
        for name, tensor in one.items()
        if name not in other or not _is_alike(tensor, other[name])
    ]


def _is_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and _is_close(one, other)


def _is_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one, other) or _matches(one, other, rtol=0.0, atol=0.0)


def _is_close(one: torch.Tensor, other: torch.Tensor) -> bool:
    return _matches(one, other)


def _matches(one: torch.Tensor, other: torch.Tensor, **tolerances: float) -> bool:
    try:
        torch.testing.assert_close(one, other, equal_nan=True, check_layout=False, **tolerances)
    except AssertionError:
        return False
    return True


def _largest(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the largest absolute difference; infinite where only one of the two is not finite."""
    apart = (_wide(one) - _wide(other)).abs()
    same = (one == other) | (one.isnan() & other.isnan())
    largest = (
        float(torch.where(same, torch.zeros_like(apart), apart).max()) if apart.numel() else 0.0
    )
    return math.inf if math.isnan(largest) else largest


def _error(tensor: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the root of the mean square difference from float64; infinite where only one of the two
    is not finite.
    """
    one, other = _wide(tensor), _wide(exact)
    same = (one == other) | (one.isnan() & other.isnan())
    apart = torch.where(same, torch.zeros_like(one), one - other).abs()
    if not bool(apart.isfinite().all()):
        return math.inf
    return float(apart.square().mean().sqrt()) if apart.numel() else 0.0


def _rounding(tensor: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the error that writing the exact result in the dtype of ``tensor`` may make alone."""
    if not tensor.is_floating_point():
        return 0.0
    finite = exact[exact.isfinite()]
    return (
        torch.finfo(tensor.dtype).eps * float(_wide(finite).square().mean().sqrt())
        if finite.numel()
        else 0.0
    )


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)
