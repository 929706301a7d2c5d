"""This module decides when two results are equal, by PyTorch's own rule, for all comparisons of
what a program computed.

The rule is that of ``same`` in torch/_dynamo/utils.py and of the harness around it
(benchmarks/dynamo/common.py, ``check_accuracy``): a result within a tolerance of eager's is equal;
one further away is compared with a run of the same program in float64, and may have so many times
eager's own error, as root of the mean square. It is stricter than ``same`` where results are small:
there the absolute tolerances of ``same`` are larger than the results, and any would pass. What
``same`` accepts is accepted there too as long as its error is small beside the result
(``ANOTHER_ALGORITHM``).

What it does not do: run anything, or know which result belongs to which. ``compare_result`` is
given tensors on the CPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch

EqualityKind = Literal["equal", "within_error", "differs"]
"""The kinds of equality. ``equal``: bit by bit, or within the tolerance. ``within_error``: further
away, but no further from the run in float64 than eager's own uncertainty. ``differs``: neither.
"""

TOLERANCE = 1e-4
"""Relative and absolute tolerance of results up to 1: the default of ``same`` and of
torchbench.py.
"""

GPU_GRADIENT_TOLERANCE = 1e-3
"""The tolerance for gradients on a GPU (torchbench.py, ``get_tolerance_and_cosine_flag``)."""

WIDE_TOLERANCE = 1e-8
"""The tolerance for numbers of 64 bits: a step in 32 bits must not be hidden."""

NARROW_TOLERANCES = {torch.float16: 1e-3, torch.bfloat16: 1e-2}
"""The tolerances for 16-bit types where there is no more exact run (torchbench.py and
torchbench.yaml, ``higher_bf16``).
"""

SMALL = 1000
"""Number of elements below which the error of a tensor is mostly chance (``get_multiplier`` in
``same``).
"""

SMALLER = 500
"""Maximum number of elements of a result for which eager's error may be close to zero by chance."""

LEAST_OF_GROUP = 0.01
"""Smallest size of a result, as a part of the largest result of its kind (such as all gradients): a
smaller one may be only rounding error left by cancellation.
"""

LOOSE = 4e-2
"""Largest error, relative to 1 + the float64 value, of a number that eager mode computes as NaN or
infinite (``loose_tol`` in ``same``).
"""

COSINE = 0.99
"""Smallest cosine similarity where there is no more exact run, as in ``same``."""

SIZE = 5e-4
"""Largest relative difference of norms where results are compared by their cosine, which does not
show it: ``same`` has no such bound.
"""

ANOTHER_ALGORITHM = 5.0
"""Multiple of the tolerance by which a small result that ``same`` accepts may be off, at its own
size. Another kernel for attention on an H200 differs by 3e-4 of an output where the tolerance is
1e-4 (``benchmarks.bench_verdicts``); a result that is wrong by a thousandth, or a gradient by a
hundredth, is off by more.
"""

ROUNDING_OF_TF32 = 2.0**-11
"""Relative rounding error of TF32, which has ten bits of mantissa."""


@dataclass(frozen=True)
class ResultDifference:
    """The difference between a result and eager's, and how it is judged."""

    kind: EqualityKind
    largest: float = 0.0
    """The largest absolute difference; infinite where only one of the two values is finite."""
    place: tuple[int, ...] = ()
    """The index of the largest difference."""
    there: tuple[float, float] | None = None
    """(the result, eager's result) at that place, where they are real numbers."""
    error: float = 0.0
    """Root mean square difference from the more exact run; 0 where there is none."""
    eager_error: float = 0.0
    """Error of eager against the float64 run, measured in the same way."""
    limit: float = 0.0
    """Largest error that still counts as ``within_error``."""
    note: str = ""
    """Further facts, as a clause: why it differs, or what it was compared with."""
    is_another_kind: bool = False
    """Whether it is missing, new, or of another shape or dtype."""

    @property
    def is_more_exact(self) -> bool:
        """Return whether the result is nearer to the more exact run than eager's."""
        return self.error < self.eager_error

    @property
    def severity(self) -> tuple[int, float, float]:
        """Return the sort key of differences, the worst last."""
        rank = ("equal", "within_error", "differs").index(self.kind)
        if not self.limit:  # it was not compared with one, as nothing excuses it
            share_of_limit = math.inf if self.kind == "differs" else 0.0
            return rank, share_of_limit, self.largest
        return rank, self.error / self.limit, self.largest


