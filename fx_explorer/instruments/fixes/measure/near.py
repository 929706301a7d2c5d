"""This module says how near two numbers or tensors must be to count as equal. PyTorch's operators
must agree almost exactly; built code must follow the one rule for results.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from fx_explorer.program.equal_results import (
    TOLERANCE,
    Precision,
    compare_result,
    is_within_tolerance,
    largest_difference,
)

_TOLERANCES: dict[torch.dtype, tuple[float, float]] = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.complex64: (1.3e-6, 1e-5),
    torch.float64: (1e-9, 1e-9),
    torch.complex128: (1e-9, 1e-9),
}
"""(relative, absolute) tolerance per dtype. Those for up to 32 bits are taken from
``torch.testing.assert_close``. Those of 64 bits are tighter, because its tolerances would hide a
number that lost precision in a 32-bit step. Values of any other dtype must be equal.
"""

ROUNDING = 2.0**-24
"""Relative rounding error of float32."""

ROUNDINGS = 4
"""Number of 16-bit roundings by which the size of a result may differ: ``same`` does not look at
the size, and a sum carries the roundings of what goes into it.
"""

_LEAST: dict[torch.dtype, float] = {
    torch.float32: 1e-7,
    torch.complex64: 1e-7,
    torch.float64: 1e-12,
    torch.complex128: 1e-12,
}
"""Smallest absolute tolerance: rounding leaves about this much where larger numbers cancel each
other out.
"""


@dataclass(frozen=True, slots=True)
class Distance:
    """How far two numbers, or the elements of two tensors, are from each other."""

    largest: float
    """The largest absolute difference."""
    size: float
    """The largest magnitude of the original's finite elements."""


def distance_of_tensors(before: torch.Tensor, after: torch.Tensor) -> Distance:
    """Return how far two tensors of one shape are apart."""
    return Distance(largest_difference(after, before), _size(before))


def distance_of_numbers(before: float, after: float) -> Distance:
    return distance_of_tensors(*_as_tensors(before, after))


def may_be_rounded(dtype: torch.dtype) -> bool:
    return dtype in _TOLERANCES


def are_tensors_near(
    before: torch.Tensor,
    after: torch.Tensor,
    precision: Precision | None = None,
    exact: torch.Tensor | None = None,
    *,
    is_built: bool,
) -> bool:
    """Return whether two tensors of one shape and dtype are near enough. For built code, which
    computes in another order, the rule for all results applies (``equal_results``). ``exact`` is
    the original's result in float64, if there is one, and ``precision`` that of the program.
    """
    precision = precision or Precision()
    is_near = is_built or _are_near(before, after, before.dtype)
    if exact is not None:
        return is_near and compare_result(after, before, exact, precision).kind != "differs"
    if not is_built:
        return is_near
    if is_within_tolerance(after, before):
        return True
    # A fused kernel rounds less often than eager mode. PyTorch compares the results of programs of
    # 16 bits by their direction where no run in float64 is at hand.
    if precision.rounding <= ROUNDING:
        return False
    precision = Precision(ROUNDINGS * precision.rounding)
    return compare_result(after, before, precision=precision).kind != "differs"


def are_near_in_float64(before: torch.Tensor, after: torch.Tensor) -> bool:
    """Return whether results of two runs in float64 are equal. Parts of a program that names its
    dtypes may still be in float32.
    """
    return _are_near(before, after, torch.float32)


def are_numbers_near(
    before: float,
    after: float,
    precision: Precision | None = None,
    exact: torch.Tensor | None = None,
    *,
    is_built: bool,
) -> bool:
    """Return whether two numbers are as near as float32 tensors must be: they may come from such
    tensors, which compiled code computes in another order.
    """
    if before == after:  # zeros of another sign
        return is_built
    first, second = _as_tensors(before, after)
    if not is_built:
        return _are_near(first, second, torch.float32)
    if is_within_tolerance(second, first, TOLERANCE):
        return True
    if exact is None:
        return False
    return compare_result(second.float(), first.float(), exact, precision).kind != "differs"


def _are_near(before: torch.Tensor, after: torch.Tensor, as_dtype: torch.dtype) -> bool:
    """Return whether ``after`` equals ``before`` within the tolerances of ``as_dtype``. The
    absolute one allows for elements that are small beside the others; it is scaled down for tensors
    of small numbers.
    """
    relative, absolute = _TOLERANCES.get(as_dtype, (0.0, 0.0))
    absolute = max(min(1.0, _size(before), _size(after)) * absolute, _LEAST.get(as_dtype, absolute))
    return torch.allclose(after, before, rtol=relative, atol=absolute, equal_nan=True)


def are_equal(before: object, after: object) -> bool:
    """Return whether two Python values are equal. Numbers must be as near as 64-bit tensors."""
    if isinstance(before, float) and isinstance(after, float):
        if before == 0.0 and after == 0.0:
            return math.copysign(1.0, before) == math.copysign(1.0, after)
        return (
            before == after
            or (math.isnan(before) and math.isnan(after))
            or math.isclose(before, after, rel_tol=1e-6)
        )
    if isinstance(before, complex) and isinstance(after, complex):
        return are_equal(before.real, after.real) and are_equal(before.imag, after.imag)
    return type(before) is type(after) and before == after


def _as_tensors(before: float, after: float) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(before, dtype=torch.float64), torch.tensor(after, dtype=torch.float64)


def _size(tensor: torch.Tensor) -> float:
    """Return the largest magnitude of the finite elements."""
    wide = _wide(tensor)
    finite = wide[wide.isfinite()].abs()
    return float(finite.max()) if finite.numel() else 0.0


def have_same_zero_signs(before: torch.Tensor, after: torch.Tensor) -> bool:
    """Return whether the zeros in both tensors have the same signs: 1 / -0.0 is -inf, and 1 / 0.0
    is inf.
    """
    if not before.is_floating_point():
        return True
    zeros = (before == 0) & (after == 0)
    return not bool((zeros & (before.signbit() != after.signbit())).any())


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    dtype = torch.complex128 if tensor.is_complex() else torch.float64
    return tensor.to(dtype)
