"""What is known of one compilation while it is recorded."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fx_explorer.capture.recording.hook_notes import BackendError
from fx_explorer.capture.recording.resume_code import ResumeCode
from fx_explorer.capture.recording.segments import Segment
from fx_explorer.model import Compilation, GraphBreak, Guard, Stage, Symbol, SymbolEvent


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
