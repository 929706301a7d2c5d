"""This module records what each of Inductor's passes changed, node by node.

Inductor runs most of its passes inside a ``GraphTransformObserver`` with a name
(torch/fx/passes/graph_transform_observer.py); those that it calls as plain functions are watched by
plain_passes.py. The nodes of the graph, and of those nested in it, are compared before and after
each (recording/graph_states.py). Which nodes are used in whose place, FX tells
(``_register_replace_node_hook``). A pass may run inside another; a change counts for the innermost.
What changed between two passes, from the graph that AOTAutograd gave to the last pass, stands in a
row of its own: no pass that has a name did it.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fx_explorer.capture.inductor.pattern_entries import entry_classes, pattern_name
from fx_explorer.capture.node_links import mark_replacement, replaced_by
from fx_explorer.capture.recording.compilation_state import RecordedGraph
from fx_explorer.capture.recording.graph_states import (
    Change,
    States,
    changes_between,
    states_of,
)
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import GraphTransformObserver
from fx_explorer.model.rows.passes import UNNAMED, GraphPass, NearMatch, NodeChange, PassChange


@dataclass(eq=False)
class _Pass:
    """A pass that runs, or has run."""

    name: str
    subsystem: str
    module: torch.fx.GraphModule
    position: int
    parent: int
    before: States
    began: float
    is_stage: bool = False
    """Whether it stands for all passes of a stage."""
    duration_s: float = 0.0
    counts: dict[torch.fx.GraphModule, dict[NodeChange, int]] = field(default_factory=dict)
    """Graph → how many nodes were changed in it, passes inside included."""
    changes: list[Change] = field(default_factory=list)
    """What it did itself."""
    known: set[tuple[torch.fx.GraphModule, str]] = field(default_factory=set)
    """(graph, node) whose change is that of a pass inside."""
    near_matches: list[NearMatch] = field(default_factory=list)
    """Patterns of it that did not match, if they are recorded."""

    def count(self, changes: Iterable[Change]) -> None:
        for change in changes:
            counts = self.counts.setdefault(change.module, {})
            counts[change.kind] = counts.get(change.kind, 0) + 1


@dataclass(eq=False)
class StagePasses:
    """The passes of a stage over one graph and those nested in it."""

    recording: Recording
    passes: list[_Pass] = field(default_factory=list)
    running: list[_Pass] = field(default_factory=list)
    replaced: dict[str, list[str]] = field(default_factory=dict)
    """Name of a node → names of those that are used in its place."""
    nodes: dict[str, torch.fx.Node] = field(default_factory=dict)
    """Name → node in whose place another is used."""
    patterns: dict[tuple[int, torch.fx.Node], str] = field(default_factory=dict)
    """(position of a pass, node that a pattern matched or made in it) → the name of the pattern."""
    pattern: str = ""
    """The pattern that is being applied; empty between them."""
    matched: tuple[torch.fx.Node, ...] = ()
    """The nodes that it matched."""
    latest: States = field(default_factory=dict)
    """The graphs as they were after the latest pass."""
    latest_name: str = ""
    """Name of that pass; empty before the first."""

    @property
    def is_between_passes(self) -> bool:
        return all(each.is_stage for each in self.running)

    def begin(
        self, name: str, subsystem: str, module: torch.fx.GraphModule, is_stage: bool = False
    ) -> _Pass:
        states = states_of(module)
        if self.is_between_passes and not is_stage:
            between = f"between {self.latest_name} and {name}"
            self._add_unnamed(between if self.latest_name else f"before {name}", module, states)
        begun = self._add(name, subsystem, module, states)
        begun.is_stage = is_stage
        self.running.append(begun)
        module._register_replace_node_hook(self.note_replaced)
        module._register_create_node_hook(self.note_made)
        if is_stage and not self.latest:
            self.latest = dict(states)
        return begun

    def _add(
        self, name: str, subsystem: str, module: torch.fx.GraphModule, states: States
    ) -> _Pass:
        parent = self.running[-1].position if self.running else -1
        added = _Pass(name, subsystem, module, len(self.passes), parent, states, time.monotonic())
        self.passes.append(added)
        return added

    def _add_unnamed(self, where: str, module: torch.fx.GraphModule, states: States) -> None:
        """Add what changed since the latest pass; of a graph that was not there then, nothing is
        known.
        """
        seen_before = {graph: nodes for graph, nodes in states.items() if graph in self.latest}
        changes = list(changes_between(self.latest, seen_before))
        if changes:
            unnamed = self._add(f"{UNNAMED} {where}", "", module, {})
            unnamed.changes = changes
            unnamed.count(changes)
            self._settle_replaced(changes, self.latest, seen_before)
            for outer in self.running:
                outer.known.update((change.module, change.node.name) for change in changes)

    def end(self, ended: _Pass) -> None:
        ended.duration_s = time.monotonic() - ended.began
        after = states_of(ended.module)
        if ended.is_stage:
            where = f"after {self.latest_name}" if self.latest_name else "in it"
            self._add_unnamed(where, ended.module, after)
        self.running.remove(ended)
        ended.module._unregister_replace_node_hook(self.note_replaced)
        ended.module._unregister_create_node_hook(self.note_made)
        changes = list(changes_between(ended.before, after))
        ended.count(changes)
        ended.changes = [
            change for change in changes if (change.module, change.node.name) not in ended.known
        ]
        self._settle_replaced(ended.changes, ended.before, after)
        if self.running:
            outer = self.running[-1]
            outer.known.update((change.module, change.node.name) for change in changes)
            outer.known.update(ended.known)
        if self.is_between_passes:
            self.latest.update(after)
            self.latest_name = ended.name if not ended.is_stage else self.latest_name
        ended.before = {}

    def _settle_replaced(self, changes: list[Change], before: States, after: States) -> None:
        """Note with each node which ones it replaced, or which replaced it. What a pass made and
        removed again is passed over.
        """
        made = {change.node.name: change for change in changes if change.kind == "made"}
        names_after = _names(after)
        for change in changes:
            if change.kind != "made":
                change.replaced += self._used_instead(change.node.name, names_after)
        if not made:
            return
        names_before = _names(before)
        for name in self.replaced:
            if name not in names_before:
                continue
            for replacing in self._used_instead(name, names_after):
                if replacing in made:
                    made[replacing].replaced.append(name)
        for change in made.values():
            _mark_origin(change, self.nodes)

    def _used_instead(self, name: str, names: set[str]) -> Iterator[str]:
        """Yield the nodes of a graph that are used in the place of another, directly or in the
        place of one that is no more.
        """
        waiting, seen = list(self.replaced.get(name, ())), {name}
        while waiting:
            replacing = waiting.pop(0)
            if replacing in seen:
                continue
            seen.add(replacing)
            if replacing in names:
                yield replacing
            else:
                waiting += self.replaced.get(replacing, ())

    # FX calls the next two while a pass runs, so a fault of theirs would be one of the compile.

    def note_replaced(self, old: torch.fx.Node, new: str, user: torch.fx.Node) -> None:
        with self.recording.noting("which node replaces which", "post_grad"):
            names = self.replaced.setdefault(old.name, [])
            if new not in names and new != old.name:
                names.append(new)
                self.nodes[old.name] = old

    def note_made(self, node: torch.fx.Node) -> None:
        if not self.pattern:
            return
        with self.recording.noting("what a pattern made", "post_grad"):
            self.patterns[self.running[-1].position, node] = self.pattern
            mark_replacement(node, self.matched)

    def begin_pattern(self, name: str, matched: Iterable[torch.fx.Node]) -> None:
        self.pattern = name
        self.matched = tuple(matched)
        for node in self.matched:
            self.patterns[self.running[-1].position, node] = name


def _names(states: States) -> set[str]:
    return {node.name for nodes in states.values() for node in nodes}


def _mark_origin(change: Change, nodes: Mapping[str, torch.fx.Node]) -> None:
    """Mark what a node replaced, unless a pattern made it. Its meta may be copied from the old
    node, whose line and ``seq_nr`` are those of other nodes, too.
    """
    node = change.node
    if replaced_by(node):
        return
    old = [nodes[name] for name in change.replaced if name in nodes]
    if old:
        mark_replacement(node, tuple(old))


class _Running(threading.local):
    """The stages whose passes run in this thread, innermost last."""

    def __init__(self) -> None:
        self.stages: list[StagePasses] = []


_running = _Running()


def running_stage() -> StagePasses | None:
    """Return the passes of the stage that runs in this thread; None outside a stage."""
    return _running.stages[-1] if _running.stages else None


def keep_for_later(recording: Recording, module: torch.fx.GraphModule, passes: StagePasses) -> None:
    """Keep the passes over a graph until the graph is recorded after another stage."""
    recording.segment().earlier_passes = module, passes


def _kept(recording: Recording, module: torch.fx.GraphModule) -> StagePasses:
    """Return the passes over a graph that were kept for it; none where there are none."""
    segment = recording.segment()
    if segment.earlier_passes is not None and segment.earlier_passes[0] is module:
        kept: StagePasses = segment.earlier_passes[1]
        segment.earlier_passes = None
        return kept
    passes = StagePasses(recording)
    traced, states = segment.traced_states.pop(recording.here.direction, (None, {}))
    if traced is module:
        passes.latest, passes.latest_name = states, "AOTAutograd"
    return passes


@contextlib.contextmanager
def stage_passes(
    recording: Recording, stage: str, module: torch.fx.GraphModule
) -> Iterator[StagePasses]:
    """Note the passes that run over a graph inside the block, behind those of an earlier stage over
    it of which no graph was recorded.
    """
    passes, whole = StagePasses(recording), None
    with recording.noting("what passes change", "post_grad"):
        passes = _kept(recording, module)
        whole = passes.begin(stage, "", module, is_stage=True)
    _running.stages.append(passes)
    try:
        yield passes
    finally:
        _running.stages.remove(passes)
        if whole is not None:
            with recording.noting("what passes change", "post_grad"):
                passes.end(whole)


@contextlib.contextmanager
def plain_pass(
    recording: Recording, name: str, module: torch.fx.GraphModule, is_alone: bool = False
) -> Iterator[None]:
    """Note the pass that runs over a graph inside the block, if it is none inside another that has
    a name. Outside of a stage only one that is known to run there (``is_alone``) is noted, until
    the next stage over the graph.
    """
    stages, begun = _running.stages, None
    with recording.noting("the beginning of a pass", "post_grad"):
        if stages and stages[-1].is_between_passes:
            begun = stages[-1], stages[-1].begin(name, "", module)
        elif not stages and is_alone:
            passes = _kept(recording, module)
            begun = passes, passes.begin(name, "", module)
            keep_for_later(recording, module, passes)
    try:
        yield
    finally:
        if begun is not None:
            with recording.noting("the end of a pass", "post_grad"):
                passes, ended = begun
                passes.end(ended)


@contextlib.contextmanager
def pass_change_hook(recording: Recording) -> Iterator[None]:
    """Note which passes run, and which patterns they apply, for as long as the block lasts."""

    def make_enter(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def enter(observer: Any) -> Any:
            result = original(observer)
            stages = _running.stages
            if stages:
                with recording.noting("the beginning of a pass", "post_grad"):
                    subsystem = str(getattr(observer, "subsystem", "") or "")
                    begun = stages[-1].begin(observer.passname, subsystem, observer.gm)
                    _begun_by(observer).append((stages[-1], begun))
            return result

        return enter

    def make_exit(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def leave(observer: Any, *exception: Any) -> Any:
            with recording.noting("the end of a pass", "post_grad"):
                if _begun_by(observer):
                    stage, begun = _begun_by(observer).pop()
                    stage.end(begun)
            return original(observer, *exception)

        return leave

    def make_apply(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def apply(entry: Any, match: Any, *args: Any, **kwargs: Any) -> Any:
            stages = _running.stages
            if not stages:
                return original(entry, match, *args, **kwargs)
            stage = stages[-1]
            outer = stage.pattern, stage.matched
            with recording.noting("a pattern that matched", "post_grad"):
                stage.begin_pattern(pattern_name(entry), match.nodes)
            try:
                return original(entry, match, *args, **kwargs)
            finally:
                stage.pattern, stage.matched = outer

        return apply

    with contextlib.ExitStack() as stack:
        stack.enter_context(patched(GraphTransformObserver, "__enter__", make_enter))
        stack.enter_context(patched(GraphTransformObserver, "__exit__", make_exit))
        for entry in entry_classes():
            stack.enter_context(patched(entry, "apply", make_apply))
        yield


def _begun_by(observer: Any) -> list[tuple[StagePasses, _Pass]]:
    """Return what an observer began and has not ended."""
    begun: list[tuple[StagePasses, _Pass]] = observer.__dict__.setdefault("_fx_explorer_begun", [])
    return begun


def has_near_matches(stage: StagePasses) -> bool:
    """Return whether patterns of the passes that did not match were recorded."""
    return any(each.near_matches for each in stage.passes)


def add_passes(recording: Recording, stage: StagePasses, recorded: RecordedGraph) -> None:
    """Store the passes of a stage over a graph that was recorded after them, and over those nested
    in it.
    """
    given = stage.passes[0].module if stage.passes else None
    for part in recorded.whole():
        # A pass may put another module in the place of the one that the stage was given.
        modules = [part.module, given] if part is recorded else [part.module]
        for each in stage.passes:
            own = any(each.module is module for module in modules)
            counts: dict[NodeChange, int] = {}
            for module in modules:
                counts = counts or each.counts.get(module, {})
            if not own and not counts:
                continue
            recording.writer.add(_row(part.graph.id, each, counts, own))
            recording.writer.add_all(
                _change_row(stage, part, each.position, change)
                for change in each.changes
                if any(change.module is module for module in modules)
            )
            if own:
                recording.writer.add_all(
                    replace(row, graph=part.graph.id, graph_pass=each.position)
                    for row in each.near_matches
                )


def _row(graph: int, each: _Pass, counts: Mapping[NodeChange, int], is_own: bool) -> GraphPass:
    return GraphPass(
        id=0,
        graph=graph,
        position=each.position,
        parent=each.parent,
        name=each.name,
        subsystem=each.subsystem,
        # The time of a pass is told once, with the graph that it was given.
        duration_s=each.duration_s if is_own else 0.0,
        made=counts.get("made", 0),
        erased=counts.get("erased", 0),
        changed=counts.get("changed", 0),
    )


def _change_row(
    stage: StagePasses, part: RecordedGraph, position: int, change: Change
) -> PassChange:
    name = change.node.name
    return PassChange(
        id=0,
        graph=part.graph.id,
        graph_pass=position,
        kind=change.kind,
        node=0 if change.kind == "erased" else part.by_name.get(name, 0),
        name=name,
        before=change.before,
        after=change.after,
        replaced=tuple(change.replaced),
        pattern=stage.patterns.get((position, change.node), ""),
    )
