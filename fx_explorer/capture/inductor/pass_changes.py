"""This module records what each of Inductor's passes changed, node by node.

Inductor runs its passes inside a ``GraphTransformObserver`` with a name
(torch/fx/passes/graph_transform_observer.py). The nodes of the graph before and after are compared,
by identity: what a pass changes in place, without a word, is seen as well. Which nodes are used in
whose place, FX tells (``_register_replace_node_hook``). A pass may run inside another; a change
counts for the innermost, and what no named pass did counts for the stage.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fx_explorer.capture.inductor.pattern_entries import pattern_name
from fx_explorer.capture.node_links import mark_replacement
from fx_explorer.capture.recording.compilation_state import RecordedGraph
from fx_explorer.capture.recording.graphs import qualified_name
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import (
    GraphTransformObserver,
    OpOverload,
    inductor_patterns,
)
from fx_explorer.model.rows.passes import GraphPass, NearMatch, NodeChange, PassChange

MOST_CHARACTERS = 300
"""Maximum number of characters of a node's text."""

State = tuple[Any, Any, Any]
"""Target, arguments and keyword arguments of a node: objects that FX replaces and never changes."""


@dataclass
class _Change:
    kind: NodeChange
    node: torch.fx.Node
    before: str = ""
    after: str = ""


@dataclass(eq=False)
class _Pass:
    """A pass that runs, or has run."""

    name: str
    subsystem: str
    module: torch.fx.GraphModule
    position: int
    parent: int
    before: dict[torch.fx.Node, State]
    began: float
    duration_s: float = 0.0
    counts: dict[NodeChange, int] = field(default_factory=dict)
    changes: list[_Change] = field(default_factory=list)
    known: set[torch.fx.Node] = field(default_factory=set)
    """Nodes whose change is that of a pass inside."""
    near_matches: list[NearMatch] = field(default_factory=list)
    """Patterns of it that did not match, if they are recorded."""


@dataclass(eq=False)
class StagePasses:
    """The passes of a stage over one graph and those nested in it."""

    recording: Recording
    passes: list[_Pass] = field(default_factory=list)
    running: list[_Pass] = field(default_factory=list)
    replaced: dict[str, list[str]] = field(default_factory=dict)
    """Name of a node → names of those that are used in its place."""
    patterns: dict[tuple[int, torch.fx.Node], str] = field(default_factory=dict)
    """(position of a pass, node that a pattern matched or made in it) → the name of the pattern."""
    pattern: str = ""
    """The pattern that is being applied; empty between them."""
    matched: tuple[torch.fx.Node, ...] = ()
    """The nodes that it matched."""

    def begin(self, name: str, subsystem: str, module: torch.fx.GraphModule) -> _Pass:
        parent = self.running[-1].position if self.running else -1
        begun = _Pass(
            name, subsystem, module, len(self.passes), parent, _states(module), time.monotonic()
        )
        self.passes.append(begun)
        self.running.append(begun)
        module._register_replace_node_hook(self.note_replaced)
        module._register_create_node_hook(self.note_made)
        return begun

    def end(self, ended: _Pass) -> None:
        ended.duration_s = time.monotonic() - ended.began
        self.running.remove(ended)
        ended.module._unregister_replace_node_hook(self.note_replaced)
        ended.module._unregister_create_node_hook(self.note_made)
        outer = self.running[-1] if self.running else None
        after = _states(ended.module)
        for change in _changes(ended.before, after):
            ended.counts[change.kind] = ended.counts.get(change.kind, 0) + 1
            if change.node in ended.known:
                continue
            ended.changes.append(change)
        if outer is not None and outer.module is ended.module:
            outer.known.update(change.node for change in ended.changes)
            outer.known.update(ended.known)
        ended.before = {}

    # FX calls the next two while a pass runs, so a fault of theirs would be one of the compile.

    def note_replaced(self, old: torch.fx.Node, new: str, user: torch.fx.Node) -> None:
        with self.recording.noting("which node is used in whose place", "post_grad"):
            names = self.replaced.setdefault(old.name, [])
            if new not in names and new != old.name:
                names.append(new)

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