@dataclass(frozen=True)
class Precision:
    """The precision of a program's numbers, from which the allowed differences follow."""

    rounding: float = 2.0**-24
    """Relative rounding error of the coarsest numbers that it computes with."""
    tolerance: float = TOLERANCE
    group_size: float = 0.0
    """Root of the mean square of the largest result of the same kind; 0: compared alone."""


def compare_result(
    result: torch.Tensor | None,
    eager: torch.Tensor | None,
    exact: torch.Tensor | None = None,
    precision: Precision | None = None,
) -> ResultDifference:
    """Compare a result with eager mode's. ``exact`` is the more exact run's, in float64 if
    possible; without it the rule is the cosine similarity, as in ``same``. All are on the CPU.

    Raises RuntimeError and NotImplementedError for kinds of tensors that torch cannot compare.
    """
    another_kind = _another_kind(result, eager)
    if another_kind or result is None or eager is None:
        return ResultDifference("differs", note=another_kind, is_another_kind=True)
    if not (result.is_floating_point() or result.is_complex()):
        return _compare_exactly(result, eager, exact)
    precision = precision or Precision(rounding_of([eager]))
    if eager.dtype in (torch.float64, torch.complex128):
        precision = replace(precision, tolerance=WIDE_TOLERANCE)
    pair, has_exact = _Pair(result, eager), exact is not None and exact.shape == eager.shape
    tolerance = precision.tolerance
    if not has_exact:
        tolerance = NARROW_TOLERANCES.get(eager.dtype, tolerance)
    if pair.is_within(tolerance, precision):
        return pair.difference("equal")
    if exact is None or not has_exact:
        return _compare_directions(pair, precision)
    return _compare_errors(pair, _wide(exact), precision)


def is_within_tolerance(
    result: torch.Tensor, eager: torch.Tensor, tolerance: float | None = None
) -> bool:
    """Return whether two results are equal by the tolerance alone, without a more exact run.
    ``tolerance``: None for that of their dtype.
    """
    if _another_kind(result, eager):
        return False
    if not (result.is_floating_point() or result.is_complex()):
        return torch.equal(result, eager)
    if tolerance is None:
        tolerance = NARROW_TOLERANCES.get(eager.dtype, tolerance_of(eager.dtype))
    return _Pair(result, eager).is_within(tolerance, Precision())


def tolerance_of(dtype: torch.dtype) -> float:
    """Return the tolerance of results of a dtype that are compared with a more exact run."""
    if dtype in (torch.float64, torch.complex128):
        return WIDE_TOLERANCE
    return TOLERANCE


def largest_difference(result: torch.Tensor, eager: torch.Tensor) -> float:
    """Return the largest absolute difference of two results of one shape; infinite if only one of
    the two is finite.
    """
    return _Pair(result, eager).difference("equal").largest


def rounding_of(tensors: list[torch.Tensor]) -> float:
    """Return the relative rounding error of the coarsest of these; that of float32 without any."""
    # Narrower ones hold weights, and are widened before anything is computed.
    dtypes = {
        tensor.dtype for tensor in tensors if tensor.is_floating_point() and tensor.itemsize > 1
    }
    return max((torch.finfo(dtype).eps / 2 for dtype in dtypes), default=2.0**-24)


