"""This module checks whether a contender's results agree with eager mode, by the rule of
``equal_results``.

The process of the program in eager mode writes its results to a file beside the session, with those
of a more exact run; the others compare theirs with it.
"""

from __future__ import annotations

import contextlib
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from fx_explorer.instruments.bench.measure.calls import (
    OTHER_SEED,
    Caller,
    NetworkState,
    Results,
    is_on_gpu,
    observed,
    state_of,
)
from fx_explorer.instruments.bench.measure.path_while_compiling import (
    answering_as_compiled,
    describe_other_path,
)
from fx_explorer.model import AgreementKind
from fx_explorer.model.numerics import BY_TF32
from fx_explorer.program.equal_results import (
    GPU_GRADIENT_TOLERANCE,
    ROUNDING_OF_TF32,
    TOLERANCE,
    Precision,
    ResultDifference,
    compare_result,
    is_within_tolerance,
    root_mean_square,
    rounding_of,
)
from fx_explorer.program.explaining import one_line
from fx_explorer.program.plain_values import copy_parts

NO_FLOAT64 = "the run in float64 is missing"

CALLED_AGAIN = "it differs between two calls of the program in eager mode, too"

RANDOM = (
    "it changes with the random numbers (dropout?), and compiled code draws others; in eval mode "
    "it can be compared"
)

OTHER_BEGINNING = (
    "not compared: each process has other parameters or inputs, from random numbers other than "
    "torch's, NumPy's or Python's default generators, or with their own seed"
)

WITHOUT_TF32 = "comparing again with TF32 switched off"
EAGERS_NUMBERS = "compiling again with eager mode's random numbers, to compare the results"

MOST_BY_ROUNDING = 0.1
"""Largest relative change of a result between the two precisions that counts as rounding."""

PLACES = ("", ", with other values")
"""Suffixes of a result's name, for each call."""


@dataclass(frozen=True)
class Reference:
    """The results of the program in eager mode: with the example inputs, and with other values."""

    results: list[Results]
    exact: list[Results] = field(default_factory=list)
    """The results of a more exact run; empty without one."""
    about_exact: str = ""
    """A clause on the limits of the more exact run; empty if it was in float64 throughout."""
    varies: dict[str, str] = field(default_factory=dict)
    """Name of a result that varies from call to call → the reason, as a clause."""
    content: list[float] = field(default_factory=list)
    rounding: float = 2.0**-24
    """Relative rounding error of the coarsest numbers that the program computes with."""
    rounding_without_tf32: float = 2.0**-24
    """The rounding error when TF32 is switched off."""
    is_on_gpu: bool = False
    without_tf32: list[Results] = field(default_factory=list)
    """The results with TF32 switched off; empty where it was not on."""

    def save(self, path: str) -> None:
        torch.save(vars(self), path)

    @classmethod
    def load(cls, path: str) -> Reference:
        return cls(**torch.load(path, weights_only=True))


@dataclass(frozen=True)
class _Compared:
    """One result of one call, with its comparison to eager mode."""

    name: str
    call: int
    kind: AgreementKind
    difference: ResultDifference

    @property
    def full_name(self) -> str:
        return f"{self.name}{PLACES[self.call]}"

    @property
    def severity(self) -> tuple[int, int, tuple[int, float, float]]:
        """Return a sort key that puts the most serious result last; of calls that are equally
        wrong, the first call is last.
        """
        return _RANKS.index(self.kind), -self.call, self.difference.severity


_RANKS: tuple[AgreementKind, ...] = ("equal", "within_error", "not_compared", "differs")


