"""This module measures how long a variant runs: it is lowered once more, this time built, and run
on the inputs it was captured with.

Tracing, the partition and Inductor's passes on graphs are those of the variant. Only the times are
recorded. It takes as much memory again as the inputs have, parameters included, because what a run
changes in them (batch norm's statistics) is put back.
"""

from __future__ import annotations

import contextlib
import os
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves

from fx_explorer.capture.inspecting import building
from fx_explorer.capture.options.settings import compiler_for
from fx_explorer.capture.recording.described import one_line
from fx_explorer.capture.recording.unrecorded import unrecorded
from fx_explorer.capture.stepping.compiling import at_gate
from fx_explorer.capture.stepping.gates import StopAfterGate
from fx_explorer.capture.stepping.new_variant import first_graph
from fx_explorer.capture.stepping.stepper import Stepper
from fx_explorer.capture.stepping.variant import CapturedSegment, Settings, Variant
from fx_explorer.capture.torch_compat.versions import options_there
from fx_explorer.errors import UsageError
from fx_explorer.model import Failure, Measured, Measurement

WARM_UP_RUNS = 3
MEASURE_S = 1.0
"""Seconds that each kind is measured for at least."""

MAX_SPREAD = 0.25
"""Share of the median. A wider middle half is reported."""

Run = Callable[[], object]


@dataclass(frozen=True)
class MeasuredFigures:
    """What was measured, and how long building took."""

    rows: tuple[Measurement, ...]
    build_s: float

    def in_words(self) -> str:
        times = [
            f"{row.what.replace('+', ' and ')} {row.median_s * 1000:.3g} ms" for row in self.rows
        ]
        took = ", ".join(times)
        row = self.rows[-1]
        return (
            f"{took} (median of {row.runs:,} runs on {row.device}){self._caution()}; building "
            f"it took {self.build_s:.1f} s"
        )

    def _caution(self) -> str:
        waiting, processors = _waiting_processes(), os.cpu_count() or 1
        if waiting > processors + 1:
            return (
                f", while {waiting:.0f} processes shared {processors} CPUs: measure again "
                "when the machine is idle"
            )
        varying = any(row.iqr_s > MAX_SPREAD * row.median_s for row in self.rows)
        return ", of widely differing times" if varying else ""


def _waiting_processes() -> float:
    """Return how many processes wanted a processor in the last minute; 0 where the system does not
    say.
    """
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):
        return 0.0


def measure(stepper: Stepper, name: str) -> str:
    """Measure the variant called ``name``, add the times to the session and report them. Raises
    UsageError when it cannot be measured.
    """
    recording = stepper.recording
    if recording.request.gpu:
        raise UsageError(
            "Nothing can be run on a virtual GPU: how long a variant takes is known on a "
            "real one only."
        )
    kept = stepper.kept_of(name)
    variant = kept.variant(name) or kept.variants[0]
    built_with = _settings(stepper, variant)
    inputs = [_real(value, variant) for value in kept.inputs]
    try:
        with unrecorded(recording), building():
            measured_figures = _measured(stepper, kept, variant, built_with, inputs)
    except Exception as error:
        message = one_line(
            f"[{variant.row.name}] could not be measured: {type(error).__name__}: {error}"
        )
        text = recording.writer.text("".join(traceback.format_exception(error)))
        recording.writer.add(
            Failure(0, variant.row.id, "measuring", None, type(error).__name__, message, text)
        )
        raise UsageError(message) from error
    recording.writer.add_all(measured_figures.rows)
    return f"[{variant.row.name}] {measured_figures.in_words()}"


def _settings(stepper: Stepper, variant: Variant) -> Settings:
    """Return the settings it was compiled with. Raises UsageError for a variant that was not
    finished, or when an option was set after it was compiled.
    """
    name, used = variant.row.name, variant.compiled_with
    if used is None:
        raise UsageError(
            f"[{name}] was not compiled to its end, so there is nothing to run: measure "
            "another variant."
        )
    since = [
        option
        for option in stepper.settings.changes.settings
        if any(option not in settings for settings in variant.all_settings())
    ]
    if since:
        raise UsageError(
            f"{', '.join(since)} was set after [{name}] was compiled: go again from "
            "dynamo, and measure that variant."
        )
    return used


