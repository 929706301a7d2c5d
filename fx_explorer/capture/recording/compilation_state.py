"""What is known of one compilation while it is recorded."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fx_explorer.capture.recording.hook_notes import BackendError
from fx_explorer.capture.recording.segments import Segment
from fx_explorer.model import Compilation, Guard, Stage, Symbol, SymbolEvent


@dataclass
class CompilationState:
    row: Compilation | None = None
    """As it stands in the session; None until torch has announced it."""
    segment: Segment | None = None
    """The graphs of the attempt that is under way; None until Dynamo has captured one."""
    backend: str = ""
    """The one in use; empty until it is known."""
    seen_stages: set[Stage] = field(default_factory=set)
    """Those of which there is something in the session."""
    cache_events: list[str] = field(default_factory=list)
    """What torch's caches said."""
    has_broken: bool = False
    """Whether it ended at a graph break."""
    break_causes: set[str] = field(default_factory=set)
    """Why it did."""
    error: BackendError | None = None
    """What a backend raised, until it is known whether Dynamo makes a failure, a graph break or a restart of it."""
    variant: int = 0
    """Row of the variant that is being compiled; 0 for the first one."""
    shape_guard: Guard | None = None
    """Dynamo's guard on sizes."""
    symbols: dict[str, Symbol] = field(default_factory=dict)
    """Dynamic sizes of the attempt that is under way, by name."""
    symbol_events: set[SymbolEvent] = field(default_factory=set)
    """What was told of them already."""

    def copied(self) -> CompilationState:
        """What becomes known of either is not known of the other."""
        return replace(
            self,
            seen_stages=set(self.seen_stages),
            cache_events=list(self.cache_events),
            break_causes=set(self.break_causes),
            symbols=dict(self.symbols),
            symbol_events=set(self.symbol_events),
        )
