"""Where compile time went. Every instant is counted once, and time that no span covers is reported
as such.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import compile_seconds, other_variants

STAGE_IN_WORDS: dict[str, str] = {
    "dynamo": "reading the Python code (Dynamo)",
    "pre_grad": "passes before autograd",
    "joint": "tracing forward and backward (AOTAutograd)",
    "forward": "the forward graph (AOTAutograd)",
    "backward": "the backward graph (AOTAutograd)",
    "backend": "the backend's own work",
    "post_grad": "passes on the final graphs",
    "schedule": "lowering and fusing (Inductor)",
    "output_code": "writing code (Inductor)",
    "kernel": "building kernels",
    "cache": "loading from torch's cache",
    "": "elsewhere",
}

FROM_CACHE = "cache"
"""Stands for a stage where a cache had the work of several stages."""

LOADING = frozenset({"AOTAutogradCache.inductor_load", "PyCodeCache.load_by_key_path"})

_OUTER_EVENTS_OF_A_HIT = {
    "aotautograd_cache": frozenset({"backend_compile"}),
    "fx_graph_cache": frozenset({"inductor_compile", "fx_codegen_and_compile"}),
}
"""Cache → the surrounding events that are only the look-up and the loading, when that cache has
what they would make.
"""

BACKEND_CALL = "backend_compile"
"""Event of ``dynamo_timed`` around the call of a backend: Inductor's, or another one's own work."""

STAGE_OF_OUTER_EVENT: dict[str, model.Stage] = {
    "dynamo": "dynamo",
    "entire_frame_compile": "dynamo",
    BACKEND_CALL: "pre_grad",
    "create_aot_dispatcher_function": "joint",
    "inductor_compile": "post_grad",
    "fx_codegen_and_compile": "post_grad",
    "GraphLowering.compile_to_fn": "output_code",
}
"""Events of ``dynamo_timed`` that surround a stage rather than being one. What happens in them
between the stages (set-up, copies of graphs, fake tensor propagation) is work for that stage. They
do not show that a stage has begun.
"""


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Seconds by stage, which add up to ``total_s`` with ``unaccounted_s``."""

    by_stage: dict[str, float]
    """Seconds by stage, in order. Key ``""`` has what torch timed for no stage we know."""
    total_s: float
    unaccounted_s: float
    """Seconds inside a compilation, but in no span."""


def stage_times(reader: SessionReader, compilation: int | None = None) -> StageTimes:
    """Return the times of one compilation or variant. For all compilations together, the time of
    further variants is left out.
    """
    wanted = {} if compilation is None else {"compilation": compilation}
    variants = set() if compilation is not None else other_variants(reader)
    spans = [span for span in reader.rows(model.Span, **wanted) if span.compilation not in variants]
    exclusive = exclusive_seconds(spans, _loading_events(reader, wanted))
    by_stage: dict[str, float] = {}
    for stage in (*model.STAGES, FROM_CACHE, ""):
        if stage in exclusive:
            by_stage[stage] = exclusive[stage]
    # Of a compilation without an end torch has written no time, only that of the phases that were
    # over.
    total = max(compile_seconds(reader, compilation), sum(by_stage.values()))
    return StageTimes(by_stage, total, total - sum(by_stage.values()))


def _loading_events(reader: SessionReader, wanted: Mapping[str, int]) -> dict[int, frozenset[str]]:
    """Return compilation → events that only loaded something there, since one of torch's caches had
    it. ``wanted`` says of which compilations.
    """
    found: dict[int, frozenset[str]] = {}
    for row in reader.rows(model.Metric, name="cache_event", **wanted):
        event = json.loads(row.value)
        for cache, names in _OUTER_EVENTS_OF_A_HIT.items():
            if event == f"{cache}_hit":
                found[row.compilation] = found.get(row.compilation, LOADING) | names
    return found


def exclusive_seconds(
    spans: Sequence[model.Span], loading: Mapping[int, frozenset[str]] | None = None
) -> dict[str, float]:
    """Return seconds by stage. Each instant belongs to the innermost span around it.

    ``loading`` has the events, by compilation, that loaded what a cache had. A span without a stage
    of its own belongs to the span around it. Clocks are rounded, so a span that ends a little after
    the one around it is cut there.
    """
    seconds: dict[str, float] = {}
    open_spans: list[tuple[float, str]] = []  # (end, stage), outermost first
    now = 0.0

    def advance(until: float) -> None:
        """Move ``now`` to ``until``. The time goes to the innermost open span; spans that end
        before are closed.
        """
        nonlocal now
        while open_spans and now < until:
            end, stage = open_spans[-1]
            step = min(end, until)
            if step > now:
                seconds[stage] = seconds.get(stage, 0.0) + step - now
                now = step
            if end <= now:
                open_spans.pop()
        now = max(now, until)

    for span in sorted(spans, key=lambda s: (s.start_s, -s.duration_s)):
        advance(span.start_s)
        while open_spans and open_spans[-1][0] <= span.start_s:
            open_spans.pop()
        around_end, around_stage = open_spans[-1] if open_spans else (float("inf"), "")
        is_loading = span.name in (loading or {}).get(span.compilation, ())
        is_backends = span.name == BACKEND_CALL and around_stage == "backend"
        outer_stage = around_stage if is_backends else STAGE_OF_OUTER_EVENT.get(span.name)
        stage = FROM_CACHE if is_loading else span.stage or outer_stage or around_stage
        open_spans.append((min(span.start_s + span.duration_s, around_end), stage))
    advance(max((s.start_s + s.duration_s for s in spans), default=0.0))
    return seconds
