"""Whether a contender gives the uncompiled program's results, and which of the two is nearer to a run
in float64.

The process of the uncompiled program writes its results to a file beside the session; the others
compare theirs with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch

from fx_explorer.model import AgreementKind
from fx_explorer.worker.bench.calls import OTHER_SEED, Caller, Results, observed, state_of

AS_EXACT = 2.0
"""A result is as exact as the uncompiled program's when its error is at most so many times as large.
torch's own benchmarks ask for the same (``same`` in torch/_dynamo/utils.py).
"""

RANDOM = (
    "not compared: the results are other ones with other random numbers (dropout?), of which compiled code draws its own. "
    "Measure it with --no-train, or with the model in eval mode, to compare"
)

OTHER_WEIGHTS = (
    "not compared: the program has other parameters in each process. They do not come from torch's, NumPy's or Python's random "
    "numbers, which are seeded"
)

_RANKS: tuple[AgreementKind, ...] = ("equal", "close", "as_exact", "wrong")


@dataclass(frozen=True)
class Reference:
    """What the uncompiled program gave."""

    results: Results
    exact: Results = field(default_factory=dict)
    """The results in float64; empty where there is no such run."""
    no_exact: str = ""
    """Why there is no such run."""
    is_random: bool = False
    weights: list[float] = field(default_factory=list)

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

    @property
    def rank(self) -> tuple[int, float]:
        return _RANKS.index(self.kind), self.largest


def reference_of(caller: Caller) -> Reference:
    """Call the uncompiled program: as the others will be called, with other random numbers, and in
    float64.
    """
    results = observed(caller)
    others = observed(caller, OTHER_SEED)
    exact, why = _in_float64(caller)
    return Reference(results, exact, why, not _are_close(results, others), weights(caller))


def weights(caller: Caller) -> list[float]:
    """Return a number for each parameter and buffer, by which other contents are told."""
    return [float(_wide(tensor.detach()).abs().sum()) for tensor in state_of(caller.target.network)]


def agreement(reference: Reference, results: Results, own_weights: list[float]) -> dict[str, Any]:
    """Return the fields of a BenchCell that say how the results stand to the reference."""
    if not all(map(math.isclose, reference.weights, own_weights)) or len(reference.weights) != len(own_weights):
        return {"agreement": "not_compared", "agreement_words": OTHER_WEIGHTS}
    if not (results or reference.results):
        return {"agreement": "not_compared", "agreement_words": "not compared: it returns no tensor"}
    worst = max((_difference(name, reference, results) for name in reference.results | results), key=lambda one: one.rank)
    if reference.is_random and worst.kind not in ("equal", "close"):
        return {"agreement": "not_compared", "agreement_words": RANDOM}
    return {
        "agreement": worst.kind,
        "agreement_words": worst.words or reference.no_exact,
        "largest_difference": worst.largest,
        "where": worst.name,
        "error": worst.error,
        "reference_error": worst.reference_error,
    }


def _difference(name: str, reference: Reference, results: Results) -> Difference:
    ours, theirs = results.get(name), reference.results.get(name)
    if ours is None or theirs is None:
        return Difference("wrong", name, words=f"{name} is {'missing' if ours is None else 'new'}")
    for what, one, other in (("shape", list(theirs.shape), list(ours.shape)), ("dtype", theirs.dtype, ours.dtype)):
        if one != other:
            return Difference("wrong", name, words=f"the {what} of {name} is {other}, and {one} uncompiled")
    if _is_equal(ours, theirs):
        return Difference("equal", name)
    exact = reference.exact.get(name)
    error, reference_error = (_error(tensor, exact) for tensor in (ours, theirs)) if exact is not None else (0.0, 0.0)
    largest = _largest(ours, theirs)
    if _is_close(ours, theirs):
        return Difference("close", name, largest, error, reference_error)
    is_as_exact = exact is not None and error <= max(AS_EXACT * reference_error, _rounding(ours, exact))
    return Difference("as_exact" if is_as_exact else "wrong", name, largest, error, reference_error)


def _in_float64(caller: Caller) -> tuple[Results, str]:
    """Return the results in float64; or nothing, and why."""
    try:
        results = observed(caller.in_float64())
    except Exception as error:  # noqa: BLE001 - the program was not written for float64: any error of its own
        return {}, f"there is no run in float64 to compare with: {type(error).__name__}"
    narrow = [name for name, one in results.items() if one.is_floating_point() and one.dtype != torch.float64]
    if narrow:
        return {}, f"there is no run in float64 to compare with: {narrow[0]} stays {results[narrow[0]].dtype}"
    return results, ""


def _are_close(one: Results, other: Results) -> bool:
    return one.keys() == other.keys() and all(_is_close(one[name], other[name]) for name in one)


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
    largest = float(torch.where(same, torch.zeros_like(apart), apart).max()) if apart.numel() else 0.0
    return math.inf if math.isnan(largest) else largest


def _error(tensor: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the root of the mean square difference from float64, over what is finite in both."""
    apart = (_wide(tensor) - _wide(exact)).abs()
    finite = apart[apart.isfinite()]
    return float(finite.square().mean().sqrt()) if finite.numel() else 0.0


def _rounding(tensor: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the error that writing the exact result in the dtype of ``tensor`` may make alone."""
    if not tensor.is_floating_point():
        return 0.0
    return torch.finfo(tensor.dtype).eps * _error(exact, torch.zeros_like(exact))


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)
