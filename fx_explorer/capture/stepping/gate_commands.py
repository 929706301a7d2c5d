"""Each command of the user is carried out here where a compilation waits: at a gate, or after
Dynamo of every graph.

Commands that only move on (go, step, skip, abort) are in gates.py, those for a finished capture in
after_the_program.py. A command that cannot be carried out raises an FxExplorerError. Nothing is
changed then, and the compilation waits on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

import torch

from fx_explorer.capture.graph_copies import snapshot
from fx_explorer.capture.options.settings import SETTING, THROUGH
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.stepping.editing import cut_out, marked, passed
from fx_explorer.capture.stepping.gates import AnotherVariant
from fx_explorer.capture.stepping.new_variant import check_new_variant
from fx_explorer.capture.stepping.stepper import Stepper
from fx_explorer.capture.stepping.variant import CapturedSegment, Variant
from fx_explorer.errors import UsageError
from fx_explorer.model import GATE_WORDS, Changes, Command, Direction, Gate, PassFile

QUESTIONS = ("what_if", "steps")
"""Commands that ask about a program that has run."""


def obey_at_gate(
    stepper: Stepper,
    variant: Variant,
    gate: Gate,
    direction: Direction,
    module: torch.fx.GraphModule | None,
    command: Command,
) -> str:
    """Obey a command while one graph waits after ``gate``. ``module`` is its graph, None when there
    is none any more.
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
                "Another compilation can be taken up again once the program has ended; "
                "continue first."
            )
        _leave_for_another(stepper, kept, variant, command)
    raise _no_command(command)


def obey_for_all(stepper: Stepper, command: Command) -> str:
    """Obey a command after Dynamo of every graph. Marks and passes given there apply to each graph
    in its turn.
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
            "Other inputs can be asked about when the program has run and all guards are "
            "made: continue first."
        )
    if command.kind == "steps":
        return UsageError(
            "What the bytecode does can be recorded when the program has run: continue first."
        )
    return UsageError(f"{command.kind!r} is no command for a gate.")


def allow_at_gate(stepper: Stepper, command: Command) -> None:
    """Refuse what cannot be done for a backward that runs: its forward has run as it was
    compiled.
    """
    if stepper.is_lazy and command.kind in ("skip", "again"):
        raise UsageError(
            "This backward is compiled while the program runs it, and its forward has run: it "
            "cannot be left. Continue, or abort; when the program has ended, every stage can be "
            "taken up again."
        )


def allow_for_all(stepper: Stepper, command: Command) -> None:
    """Refuse to continue when the source has changed: what was captured is compiled from here on,
    and the source on the screen must be the one that it was captured from.
    """
    if command.kind in ("go", "step", "run_to"):
        stepper.check_source()


def set_for_all(stepper: Stepper, command: Command, gate: Gate | None) -> str:
    """Set options for everything that follows."""
    wanted = command.changes.settings
    title = stepper.settings.set(wanted, gate)
    if SETTING in wanted:
        return f"{title}; dynamic shapes hold from the next frame on"
    return title


def answer(recording: Recording, command: Command) -> str:
    """Answer a question about the program that has run. The whole answer is in the session. Raises
    UsageError.
    """
    if command.kind == "what_if":
        from fx_explorer.capture.dynamo.what_if import what_if  # only for those who ask

        return what_if(recording, command.expression)
    from fx_explorer.capture.dynamo.bytecode_steps import record_steps

    return record_steps(recording)


def refuse_dynamic(command: Command) -> None:
    """Refuse another way with dynamic shapes where Dynamo cannot begin a frame again. Raises
    UsageError.
    """
    if SETTING in command.changes.settings:
        raise UsageError(THROUGH)


def _check_lines(stepper: Stepper, command: Command) -> None:
    """Check that marked lines are those that were captured. Raises UsageError."""
    if any(mark.file for mark in command.changes.marks):
        stepper.check_source()


def edit_all(stepper: Stepper, command: Command) -> str:
    """Apply marks and passes to Dynamo's graph of every compilation that they fit. Raises what is
    wrong when they fit none.
    """
    problems, done = [], []
    for kept in stepper.kept.values():
        if kept.variants[0].is_finished:
            problems.append(
                f"[{kept.name}] was compiled at once, for the program's own functions "
                "take part: go again from dynamo."
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
    """Return what the edits would do, found out on a copy."""
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
    """Apply passes to the graph at this gate, and say which. Raises UsageError where there is no
    graph, or for a pass of another gate.
    """
    if gate == "backend":
        raise UsageError(
            "Here is what the backend has published, and only the backend knows what it makes of "
            "it: a pass is applied to the graph that it is given. Go again from an earlier stage "
            "to apply one."
        )
    if module is None:
        raise UsageError(
            "There is no FX graph here any more: a pass can be applied up to the post-grad passes."
        )
    here = [replace(pass_file, gate=gate, direction=direction) for pass_file in passes]
    if any(pass_file.gate != gate for pass_file in passes):
        raise UsageError(
            f"Here is {GATE_WORDS[gate]}: a pass for another gate is given there, or with "
            "“again from”."
        )
    for pass_file in here:
        stepper.edits.apply_pass(variant, pass_file.path, gate, direction, module)
        variant.changes = variant.changes.plus(Changes(passes=(pass_file,)))
    return ", ".join(f"applied {pass_file.path}" for pass_file in passes)


def cut_of(kept: CapturedSegment, variant: Variant, command: Command) -> list[str]:
    """Return how the regions that a command marks are cut out, among all regions of the variant."""
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
