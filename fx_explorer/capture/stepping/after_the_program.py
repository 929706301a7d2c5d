"""When the program has ended, deferred graphs are compiled, and every stage can be taken up
again.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch.utils._sympy.printers import PythonPrinter

from fx_explorer.capture.backends.asking import given_to_backend
from fx_explorer.capture.dynamo.guard_rows import SHAPES, add_late_checks
from fx_explorer.capture.inspecting import backward_at_once
from fx_explorer.capture.recording.described import one_line
from fx_explorer.capture.recording.hidden_from_dynamo import patched_in_programs
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.stepping.compiling import compile_as_asked, run_variant
from fx_explorer.capture.stepping.gate_commands import (
    QUESTIONS,
    allow_for_all,
    answer,
    cut_of,
    obey_for_all,
    refuse_dynamic,
    set_for_all,
)
from fx_explorer.capture.stepping.gates import Aborted, AnotherVariant, GateReached, LeftAtGate
from fx_explorer.capture.stepping.measuring import measure
from fx_explorer.capture.stepping.new_variant import first_graph, new_variant
from fx_explorer.capture.stepping.stepper import Stepper
from fx_explorer.capture.stepping.variant import CapturedSegment, Variant, shared_keys
from fx_explorer.capture.torch_compat.versions import name_of
from fx_explorer.errors import UsageError
from fx_explorer.model import GATES, Changes, Command, Guard, Notice


def finish(stepper: Stepper, at_hand: Callable[[], None]) -> None:
    """Compile the deferred graphs, then wait for the client until it lets go. ``at_hand`` is called
    when all is compiled.
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
    """Compile the deferred graphs at ``torch._dynamo.reset`` in the block: torch forgets the code
    that these graphs are for, and gives the names of its frames again.
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

    with patched_in_programs(torch._dynamo, "reset", make):
        yield


def _compile_deferred(stepper: Stepper) -> None:
    try:
        if stepper.gates.stops_at("dynamo"):
            _wait_for_all(stepper)
        compile_kept(stepper)
    except LeftAtGate:
        return


def _wait_for_all(stepper: Stepper) -> None:
    """Wait after Dynamo of every graph. A variant that is asked for there is the one in use; the
    other graphs follow it.
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
    """Compile every graph that waits, in its turn. One that was left at a gate continues from
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
    """Obey a command after the program has ended and everything is compiled."""
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
        f"[{variant.row.name}] took {variant.row.duration_s:.2f} s; {variant.row.saved_s:.2f} "
        "s were not spent again"
    )
    return "; ".join((took, *cut_of(stepper.kept_of(variant.row.name), variant, command)))


def again(stepper: Stepper, command: Command) -> Variant:
    """Compile another variant; its row says how that ended. Raises UsageError before it begins."""
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
    and told, not raised.
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
            and not torch._dynamo.config.suppress_errors
        ):
            text = f"{text}; {NOT_RAISED}"
        stepper.recording.notify(Notice("note", text=text))


NOT_RAISED = (
    "the program has not had this exception, since it continued while the graph waited; "
    "without a pause it does"
)


# Guards on sizes that lowering asks for.


@contextlib.contextmanager
def late_guards(recording: Recording, kept: CapturedSegment, variant: Variant) -> Iterator[None]:
    """Record what is asked of sizes inside the block: with Dynamo's guards for a first variant,
    else with the variant's.

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
    known = None if variant.row.variant_of else recording.of(variant.row.name).shape_guard
    if known is None:
        guard = Guard(0, variant.row.id, 0, SHAPES, "", code, "")
        add_late_checks(recording, replace(guard, id=recording.writer.add(guard)), codes)
        return
    both = " and ".join(filter(None, (known.code, code)))
    recording.of(variant.row.name).shape_guard = guard = replace(known, code=both)
    recording.writer.update(guard)
    add_late_checks(recording, guard, codes)


def _code(shapes: Any, expression: Any) -> str:
    """Return ``L['x'].size()[0] <= 4096``."""
    names = {}
    for symbol, sources in shapes.var_to_sources.items():
        if sources:
            names[str(symbol)] = name_of(sources[0])
    text: str = PythonPrinter().doprint(expression)
    return re.sub(r"\b[A-Za-z_]\w*", lambda match: names.get(match[0], match[0]), text)
