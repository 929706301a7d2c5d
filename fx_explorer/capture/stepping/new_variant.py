"""This module says whether another variant can be compiled, and what it begins with."""

from __future__ import annotations

import torch
from torch._guards import compile_context

from fx_explorer.capture.graph_copies import snapshot
from fx_explorer.capture.options import settings
from fx_explorer.capture.options.settings import compiler_for
from fx_explorer.capture.stepping.editing import marked
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
from fx_explorer.errors import UsageError
from fx_explorer.model import (
    DIRECTIONS,
    GATE_WORDS,
    GATES,
    GRAPH_GATES,
    Command,
    Direction,
    Gate,
    PassFile,
)


def check_new_variant(
    stepper: Stepper, kept: CapturedSegment, command: Command, default: Variant
) -> None:
    """Raise UsageError for what cannot be done, before anything is changed."""
    gate, origin = command.gate or "dynamo", _origin(kept, command, default)
    stepper.check_source(kept)
    settings.check_at_gate(command.changes.settings)
    settings.check(command.changes.settings)
    compiler_for(
        {**stepper.settings.for_variant(origin), **command.changes.settings}, kept.compiler
    )
    if gate == "backend":
        raise UsageError(
            "Nothing can be compiled again from a stage of the backend: only the backend knows "
            "what it makes of it. Go again from dynamo, or from the partition where AOTAutograd "
            "has one."
        )
    check_region(origin, command)
    _check_reached(origin, gate, command.direction)
    _check_passes(gate, command.changes.passes)
    if command.changes.marks and gate != "dynamo":
        raise UsageError("A region is marked in Dynamo's graph: go again from dynamo to mark one.")
    if settings.SETTING in command.changes.settings:
        if kept is not stepper.in_dynamo:
            raise UsageError(settings.THROUGH)
        settings.check_anew(gate, command.changes)
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
    """Return the graph that the variant begins with: Dynamo's with the regions marked, or the graph
    that passed its gate.
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
    """Mark the regions of a variant in a graph that Dynamo made, and record it."""
    if variant.changes.marks:
        with (
            compile_context(kept.compile_context),
            stepper.outside(),
            stepper.as_current(kept, variant),
        ):
            stepper.edits.mark_again(variant, graph)


def _origin(kept: CapturedSegment, command: Command, default: Variant) -> Variant:
    """Return the variant that another one sets out from."""
    if not command.compilation:
        return default
    if command.compilation == kept.name:
        return kept.variants[0]
    return kept.variant(command.compilation) or default


def _check_reached(origin: Variant, gate: Gate, direction: Direction) -> None:
    """Raise UsageError when ``origin`` has not come to the gate. A variant that waits there has."""
    if direction and (direction not in DIRECTIONS or GATES.index(gate) < GATES.index("partition")):
        raise UsageError(
            f"{direction!r} cannot be lowered alone from {GATE_WORDS[gate]}: a direction is "
            "forward, backward or inference, and they part with the partition."
        )
    gates = {name for name, of in origin.reached if not direction or of in ("", direction)}
    if gate == "dynamo" or gate in gates:
        return
    known = [GATE_WORDS[name] for name in GATES if name in gates]
    of = f"The {direction} graph of " if direction else ""
    raise UsageError(
        f"{of}[{origin.row.name}] has not come to {GATE_WORDS[gate]}: go again from an earlier "
        f"stage ({', '.join(known) or GATE_WORDS['dynamo']})."
    )


def _check_passes(start: Gate, passes: tuple[PassFile, ...]) -> None:
    """Raise UsageError for a pass that would never be applied, and PassProblem for a file that has
    none.
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
                f"{pass_file.path} is for {gate}, which comes before {GATE_WORDS[start]}: go "
                f"again from {gate}."
            )
        load_pass(pass_file.path)
