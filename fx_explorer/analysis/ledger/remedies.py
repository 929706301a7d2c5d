"""What may make a call faster, given where its time goes. Each can be measured: the same call with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fx_explorer.analysis.ledger.figures import LedgerFigures
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.words import share

MUCH, SOME = 0.3, 0.05
"""Parts of a call from which on a remedy is named."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change of how the program is compiled."""

    name: str
    """As a table names it: ``reduce-overhead``."""
    how: str
    """As a sentence goes on behind "compile": ``in the mode reduce-overhead``."""
    why: str
    risk: str
    """What has to hold, or what it costs; empty for nothing known."""
    mode: str = ""
    options: dict[str, object] = field(default_factory=dict)
    """``torch._inductor.config`` entries."""


def remedies(figures: LedgerFigures) -> list[Remedy]:
    """Return what may help, that which may help most first."""
    return [one for one in (*_less_around(figures), *_faster_kernels(figures)) if not _is_in_force(one, figures)]


def _is_in_force(remedy: Remedy, figures: LedgerFigures) -> bool:
    """Return whether the program is compiled so already."""
    request = figures.request
    if request is None:
        return False
    return request.mode == remedy.mode if remedy.mode else remedy.options.items() <= request.options.items()


def _less_around(figures: LedgerFigures) -> Iterator[Remedy]:
    call_s = figures.call.call_s
    if figures.is_on_gpu and figures.idle_s > MUCH * call_s:
        yield Remedy(
            "reduce-overhead",
            "in the mode reduce-overhead",
            f"the GPU waits for the host in {share(figures.idle_s, call_s)} of a call: CUDA graphs start all kernels at once",
            "inputs are copied to fixed addresses, and outputs are overwritten by the next call",
            mode="reduce-overhead",
        )
    checks_s = figures.of_kind("checks")
    if checks_s > SOME * call_s:
        yield Remedy(
            "size_asserts=False",
            "without checks of sizes (options size_asserts, alignment_asserts)",
            f"checks of sizes and strides take {run_time(checks_s)} ({share(checks_s, call_s)})",
            "a tensor of another layout than torch expects is computed with all the same",
            options={"size_asserts": False, "alignment_asserts": False},
        )


def _faster_kernels(figures: LedgerFigures) -> Iterator[Remedy]:
    whole_s = figures.call.call_s
    library_s = sum(entry.seconds for entry in figures.entries if entry.step.kind == "library")
    if library_s < MUCH * whole_s:
        return
    part = f"library calls take {share(library_s, whole_s)} of a call"
    if figures.is_on_gpu:
        yield Remedy(
            "max-autotune",
            "in the mode max-autotune",
            f"{part}, and Triton templates may beat them",
            "compiling takes minutes",
            mode="max-autotune",
        )
    elif not figures.call.trains and figures.call.parameters:
        yield Remedy(
            "freezing",
            "with the option freezing",
            f"{part}, and weights can be packed for them ahead of time",
            "parameters are constants then, and must not change; it takes effect under torch.no_grad()",
            options={"freezing": True},
        )
