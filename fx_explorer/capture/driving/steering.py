"""Driving a capture: pausing at gates, and continuing from an earlier stage as another way.

The hooks of each stage (dynamo.py, aot.py, inductor.py, keeping.py) tell this object what they have reached and ask it whether
the answer is known from an earlier way. A capture that nobody steers has none. What the user can ask for is in orders.py.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch
from torch._dynamo.exc import RestartAnalysis
from torch._guards import compile_context

from fx_explorer.capture import stages
from fx_explorer.capture.driving import dynamic_shapes, settings
from fx_explorer.capture.driving.compilers import compiler_for
from fx_explorer.capture.driving.edits import Edits, marked
from fx_explorer.capture.driving.gates import Aborted, AnotherWay, Gates, Left, Milestones, Reached, Skipped
from fx_explorer.capture.driving.late_guards import late_guards
from fx_explorer.capture.driving.orders import allow_at_gate, allow_for_all, obey_at_gate, obey_at_the_end, obey_for_all
from fx_explorer.capture.driving.reaching import check_passes, check_reached
from fx_explorer.capture.driving.region_reuse import check_region, share_regions
from fx_explorer.capture.driving.snapshots import snapshot
from fx_explorer.capture.driving.steered_settings import SteeredSettings
from fx_explorer.capture.driving.way_rows import WayRows
from fx_explorer.capture.driving.ways import KeptSegment, Key, Way, share_gates, shared_keys, shared_segment
from fx_explorer.capture.error_lines import one_line
from fx_explorer.capture.inspecting import backward_at_once, runnable_copy
from fx_explorer.capture.recording import Recording
from fx_explorer.capture.segments import Segment
from fx_explorer.errors import PassProblem, UsageError
from fx_explorer.model import (
    GATES,
    Changes,
    Command,
    Direction,
    Gate,
    Notice,
)

_ANEW = "the user had it captured with other dynamic shapes"

_NEEDS_DYNAMO = "Dynamo would have to capture the frame anew for this, and is through with it; capture again with these options"

_BEFORE: dict[Gate, Gate] = {"dynamo": "dynamo", "post_grad": "pre_fusion"}
"""Where a graph that was edited is kept for ways that set out from later on; other gates have kept what was made of it."""

CompileHere = Callable[[torch.fx.GraphModule], Any]


class Steering:
    """One capture that can be driven. ``defers``: graphs first run eagerly, and are compiled once the program is through."""

    def __init__(self, recording: Recording, gates: Gates, *, defers: bool) -> None:
        self._recording = recording
        self.gates = gates
        self._defers = defers
        self.kept: dict[str, KeptSegment] = {}
        self._current: dict[str, Way] = {}
        """By compilation: the way that what torch does for it now belongs to."""
        self.edits = Edits(recording)
        self.settings = SteeredSettings(recording)
        self._rows = WayRows(recording)
        self._carried: dict[str, Changes] = {}
        """What the user had changed in a frame that Dynamo begins anew, by compilation."""
        self._in_dynamo: KeptSegment | None = None
        """The graph that Dynamo waits for."""
        self._is_probing = False
        self.is_outside = False
        """Whether a graph is compiled after Dynamo is through with its frame."""

    # what the hooks ask and tell

    @property
    def way(self) -> Way | None:
        return self._current.get(self._recording.compilation_name())

    def replay(self, key: Key) -> Any:
        """What an earlier way made of this stage, if this way shares it; None when it is to be made."""
        way = self.way
        return way.kept.get(key) if way and key in way.replays else None

    def is_deferred(self, name: str) -> bool:
        """Whether this compilation's graph still waits for its turn."""
        return self._defers and name in self.kept and not self.kept[name].ways[0].is_finished

    def keep(self, key: Key, made: Any, took_s: float | None = None) -> None:
        way = self.way
        if way is not None and key not in way.kept:
            way.keep(key, made, took_s)

    def spent_s(self) -> float:
        """Seconds of compiling on the current way."""
        return self.way.spent_s() if self.way else 0.0

    @contextlib.contextmanager
    def lowering(self, key: Key) -> Iterator[None]:
        """What is lowered inside the block has the settings of its way; when it is rebuilt, those that it had then."""
        way = self.way
        if way is None or not way.is_rebuilt:
            if way is not None:
                way.lowered_with[key] = self.settings.for_way(way)
            yield
            return
        restore = settings.apply(way.settings_again(key))
        try:
            yield
        finally:
            restore()

    @property
    def is_lazy(self) -> bool:
        """Whether what is compiled now is a backward that runs: Dynamo is through with its frame, the program is not."""
        return self._in_dynamo is None and not self.is_outside

    @contextlib.contextmanager
    def lazily(self) -> Iterator[None]:
        """A backward that is compiled when it runs has the settings of its way, and the way ends as it does."""
        way = self.way
        if way is None or not self.is_lazy:
            yield
            return
        try:
            with self.settings.of(way):
                yield
        except Left:
            self._rows.leave(way, "the user aborted the backward")
            missing = stages.missing(self._recording, self._recording.compilation_name(), "left")
            self._rows.change(way, missing_stages=missing or None)
            raise
        except Exception as error:
            self._rows.fail(way, error)
            raise

    @contextlib.contextmanager
    def rebuilding(self, kept: KeptSegment, way: Way) -> Iterator[torch.fx.GraphModule]:
        """What is compiled inside the block repeats ``way``, from the graph that this yields. It waits at no gate, and nothing
        of it is kept."""
        again, gates = way.rebuilt(), self.gates
        self.gates = Milestones()
        try:
            graph = self._first_graph(kept, again)
            with self._outside(), kept.as_in_dynamo(), self._as_current(kept, again):
                self.gate("dynamo", "", graph)
                yield graph
        finally:
            self.gates = gates

    def measure(self, name: str) -> str:
        """How long a way runs, in words; it stands in the session. Raises UsageError."""
        from fx_explorer.capture.driving.measuring import measure  # for those who measure

        return measure(self, self._recording, name)

    def what_if(self, inputs: str) -> str:
        """Which compiled code would take other inputs, in words; it stands in the session. Raises UsageError."""
        from fx_explorer.capture.what_if import what_if  # for those who ask

        return what_if(self._recording, inputs)

    def record_steps(self) -> str:
        """Call the program once more and record what its bytecode does; how that went, in words. Raises UsageError."""
        from fx_explorer.capture.bytecode_steps import record_steps  # for those who ask

        return record_steps(self._recording)

    def gate(self, gate: Gate, direction: Direction, module: torch.fx.GraphModule | None = None) -> None:
        """A stage is finished. Applies the passes this way has for it, and waits if the user wants to stop here."""
        way = self.way
        if way is None:
            return
        key = (gate, direction)
        way.reached.add(key)
        if key in way.passed:
            return
        if self._is_probing and gate in ("joint", "partition"):
            raise Reached
        self.gates.arrive(gate)
        is_stuck = module is not None and self._is_stuck(self.edits.apply_passes(way, gate, direction, module))
        if is_stuck or self.gates.stops_at(gate):
            began = time.monotonic()
            try:
                obey = functools.partial(obey_at_gate, self, way, gate, direction, module)
                self.gates.wait(gate, way.row.name, direction, obey, functools.partial(allow_at_gate, self))
            finally:
                waited_s = time.monotonic() - began
                way.waited_s += waited_s
                self._recording.waited_s += waited_s
        way.passed.add(key)
        if module is not None and key in way.edited and gate in _BEFORE:
            way.kept[(_BEFORE[gate], direction)] = snapshot(module)

    def _is_stuck(self, problems: list[str]) -> bool:
        """Whether to wait for what the user makes of passes that cannot be; without a user there, raises PassProblem."""
        if problems and self.is_outside:
            raise PassProblem(problems[0])
        for problem in problems:
            self._recording.notify(Notice("note", text=problem))
        return bool(problems)

    # one Dynamo graph

    def compile_segment(self, output_graph: Any, module: torch.fx.GraphModule, inputs: list[Any], here: CompileHere) -> Any:
        """What Dynamo's call of the backend does: now, or when the program is through."""
        name = self._recording.compilation_name()
        segment = self._recording.segments[name]
        _tell_sources(output_graph, module)
        row = self._recording.compilations[name]
        files = self._recording.sources.remember((row.file, *_traced_files(output_graph)))
        kept = KeptSegment(name, output_graph.compiler_fn, inputs, snapshot(module), traced_s=0.0, files=files)
        kept.traced_s = self._recording.elapsed() - row.start_s
        carried = self._carried.pop(name, Changes())
        way = Way(row, segment, self.settings.changes.plus(carried), {("dynamo", ""): kept.dynamo})
        kept.ways.append(way)
        self.kept[name] = kept
        if self._defers:
            if dynamic_shapes.has_dynamic_floats(module):
                self._probe(way, lambda: here(snapshot(module)))
            return runnable_copy(module)
        self._current[name] = way

        def compile_way(graph: torch.fx.GraphModule) -> Any:
            before = output_graph.compiler_fn
            output_graph.compiler_fn = self._compiler_now(kept)
            try:
                return here(graph)
            finally:
                output_graph.compiler_fn = before

        self._in_dynamo = kept
        try:
            with self.settings.of(way):
                return self._follow(kept, way, module, compile_way)
        except RestartAnalysis:
            self._carried[name] = kept.ways[-1].changes
            raise
        except AnotherWay as other:
            self._capture_anew(kept, other.command)
        finally:
            self._in_dynamo = None

    def _probe(self, way: Way, compile_here: Callable[[], object]) -> None:
        """Trace it while Dynamo can still begin anew, should that be what AOTAutograd wants. What is traced is kept."""
        name, self._is_probing = way.row.name, True
        self._current[name] = way
        try:
            compile_here()
        except Reached:
            pass
        finally:
            self._is_probing = False
            del self._current[name]

    def _capture_anew(self, kept: KeptSegment, command: Command) -> NoReturn:
        """Have Dynamo begin the frame again, with the settings of ``command``; what there is of it becomes another row."""
        self.settings.set(command.changes.settings, command.gate)
        self.settings.dynamic_shapes.hold()
        self._recording.set_aside(kept.name, _ANEW)
        raise RestartAnalysis(restart_reason=_ANEW)

    def set_aside(self, name: str, aside: str) -> None:
        """The attempt called ``name`` is called ``aside`` from now on."""
        if name in self.kept:
            self._rows.set_aside(self.kept[name], aside)

    def _follow(self, kept: KeptSegment, way: Way, module: torch.fx.GraphModule, compile_here: CompileHere) -> Any:
        """Compile ``module`` the way the user wants; leaves it as often as another one is taken."""
        try:
            self.gate("dynamo", "", module)
            made = compile_here(module)
            way.compiled_with = self.settings.for_way(way)
            return made
        except Skipped:
            self._rows.leave(way, "the user ran this graph eagerly")
            return runnable_copy(kept.dynamo)
        except AnotherWay as other:
            self._rows.leave(way, "the user took another way")
            if dynamic_shapes.SETTING in other.command.changes.settings:
                raise
            following, graph = self._branch(kept, other.command, way)
            made = self._taking(kept, following, lambda: self._follow(kept, following, graph, compile_here))
            self._rows.use(kept, following)
            return made
        except Reached:
            raise
        except Left:
            self._rows.leave(way, "the user aborted here")
            raise

    # branches

    def _branch(self, kept: KeptSegment, command: Command, default: Way) -> tuple[Way, torch.fx.GraphModule]:
        """A new way, and the Dynamo graph it starts with. Raises UsageError before anything is changed."""
        gate, origin = command.gate or "dynamo", _origin(kept, command, default)
        self.check_branch(kept, command, default)
        replays = shared_keys(origin, gate, command.direction)
        changes = origin.changes.plus(command.changes)
        segment = shared_segment(origin.segment, gate, command.direction)
        row = self._rows.add_branch(kept, origin, gate, command, replays)
        took = {key: seconds for key, seconds in origin.took_s.items() if key in replays}
        way = Way(row, segment, changes, {key: origin.kept[key] for key in replays}, took, replays=replays)
        share_regions(origin, way, gate)
        way.region = command.region
        kept.ways.append(way)
        share_gates(origin, way, gate, command.direction)
        return way, self._first_graph(kept, way)

    def _first_graph(self, kept: KeptSegment, way: Way) -> torch.fx.GraphModule:
        """What the way begins with: Dynamo's graph with its regions marked, or as it was when the way was through with it."""
        if ("dynamo", "") in way.passed:
            return snapshot(way.kept[("dynamo", "")])
        way.kept[("dynamo", "")] = kept.dynamo
        graph = snapshot(kept.dynamo)
        self._mark_again(kept, way, graph)
        return graph

    def check_branch(self, kept: KeptSegment, command: Command, default: Way) -> None:
        """Raises UsageError for what cannot be done, before anything is changed."""
        gate, origin = command.gate or "dynamo", _origin(kept, command, default)
        self.check_source(kept)
        settings.check_at_gate(command.changes.settings)
        settings.check(command.changes.settings)
        compiler_for({**self.settings.for_way(origin), **command.changes.settings}, kept.compiler)
        check_region(origin, command)
        check_reached(origin, gate, command.direction)
        check_passes(gate, command.changes.passes)
        if command.changes.marks and gate != "dynamo":
            raise UsageError("A region is marked in Dynamo's graph: go again from dynamo to mark one.")
        if dynamic_shapes.SETTING in command.changes.settings:
            if kept is not self._in_dynamo:
                raise UsageError(dynamic_shapes.THROUGH)
            dynamic_shapes.check_anew(gate, command.changes)
        marked(snapshot(kept.dynamo), (*origin.changes.marks, *command.changes.marks))

    def check_source(self, *kept: KeptSegment) -> None:
        """Raises UsageError when a file that Dynamo read for these (default: all) graphs is no longer what it was."""
        for one in kept or self.kept.values():
            self._recording.sources.check_unchanged(sorted(one.files))

    def _mark_again(self, kept: KeptSegment, way: Way, graph: torch.fx.GraphModule) -> None:
        """Mark the regions of a way in a graph that Dynamo made, and record it."""
        if way.changes.marks:
            with compile_context(kept.compile_context), self._outside(), self._as_current(kept, way):
                self.edits.mark_again(way, graph)

    def _taking(self, kept: KeptSegment, way: Way, compile_way: Callable[[], Any]) -> Any:
        """Compile along ``way``, in place of the one before; its settings hold meanwhile."""
        way.began, way.waited_s = time.monotonic(), 0.0
        with self._as_current(kept, way), self.settings.of(way):
            try:
                result = compile_way()
            except RestartAnalysis as error:
                if not self.is_outside:
                    raise
                self._rows.change(way, status="failed", error=_NEEDS_DYNAMO)
                raise UsageError(_NEEDS_DYNAMO) from error
            except Exception as error:
                self._rows.fail(way, error)
                raise
            except Reached:
                self._rows.add_time(way)
                way.pause()
                raise
        self._rows.finish(way)
        return result

    @contextlib.contextmanager
    def _as_current(self, kept: KeptSegment, way: Way) -> Iterator[None]:
        """What is recorded meanwhile belongs to ``way``."""
        recording = self._recording
        before = recording.segments.get(kept.name), recording.branches.get(kept.name), self._current.get(kept.name)
        recording.segments[kept.name] = way.segment
        if way.row.branch_of:
            recording.branches[kept.name] = way.row.id
        self._current[kept.name] = way
        try:
            yield
        except BaseException:
            self._put_back(kept.name, *before)
            raise
        if self.is_outside:
            self._put_back(kept.name, *before)

    def _put_back(self, name: str, segment: Segment | None, branch: int | None, way: Way | None) -> None:
        _put(self._recording.segments, name, segment)
        _put(self._recording.branches, name, branch)
        _put(self._current, name, way)

    # when the program has ended

    def finish(self, at_hand: Callable[[], None]) -> None:
        """Compile what was deferred, then wait for the client until it lets go. ``at_hand`` hears when all is compiled."""
        if self._defers and self.kept:
            self._defers = False
            self._compile_deferred()
        at_hand()
        if self._recording.request.stay:
            self.gates.attend(lambda command: obey_at_the_end(self, command))

    def _compile_deferred(self) -> None:
        try:
            if self.gates.stops_at("dynamo"):
                self._wait_for_all()
            self.compile_kept()
        except Left:
            return

    def _wait_for_all(self) -> None:
        """After Dynamo of every graph. Another way taken there is the one in use; the other graphs follow it."""
        obey, allow = functools.partial(obey_for_all, self), functools.partial(allow_for_all, self)
        try:
            self.gates.wait_for_all("dynamo", obey, allow)
        except AnotherWay as other:
            kept = self.kept_of(other.command.compilation)
            self.gates.pass_by("dynamo")
            self._rows.replace_first(kept)
            taken = self.again(other.command)
            if taken.row.status == "ok":
                self._rows.use(kept, taken)

    def compile_kept(self) -> None:
        """Compile every graph that waits, in its turn; one that was left at a milestone goes on from there."""
        for kept in list(self.kept.values()):
            way = kept.ways[0]
            if way.is_finished:
                continue
            way.replays = shared_keys(way, GATES[-1], "")
            with contextlib.suppress(Reached):
                self._compile_outside(kept, way, self._first_graph(kept, way))

    def _compile_outside(self, kept: KeptSegment, way: Way, graph: torch.fx.GraphModule) -> None:
        def compile_here(module: torch.fx.GraphModule) -> Any:
            made = self._compiler_now(kept)(module, kept.inputs)
            if not callable(made):  # Dynamo, too, asks for no more
                raise UsageError(f"the backend returned {one_line(repr(made))}, which cannot be called")
            return made

        try:
            with self._outside(), self._as_current(kept, way), kept.as_in_dynamo():
                with late_guards(self._recording, kept, way), backward_at_once():
                    self._taking(kept, way, lambda: self._follow(kept, way, graph, compile_here))
        except Exception as error:  # noqa: BLE001 - recorded with the way by _taking, and told
            self._recording.notify(Notice("note", text=f"[{way.row.name}] failed: {one_line(str(error))}"))

    def _compiler_now(self, kept: KeptSegment) -> Callable[..., Any]:
        """The backend of the way that is being compiled."""
        return compiler_for(self.settings.for_way(self._current[kept.name]), kept.compiler)

    @contextlib.contextmanager
    def _outside(self) -> Iterator[None]:
        before, self.is_outside = self.is_outside, True
        try:
            yield
        finally:
            self.is_outside = before

    def again(self, command: Command) -> Way:
        """Take another way; it says how that ended. Raises UsageError before it begins."""
        kept = self.kept_of(command.compilation)
        way, graph = self._branch(kept, command, kept.ways[0])
        try:
            self._compile_outside(kept, way, graph)
        except Aborted:  # at a gate of its own, and recorded with it
            pass
        except BaseException:
            self._rows.leave(way, "the user stopped it")
            raise
        return way

    def kept_of(self, name: str) -> KeptSegment:
        if not self.kept:
            raise UsageError("Nothing was captured that could be compiled again.")
        if not name:
            return next(iter(self.kept.values()))
        kept = next((kept for kept in self.kept.values() if kept.way(name) or kept.name == name), None)
        if kept is None:
            raise UsageError(f"There is no [{name}] to go again from; there are {', '.join(self.kept)}.")
        return kept

    def current_kept(self) -> KeptSegment:
        """The graph being compiled."""
        return self.kept[self._recording.compilation_name()]


def _origin(kept: KeptSegment, command: Command, default: Way) -> Way:
    """The way that another one sets out from."""
    if not command.compilation:
        return default
    return kept.ways[0] if command.compilation == kept.name else kept.way(command.compilation) or default


def _traced_files(output_graph: Any) -> set[str]:
    """Files of the functions that Dynamo inlined, those that left no node included."""
    return {code.co_filename for code in getattr(output_graph, "traced_code", ())}


def _tell_sources(output_graph: Any, module: torch.fx.GraphModule) -> None:
    """Where each input comes from: AOTAutograd decides by it what is a parameter. Dynamo writes it only within its own call of
    the backend (torch/_dynamo/output_graph.py, ``_call_user_compiler``)."""
    for node in module.graph.find_nodes(op="placeholder"):
        if not hasattr(node, "_dynamo_source"):
            node._dynamo_source = node.meta["grapharg"].source
    module._param_name_to_source = output_graph.param_name_to_source
    module._source_to_user_stacks = output_graph.source_to_user_stacks


def _put(table: dict[str, Any], name: str, value: Any) -> None:
    """Set an entry, or forget it for None."""
    if value is None:
        table.pop(name, None)
    else:
        table[name] = value
