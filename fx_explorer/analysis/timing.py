"""Where compile time went: every instant counted once, and what no span covers said as such."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.session import SessionReader

STAGE_IN_WORDS: dict[str, str] = {
    "dynamo": "reading the Python code (Dynamo)",
    "pre_grad": "passes before autograd",
    "joint": "tracing forward and backward (AOTAutograd)",
    "forward": "the forward graph (AOTAutograd)",
    "backward": "the backward graph (AOTAutograd)",
    "post_grad": "passes on the final graphs",
    "schedule": "lowering and fusing (Inductor)",
    "output_code": "writing code (Inductor)",
    "kernel": "building kernels",
    "": "elsewhere",
}


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Seconds by stage; the stages and ``unaccounted_s`` add up to ``total_s``."""

    by_stage: dict[str, float]
    """In the order of the stages. Key ``""``: timed by torch, but of no stage we know."""
    total_s: float
    unaccounted_s: float
    """Inside a compilation, but in no span."""


def stage_times(reader: SessionReader, compilation: int | None = None) -> StageTimes:
    """Of one compilation, or of all together."""
    wanted = {} if compilation is None else {"compilation": compilation}
    spans = reader.rows(model.Span, **wanted)
    exclusive = exclusive_seconds(spans)
    by_stage: dict[str, float] = {}
    for stage in (*model.STAGES, ""):
        if stage in exclusive:
            by_stage[stage] = exclusive[stage]
    covered = sum(by_stage.values())
    chosen = {} if compilation is None else {"id": compilation}
    total = sum(c.duration_s for c in reader.rows(model.Compilation, **chosen))
    return StageTimes(by_stage, max(total, covered), max(0.0, total - covered))


def exclusive_seconds(spans: Sequence[model.Span]) -> dict[str, float]:
    """Seconds by stage, each instant given to the innermost span around it.

    A span without a stage of its own belongs to the stage of the span around it. Clocks are rounded, so a span that ends a
    little after the one around it is cut there.
    """
    seconds: dict[str, float] = {}
    open_spans: list[tuple[float, str]] = []  # (end, stage), outermost first
    now = 0.0

    def advance(until: float) -> None:
        """Give the time from ``now`` to ``until`` to whatever is open, closing what ends on the way."""
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
        open_spans.append((min(span.start_s + span.duration_s, around_end), span.stage or around_stage))
    advance(max((s.start_s + s.duration_s for s in spans), default=0.0))
    return seconds
