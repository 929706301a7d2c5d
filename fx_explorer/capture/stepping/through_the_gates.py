"""This module takes one graph through the gates: it applies the passes of each gate, waits for the
user, and compiles one variant after another as the user asks.

A command of the user's is carried out where a compilation waits: at a gate, or after Dynamo of
every graph. Commands that only move on (go, step, skip, abort) are in gates.py, those for a
finished capture in after_the_program.py. A command that cannot be carried out raises an
FxExplorerError. Nothing is changed then, and the compilation waits on.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

import torch

from fx_explorer.capture import option_settings
from fx_explorer.capture.graph_copies import snapshot
from fx_explorer.capture.inspecting import runnable_copy
from fx_explorer.capture.option_settings import SETTING, THROUGH, compiler_for
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.stepping.editing import cut_out, marked, passed
from fx_explorer.capture.stepping.gates import AnotherVariant, GateReached, LeftAtGate, Skipped
from fx_explorer.capture.stepping.stepper import Stepper
from fx_explorer.capture.stepping.variant import (
    CapturedSegment,
    Variant,
    check_region,
    share_gates,
    share_regions,
    shared_keys,
    shared_segment,
)
from fx_explorer.capture.torch_compat.private_names import RestartAnalysis, compile_context
from fx_explorer.errors import PassProblem, UsageError
from fx_explorer.model import (
    DIRECTIONS,
    GATE_WORDS,
    GATES,
    GRAPH_GATES,
    Changes,
    Command,
    Direction,
    Gate,
    Notice,
    PassFile,
)

_BEFORE: dict[Gate, Gate] = {"dynamo": "dynamo", "post_grad": "pre_fusion"}
"""Gate at which a graph is edited → the gate under which the graph is stored, for variants that
begin at later gates. For edits at other gates, the result of the next stage is stored instead.
"""


def at_gate(
    stepper: Stepper, gate: Gate, direction: Direction, module: torch.fx.GraphModule | None = None
) -> None:
    """Apply this variant's passes for a finished stage, and wait if the user wants to pause
    here.
    """
    variant = stepper.variant
    if variant is None:
        return
    key = (gate, direction)
    variant.reached.add(key)
    if key in variant.passed:
        return
    # Whatever AOTAutograd has to tell Dynamo comes from tracing, which is done by then.
    if stepper.is_probing and gate in ("joint", "partition"):
        raise GateReached
    stepper.gates.arrive(gate)
    is_stuck = module is not None and _is_stuck(
        stepper, stepper.edits.apply_passes(variant, gate, direction, module)
    )
    if is_stuck or stepper.gates.stops_at(gate):
        _wait(stepper, variant, gate, direction, module)
    variant.passed.add(key)
    if module is not None and key in variant.edited and gate in _BEFORE:
        variant.kept[(_BEFORE[gate], direction)] = snapshot(module)


def after_published(stepper: Stepper, stage: str, direction: Direction) -> None:
    """Wait if the user wants to pause after each stage that a backend publishes. The graph cannot
    be edited there, because only the backend knows how it uses the stage.
    """
    variant = stepper.variant
    if variant is None or not stepper.gates.stops_at("backend"):
        return
    stepper.gates.arrive("backend")
    backend = stepper.recording.of(stepper.recording.compilation_name()).backend
    published = f"{stage} of {backend}" if backend else stage
    _wait(stepper, variant, "backend", direction, None, published)


def _wait(
    stepper: Stepper,
    variant: Variant,
    gate: Gate,
    direction: Direction,
    module: torch.fx.GraphModule | None,
    published: str = "",
) -> None:
    began = time.monotonic()
    try:
        obey = functools.partial(obey_at_gate, stepper, variant, gate, direction, module)
        allow = functools.partial(allow_at_gate, stepper)
        stepper.gates.wait(gate, variant.row.name, direction, obey, allow, published)
    finally:
        waited_s = time.monotonic() - began
        variant.waited_s += waited_s
        stepper.recording.waited_s += waited_s


def _is_stuck(stepper: Stepper, problems: list[str]) -> bool:
    """Return whether to wait for the user because passes failed. Without a user, raises
    PassProblem.
    """
    if problems and stepper.is_outside:
        raise PassProblem(problems[0])
    for problem in problems:
        stepper.recording.notify(Notice("note", text=problem))
    return bool(problems)


# The graph compiled as the user asks for it.


_NEEDS_DYNAMO = (
    "Dynamo has finished this frame, so these options would need a new capture: capture again "
    "with them"
)
CompileHere = Callable[[torch.fx.GraphModule], Any]


def compile_as_asked(
    stepper: Stepper,
    kept: CapturedSegment,
    variant: Variant,
    module: torch.fx.GraphModule,
    compile_here: CompileHere,
) -> Any:
    """Compile ``module`` as this variant, or leave it for another variant when the user asks for
    one.
    """
    try:
        at_gate(stepper, "dynamo", "", module)
        made = compile_here(module)
        variant.compiled_with = stepper.settings.for_variant(variant)
        return made
    except Skipped:
        stepper.rows.leave(variant, "the user ran this graph eagerly")
        return runnable_copy(kept.dynamo)
    except AnotherVariant as other:
        stepper.rows.leave(variant, "the user chose another variant")
        # Only Dynamo can do this: ``stepped_boundary.py`` has it restart the frame.
        if option_settings.SETTING in other.command.changes.settings:
            raise
        other_variant, graph = new_variant(stepper, kept, other.command, variant)
        made = run_variant(
            stepper,
            kept,
            other_variant,
            lambda: compile_as_asked(stepper, kept, other_variant, graph, compile_here),
        )
        stepper.rows.use(kept, other_variant)
        return made
    # It is left for now only, and its row continues when it is taken up again.
    except GateReached:
        raise
    except LeftAtGate:
        stepper.rows.leave(variant, "the user aborted here")
        raise


def run_variant(
    stepper: Stepper, kept: CapturedSegment, variant: Variant, compile_variant: Callable[[], Any]
) -> Any:
    """Compile ``variant`` with the user's settings, in place of the variant before."""
    variant.began, variant.waited_s = time.monotonic(), 0.0
    with stepper.as_current(kept, variant), stepper.settings.of(variant):
        try:
            result = compile_variant()
        except RestartAnalysis as error:
            # Dynamo waits for it, and restarts the frame.
            if not stepper.is_outside:
                raise
            stepper.rows.change(variant, status="failed", error=_NEEDS_DYNAMO)
            raise UsageError(_NEEDS_DYNAMO) from error
        except Exception as error:
            stepper.rows.fail(variant, error)
            raise
        except GateReached:
            stepper.rows.add_time(variant)
            variant.pause()
            raise
    stepper.rows.finish(variant)
    return result


