"""This module takes over when the program has ended: deferred graphs are compiled, every stage can
be compiled again, and the run time of a variant can be measured.

To be measured, a variant is lowered once more, this time built, and run on the inputs it was
captured with. Tracing, the partition and Inductor's passes on graphs are those of the variant. Only
the times are recorded. It takes as much memory again as the inputs have, parameters included,
because what a run changes in them (batch norm's statistics) is put back.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from fx_explorer.capture.backends.asking import given_to_backend
from fx_explorer.capture.dynamo.guard_rows import SHAPES, add_late_checks
from fx_explorer.capture.inductor.kernel_builds import builds_noticed
from fx_explorer.capture.inspecting import backward_at_once, building
from fx_explorer.capture.option_settings import compiler_for
from fx_explorer.capture.recording.described import one_line
from fx_explorer.capture.recording.noting import patched_in_programs
from fx_explorer.capture.recording.state import Recording, unrecorded
from fx_explorer.capture.stepping.gates import (
    Aborted,
    AnotherVariant,
    GateReached,
    LeftAtGate,
    StopAfterGate,
)
from fx_explorer.capture.stepping.stepper import Stepper
from fx_explorer.capture.stepping.through_the_gates import (
    QUESTIONS,
    allow_for_all,
    answer,
    at_gate,
    compile_as_asked,
    cut_of,
    first_graph,
    new_variant,
    obey_for_all,
    refuse_dynamic,
    run_variant,
    set_for_all,
)
from fx_explorer.capture.stepping.variant import CapturedSegment, Settings, Variant, shared_keys
from fx_explorer.capture.torch_compat.private_names import (
    FakeTensor,
    PythonPrinter,
    dynamo,
    dynamo_config,
    functorch_config,
    inductor_config,
    tree_leaves,
)
from fx_explorer.capture.torch_compat.versions import known_options, name_of
from fx_explorer.errors import UsageError
from fx_explorer.model import GATES, Changes, Command, Failure, Guard, Measured, Measurement, Notice


def finish(stepper: Stepper, at_hand: Callable[[], None]) -> None:
    """Compile the deferred graphs, then obey the client's commands until it lets the worker go.
    ``at_hand`` is called when all graphs are compiled.
    """
    if stepper.waits:
        stepper.defers = False
        _compile_deferred(stepper)
    stepper.defers = False
    at_hand()
    if stepper.recording.request.stay:
        stepper.gates.attend(lambda command: _obey(stepper, command))


@contextlib.contextmanager
def deferred_until_reset(stepper: Stepper) -> Iterator[None]:
    """Compile the deferred graphs at a ``torch._dynamo.reset`` inside the block. torch then
    discards the code for which they were captured, and reuses the names of its frames.
    """

    def make(original: Callable[[], None]) -> Callable[[], None]:
        @functools.wraps(original)
        def reset() -> None:
            if stepper.waits:
                stepper.defers = False
                try:
                    _compile_deferred(stepper)
                finally:
                    # What the program has compiled after the reset waits again.
                    stepper.defers = True
            original()

        return reset

    with patched_in_programs(dynamo, "reset", make):
        yield


def _compile_deferred(stepper: Stepper) -> None:
    try:
        if stepper.gates.stops_at("dynamo"):
            _wait_for_all(stepper)
        compile_kept(stepper)
    except LeftAtGate:
        return


def _wait_for_all(stepper: Stepper) -> None:
    """Wait once for all graphs, after Dynamo. A variant that the user asks for there is compiled in
    place of its graph's first one; the other graphs follow it.
    """
    obey, allow = (
        functools.partial(obey_for_all, stepper),
        functools.partial(allow_for_all, stepper),
    )
    try:
        stepper.gates.wait_for_all("dynamo", obey, allow)
    except AnotherVariant as other:
        kept = stepper.kept_of(other.command.compilation)
        stepper.gates.pass_by("dynamo")
        stepper.rows.replace_first(kept)
        taken = again(stepper, other.command)
        if taken.row.status == "ok":
            stepper.rows.use(kept, taken)


def compile_kept(stepper: Stepper) -> None:
    """Compile every deferred graph in turn. A variant that was left at a gate continues from
    there.
    """
    for kept in list(stepper.kept.values()):
        variant = kept.variants[0]
        if variant.is_finished:
            continue
        variant.replays = shared_keys(variant, GATES[-1], "")
        # One that is left at its gate does not keep the others from coming to theirs.
        with contextlib.suppress(GateReached):
            _compile_outside(stepper, kept, variant, first_graph(stepper, kept, variant))


def _obey(stepper: Stepper, command: Command) -> str:
    """Carry out a command after the program has ended and everything is compiled."""
    refuse_dynamic(command)
    if command.kind == "set":
        return set_for_all(stepper, command, None)
    if command.kind == "measure":
        return measure(stepper, command.compilation)
    if command.kind in QUESTIONS:
        return answer(stepper.recording, command)
    variant = again(stepper, command)
    if variant.row.status == "failed":
        raise UsageError(f"[{variant.row.name}] failed: {variant.row.error}")
    if variant.row.status == "left":
        return f"[{variant.row.name}] was left: {variant.row.error}"
    took = (
        f"[{variant.row.name}] was compiled in {variant.row.duration_s:.2f} s; the stages before "
        f"it ({variant.row.saved_s:.2f} s) did not run again"
    )
    return "; ".join((took, *cut_of(stepper.kept_of(variant.row.name), variant, command)))


def again(stepper: Stepper, command: Command) -> Variant:
    """Compile another variant, and record in its row how that ended. Raises UsageError before it
    begins.
    """
    kept = stepper.kept_of(command.compilation)
    variant, graph = new_variant(stepper, kept, command, kept.variants[0])
    try:
        _compile_outside(stepper, kept, variant, graph)
    except Aborted:  # aborted at a gate of its own, and recorded with it
        pass
    except BaseException:
        stepper.rows.leave(variant, "the user stopped it")
        raise
    return variant


def _compile_outside(
    stepper: Stepper, kept: CapturedSegment, variant: Variant, graph: torch.fx.GraphModule
) -> None:
    """Compile a variant when Dynamo has finished the frame. An error is recorded with the variant
    and reported, not raised.
    """

    def compile_here(module: torch.fx.GraphModule) -> Any:
        compiler, segment = stepper.compiler(kept), stepper.recording.segment()
        with given_to_backend(stepper.recording, segment.answerer, segment.dynamo, module):
            made = compiler(module, kept.inputs)
        if not callable(made):  # Dynamo asks for no more either
            raise UsageError(f"the backend returned {one_line(repr(made))}, which cannot be called")
        return made

    try:
        with stepper.outside(), stepper.as_current(kept, variant), stepper.as_in_dynamo(kept):
            with late_guards(stepper.recording, kept, variant), backward_at_once():
                run_variant(
                    stepper,
                    kept,
                    variant,
                    lambda: compile_as_asked(stepper, kept, variant, graph, compile_here),
                )
    except Exception as error:  # noqa: BLE001 - recorded with the variant by run_variant, and told
        text = f"[{variant.row.name}] failed: {one_line(str(error))}"
        # Only of what the program itself would have met: with changes of the user's, or where torch
        # is told to continue, it has no exception.
        if (
            variant is kept.variants[0]
            and variant.changes == Changes()
            and not dynamo_config.suppress_errors
        ):
            text = f"{text}; {NOT_RAISED}"
        stepper.recording.notify(Notice("note", text=text))


NOT_RAISED = (
    "the program did not see this exception, because it continued while the graph was paused; "
    "without a pause it does"
)


# Guards on sizes that lowering asks for.


@contextlib.contextmanager
def late_guards(recording: Recording, kept: CapturedSegment, variant: Variant) -> Iterator[None]:
    """Record the guards that are added on sizes inside the block: with Dynamo's guards for a first
    variant, else with the variant's own.

    Dynamo has finished the graph before, so these are too late for its guard ``SHAPE_ENV``, which
    is made of ``ShapeEnv.guards`` (torch/fx/experimental/symbolic_shapes.py). A compile without a
    pause checks them too.
    """
    shapes = kept.shape_env()
    asked_before = len(shapes.guards) if shapes else 0
    try:
        yield
    finally:
        with recording.noting("guards of lowering", "dynamo"):
            late = shapes.guards[asked_before:] if shapes else ()
            if late:
                _add(recording, variant, [_code(shapes, guard.expr) for guard in late])


def _add(recording: Recording, variant: Variant, codes: list[str]) -> None:
    code = " and ".join(codes)
    if variant.row.variant_of:
        known = None
    else:
        known = recording.of(variant.row.name).shape_guard
    if known is None:
        guard = Guard(0, variant.row.id, 0, SHAPES, "", code, "")
        add_late_checks(recording, replace(guard, id=recording.writer.add(guard)), codes)
        return
    both = " and ".join(filter(None, (known.code, code)))
    recording.of(variant.row.name).shape_guard = guard = replace(known, code=both)
    recording.writer.update(guard)
    add_late_checks(recording, guard, codes)


def _code(shapes: Any, expression: Any) -> str:
    """Return a guard's expression as code: ``L['x'].size()[0] <= 4096``."""
    names = {}
    for symbol, sources in shapes.var_to_sources.items():
        if sources:
            names[str(symbol)] = name_of(sources[0])
    text: str = PythonPrinter().doprint(expression)
    return re.sub(r"\b[A-Za-z_]\w*", lambda match: names.get(match[0], match[0]), text)