def root_mean_square(tensor: torch.Tensor) -> float:
    """Return the root of the mean square of a tensor's finite elements; 0 without any."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return 0.0
    wide = _wide(tensor)
    return _rms(wide[wide.isfinite()])


class _Pair:
    """A result and eager's, element by element."""

    def __init__(self, result: torch.Tensor, eager: torch.Tensor) -> None:
        self.dtype = eager.dtype
        self.result, self.eager = _wide(result), _wide(eager)
        both_nan = self.result.isnan() & self.eager.isnan()
        self.is_same = (self.result == self.eager) | both_nan
        apart = (self.result - self.eager).abs()
        apart = torch.where(self.is_same, torch.zeros_like(apart), apart)
        self.apart = torch.nan_to_num(apart, nan=math.inf, posinf=math.inf)
        self.is_finite = self.result.isfinite() & self.eager.isfinite()

    @property
    def count(self) -> int:
        return self.eager.numel()

    def is_within(self, tolerance: float, precision: Precision) -> bool:
        finite = self.eager[self.eager.isfinite()]
        size = _size(_rms(finite), precision)
        allowed = tolerance * (size + self.eager.abs())
        return bool((self.is_same | (self.apart <= allowed) & self.is_finite).all())

    def difference(self, kind: EqualityKind) -> ResultDifference:
        if not self.count or bool(self.is_same.all()):
            return ResultDifference(kind)
        position = int(self.apart.argmax())
        place = tuple(
            int(index) for index in torch.unravel_index(torch.tensor(position), self.apart.shape)
        )
        there = None
        if not self.eager.is_complex():
            there = float(self.result[place]), float(self.eager[place])
        return ResultDifference(kind, float(self.apart[place]), place, there)

    def not_finite(self, is_excused: torch.Tensor) -> ResultDifference | None:
        """Return the difference if only one of the two is finite, or they are infinite in different
        ways.
        """
        is_wrong = ~self.is_finite & ~self.is_same & ~is_excused
        count = int(is_wrong.sum())
        if not count:
            return None
        difference = self.difference("differs")
        which = "is not finite where eager mode's is"
        return replace(difference, note=f"{count:,} of {self.count:,} numbers {which}")


def _compare_errors(pair: _Pair, exact: torch.Tensor, precision: Precision) -> ResultDifference:
    """Compare the error of a result with that of eager mode."""
    near_exact = (pair.result - exact).abs() <= LOOSE * (1 + exact.abs())
    is_better = ~pair.eager.isfinite() & pair.result.isfinite() & exact.isfinite() & near_exact
    not_finite = pair.not_finite(is_better)
    if not_finite is not None:
        return not_finite
    counts = pair.is_finite & exact.isfinite()
    error = _rms((pair.result - exact)[counts])
    eager_error = _rms((pair.eager - exact)[counts])
    finite_exact = exact[exact.isfinite()]
    limit = _limit(pair, finite_exact, eager_error, precision)
    kind: EqualityKind = "within_error" if error <= limit else "differs"
    note = ""
    if bool(is_better.any()):
        note = "eager mode's is not finite, but it and the float64 run are"
    elif kind == "differs" and _is_same_in_pytorch(pair, error, eager_error, precision):
        off_by_algorithm = ANOTHER_ALGORITHM * precision.tolerance * _rms(finite_exact)
        if error <= off_by_algorithm:
            kind, limit = "within_error", off_by_algorithm
            note = "less exact than eager mode, but equal by PyTorch's rule"
    return replace(
        pair.difference(kind), error=error, eager_error=eager_error, limit=limit, note=note
    )


def _is_same_in_pytorch(
    pair: _Pair, error: float, eager_error: float, precision: Precision
) -> bool:
    """Return whether ``same`` accepts a result, whose absolute tolerances do not shrink with it."""
    tolerance = precision.tolerance
    allowed = tolerance * (1 + pair.eager.abs())
    if bool((pair.is_same | (pair.apart <= allowed) & pair.is_finite).all()):
        return True
    return error <= _multiplier(pair) * eager_error + tolerance / 10