# What the user asks for, at one gate or after Dynamo of every graph.


QUESTIONS = ("what_if", "steps")
"""Kinds of commands that ask a question about a program that has run."""


def obey_at_gate(
    stepper: Stepper,
    variant: Variant,
    gate: Gate,
    direction: Direction,
    module: torch.fx.GraphModule | None,
    command: Command,
) -> str:
    """Carry out a command while one graph waits after ``gate``. ``module`` is its graph; None where
    no graph exists.
    """
    if stepper.is_outside:
        refuse_dynamic(command)
    if command.kind == "set":
        return set_for_all(stepper, command, gate)
    if command.kind == "mark":
        _check_lines(stepper, command)
        return ", ".join(stepper.edits.mark(variant, gate, module, command.changes.marks))
    if command.kind == "pass":
        return _apply(stepper, variant, gate, direction, module, command.changes.passes)
    if command.kind == "again":
        kept = stepper.current_kept()
        if command.compilation and stepper.kept_of(command.compilation) is not kept:
            raise UsageError(
                "Other compilations can be restarted once the program has ended; continue first."
            )
        _leave_for_another(stepper, kept, variant, command)
    raise _no_command(command)


def obey_for_all(stepper: Stepper, command: Command) -> str:
    """Carry out a command while all graphs wait after Dynamo. Its marks and passes apply to each
    graph in turn.
    """
    refuse_dynamic(command)
    if command.kind == "set":
        return set_for_all(stepper, command, "dynamo")
    if command.kind == "again":
        kept = stepper.kept_of(command.compilation)
        _leave_for_another(stepper, kept, kept.variants[0], command)
    if command.kind in QUESTIONS:
        return answer(stepper.recording, command)
    if command.kind not in ("mark", "pass"):
        raise _no_command(command)
    _check_lines(stepper, command)
    return edit_all(stepper, command)


