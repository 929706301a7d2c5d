"""Another way: whether it can be taken, and what it begins with."""

from __future__ import annotations

import torch
from torch._guards import compile_context

from fx_explorer.capture.graph_copies import snapshot
from fx_explorer.capture.options import dynamic_shapes, settings
from fx_explorer.capture.options.compilers import compiler_for
from fx_explorer.capture.stepping.edits.editing import marked
from fx_explorer.capture.stepping.steering import Steering
from fx_explorer.capture.stepping.variants.region_reuse import check_region, share_regions
from fx_explorer.capture.stepping.variants.ways import KeptSegment, Way, share_gates, shared_keys, shared_segment
from fx_explorer.errors import UsageError
from fx_explorer.model import DIRECTIONS, GATE_WORDS, GATES, GRAPH_GATES, Command, Direction, Gate, PassFile


def check_branch(steering: Steering, kept: KeptSegment, command: Command, default: Way) -> None:
    """Raises UsageError for what cannot be done, before anything is changed."""
    gate, origin = command.gate or "dynamo", _origin(kept, command, default)
    steering.check_source(kept)
    settings.check_at_gate(command.changes.settings)
    settings.check(command.changes.settings)
    compiler_for({**steering.settings.for_way(origin), **command.changes.settings}, kept.compiler)
    check_region(origin, command)
    _check_reached(origin, gate, command.direction)
    _check_passes(gate, command.changes.passes)
    if command.changes.marks and gate != "dynamo":
        raise UsageError("A region is marked in Dynamo's graph: go again from dynamo to mark one.")
    if dynamic_shapes.SETTING in command.changes.settings:
        if kept is not steering.in_dynamo:
            raise UsageError(dynamic_shapes.THROUGH)
        dynamic_shapes.check_anew(gate, command.changes)
    marked(snapshot(kept.dynamo), (*origin.changes.marks, *command.changes.marks))


def branch(steering: Steering, kept: KeptSegment, command: Command, default: Way) -> tuple[Way, torch.fx.GraphModule]:
    """A new way, and the Dynamo graph it starts with. Raises UsageError before anything is changed."""
    gate, origin = command.gate or "dynamo", _origin(kept, command, default)
    check_branch(steering, kept, command, default)
    replays = shared_keys(origin, gate, command.direction)
    changes = origin.changes.plus(command.changes)
    segment = shared_segment(origin.segment, gate, command.direction)
    row = steering.rows.add_branch(kept, origin, gate, command, replays)
    took = {key: seconds for key, seconds in origin.took_s.items() if key in replays}
    way = Way(row, segment, changes, {key: origin.kept[key] for key in replays}, took, replays=replays)
    share_regions(origin, way, gate)
    way.region = command.region
    kept.ways.append(way)
    share_gates(origin, way, gate, command.direction)
    return way, first_graph(steering, kept, way)


def first_graph(steering: Steering, kept: KeptSegment, way: Way) -> torch.fx.GraphModule:
    """What the way begins with: Dynamo's graph with its regions marked, or as it was when the way was through with it."""
    if ("dynamo", "") in way.passed:
        return snapshot(way.kept[("dynamo", "")])
    way.kept[("dynamo", "")] = kept.dynamo
    graph = snapshot(kept.dynamo)
    _mark_again(steering, kept, way, graph)
    return graph


def _mark_again(steering: Steering, kept: KeptSegment, way: Way, graph: torch.fx.GraphModule) -> None:
    """Mark the regions of a way in a graph that Dynamo made, and record it."""
    if way.changes.marks:
        with compile_context(kept.compile_context), steering.outside(), steering.as_current(kept, way):
            steering.edits.mark_again(way, graph)


def _origin(kept: KeptSegment, command: Command, default: Way) -> Way:
    """The way that another one sets out from."""
    if not command.compilation:
        return default
    return kept.ways[0] if command.compilation == kept.name else kept.way(command.compilation) or default


def _check_reached(origin: Way, gate: Gate, direction: Direction) -> None:
    """Raises UsageError when ``origin`` has not come to the gate; a way that waits there has."""
    if direction and (direction not in DIRECTIONS or GATES.index(gate) < GATES.index("partition")):
        raise UsageError(
            f"{direction!r} cannot be lowered alone from {GATE_WORDS[gate]}: a direction is forward, backward or inference, "
            "and they part with the partition."
        )
    gates = {name for name, of in origin.reached if not direction or of in ("", direction)}
    if gate == "dynamo" or gate in gates:
        return
    known = [GATE_WORDS[name] for name in GATES if name in gates]
    of = f"The {direction} graph of " if direction else ""
    raise UsageError(
        f"{of}[{origin.row.name}] has not come to {GATE_WORDS[gate]}: go again from an earlier stage "
        f"({', '.join(known) or GATE_WORDS['dynamo']})."
    )


def _check_passes(start: Gate, passes: tuple[PassFile, ...]) -> None:
    """Raises UsageError for a pass that would never be applied, and PassProblem for a file that has none."""
    if not passes:
        return
    from fx_explorer.capture.stepping.edits.custom_pass import load_pass  # for those who have one

    for one in passes:
        if one.gate not in GRAPH_GATES:
            raise UsageError(f"There is no FX graph after {GATE_WORDS[one.gate]}: apply the pass after the post-grad passes.")
        if GATES.index(one.gate) < GATES.index(start):
            words = GATE_WORDS[one.gate]
            raise UsageError(f"{one.path} is for {words}, which comes before {GATE_WORDS[start]}: go again from {words}.")
        load_pass(one.path)