def _real(value: Any, variant: Variant) -> Any:
    """Return an input as the compiled function takes it; a symbolic size as its value in the
    example.
    """
    if isinstance(value, FakeTensor):
        raise UsageError(
            f"[{variant.row.name}] was captured with fake tensors, which cannot be computed with."
        )
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return value.node.hint
    return value


def _measured(
    stepper: Stepper,
    kept: CapturedSegment,
    variant: Variant,
    built_with: Settings,
    inputs: list[Any],
) -> MeasuredFigures:
    began = time.monotonic()
    compiled = _built(stepper, kept, variant, built_with)
    build_s = time.monotonic() - began
    with torch.set_grad_enabled(kept.has_grad), _put_back(inputs):
        is_differentiable = any(leaf.requires_grad for leaf in _tensors(compiled(*inputs)))
        runs: dict[Measured, Run] = {"forward": lambda: compiled(*inputs)}
        if is_differentiable:
            runs["forward+backward"] = lambda: _forward_and_backward(compiled, inputs)
        return MeasuredFigures(
            tuple(_timed(variant, what, run, _device(inputs)) for what, run in runs.items()),
            build_s,
        )


def _built(
    stepper: Stepper, kept: CapturedSegment, variant: Variant, built_with: Settings
) -> Callable[..., Any]:
    from torch._functorch import config as functorch_config
    from torch._inductor import config as inductor_config

    at_once = dict.fromkeys(
        options_there(functorch_config, "force_non_lazy_backward_lowering"), True
    )
    compiler = compiler_for(built_with, kept.compiler)
    # The patches come after ``_rebuilding``, which puts options back as they were. compile_threads
    # is 1 because a pool of processes would outlive the measurement.
    with (
        _rebuilding(stepper, kept, variant) as graph,
        functorch_config.patch(at_once),
        inductor_config.patch(compile_threads=1),
    ):
        built: Callable[..., Any] = compiler(graph, kept.inputs)
    return built


@contextlib.contextmanager
def _rebuilding(
    stepper: Stepper, kept: CapturedSegment, variant: Variant
) -> Iterator[torch.fx.GraphModule]:
    """Compile inside the block what repeats ``variant``, from the graph that this yields. It waits
    at no gate, and nothing of it is kept.
    """
    again, gates = variant.rebuilt(), stepper.gates
    stepper.gates = StopAfterGate()
    try:
        graph = first_graph(stepper, kept, again)
        with stepper.outside(), stepper.as_in_dynamo(kept), stepper.as_current(kept, again):
            at_gate(stepper, "dynamo", "", graph)
            yield graph
    finally:
        stepper.gates = gates


def _forward_and_backward(compiled: Callable[..., Any], inputs: list[Any]) -> None:
    """Compute gradients without adding them to anybody's ``.grad``."""
    outputs = [leaf for leaf in _tensors(compiled(*inputs)) if leaf.requires_grad]
    wanted = [leaf for leaf in _tensors(inputs) if leaf.requires_grad]
    torch.autograd.grad(
        outputs, wanted, [torch.ones_like(output) for output in outputs], allow_unused=True
    )


@contextlib.contextmanager
def _put_back(inputs: list[Any]) -> Iterator[None]:
    """Put the content of the inputs back after the block, whatever was written into them."""
    # By storage, since inputs may share one.
    storages = {leaf.untyped_storage()._cdata: leaf.untyped_storage() for leaf in _tensors(inputs)}
    saved = [(storage, storage.clone()) for storage in storages.values()]
    try:
        yield
    finally:
        for storage, before in saved:
            storage.copy_(before)


def _timed(variant: Variant, what: Measured, run: Run, device: str) -> Measurement:
    from torch.utils.benchmark import Timer

    for _ in range(WARM_UP_RUNS):
        run()
    timer = Timer("run()", globals={"run": run}, num_threads=torch.get_num_threads())
    times = timer.blocked_autorange(min_run_time=MEASURE_S)
    count = times.number_per_run * len(times.raw_times)
    return Measurement(0, variant.row.id, what, times.median, times.iqr, count, device)


def _tensors(values: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _device(inputs: list[Any]) -> str:
    devices = [leaf.device for leaf in _tensors(inputs) if leaf.device.type != "cpu"]
    if not devices:
        return "cpu"
    if devices[0].type != "cuda":
        return str(devices[0])
    return torch.cuda.get_device_name(devices[0])
