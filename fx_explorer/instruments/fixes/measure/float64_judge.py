"""This module runs a program of a comparison in float64, without torch.compile, and judges rounding
by it, as PyTorch's own rule does (``program/equal_results.py``).

Built code rounds in other places than eager mode, most of all in 16 bits: its results may be as far
from the run in float64 as eager mode's are. Whether a change of the code itself changes anything in
16 bits, two runs in float64 tell: the original's and the changed program's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from fx_explorer.instruments.fixes.measure import near
from fx_explorer.instruments.fixes.measure.child_program import ChildProgram
from fx_explorer.instruments.fixes.measure.uncompiled import (
    LONGEST_S,
    OriginalProgram,
    call_all,
    find_uncompiled_target,
    read_result,
)
from fx_explorer.model import CaptureRequest
from fx_explorer.program import loading
from fx_explorer.program.explaining import one_line
from fx_explorer.program.place import TargetPlace

ValueOfCall = tuple[str, str]
"""The inputs of a call, in words, and the name of a value that it leaves."""

SCRIPT_IN_FLOAT64 = "a script as a whole cannot run in float64"


class Float64Program(ChildProgram):
    """A program in float64, without torch.compile. It runs when its result is first asked for."""

    def __init__(
        self, place: TargetPlace, request: CaptureRequest, original: OriginalProgram
    ) -> None:
        """``request`` is that of the changed program or that of the original (``as_on_disk``)."""
        super().__init__(
            request,
            lambda: _float64_result(place, request, read_result(original, "the original")),
            waits=True,
        )

    @cached_property
    def result(self) -> dict[str, Any]:
        """The observations of each call, or ``problem``, the reason why there are none."""
        self.begin()
        if not self.wait_for(LONGEST_S):
            return {"problem": f"its calls took longer than {LONGEST_S:.0f} s"}
        if self.status:
            return {"problem": f"the process ended with status {self.status}"}
        return read_result(self, "the results of the run in float64")


def _float64_result(
    place: TargetPlace, request: CaptureRequest, before: dict[str, Any]
) -> dict[str, Any]:
    if "problem" in before:
        return before
    # Imported here, since it loads the compiler, which a virtual GPU must precede.
    from fx_explorer.instruments.bench.measure.calls import arguments_in_dtype, convert_network

    loading.install_texts(request.overlay)
    draws: list[bool] = []
    try:
        target, observer = find_uncompiled_target(
            place, request, lambda: _noting_random_numbers(draws)
        )
        for network in observer.networks.values():
            convert_network(network, torch.float64)
        observer.set_state(before["state"])
        seen = call_all(
            target,
            observer,
            before["ways"],
            before["seen"],
            lambda arguments: arguments_in_dtype(arguments, torch.float64),
        )
    except Exception as error:  # noqa: BLE001 - the program was not written for float64
        return {"problem": one_line(error)}
    return {"seen": seen, "draws random numbers": any(draws)}


@contextlib.contextmanager
def _noting_random_numbers(draws: list[bool]) -> Iterator[None]:
    """Append whether random numbers are drawn in the block."""
    before = _states_of_generators()
    try:
        yield
    finally:
        after = _states_of_generators()
        draws.append(
            any(not torch.equal(one, other) for one, other in zip(before, after, strict=False))
        )


def _states_of_generators() -> list[torch.Tensor]:
    states = [torch.get_rng_state()]
    if torch.cuda.is_initialized():
        states += torch.cuda.get_rng_state_all()
    return states


@dataclass(frozen=True)
class Float64Judge:
    """The results of the original in float64, by which rounding is judged."""

    results: Mapping[ValueOfCall, torch.Tensor] = field(default_factory=dict)
    draws_random_numbers: bool = False
    """Whether the program draws random numbers, which may be others in float64."""
    problem: str = ""
    """Why there is no run in float64; empty where there is one."""

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> Float64Judge:
        """Return the judge of a ``Float64Program.result``."""
        if "problem" in result:
            return cls(problem=result["problem"])
        return cls(_tensors_by_call(result["seen"]), result["draws random numbers"])

    def exact(self, value: ValueOfCall, eager: torch.Tensor) -> torch.Tensor | None:
        """Return the float64 result for a result of eager mode; None if there is none, or if it may
        come from other random numbers.
        """
        from fx_explorer.instruments.bench.measure.agreement import is_near_exact  # as above

        exact = self.results.get(value)
        if exact is None or exact.shape != eager.shape:
            return None
        if self.draws_random_numbers and not is_near_exact(exact, eager):
            return None
        return exact


def _tensors_by_call(seen: list[Mapping[str, Any] | None]) -> dict[ValueOfCall, torch.Tensor]:
    results: dict[ValueOfCall, torch.Tensor] = {}
    for call in seen:
        if call is None:
            continue
        for of_kind in call["values"].values():
            for name, value in of_kind.items():
                if isinstance(value, torch.Tensor):
                    results[call["call"], name] = value
                elif isinstance(value, float):
                    results[call["call"], name] = torch.tensor(value, dtype=torch.float64)
    return results


def tensors_within(value: object) -> Iterator[torch.Tensor]:
    """Yield the tensors in dicts and lists of results."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_within(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_within(item)


def without_float64(problem: str) -> str:
    """Return what is not compared where there is no run in float64, with the reason."""
    why = f" ({problem})" if problem else ""
    return f"rounding, by comparison with a float64 run, the reference of PyTorch's rule{why}"


def compare_in_float64(
    values: set[ValueOfCall], original: Float64Judge, changed: Callable[[], Mapping[str, Any]]
) -> tuple[list[str], str]:
    """Compare these values of two programs in float64, in which a change of the code that changes
    results cannot hide behind rounding. Return the differences, and why there are values that could
    not be compared; empty where all were. ``changed`` runs the changed program in float64.
    """
    if original.problem:
        return [], original.problem
    other = Float64Judge.of(changed())
    if other.problem:
        return [], f"the changed program: {other.problem}"
    differences, problem = [], ""
    for call, name in sorted(values):
        before, after = original.results.get((call, name)), other.results.get((call, name))
        if before is None or after is None or before.shape != after.shape:
            problem = f"{name}, with {call}, is not in both"
        elif not near.are_near_in_float64(before, after):
            largest = near.distance_of_tensors(before, after).largest
            differences.append(f"{name}, with {call}, in float64: differs by up to {largest:.3g}")
    return differences, problem