def _no_command(command: Command) -> UsageError:
    if command.kind == "measure":
        return UsageError(
            "A variant can be built and measured once the program has ended: continue first."
        )
    if command.kind == "what_if":
        return UsageError(
            "Guards can be checked with other inputs once the program has ended: continue first."
        )
    if command.kind == "steps":
        return UsageError(
            "The steps of the bytecode can be recorded once the program has ended: continue first."
        )
    return UsageError(f"{command.kind!r} is not a command for a pause.")


def allow_at_gate(stepper: Stepper, command: Command) -> None:
    """Raise UsageError for a command that is impossible in a backward that is compiled while it
    runs: its forward has already run.
    """
    if stepper.is_lazy and command.kind in ("skip", "again"):
        raise UsageError(
            "The program is running this backward, and its forward has already run: the backward "
            "cannot be skipped or compiled again now. Continue, or abort. When the program has "
            "ended, every stage can be compiled again."
        )


def allow_for_all(stepper: Stepper, command: Command) -> None:
    """Raise UsageError if the command continues and the source has changed: graphs are compiled
    from here on, and the source on screen must be the one from which they were captured.
    """
    if command.kind in ("go", "step", "run_to"):
        stepper.check_source()


def set_for_all(stepper: Stepper, command: Command, gate: Gate | None) -> str:
    """Set options for everything that is compiled from now on."""
    wanted = command.changes.settings
    title = stepper.settings.set(wanted, gate)
    if SETTING in wanted:
        return f"{title}; dynamic shapes apply from the next frame"
    return title


def answer(recording: Recording, command: Command) -> str:
    """Answer a question about the program that has run. The complete answer is stored in the
    session. Raises UsageError.
    """
    if command.kind == "what_if":
        from fx_explorer.capture.dynamo.what_if import what_if  # only for those who ask

        return what_if(recording, command.expression)
    from fx_explorer.capture.dynamo.bytecode_steps import record_steps

    return record_steps(recording)


def refuse_dynamic(command: Command) -> None:
    """Raise UsageError for a change of ``dynamic`` at a pause where Dynamo can no longer capture
    the frame again.
    """
    if SETTING in command.changes.settings:
        raise UsageError(THROUGH)


def _check_lines(stepper: Stepper, command: Command) -> None:
    """Raise UsageError when lines are marked in a file that has changed since the capture."""
    if any(mark.file for mark in command.changes.marks):
        stepper.check_source()


def edit_all(stepper: Stepper, command: Command) -> str:
    """Apply marks and passes to Dynamo's graph of every compilation that they fit. Raises the first
    problem if they fit none.
    """
    problems, done = [], []
    for kept in stepper.kept.values():
        if kept.variants[0].is_finished:
            problems.append(
                f"[{kept.name}] was compiled in one go, because it calls the program's own "
                "functions: restart from dynamo."
            )
            continue
        try:
            results = _tried(kept, command)
        except UsageError as error:
            problems.append(str(error))
            continue
        variant = kept.variants[0]
        variant.changes = variant.changes.plus(
            Changes(marks=command.changes.marks, passes=command.changes.passes)
        )
        done.append(f"[{kept.name}] {', '.join(results)}")
    if not done:
        raise UsageError(problems[0])
    return "; ".join(done)