def reference_of(caller: Caller, state: NetworkState) -> Reference:
    """Call the program in eager mode in several ways: as the others will be called, a second time,
    with other random numbers, in float64, and with TF32 switched off where it is on. Each call
    begins with ``state``.
    """
    calls = (caller, caller.with_other_values())
    results = [observed(call, state) for call in calls]
    varies = dict.fromkeys(
        _differing_names(results[0], observed(caller, state, OTHER_SEED)), RANDOM
    )
    if varies:
        again = observed(caller, state)
        varies |= dict.fromkeys(_differing_names(results[0], again), CALLED_AGAIN)
    without_tf32 = []
    if uses_tf32(caller, results[0]):
        with highest_precision():
            without_tf32 = [observed(call, state) for call in calls]
    exact, about_exact = _more_exact(caller)
    tensors = [*state_of(caller.target.network), *caller.target.arguments.tensors()]
    rounding_without_tf32 = rounding_of([*tensors, *results[0].values()])
    rounding = rounding_without_tf32
    if without_tf32:
        rounding = max(rounding, ROUNDING_OF_TF32)
    return Reference(
        results=results,
        exact=exact,
        about_exact=about_exact,
        varies=varies,
        content=content(caller),
        rounding=rounding,
        rounding_without_tf32=rounding_without_tf32,
        is_on_gpu=is_on_gpu(caller),
        without_tf32=without_tf32,
    )


def content(caller: Caller) -> list[float]:
    """Return a number for each parameter, buffer and input, from which a change of its content is
    recognised.
    """
    tensors = [*state_of(caller.target.network), *caller.target.arguments.tensors()]
    return [_sum_of(tensor) for tensor in tensors]


def _sum_of(tensor: torch.Tensor) -> float:
    if type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.is_floating_point():
        with contextlib.suppress(
            RuntimeError, NotImplementedError
        ):  # float8 and sparse ones have no such sum
            # Without a copy of a large parameter in float64.
            return float(tensor.detach().abs().sum(dtype=torch.float64))
    parts = copy_parts(tensor).values()
    return float(sum(float(_wide(part).abs().sum()) for part in parts))


def agreement(
    reference: Reference, results: list[Results], begins_with: list[float]
) -> dict[str, Any]:
    """Return the fields of a BenchCell that compare the results with the reference."""
    if not _is_same_content(reference.content, begins_with):
        return {"agreement": "not_compared", "agreement_words": OTHER_BEGINNING}
    if not any(name.startswith("output") for name in reference.results[0] | results[0]):
        return {
            "agreement": "not_compared",
            "agreement_words": "not compared: it returns no tensor",
        }
    try:
        compared = _compare(reference, reference.results, reference.exact, results)
    except (RuntimeError, NotImplementedError, TypeError) as error:
        # a kind of tensor that torch cannot compare
        return {"agreement": "not_compared", "agreement_words": f"not compared: {one_line(error)}"}
    worst = max(compared, key=lambda result: result.severity)
    difference = worst.difference
    place = str(list(difference.place)) if difference.place else ""
    return {
        "agreement": worst.kind,
        "agreement_words": _describe_comparison(worst, compared, reference),
        "largest_difference": difference.largest,
        "where": worst.full_name,
        "place": place,
        "error": difference.error,
        "reference_error": difference.eager_error,
    }


def path_while_compiling(
    reference: Reference, results: list[Results], plain: Caller, state: NetworkState
) -> str:
    """Return a clause that the program itself computes differently while it is compiled, with the
    lines that ask; empty if that does not explain the results that differ. ``plain`` calls the
    program in eager mode.
    """
    compared = _compare(reference, reference.results, reference.exact, results)
    differing = [result for result in compared if result.kind == "differs"]
    try:
        with answering_as_compiled() as lines:
            as_compiled = [observed(call, state) for call in (plain, plain.with_other_values())]
    except Exception:  # noqa: BLE001 - the program was not written to be told so in eager mode
        return ""
    is_explained = all(
        _is_same(results[row.call].get(row.name), as_compiled[row.call].get(row.name))
        for row in differing
    )
    return describe_other_path(lines) if lines and is_explained else ""


