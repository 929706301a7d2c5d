"""What a capture that is driven knows meanwhile: its graphs, the ways that were taken, and the one that torch compiles now.

The hooks of each stage come to it through the boundary (stepped.py): whether the answer is known from an earlier way, and what
they made. A capture that nobody steers has none. Where to read on: a graph comes from Dynamo
(dynamo_graph.py), is compiled (following.py), comes to its gates (at_gate.py), where it may set out on another way
(branching.py), and is taken up again when the program has ended (afterwards.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from fx_explorer.capture.options import settings
from fx_explorer.capture.options.compilers import Compiler, compiler_for
from fx_explorer.capture.recording import stages
from fx_explorer.capture.recording.boundary import Key
from fx_explorer.capture.recording.segments import Segment
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.stepping.edits.editing import Edits
from fx_explorer.capture.stepping.gates import Gates, Left
from fx_explorer.capture.stepping.steered_settings import SteeredSettings
from fx_explorer.capture.stepping.variants.way_rows import WayRows
from fx_explorer.capture.stepping.variants.ways import KeptSegment, Way
from fx_explorer.errors import UsageError
from fx_explorer.model import Changes


class Steering:
    """One capture that can be driven. ``defers``: graphs first run eagerly, and are compiled once the program is through."""

    def __init__(self, recording: Recording, gates: Gates, *, defers: bool) -> None:
        self.recording = recording
        self.gates = gates
        self.defers = defers
        self.kept: dict[str, KeptSegment] = {}
        """The graphs that Dynamo captured, by compilation."""
        self.current: dict[str, Way] = {}
        """By compilation: the way that what torch does for it now belongs to."""
        self.edits = Edits(recording)
        self.settings = SteeredSettings(recording)
        self.rows = WayRows(recording)
        self.carried: dict[str, Changes] = {}
        """What the user had changed in a frame that Dynamo begins anew, by compilation."""
        self.in_dynamo: KeptSegment | None = None
        """The graph that Dynamo waits for."""
        self.is_probing = False
        """Whether a graph that is deferred is only traced now, and left when it is."""
        self.is_outside = False
        """Whether a graph is compiled after Dynamo is through with its frame."""

    # what the hooks ask and tell

    @property
    def way(self) -> Way | None:
        return self.current.get(self.recording.compilation_name())

    def replay(self, key: Key) -> Any:
        """What an earlier way made of this stage, if this way shares it; None when it is to be made."""
        way = self.way
        return way.kept.get(key) if way and key in way.replays else None

    def is_deferred(self, name: str) -> bool:
        """Whether this compilation's graph still waits for its turn."""
        return self.defers and name in self.kept and not self.kept[name].ways[0].is_finished

    @property
    def waits(self) -> bool:
        """Whether there are graphs that were deferred."""
        return any(map(self.is_deferred, self.kept))

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
        return self.in_dynamo is None and not self.is_outside

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
            self.rows.leave(way, "the user aborted the backward")
            missing = stages.missing(self.recording, self.recording.compilation_name(), "left")
            self.rows.change(way, missing_stages=missing or None)
            raise
        except Exception as error:
            self.rows.fail(way, error)
            raise

    # which way is being compiled

    @contextlib.contextmanager
    def as_current(self, kept: KeptSegment, way: Way) -> Iterator[None]:
        """What is recorded meanwhile belongs to ``way``."""
        state = self.recording.of(kept.name)
        before = state.segment, state.branch, self.current.get(kept.name)
        state.segment = way.segment
        if way.row.branch_of:
            state.branch = way.row.id
        self.current[kept.name] = way
        try:
            yield
        except BaseException:
            self._put_back(kept.name, *before)
            raise
        if self.is_outside:
            self._put_back(kept.name, *before)

    def _put_back(self, name: str, segment: Segment | None, branch: int, way: Way | None) -> None:
        state = self.recording.of(name)
        state.segment, state.branch = segment, branch
        if way is None:
            self.current.pop(name, None)
        else:
            self.current[name] = way

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """Dynamo is through with the frame of what is compiled inside the block."""
        before, self.is_outside = self.is_outside, True
        try:
            yield
        finally:
            self.is_outside = before

    def as_in_dynamo(self, kept: KeptSegment) -> contextlib.AbstractContextManager[None]:
        """Inside the block all is as it was when Dynamo had captured the graph, but for what the user set since."""
        return self.settings.over(kept.as_in_dynamo())

    def compiler(self, kept: KeptSegment) -> Compiler:
        """The backend of the way that is being compiled."""
        return compiler_for(self.settings.for_way(self.current[kept.name]), kept.compiler)

    # what was captured

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
        return self.kept[self.recording.compilation_name()]

    def check_source(self, *kept: KeptSegment) -> None:
        """Raises UsageError when a file that Dynamo read for these (default: all) graphs is no longer what it was."""
        for one in kept or self.kept.values():
            self.recording.sources.check_unchanged(sorted(one.files))
