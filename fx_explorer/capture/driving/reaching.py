"""Whether another way can set out from a gate, and be edited where it is asked to be."""

from __future__ import annotations

from fx_explorer.capture.driving.ways import Way
from fx_explorer.errors import UsageError
from fx_explorer.model import DIRECTIONS, GATE_WORDS, GATES, GRAPH_GATES, Direction, Gate, PassFile


def check_reached(origin: Way, gate: Gate, direction: Direction) -> None:
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


def check_passes(start: Gate, passes: tuple[PassFile, ...]) -> None:
    """Raises UsageError for a pass that would never be applied, and PassProblem for a file that has none."""
    if not passes:
        return
    from fx_explorer.capture.driving.custom_pass import load_pass  # for those who have one

    for one in passes:
        if one.gate not in GRAPH_GATES:
            raise UsageError(f"There is no FX graph after {GATE_WORDS[one.gate]}: apply the pass after the post-grad passes.")
        if GATES.index(one.gate) < GATES.index(start):
            words = GATE_WORDS[one.gate]
            raise UsageError(f"{one.path} is for {words}, which comes before {GATE_WORDS[start]}: go again from {words}.")
        load_pass(one.path)
