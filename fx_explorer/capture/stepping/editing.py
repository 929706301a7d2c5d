"""This module edits the graph at a gate: regions are marked by hand, and passes come from a file.
Each edit is in the session, with the graph before and after it.

A mark becomes the annotation that ``torch.fx.traceback.annotate`` would have left on those nodes.
It is put on nodes of the Dynamo graph; AOTAutograd carries it to the forward and the backward
graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch.fx import GraphModule

from fx_explorer.capture import option_settings
from fx_explorer.capture.aot.regional import KEY, region_name
from fx_explorer.capture.graph_copies import become, snapshot
from fx_explorer.capture.node_links import copied_links
from fx_explorer.capture.recording.fx_graphs import CALLS, module_path
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.stepping.variant import Variant
from fx_explorer.capture.torch_compat.private_names import inductor_config
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
    """Applies the user's edits to the graphs of one capture, and records them."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def mark(
        self,
        variant: Variant,
        gate: Gate | None,
        module: GraphModule | None,
        marks: tuple[Mark, ...],
    ) -> list[str]:
        """Mark regions at a gate, and return how torch will cut each out. Raises UsageError with
        nothing changed.
        """
        if gate != "dynamo" or module is None:
            raise UsageError(
                "A region is marked in Dynamo's graph: restart from dynamo to mark one here."
            )
        # On a copy first: a mark that is refused must leave the graph as it was.
        trial = snapshot(module)
        count = marked(trial, marks)
        become(module, trial)
        variant.changes = variant.changes.plus(Changes(marks=marks))
        self._record(variant, "mark", gate, "", module, count)
        return cut_out(module, marks)

    def mark_again(self, variant: Variant, module: GraphModule) -> None:
        """Mark all regions of a variant in a graph that has only Dynamo's own nodes and
        annotations.
        """
        count = marked(module, variant.changes.marks)
        if count and not variant.is_taken_up:
            self._record(variant, "mark", "dynamo", "", module, count)

    def apply_passes(
        self, variant: Variant, gate: Gate, direction: Direction, module: GraphModule
    ) -> list[str]:
        """Apply this variant's passes for the gate. Returns the problems of passes that failed and
        were skipped.
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
        """Record the edited graph beside the graph before the edit. Later stages link to the edited
        one.
        """
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
        if before is None:
            return 0, after.graph.id
        return before.graph.id, after.graph.id


def marked(module: GraphModule, marks: tuple[Mark, ...]) -> list[str]:
    """Mark the regions and return how many nodes each has. Raises UsageError."""
    if not marks:
        return []
    return [f'region "{mark.name}": {_nodes(len(apply_mark(module, mark)))}' for mark in marks]


def _nodes(count: int) -> str:
    if count == 1:
        return f"{count} node"
    return f"{count} nodes"


def cut_out(module: GraphModule, marks: tuple[Mark, ...]) -> list[str]:
    """Describe each region marked in ``module``: one piece, or several and why."""
    if not marks:
        return []
    return describe_regions(module, marks)


def passed(path: str, module: GraphModule) -> GraphModule:
    """Return ``module`` after the pass. Raises PassProblem if the pass fails, with ``module``
    unchanged.
    """
    from fx_explorer.capture.stepping.custom_pass import apply_pass

    return apply_pass(path, module)


# Regions that are marked by hand.


SHOWN = 6
"""Maximum number of names that a message lists; the others are counted."""


@dataclass(frozen=True, slots=True)
class RegionCut:
    """The pieces into which torch would cut a region."""

    pieces: tuple[tuple[str, ...], ...]
    """Names of the nodes of each piece, in graph order. Inductor compiles each piece by itself."""
    reason: str = ""
    """Why there are several pieces; empty for one."""


def apply_mark(gm: torch.fx.GraphModule, mark: Mark) -> list[str]:
    """Mark the nodes and return their names, in graph order. Their other annotations are kept.

    Raises UsageError, with the graph unchanged, when the mark has no name, names nodes or configs
    that do not exist, or matches nothing.
    """
    nodes = marked_nodes(gm, mark)
    region: dict[str, object] = {"inductor_region": mark.name}
    if mark.configs:
        region["inductor_configs"] = dict(mark.configs)
    for node in nodes:
        node.meta["custom"] = {**(node.meta.get("custom") or {}), KEY: region}
    return [node.name for node in nodes]


def marked_nodes(gm: torch.fx.GraphModule, mark: Mark) -> list[torch.fx.Node]:
    """Return the nodes that ``mark`` names, in graph order. Raises as ``apply_mark`` does."""
    if not mark.name.strip():
        raise UsageError("a region needs a name, which tells its nodes from those of other regions")
    _check_configs(mark)
    _check_config_types(mark)
    _check_names(gm, mark)
    nodes = [node for node in gm.graph.nodes if _is_marked(node, mark)]
    if not nodes:
        raise UsageError(f"region {mark.name!r} is empty: {_why_empty(gm, mark)}")
    return nodes


def cut(gm: torch.fx.GraphModule, nodes: Iterable[torch.fx.Node]) -> RegionCut:
    """Return how torch would cut ``nodes`` out of this graph. It splits them where one piece would
    depend on its own result.

    The answer is that of the partitioner that regional Inductor asks
    (torch/fx/passes/infra/partitioner.py). The forward and backward graphs made of this one are cut
    again and may fall into other pieces.
    """
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import create_op_support

    wanted = set(nodes)
    support = create_op_support(lambda _, node: node in wanted)
    partitions = CapabilityBasedPartitioner(
        gm, support, allows_single_node_partition=True
    ).propose_partitions()
    order = {node: position for position, node in enumerate(gm.graph.nodes)}
    pieces = [sorted(partition.nodes, key=order.__getitem__) for partition in partitions]
    pieces.sort(key=lambda piece: order[piece[0]])
    names = tuple(map(_names_of, pieces))
    why = _why_split(pieces, order) if len(pieces) > 1 else ""
    return RegionCut(names, why)


def _names_of(nodes: Iterable[torch.fx.Node]) -> tuple[str, ...]:
    return tuple(node.name for node in nodes)


def describe_regions(gm: torch.fx.GraphModule, marks: Iterable[Mark]) -> list[str]:
    """Return the pieces into which the region of each mark is cut, after all marks were applied. A
    later mark takes nodes away from an earlier one.
    """
    nodes: dict[str, list[torch.fx.Node]] = {mark.name: [] for mark in marks}
    for node in gm.graph.nodes:
        name = region_name(node)
        if name is not None and name in nodes:
            nodes[name].append(node)
    return [describe_cut(name, cut(gm, of_region)) for name, of_region in nodes.items()]


def describe_cut(region: str, made: RegionCut) -> str:
    """Return ``region "mlp" is one piece of 5 nodes``, or the number of pieces and the reason."""
    total = sum(map(len, made.pieces))
    if not total:
        return f'region "{region}" has no nodes left: regions marked later took them'
    if len(made.pieces) == 1:
        noun = "node" if total == 1 else "nodes"
        return f'region "{region}" is one piece of {total} {noun}'
    sizes = " + ".join(str(len(piece)) for piece in made.pieces)
    return (
        f'region "{region}" is split into {len(made.pieces)} pieces ({sizes} nodes), each '
        f"compiled on its own: {made.reason}"
    )


# matching


def _is_marked(node: torch.fx.Node, mark: Mark) -> bool:
    if node.op not in CALLS:
        return False
    return (
        node.name in mark.nodes
        or bool(mark.module and _is_below(node, mark.module))
        or _is_on_lines(node, mark)
    )


def _is_below(node: torch.fx.Node, module: str) -> bool:
    wanted = module.strip(".")
    return any(path == wanted or path.startswith(f"{wanted}.") for path in _module_paths(node))


def _module_paths(node: torch.fx.Node) -> list[str]:
    """Return the paths of the modules in which the node was traced, outermost first:
    ``layers.0.mlp``.
    """
    stack = node.meta.get("nn_module_stack") or {}
    return [module_path(str(entry[0])) for entry in stack.values()]


_FRAME = re.compile(r'^[^\S\n]*File "(?P<file>.+)", line (?P<line>\d+)', re.MULTILINE)


def _is_on_lines(node: torch.fx.Node, mark: Mark) -> bool:
    """Return whether the node is on the mark's lines. Any frame of its stack counts: a line that
    calls a layer stands for the whole layer.
    """
    if not mark.file:
        return False
    lines = [line for file, line in _frames(node) if file == mark.file]
    return any(mark.first_line <= line <= mark.last_line for line in lines)


def _frames(node: torch.fx.Node) -> list[tuple[str, int]]:
    frames = _FRAME.finditer(node.meta.get("stack_trace") or "")
    return [(frame["file"], int(frame["line"])) for frame in frames]


# what can be wrong with a mark


def _check_configs(mark: Mark) -> None:
    unknown = sorted(key for key in mark.configs if not _has_config(inductor_config, key))
    if unknown:
        raise UsageError(
            f"region {mark.name!r}: torch {torch.__version__} has no torch._inductor.config entry "
            f"{_listed(unknown)}. Choose one from the list of settings, under inductor."
        )


def _check_config_types(mark: Mark) -> None:
    try:
        option_settings.check({f"inductor.{key}": value for key, value in mark.configs.items()})
    except UsageError as error:
        raise UsageError(f"region {mark.name!r}: {error}") from error


def _has_config(config: object, key: str) -> bool:
    try:
        for part in key.split("."):
            config = getattr(config, part)
    except AttributeError:
        return False
    return True


def _check_names(gm: torch.fx.GraphModule, mark: Mark) -> None:
    by_name = {node.name: node for node in gm.graph.nodes}
    unknown = [name for name in mark.nodes if name not in by_name]
    if unknown:
        raise UsageError(
            f"region {mark.name!r}: the Dynamo graph has no node {_listed(unknown)}. Names are in "
            "its first column."
        )
    idle = [name for name in mark.nodes if by_name[name].op not in CALLS]
    if idle:
        raise UsageError(
            f"region {mark.name!r}: {_listed(idle)} cannot be compiled: a graph's inputs and "
            "output are not operations. Mark nodes that compute something."
        )


def _why_empty(gm: torch.fx.GraphModule, mark: Mark) -> str:
    calls = [node for node in gm.graph.nodes if node.op in CALLS]
    reasons = []
    if mark.module:
        modules: dict[str, None] = {}
        for node in calls:
            modules |= dict.fromkeys(path for path in _module_paths(node) if path)
        reasons.append(
            f"no node was traced in module {mark.module!r}; there are "
            f"{_listed(list(modules)) or 'no modules'}"
        )
    if mark.file:
        lines: set[int] = set()
        for node in calls:
            lines.update(line for file, line in _frames(node) if file == mark.file)
        if lines:
            where = f"lines {mark.first_line} to {mark.last_line} of {mark.file}"
            reasons.append(
                f"no node comes from {where}; nodes come from its lines {_listed(sorted(lines))}"
            )
        else:
            reasons.append(f"no node comes from {mark.file}")
    return "; ".join(reasons) or "name nodes, a module or source lines"


def _why_split(pieces: list[list[torch.fx.Node]], order: dict[torch.fx.Node, int]) -> str:
    """Describe a node outside of the region that uses one piece and is used by another."""
    inside: set[torch.fx.Node] = set()
    for piece in pieces:
        inside.update(piece)
    for piece in pieces:
        for node in sorted(_users_of(set(piece)) - inside, key=order.__getitem__):
            using = _users_of({node})
            needing = [
                other[0] for other in pieces if other is not piece and not using.isdisjoint(other)
            ]
            if needing:
                return (
                    f"{node.name}, which is not marked, uses the piece of {piece[-1].name}, and "
                    f"the piece of {needing[0].name} uses it: in one piece they would wait for "
                    "each other"
                )
    return "its parts are not connected"


def _users_of(nodes: set[torch.fx.Node]) -> set[torch.fx.Node]:
    """Return all nodes that depend on ``nodes``, directly or through others."""
    users: set[torch.fx.Node] = set()
    pending: list[torch.fx.Node] = []
    for node in nodes:
        pending += node.users
    while pending:
        node = pending.pop()
        if node not in users:
            users.add(node)
            pending += node.users
    return users


def _listed(names: list[str] | list[int]) -> str:
    shown = ", ".join(str(name) for name in names[:SHOWN])
    if len(names) > SHOWN:
        shown += f" and {len(names) - SHOWN} more"
    return shown
