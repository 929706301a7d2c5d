"""Two programs' observations side by side: what is equal, and where they differ, in words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from fx_explorer.model import Verification

MAX_DIFFERENCES = 12

_TOLERANCES: dict[torch.dtype, tuple[float, float]] = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.complex64: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex128: (1e-7, 1e-7),
}
"""(relative, absolute), as torch.testing.assert_close has them. Other dtypes have to be equal."""

BUILT_FACTOR = 20.0
"""Built kernels compute in another order than PyTorch's own operators."""


@dataclass
class Comparison:
    """``factor`` widens the tolerances."""

    factor: float = 1.0
    compared: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    largest: float = 0.0
    where: str = ""
    lost: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    moved: str = ""
    not_compared: list[str] = field(default_factory=list)

    def add(self, original: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
        """Compare two calls with the same inputs (``Observation.plain()``)."""
        call = f"with {original['call']}"
        self._add_lines(original["printed"], changed["printed"])
        if original["raised"] or changed["raised"]:
            self.compared["exception"] += 1
            if original["raised"] != changed["raised"]:
                self.differences.append(f"{call} {_ended(original)} before and {_ended(changed)} after")
            return
        for kind, values in original["values"].items():
            others = changed["values"].get(kind, {})
            self.compared[kind] += len(values)
            for name, value in values.items():
                if name in others:
                    self._add_value(value, others[name], f"{name}, {call}")
                else:
                    self.differences.append(f"{name} is missing, {call}")
            if kind == "output":
                self.differences += [f"{name} is new, {call}" for name in others if name not in values]

    def _add_lines(self, before: Sequence[str], after: Sequence[str]) -> None:
        self.compared["printed line"] += len(before)
        self.lost += (Counter(before) - Counter(after)).elements()
        self.new += (Counter(after) - Counter(before)).elements()
        if not self.moved and Counter(after) == Counter(before):
            self.moved = next((line for line, other in zip(after, before, strict=True) if line != other), "")

    def _add_value(self, before: Any, after: Any, where: str) -> None:
        if isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor):
            difference, told = self._tensors(before, after)
            if difference > self.largest:
                self.largest, self.where = difference, where
        else:
            told = "" if _same(before, after) else f"was {_short(before)} and is {_short(after)}"
        if told:
            self.differences.append(f"{where}: {told}")

    def _tensors(self, before: torch.Tensor, after: torch.Tensor) -> tuple[float, str]:
        """(largest absolute difference, what differs in words)."""
        for what, one, other in (("shape", _shape(before), _shape(after)), ("dtype", before.dtype, after.dtype)):
            if one != other:
                return 0.0, f"its {what} was {one} and is {other}"
        difference = _largest_difference(before, after)
        relative, absolute = (self.factor * part for part in _TOLERANCES.get(before.dtype, (0.0, 0.0)))
        if torch.allclose(after, before, rtol=relative, atol=absolute, equal_nan=True):
            return difference, ""
        return difference, f"differs by up to {difference:.3g}"

    def row(self, calls: Sequence[str]) -> Verification:
        return Verification(
            0,
            is_equal=not self.differences,
            prints_equal=not (self.lost or self.new),
            calls=tuple(calls),
            compared=dict(self.compared),
            largest_difference=self.largest,
            where=self.where,
            differences=tuple(self.differences[:MAX_DIFFERENCES]),
            lost_lines=tuple(self.lost[:MAX_DIFFERENCES]),
            new_lines=tuple(self.new[:MAX_DIFFERENCES]),
            moved_line="" if self.lost or self.new else self.moved,
            not_compared=tuple(self.not_compared),
        )


def _ended(seen: Mapping[str, Any]) -> str:
    return f"it raised {seen['raised']}" if seen["raised"] else "it returned"


def _same(before: object, after: object) -> bool:
    if isinstance(before, float) and isinstance(after, float):
        return before == after or (math.isnan(before) and math.isnan(after)) or math.isclose(before, after, rel_tol=1e-6)
    return type(before) is type(after) and before == after


def _short(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor {_shape(value)}"
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _shape(tensor: torch.Tensor) -> str:
    return str(list(tensor.shape))


def _largest_difference(before: torch.Tensor, after: torch.Tensor) -> float:
    if before.numel() == 0:
        return 0.0
    wide = torch.complex128 if before.is_complex() else torch.float64
    one, other = before.to(wide), after.to(wide)
    apart = (one - other).abs()
    same = (one == other) | (one.isnan() & other.isnan())
    largest = float(torch.where(same, torch.zeros_like(apart), apart).max())
    return math.inf if math.isnan(largest) else largest
