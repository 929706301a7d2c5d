"""This module records how long torch's stages take, by its own events (``dynamo_timed``,
torch/_dynamo/utils.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fx_explorer.capture.compile_time import LineClock
from fx_explorer.capture.recording.state import Recording
from fx_explorer.model import Notice, PhaseLine, Span
from fx_explorer.torch_texts.names import STAGE_OF_EVENT

PASS = "pass."
"""Prefix of torch's names for passes (``GraphTransformObserver``,
torch/fx/passes/graph_transform_observer.py).
"""

SHORT_PASS_S = 0.0005
"""Seconds below which a pass is short. Half of the 50 events of a small compilation are, and
together they take none of its time.
"""

EVERY_PASS_OF = 200
"""The number of compilations that have a row for every pass, and one for every line that a phase
was at. In later ones a short pass has no row: its time is that of the event around it.
"""


class Spans:
    """Records spans of time, on a clock that stands still while the compiler waits for the user."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._ended: list[Span] = []
        self._lines: list[tuple[Span, LineClock]] = []
        """Phases that have ended, with the lines they were at."""

    def add(self, name: str, event: Mapping[str, Any]) -> None:
        """Record that an event begins or ends in the compilation called ``name``."""
        phase, event_name = event["ph"], event["name"]
        time_s = event["ts"] / 1e6 - self._recording.started - self._recording.waited_s
        phases = self._recording.phases
        stage = STAGE_OF_EVENT.get(event_name)
        if phase == "B":
            variant = self._recording.of(name).variant if name else 0
            phases.begin(event_name, time_s, variant)
            if stage:
                self._recording.notify(
                    Notice("phase", stage=stage, state="begin", compilation=name)
                )
        elif phase == "E" and (ended := phases.end(event_name, time_s)):
            start_s = ended.start_s
            compilation = ended.variant or self._recording.compilation_id(name) if name else 0
            is_short = event_name.startswith(PASS) and time_s - start_s < SHORT_PASS_S
            if not is_short or compilation <= EVERY_PASS_OF:
                span = Span(
                    0,
                    compilation,
                    event_name,
                    stage,
                    start_s,
                    time_s - start_s,
                    phases.depth,
                    phases.thread,
                )
                self._ended.append(span)
                if ended.lines.sums and compilation <= EVERY_PASS_OF:
                    self._lines.append((span, ended.lines))
            if stage:
                self._recording.notify(
                    Notice(
                        "phase",
                        stage=stage,
                        state="end",
                        compilation=name,
                        seconds=time_s - start_s,
                    )
                )

    def flush(self) -> None:
        """Write the events that have ended."""
        spans, self._ended = self._ended, []
        clocks, self._lines = self._lines, []
        with self._recording.noting("times"):
            self._recording.writer.add_all(spans)
            rows: list[PhaseLine] = []
            for span, lines in clocks:
                rows += self._rows(span, lines)
            self._recording.writer.add_all(rows)

    def _rows(self, span: Span, clock: LineClock) -> Iterator[PhaseLine]:
        for where, took_s in clock.sums.items():
            file = self._recording.sources.file(where.path)
            yield PhaseLine(
                0,
                span.compilation,
                span.name,
                span.start_s,
                file,
                where.line,
                where.module,
                took_s,
            )