def _tried(kept: CapturedSegment, command: Command) -> list[str]:
    """Return the effect of the edits, after trying them on a copy."""
    trial = snapshot(kept.dynamo)
    marked(trial, command.changes.marks)
    results = cut_out(trial, command.changes.marks)
    for pass_file in command.changes.passes:
        # A pass for a later gate has no graph yet that it could be tried on.
        if pass_file.gate == "dynamo":
            passed(pass_file.path, trial)
        results.append(f"pass_ of {pass_file.path}")
    return results


def _apply(
    stepper: Stepper,
    variant: Variant,
    gate: Gate,
    direction: Direction,
    module: torch.fx.GraphModule | None,
    passes: tuple[PassFile, ...],
) -> str:
    """Apply passes to the graph at this gate, and return their names. Raises UsageError where there
    is no graph, or for a pass of another gate.
    """
    if gate == "backend":
        raise UsageError(
            "This stage was published by the backend, and only the backend knows how to continue "
            "from it. A pass can be applied to the graph that the backend gets. Restart from an "
            "earlier stage to apply one."
        )
    if module is None:
        raise UsageError(
            "There is no FX graph after this stage: passes can be applied up to the post-grad "
            "passes."
        )
    here = [replace(pass_file, gate=gate, direction=direction) for pass_file in passes]
    if any(pass_file.gate != gate for pass_file in passes):
        raise UsageError(
            f"The compile is at {GATE_WORDS[gate]}: apply a pass for another gate there, or with "
            "“again from”."
        )
    for pass_file in here:
        stepper.edits.apply_pass(variant, pass_file.path, gate, direction, module)
        variant.changes = variant.changes.plus(Changes(passes=(pass_file,)))
    return ", ".join(f"applied {pass_file.path}" for pass_file in passes)


def cut_of(kept: CapturedSegment, variant: Variant, command: Command) -> list[str]:
    """Return how the regions that a command marks are cut out, given all regions of the variant."""
    if not command.changes.marks:
        return []
    trial = snapshot(kept.dynamo)
    marked(trial, (*variant.changes.marks, *command.changes.marks))
    return cut_out(trial, command.changes.marks)


def _leave_for_another(
    stepper: Stepper, kept: CapturedSegment, variant: Variant, command: Command
) -> NoReturn:
    check_new_variant(stepper, kept, command, variant)
    origin = kept.variant(command.compilation) or variant
    # Answered here, since what is raised leads out of the gate.
    stepper.gates.answer(
        "; ".join(
            (f"again from {GATE_WORDS[command.gate or 'dynamo']}", *cut_of(kept, origin, command))
        )
    )
    raise AnotherVariant(command)


# Whether another variant can be compiled, and what it begins with.


def check_new_variant(
    stepper: Stepper, kept: CapturedSegment, command: Command, default: Variant
) -> None:
    """Raise UsageError for a command that cannot be carried out, before anything is changed."""
    gate, origin = command.gate or "dynamo", _origin(kept, command, default)
    stepper.check_source(kept)
    option_settings.check_at_gate(command.changes.settings)
    option_settings.check(command.changes.settings)
    compiler_for(
        {**stepper.settings.for_variant(origin), **command.changes.settings}, kept.compiler
    )
    if gate == "backend":
        raise UsageError(
            "Nothing can be compiled again from a stage of the backend: only the backend can "
            "continue from it. Restart from dynamo, or from the partition where AOTAutograd has "
            "one."
        )
    check_region(origin, command)
    _check_reached(origin, gate, command.direction)
    _check_passes(gate, command.changes.passes)
    if command.changes.marks and gate != "dynamo":
        raise UsageError("A region is marked in Dynamo's graph: restart from dynamo to mark one.")
    if option_settings.SETTING in command.changes.settings:
        if kept is not stepper.in_dynamo:
            raise UsageError(option_settings.THROUGH)
        option_settings.check_changes(gate, command.changes)
    marked(snapshot(kept.dynamo), (*origin.changes.marks, *command.changes.marks))