def _states(module: torch.fx.GraphModule) -> dict[torch.fx.Node, State]:
    return {node: (node.target, node.args, node.kwargs) for node in module.graph.nodes}


def _changes(
    before: dict[torch.fx.Node, State], after: dict[torch.fx.Node, State]
) -> Iterator[_Change]:
    for node, state in before.items():
        now = after.get(node)
        if now is None:
            yield _Change("erased", node, _text(state))
        elif _is_other(state, now):
            yield _Change("changed", node, _text(state), _text(now))
    for node, state in after.items():
        if node not in before:
            yield _Change("made", node, after=_text(state))


def _is_other(before: State, after: State) -> bool:
    # The same objects in nearly all nodes. Texts are compared, because to compare symbolic sizes
    # would add guards.
    if all(old is new for old, new in zip(before, after, strict=True)):
        return False
    return _whole_text(before) != _whole_text(after)


def _text(state: State) -> str:
    text = _whole_text(state)
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def _whole_text(state: State) -> str:
    target, args, kwargs = state
    parts = [str(argument) for argument in args]
    parts += [f"{name}={value}" for name, value in kwargs.items()]
    name = target if isinstance(target, str) else qualified_name(target)
    if isinstance(target, OpOverload):
        name = str(target)
    return f"{name}({', '.join(parts)})"


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
        passes: StagePasses = segment.earlier_passes[1]
        segment.earlier_passes = None
        return passes
    return StagePasses(recording)


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
        whole = passes.begin(stage, "", module)
    _running.stages.append(passes)
    try:
        yield passes
    finally:
        _running.stages.remove(passes)
        if whole is not None:
            with recording.noting("what passes change", "post_grad"):
                passes.end(whole)


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
        for entry in (
            inductor_patterns.LoweringPatternEntry,
            inductor_patterns.GraphPatternEntry,
            inductor_patterns.ReplacementPatternEntry,
        ):
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
    replaces: dict[str, list[str]] = {}
    for old, names in stage.replaced.items():
        for name in names:
            replaces.setdefault(name, []).append(old)
    for part in recorded.whole():
        # A pass may put another module in the place of the one that the stage was given.
        modules = [part.module, given] if part is recorded else [part.module]
        for each in stage.passes:
            if not any(each.module is module for module in modules):
                continue
            recording.writer.add(_row(part.graph.id, each))
            recording.writer.add_all(
                _change_row(stage, part, each.position, change, replaces) for change in each.changes
            )
            recording.writer.add_all(
                replace(row, graph=part.graph.id, graph_pass=each.position)
                for row in each.near_matches
            )


def _row(graph: int, each: _Pass) -> GraphPass:
    return GraphPass(
        id=0,
        graph=graph,
        position=each.position,
        parent=each.parent,
        name=each.name,
        subsystem=each.subsystem,
        duration_s=each.duration_s,
        made=each.counts.get("made", 0),
        erased=each.counts.get("erased", 0),
        changed=each.counts.get("changed", 0),
    )


def _change_row(
    stage: StagePasses,
    part: RecordedGraph,
    position: int,
    change: _Change,
    replaces: dict[str, list[str]],
) -> PassChange:
    name = change.node.name
    if change.kind == "made":
        replaced = replaces.get(name, [])
    else:
        replaced = stage.replaced.get(name, [])
    return PassChange(
        id=0,
        graph=part.graph.id,
        graph_pass=position,
        kind=change.kind,
        node=0 if change.kind == "erased" else part.by_name.get(name, 0),
        name=name,
        before=change.before,
        after=change.after,
        replaced=tuple(replaced),
        pattern=stage.patterns.get((position, change.node), ""),
    )