def _is_same(tensor: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    if tensor is None or other is None:
        return tensor is other
    return tensor.shape == other.shape and is_within_tolerance(tensor, other)


def next_comparison(reference: Reference, agreed: dict[str, Any]) -> str:
    """Return the kind of a second comparison that could give a clearer answer than ``agreed``;
    empty if none could.
    """
    is_near = agreed["agreement"] == "within_error"
    is_less_exact = is_near and agreed["error"] >= agreed["reference_error"]
    if reference.without_tf32 and (agreed["agreement"] == "differs" or is_less_exact):
        return WITHOUT_TF32
    if agreed["agreement"] == "not_compared" and RANDOM in agreed["agreement_words"]:
        return EAGERS_NUMBERS
    return ""


def agreement_otherwise(
    reference: Reference, caller: Caller, state: NetworkState, agreed: dict[str, Any]
) -> dict[str, Any]:
    """Compare results a second time if that can give a clearer answer than ``agreed``, which
    ``agreement`` returned: with TF32 switched off, or with PyTorch's own random numbers. Return the
    fields that change.
    """
    words = str(agreed["agreement_words"])
    more = next_comparison(reference, agreed)
    try:
        if more == WITHOUT_TF32:
            return _without_tf32(reference, caller, state, agreed)
        if more == EAGERS_NUMBERS:
            return _with_pytorchs_numbers(reference, caller, state)
    except Exception as error:  # noqa: BLE001 - told: what was compared before still holds
        return {"agreement_words": f"{words}; a second comparison fails: {one_line(error)}"}
    return {}


def _without_tf32(
    reference: Reference, caller: Caller, state: NetworkState, agreed: dict[str, Any]
) -> dict[str, Any]:
    """Compare again with TF32 switched off. Results that still differ do not differ because of
    TF32.
    """
    with highest_precision():
        results = [observed(call, state) for call in (caller, caller.with_other_values())]
    exactly = replace(reference, rounding=reference.rounding_without_tf32)
    compared = _compare(exactly, reference.without_tf32, reference.exact, results)
    worst = max(compared, key=lambda result: result.severity)
    largest = worst.difference.largest
    far = f"{worst.full_name} differs by up to {largest:.2g}"
    if not largest:
        far = "results are equal bit by bit"
    switched_off = (
        "with TF32 switched off (torch.backends.cudnn.allow_tf32, cuda.matmul.allow_tf32)"
    )
    agreement = agreed["agreement"]
    if worst.kind == "differs":
        agreement = "differs"
        sentence = f"{switched_off} results differ too: {far}"
    elif agreement == "differs":
        sentence = f"{BY_TF32}: {switched_off} {far}"
    else:
        sentence = f"{switched_off} {far}"
    sentences = [str(agreed["agreement_words"]), sentence]
    return {"agreement": agreement, "agreement_words": "; ".join(filter(None, sentences))}


def _with_pytorchs_numbers(
    reference: Reference, caller: Caller, state: NetworkState
) -> dict[str, Any]:
    """Compare results where Inductor draws random numbers as PyTorch's operators do, as the harness
    of PyTorch's benchmarks does. Where they still differ, it is not known whether the numbers do.
    """
    from fx_explorer.capture.torch_compat.private_names import inductor_config

    torch.compiler.reset()
    try:
        with inductor_config.patch(fallback_random=True):
            results = [observed(call, state) for call in (caller, caller.with_other_values())]
    finally:
        torch.compiler.reset()
    same_numbers = replace(reference, varies={}, exact=_of_same_numbers(reference))
    fields = agreement(same_numbers, results, reference.content)
    if fields["agreement"] not in ("equal", "within_error"):
        return {}
    words = (
        "compared with torch._inductor.config.fallback_random, so that random numbers equal eager "
        "mode's"
    )
    return fields | {"agreement_words": "; ".join(filter(None, [words, fields["agreement_words"]]))}


def _of_same_numbers(reference: Reference) -> list[Results]:
    """Return the more exact results, without varying ones that are far from eager mode's because of
    other random numbers.
    """
    kept = []
    for eager, exact in zip(reference.results, reference.exact, strict=False):
        near = {
            name: tensor
            for name, tensor in exact.items()
            if name not in reference.varies or is_near_exact(tensor, eager.get(name))
        }
        kept.append(near)
    return kept


def is_near_exact(exact: torch.Tensor, eager: torch.Tensor | None) -> bool:
    """Return whether a result of the more exact run is as near to eager mode's as rounding leaves
    it: with other random numbers it is not.
    """
    if eager is None or eager.shape != exact.shape:
        return False
    far = root_mean_square(_wide(eager) - _wide(exact))
    return far <= MOST_BY_ROUNDING * root_mean_square(eager)


def _compare(
    reference: Reference, eager: list[Results], exact: list[Results], results: list[Results]
) -> list[_Compared]:
    """Return how each result of each call stands to eager's."""
    compared = []
    for call, (ours, theirs) in enumerate(zip(results, eager, strict=False)):
        more_exact = exact[call] if exact else {}
        sizes = _group_sizes(theirs)
        for name in theirs | ours:
            kind = name.partition(" ")[0]
            is_gpu_gradient = kind == "gradient" and reference.is_on_gpu
            tolerance = GPU_GRADIENT_TOLERANCE if is_gpu_gradient else TOLERANCE
            precision = Precision(reference.rounding, tolerance, sizes.get(kind, 0.0))
            difference = compare_result(
                ours.get(name), theirs.get(name), more_exact.get(name), precision
            )
            is_chance = name in reference.varies and _may_be_chance(difference, theirs.get(name))
            judged: AgreementKind = "not_compared" if is_chance else difference.kind
            compared.append(_Compared(name, call, judged, difference))
    return compared


def _may_be_chance(difference: ResultDifference, eager: torch.Tensor | None) -> bool:
    """Return whether a difference may be due to chance: the result varies between calls of eager
    mode, and the more exact run, being another call, varies as much.
    """
    if eager is None or difference.is_another_kind or difference.kind == "equal":
        return False
    is_of_other_call = difference.eager_error > MOST_BY_ROUNDING * root_mean_square(eager)
    return difference.kind == "differs" or is_of_other_call


def _group_sizes(results: Results) -> dict[str, float]:
    """Return the size of the largest output and of the largest gradient."""
    sizes = {"output": 0.0, "gradient": 0.0}
    for name, tensor in results.items():
        kind = name.partition(" ")[0]
        if kind in sizes:
            sizes[kind] = max(sizes[kind], root_mean_square(tensor))
    return sizes


def _describe_comparison(worst: _Compared, compared: list[_Compared], reference: Reference) -> str:
    """Describe the comparison beyond its figures, as clauses."""
    difference = worst.difference
    if worst.kind == "not_compared":
        return f"not compared: {worst.full_name}, since {reference.varies[worst.name]}"
    if difference.is_another_kind and worst.name.startswith("parameter "):
        is_left = difference.note == "is missing"
        verb = "is not written to" if is_left else "is written to"
        return f"{worst.full_name} {verb}, unlike in eager mode"
    if difference.is_another_kind:
        return f"{worst.full_name} {difference.note}"
    if worst.kind == "equal":
        return ""
    clauses = [_largest_difference(difference), difference.note]
    if worst.kind == "differs":
        count = sum(result.kind == "differs" for result in compared)
        if count > 1:
            clauses.append(f"{count:,} of {len(compared):,} results differ")
    clauses.append(reference.about_exact)
    return "; ".join(filter(None, clauses))


def _largest_difference(difference: ResultDifference) -> str:
    """Return the two numbers at the place of the largest difference."""
    if difference.there is None:
        return ""
    result, eager = difference.there
    return f"it is {result:.6g} in compiled code, and {eager:.6g} in eager mode"


def uses_tf32(caller: Caller, results: Results) -> bool:
    """Return whether a program may compute numbers of 32 bits in TF32."""
    if not is_on_gpu(caller):
        return False
    tensors = [*state_of(caller.target.network), *caller.target.arguments.tensors()]
    if not any(tensor.dtype == torch.float32 for tensor in [*tensors, *results.values()]):
        return False
    try:
        torch.get_float32_matmul_precision()
        return torch.backends.cudnn.allow_tf32 or torch.backends.cuda.matmul.allow_tf32
    except RuntimeError:
        # The program has set ``fp32_precision`` of single operators, which cannot be mixed with
        # this.
        return False


@contextlib.contextmanager
def highest_precision() -> Iterator[None]:
    """Switch off the rounding of 32-bit numbers to fewer bits in products and convolutions."""
    matmul, cudnn = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(matmul)
        torch.backends.cudnn.allow_tf32 = cudnn


def _more_exact(caller: Caller) -> tuple[list[Results], str]:
    """Return the results of a run in float64 (else float32), and a sentence on how they limit the
    comparison. The results are empty if neither dtype works.
    """
    results, why = _wider_run(caller, torch.float64)
    if results:
        return results, _stays_narrow(results[0])
    problem = f"{NO_FLOAT64} ({why})"
    tensors = [*state_of(caller.target.network), *caller.target.arguments.tensors()]
    if any(tensor.dtype in (torch.float16, torch.bfloat16) for tensor in tensors):
        results, _ = _wider_run(caller, torch.float32)
    if results:
        return results, f"{problem}, so both are compared with a float32 run"
    return [], (
        f"{problem}, so they are compared by direction and size, like in PyTorch's benchmarks"
    )


def _wider_run(caller: Caller, dtype: torch.dtype) -> tuple[list[Results], str]:
    """Return the results of both calls in a wider dtype; or an empty list and the reason."""
    if _needed_bytes(caller, dtype) > _free_bytes(caller):
        return [], f"the model does not fit into memory in {str(dtype).removeprefix('torch.')}"
    why = ""
    try:
        wide = caller.in_dtype(dtype)
        state = NetworkState(wide.target.network, original=caller.target.network)
        return [observed(caller, state) for caller in (wide, wide.with_other_values())], ""
    except Exception as error:  # noqa: BLE001
        # the program was not written for it: any error of its own
        why = one_line(error)
    if is_on_gpu(caller):
        torch.cuda.empty_cache()
    return [], why


def _stays_narrow(results: Results) -> str:
    """Return the name of a result that the program itself computes in fewer than 64 bits; empty
    without one.
    """
    narrow = [
        name
        for name, tensor in results.items()
        if tensor.is_floating_point() and tensor.dtype != torch.float64
    ]
    if not narrow:
        return ""
    if len(narrow) > 1:
        others = (
            " and one other stay" if len(narrow) == 2 else f" and {len(narrow) - 1:,} others stay"
        )
    else:
        others = " stays"
    return f"in the float64 run, {narrow[0]}{others} {results[narrow[0]].dtype}"


def _needed_bytes(caller: Caller, dtype: torch.dtype) -> int:
    """Return the bytes of a copy of the model, with its state, and gradients if it trains."""
    numbers = sum(tensor.numel() for tensor in state_of(caller.target.network))
    copies = 1 if is_on_gpu(caller) and not caller.trains else 3
    return copies * dtype.itemsize * numbers


def _free_bytes(caller: Caller) -> int:
    """Return how much memory a program can still allocate on its device (for the CPU: proc(5),
    MemAvailable); infinite where that is not reported.
    """
    if is_on_gpu(caller):
        return int(torch.cuda.mem_get_info()[0])
    try:
        match = re.search(
            r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE
        )
    except OSError:
        match = None
    return 1024 * int(match[1]) if match else sys.maxsize


def _is_same_content(numbers: list[float], others: list[float]) -> bool:
    return len(numbers) == len(others) and all(map(_is_same_number, numbers, others))


def _is_same_number(number: float, other: float) -> bool:
    are_both_nan = math.isnan(number) and math.isnan(other)
    return number == other or math.isclose(number, other) or are_both_nan


def _differing_names(results: Results, others: Results) -> list[str]:
    """Return the names of results that differ between two calls of the program in eager mode."""
    return [
        name
        for name, tensor in results.items()
        if name not in others or not is_within_tolerance(tensor, others[name])
    ]


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    dtype = torch.complex128 if tensor.is_complex() else torch.float64
    return tensor.to(dtype)
