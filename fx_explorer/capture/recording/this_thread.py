"""This module knows what is being compiled in a thread, and what is known of that compilation while
it is recorded.

torch says which compilation a thread is at, and the hooks say which part of it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from fx_explorer.capture.recording.dynamo_code import ResumeCode
from fx_explorer.capture.recording.noting import BackendError
from fx_explorer.capture.recording.segments import Segment
from fx_explorer.model import Compilation, Direction, GraphBreak, Guard, Stage, Symbol, SymbolEvent


class ThisThread(threading.local):
    direction: Direction = ""
    """Direction of the graph that is being compiled."""
    segment: Segment | None = None
    """The segment of the region being compiled; None for the whole graph."""
    asking: Any = None
    """The graph that a backend is at work on, with what is known of its support
    (backends/asking.py); None where nobody asks.
    """
    is_in_regions = False
    """Whether AOTAutograd partitions nested compile regions rather than the graph around them."""
    ahead: str | None = None
    """Name of the compilation of torch's own AOT compile; empty before Dynamo has begun, None
    outside any.
    """
    backend_of_file: Any = None
    """The backend that torch's own AOT compile was given; None outside any."""
    running = ""
    """The compilation whose entry, made by a backend, runs; empty while none does."""
    running_direction: Direction = ""
    """The direction of that entry."""
    _is_publishing = False
    _aot_depth = 0
    """How often AOTAutograd was entered and not left."""

    @property
    def is_nested(self) -> bool:
        """Return whether AOTAutograd was entered again while it compiled: for a region of its
        own.
        """
        return self._aot_depth > 1

    @contextlib.contextmanager
    def in_aot(self) -> Iterator[None]:
        self._aot_depth += 1
        try:
            yield
        finally:
            self._aot_depth -= 1

    @contextlib.contextmanager
    def running_entry(self, compilation: str, direction: Direction) -> Iterator[None]:
        """Run, inside the block, what a backend made for a graph of this direction."""
        before = self.running, self.running_direction
        self.running, self.running_direction = compilation, direction
        try:
            yield
        finally:
            self.running, self.running_direction = before

    @contextlib.contextmanager
    def publishing(self) -> Iterator[bool]:
        """Yield whether nothing else is being published: making a stage's content may publish
        another one.
        """
        before, self._is_publishing = self._is_publishing, True
        try:
            yield not before
        finally:
            self._is_publishing = before

    @contextlib.contextmanager
    def in_regions(self) -> Iterator[None]:
        before, self.is_in_regions = self.is_in_regions, True
        try:
            yield
        finally:
            self.is_in_regions = before

    @contextlib.contextmanager
    def compiling(self, direction: Direction) -> Iterator[None]:
        before, self.direction = self.direction, direction
        try:
            yield
        finally:
            self.direction = before

    @contextlib.contextmanager
    def inside(self, segment: Segment) -> Iterator[None]:
        """Record what is compiled inside the block under ``segment``, a part of the current one."""
        before, self.segment = self.segment, segment
        try:
            yield
        finally:
            self.segment = before

    @contextlib.contextmanager
    def compiling_ahead(self) -> Iterator[None]:
        """Compile a function ahead of time inside the block. torch itself is in its compilation
        only while Dynamo is at work.
        """
        before, self.ahead = self.ahead, ""
        try:
            yield
        finally:
            self.ahead = before

    def stay_in(self, name: str) -> None:
        """Make what follows, inside ``compiling_ahead``, belong to the compilation ``name``."""
        if self.ahead is not None:
            self.ahead = name


# What is known of one compilation.


@dataclass
class CompilationState:
    row: Compilation | None = None
    """The row as it is in the session; None until torch has announced the compilation."""
    segment: Segment | None = None
    """The graphs of the current attempt; None until Dynamo has captured one."""
    backend: str = ""
    """The backend in use; empty until it is known."""
    seen_stages: set[Stage] = field(default_factory=set)
    """The stages that have something in the session."""
    cache_events: list[str] = field(default_factory=list)
    """What torch's caches reported."""
    has_broken: bool = False
    """Whether the compilation ended at a graph break."""
    resume_code: ResumeCode | None = None
    """What the function was made with; None until it has a graph."""
    skipping: GraphBreak | None = None
    """The latest break, where torch cannot resume from it."""
    break_causes: set[str] = field(default_factory=set)
    """Causes of its graph breaks."""
    error: BackendError | None = None
    """What a backend raised, until it is known whether Dynamo turns it into a failure, a graph
    break or a restart.
    """
    variant: int = 0
    """Row of the variant being compiled; 0 for the first one."""
    shape_guard: Guard | None = None
    """Dynamo's guard on sizes."""
    symbols: dict[str, Symbol] = field(default_factory=dict)
    """Name → dynamic size of the current attempt."""
    symbol_events: set[SymbolEvent] = field(default_factory=set)
    """The events of dynamic sizes that were recorded already."""

    def copied(self) -> CompilationState:
        """Return a copy. What becomes known of one of the two is not known of the other."""
        return replace(
            self,
            seen_stages=set(self.seen_stages),
            cache_events=list(self.cache_events),
            break_causes=set(self.break_causes),
            symbols=dict(self.symbols),
            symbol_events=set(self.symbol_events),
        )