def _limit(pair: _Pair, exact: torch.Tensor, eager_error: float, precision: Precision) -> float:
    """Return the largest error that a result may have without counting as different."""
    size = _rms(exact)
    allowed = _multiplier(pair) * eager_error
    allowed += precision.tolerance / 10 * _size(size, precision)
    # To write the exact result in this dtype makes an error of so much.
    least = torch.finfo(pair.dtype).eps * size
    if pair.count <= SMALLER:
        # Eager's error of a few numbers may be next to nothing by chance.
        least = max(least, precision.rounding * size)
    if size <= precision.rounding * precision.group_size:
        # Nothing but what rounding leaves where numbers of the group's size cancel each other out.
        least = max(least, 2 * precision.rounding * precision.group_size)
    return max(allowed, least)


def _multiplier(pair: _Pair) -> float:
    """Return the factor by which eager mode's error may be exceeded (``get_multiplier`` in
    ``same``). Its larger factors for small tensors are for a few models that the harness names, and
    are not used here.
    """
    shape = pair.eager.shape
    is_of_one_by_one = len(shape) == 4 and shape[-1] == shape[-2] == 1
    is_noisy = pair.count < SMALL or is_of_one_by_one
    if is_noisy or pair.dtype in (torch.float16, torch.bfloat16):
        return 3.0
    return 2.0


def _compare_directions(pair: _Pair, precision: Precision) -> ResultDifference:
    """Compare without a more exact run: the direction of a result, and its size."""
    not_finite = pair.not_finite(torch.zeros_like(pair.is_finite))
    if not_finite is not None:
        return not_finite
    result, eager = pair.result[pair.is_finite], pair.eager[pair.is_finite]
    sizes = float(result.abs().square().sum().sqrt()), float(eager.abs().square().sum().sqrt())
    if not all(sizes):
        return replace(pair.difference("differs"), note="one of the two is 0 throughout")
    cosine = float((result * eager.conj()).sum().real) / (sizes[0] * sizes[1])
    size_off = abs(sizes[0] / sizes[1] - 1)
    is_alike = cosine >= COSINE and size_off <= max(SIZE, precision.rounding)
    kind: EqualityKind = "within_error" if is_alike else "differs"
    note = f"cosine similarity {cosine:.6f}, norms {size_off:.1e} apart"
    return replace(pair.difference(kind), note=note)


def _compare_exactly(
    result: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor | None
) -> ResultDifference:
    """Compare integers and booleans, which are equal or not."""
    differ = result != eager
    count = int(differ.sum())
    if not count:
        return ResultDifference("equal")
    kind = "booleans" if eager.dtype == torch.bool else "integers"
    note = f"{count:,} of {eager.numel():,} {kind}"
    if exact is not None and exact.shape == eager.shape and exact.dtype == eager.dtype:
        note += f"; in the float64 run, {int((exact != eager).sum()):,} differ from eager mode's"
    return replace(_Pair(result, eager).difference("differs"), note=note)


def _another_kind(result: torch.Tensor | None, eager: torch.Tensor | None) -> str:
    """Return why a result is of another kind, as a clause; empty if it is not."""
    if result is None:
        return "is missing"
    if eager is None:
        return "is new"
    if result.shape != eager.shape:
        return f"has shape {list(result.shape)}, and {list(eager.shape)} in eager mode"
    if result.dtype != eager.dtype:
        return f"has dtype {result.dtype}, and {eager.dtype} in eager mode"
    return ""


def _size(rms: float, precision: Precision) -> float:
    """Return the size that absolute tolerances are scaled by, at most 1 as in ``same``."""
    return min(1.0, max(rms, LEAST_OF_GROUP * precision.group_size))


def _rms(values: torch.Tensor) -> float:
    if values.numel():
        return float(values.abs().square().mean().sqrt())
    return 0.0


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    widest = torch.complex128 if tensor.is_complex() else torch.float64
    return tensor.to(widest)