def new_variant(
    stepper: Stepper, kept: CapturedSegment, command: Command, default: Variant
) -> tuple[Variant, torch.fx.GraphModule]:
    """Return a new variant, and the Dynamo graph it starts with. Raises UsageError before anything
    is changed.
    """
    gate, origin = command.gate or "dynamo", _origin(kept, command, default)
    check_new_variant(stepper, kept, command, default)
    replays = shared_keys(origin, gate, command.direction)
    changes = origin.changes.plus(command.changes)
    segment = shared_segment(origin.segment, gate, command.direction)
    row = stepper.rows.add_variant(kept, origin, gate, command, replays)
    took = {key: seconds for key, seconds in origin.took_s.items() if key in replays}
    variant = Variant(
        row, segment, changes, {key: origin.kept[key] for key in replays}, took, replays=replays
    )
    share_regions(origin, variant, gate)
    variant.region = command.region
    kept.variants.append(variant)
    share_gates(origin, variant, gate, command.direction)
    return variant, first_graph(stepper, kept, variant)


def first_graph(stepper: Stepper, kept: CapturedSegment, variant: Variant) -> torch.fx.GraphModule:
    """Return a copy of Dynamo's graph for the variant: as it was after the gate if the variant has
    passed it, else with the regions marked.
    """
    if ("dynamo", "") in variant.passed:
        return snapshot(variant.kept[("dynamo", "")])
    variant.kept[("dynamo", "")] = kept.dynamo
    graph = snapshot(kept.dynamo)
    _mark_again(stepper, kept, variant, graph)
    return graph


def _mark_again(
    stepper: Stepper, kept: CapturedSegment, variant: Variant, graph: torch.fx.GraphModule
) -> None:
    """Mark the regions of a variant in Dynamo's own graph, and record the edit."""
    if variant.changes.marks:
        with (
            compile_context(kept.compile_context),
            stepper.outside(),
            stepper.as_current(kept, variant),
        ):
            stepper.edits.mark_again(variant, graph)


def _origin(kept: CapturedSegment, command: Command, default: Variant) -> Variant:
    """Return the variant from which the new one begins."""
    if not command.compilation:
        return default
    if command.compilation == kept.name:
        return kept.variants[0]
    return kept.variant(command.compilation) or default


def _check_reached(origin: Variant, gate: Gate, direction: Direction) -> None:
    """Raise UsageError when ``origin`` has not reached the gate. Waiting at the gate counts as
    reaching it.
    """
    if direction and (direction not in DIRECTIONS or GATES.index(gate) < GATES.index("partition")):
        raise UsageError(
            f"{direction!r} cannot be lowered alone from {GATE_WORDS[gate]}: a direction is "
            "forward, backward or inference, and they are separate only from the partition on."
        )
    gates = {name for name, of in origin.reached if not direction or of in ("", direction)}
    if gate == "dynamo" or gate in gates:
        return
    known = [GATE_WORDS[name] for name in GATES if name in gates]
    of = f"The {direction} graph of " if direction else ""
    raise UsageError(
        f"{of}[{origin.row.name}] did not reach {GATE_WORDS[gate]}: restart from an earlier stage "
        f"({', '.join(known) or GATE_WORDS['dynamo']})."
    )


def _check_passes(start: Gate, passes: tuple[PassFile, ...]) -> None:
    """Raise UsageError for a pass that would never be applied, and PassProblem for a file without
    one.
    """
    if not passes:
        return
    from fx_explorer.capture.stepping.custom_pass import load_pass  # only for those who have a pass

    for pass_file in passes:
        if pass_file.gate not in GRAPH_GATES:
            raise UsageError(
                f"There is no FX graph after {GATE_WORDS[pass_file.gate]}: apply the pass after "
                "the post-grad passes."
            )
        if GATES.index(pass_file.gate) < GATES.index(start):
            gate = GATE_WORDS[pass_file.gate]
            raise UsageError(
                f"{pass_file.path} is for {gate}, which comes before {GATE_WORDS[start]}: restart "
                f"from {gate}."
            )
        load_pass(pass_file.path)
