"""This module maps torch's event names to stages, and explains why a compilation has no result of a
stage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fx_explorer.capture.recording.fx_graphs import computes_nothing, target_name
from fx_explorer.model import Stage, Status

if TYPE_CHECKING:
    from fx_explorer.capture.recording.compilation_state import Segment
    from fx_explorer.capture.recording.state import Recording

_AOT_STAGES: tuple[Stage, ...] = ("joint", "forward", "backward")
_INDUCTOR_STAGES: tuple[Stage, ...] = ("pre_grad", "post_grad", "schedule", "output_code", "kernel")

REGIONAL = "regional_inductor"
"""Our name for the backend that compiles annotated regions:
torch/fx/passes/regional_inductor.py.
"""

NOTHING_ANNOTATED = (
    "no operation is annotated with compile_with_inductor, so regional_inductor runs all of them "
    "in eager mode"
)


COMPUTES_NOTHING = "the graph computes nothing: it only returns its inputs, or parts of them"
ONLY_VIEWS = "the graph only makes views or uninitialized memory, which needs no kernel"
NEEDS_NONE = "the graph needed no kernel"


def missing(
    recording: Recording, name: str, status: Status, error: str = ""
) -> dict[str, str] | None:
    """Return stage → why compilation ``name`` has no result of it, or None when it has all results.
    ``error`` is the error that ended it.
    """
    state = recording.of(name)
    seen = state.seen_stages
    absent = [stage for stage in (*_AOT_STAGES, *_INDUCTOR_STAGES) if stage not in seen]
    if status == "left":
        return dict.fromkeys(absent, recording.row(name).error)
    if status == "failed":
        return dict.fromkeys(absent, "compilation failed before it")
    if recording.boundary.is_deferred(name):
        return dict.fromkeys(absent, "not compiled so far")
    if state.segment is None:
        return dict.fromkeys(absent, "Dynamo captured no tensor operation here")
    if status == "skipped":
        why = f": {error}" if error else ""
        return (
            dict.fromkeys(
                absent,
                f"the compiler failed before this stage, so the function runs in eager mode{why}",
            )
            or None
        )
    reasons = {stage: _reason(recording, name, stage, seen) for stage in absent}
    return {stage: reason for stage, reason in reasons.items() if reason} or None


def _reason(recording: Recording, name: str, stage: Stage, seen: set[Stage]) -> str:
    """Say why a compilation lacks a stage; empty when it is not known."""
    state = recording.of(name)
    backend = state.backend or recording.request.backend
    cached = [event for event in state.cache_events if event.endswith("_hit")]
    if cached:
        return (
            f"taken from torch's cache ({', '.join(sorted(set(cached)))}); capture without "
            "--use-caches to see it"
        )
    if stage in _AOT_STAGES and "forward" not in seen:
        return f"backend {backend} does not use AOTAutograd"
    if stage in ("joint", "backward"):
        if "joint" not in seen:
            return "nothing here needs a gradient"
        return "the backward was not compiled: it never ran"
    if stage in _INDUCTOR_STAGES and "output_code" not in seen and backend == REGIONAL:
        return NOTHING_ANNOTATED
    if stage in _INDUCTOR_STAGES and "output_code" not in seen:
        if "pre_grad" in seen or "post_grad" in seen:
            return COMPUTES_NOTHING
        return f"backend {backend} does not use Inductor"
    if stage == "kernel" and state.segment:
        return _why_no_kernel(state.segment)
    return ""


def _why_no_kernel(segment: Segment) -> str:
    """Say why a graph whose code was written has no kernel."""
    for graph in segment.post_grad.values():
        for recorded in graph.whole():
            for node in recorded.ids:
                if not computes_nothing(node, target_name(node)):
                    return NEEDS_NONE
    return ONLY_VIEWS
