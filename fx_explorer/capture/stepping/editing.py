"""The graph at a gate can be edited: regions are marked by hand, and passes come from a file. Each
edit is in the session, with the graph before and after it.
"""

from __future__ import annotations

from dataclasses import replace

from torch.fx import GraphModule

from fx_explorer.capture.graph_copies import become, snapshot
from fx_explorer.capture.node_links import copied_links
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.stepping.variant import Variant
from fx_explorer.errors import PassProblem, UsageError
from fx_explorer.model import (
    GATE_STAGES,
    Changes,
    Direction,
    Gate,
    Intervention,
    InterventionKind,
    Mark,
)
from fx_explorer.model.rows.stepping import stage_at


class GraphEdits:
    """Makes the user's edits in the graphs of one capture, and records them."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def mark(
        self,
        variant: Variant,
        gate: Gate | None,
        module: GraphModule | None,
        marks: tuple[Mark, ...],
    ) -> list[str]:
        """Mark regions at a gate, and say how torch will cut each out. Raises UsageError with
        nothing changed.
        """
        if gate != "dynamo" or module is None:
            raise UsageError(
                "A region is marked in Dynamo's graph: go again from dynamo to mark one here."
            )
        # On a copy first: a mark that is refused must leave the graph as it was.
        trial = snapshot(module)
        count = marked(trial, marks)
        become(module, trial)
        variant.changes = variant.changes.plus(Changes(marks=marks))
        self._record(variant, "mark", gate, "", module, count)
        return cut_out(module, marks)

    def mark_again(self, variant: Variant, module: GraphModule) -> None:
        """Mark all regions of a variant in a graph that is as Dynamo made it."""
        count = marked(module, variant.changes.marks)
        if count and not variant.is_taken_up:
            self._record(variant, "mark", "dynamo", "", module, count)

    def apply_passes(
        self, variant: Variant, gate: Gate, direction: Direction, module: GraphModule
    ) -> list[str]:
        """Apply this variant's passes for the gate. Returns what is wrong with those that were left
        out.
        """
        problems = []
        for pass_file in variant.changes.passes:
            if pass_file.gate == gate and pass_file.direction in ("", direction):
                try:
                    self.apply_pass(variant, pass_file.path, gate, direction, module)
                except PassProblem as problem:
                    problems.append(str(problem))
                    # What was not applied is no change of this variant's.
                    passes = variant.changes.passes
                    others = tuple(other for other in passes if other != pass_file)
                    variant.changes = replace(variant.changes, passes=others)
        return problems

    def apply_pass(
        self, variant: Variant, path: str, gate: Gate, direction: Direction, module: GraphModule
    ) -> None:
        """Apply the pass to ``module`` in place. Raises PassProblem with nothing changed."""
        become(module, passed(path, module))
        with open(path, encoding="utf-8", errors="replace") as file:
            text = self._recording.writer.text(file.read())
        self._record(variant, "pass", gate, direction, module, [f"pass_ of {path}"], text)

    def _record(
        self,
        variant: Variant,
        kind: InterventionKind,
        gate: Gate,
        direction: Direction,
        module: GraphModule,
        titles: list[str],
        text: int = 0,
    ) -> None:
        """Record the edited graph in place of the one before. Both stay in the session."""
        recording = self._recording
        variant.edited.add((gate, direction))
        with recording.noting("an edited graph", GATE_STAGES[gate]):
            before, after = self._add_graph(module, gate, direction, f"after {kind}")
            for title in titles:
                recording.writer.add(
                    Intervention(
                        0, variant.row.id, gate, direction, kind, title, before, after, text
                    )
                )

    def _add_graph(
        self, module: GraphModule, gate: Gate, direction: Direction, name: str
    ) -> tuple[int, int]:
        """Store a graph after an edit; later stages link to it. Returns the rows of the graph
        before and after.
        """
        segment, stage = self._recording.segment(), stage_at(gate, direction)
        before = segment.at(stage, direction)
        after = self._recording.add_graph(module, stage, direction, name=name)
        self._recording.writer.add_all(copied_links(after, before))
        if before:
            segment.unedited.setdefault((gate, direction), before)
        segment.put(stage, direction, after)
        return before.graph.id if before else 0, after.graph.id


def marked(module: GraphModule, marks: tuple[Mark, ...]) -> list[str]:
    """Mark the regions and say how many nodes each has. Raises UsageError."""
    if not marks:
        return []
    from fx_explorer.capture.stepping.marking import (
        apply_mark,  # it imports torch's partitioner: only for those who mark
    )

    return [f'region "{mark.name}": {_nodes(len(apply_mark(module, mark)))}' for mark in marks]


def _nodes(count: int) -> str:
    if count == 1:
        return f"{count} node"
    return f"{count} nodes"


def cut_out(module: GraphModule, marks: tuple[Mark, ...]) -> list[str]:
    """Say for each region marked in ``module`` whether it is one piece, or why it falls apart."""
    if not marks:
        return []
    from fx_explorer.capture.stepping.marking import regions_in_words

    return regions_in_words(module, marks)


def passed(path: str, module: GraphModule) -> GraphModule:
    """Return ``module`` after the pass. Raises PassProblem, with ``module`` unchanged, when
    something is wrong with the pass.
    """
    from fx_explorer.capture.stepping.custom_pass import apply_pass

    return apply_pass(path, module)