# How long a variant runs.


WARM_UP_RUNS = 3
MEASURE_S = 1.0
"""Minimum number of seconds for which each kind of call is measured."""

MAX_SPREAD = 0.25
"""Largest spread, as a share of the median. If the middle half of the times is wider, this is
reported.
"""

Run = Callable[[], object]


@dataclass(frozen=True)
class MeasuredFigures:
    """The measurements of one variant, and how long building it took."""

    rows: tuple[Measurement, ...]
    build_s: float

    def describe(self) -> str:
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
        return ", times vary widely" if varying else ""


def _waiting_processes() -> float:
    """Return how many processes waited for a processor in the last minute; 0 where the system does
    not say.
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
            "Nothing can run on a virtual GPU: a variant's time can be measured only on a real one."
        )
    kept = stepper.kept_of(name)
    variant = kept.variant(name) or kept.variants[0]
    built_with = _settings(stepper, variant)
    inputs = [_real(value, variant) for value in kept.inputs]
    try:
        with unrecorded(recording), building(), builds_noticed(recording):
            measured_figures = _measured(stepper, kept, variant, built_with, inputs)
    except Exception as error:
        if variant.changes.layouts and str(error).startswith("expected size"):
            raise UsageError(
                f"[{variant.row.name}] takes an input in another memory layout than the program "
                "gives, so it cannot be run: give the input in this layout, and measure that."
            ) from error
        message = one_line(
            f"[{variant.row.name}] could not be measured: {type(error).__name__}: {error}"
        )
        text = recording.writer.text("".join(traceback.format_exception(error)))
        recording.writer.add(
            Failure(0, variant.row.id, "measuring", None, type(error).__name__, message, text)
        )
        raise UsageError(message) from error
    recording.writer.add_all(measured_figures.rows)
    return f"[{variant.row.name}] {measured_figures.describe()}"


def _settings(stepper: Stepper, variant: Variant) -> Settings:
    """Return the settings with which the variant was compiled. Raises UsageError if it was not
    finished, or if an option was set after it was compiled.
    """
    name, used = variant.row.name, variant.compiled_with
    if used is None:
        raise UsageError(
            f"[{name}] was not compiled completely, so there is nothing to run: measure another "
            "variant."
        )
    compiled_with = variant.all_settings()
    since = []
    for option in stepper.settings.changes.settings:
        is_old = all(option in settings for settings in compiled_with)
        if not is_old:
            since.append(option)
    if since:
        raise UsageError(
            f"{', '.join(since)} was set after [{name}] was compiled: restart from dynamo, and "
            "measure that variant."
        )
    return used


def _real(value: Any, variant: Variant) -> Any:
    """Return an input as the compiled function takes it. A symbolic size becomes its value in the
    example.
    """
    if isinstance(value, FakeTensor):
        raise UsageError(
            f"[{variant.row.name}] was captured with fake tensors, which have no values to "
            "compute with."
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
    at_once = dict.fromkeys(
        known_options(functorch_config, "force_non_lazy_backward_lowering"), True
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
    """Compile ``variant`` again inside the block, from the graph that is yielded. The compilation
    waits at no gate, and none of its results are stored.
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
    """Compute gradients without adding them to any tensor's ``.grad``."""
    outputs = [leaf for leaf in _tensors(compiled(*inputs)) if leaf.requires_grad]
    wanted = [leaf for leaf in _tensors(inputs) if leaf.requires_grad]
    torch.autograd.grad(
        outputs, wanted, [torch.ones_like(output) for output in outputs], allow_unused=True
    )


@contextlib.contextmanager
def _put_back(inputs: list[Any]) -> Iterator[None]:
    """Restore the content of the inputs after the block, in case they were written to."""
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
