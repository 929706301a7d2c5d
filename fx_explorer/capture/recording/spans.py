"""How long torch's stages take, by its own events (``dynamo_timed``, torch/_dynamo/utils.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fx_explorer.capture.recording.state import Recording
from fx_explorer.model import Notice, Span
from fx_explorer.torch_texts.events import STAGE_OF_EVENT

PASS = "pass."
"""Prefix of torch's names for passes (``GraphTransformObserver``,
torch/fx/passes/graph_transform_observer.py).
"""

SHORT_PASS_S = 0.0005
"""Seconds below which a pass is short. Half of the 50 events of a small compilation are, and
together they take none of its time.
"""

EVERY_PASS_OF = 200
"""The number of compilations that have a row for every pass. In later ones a short pass has no row:
its time is that of the event around it.
"""


class Spans:
    """Records spans of time, on a clock that stands still while the compiler waits for the user."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._ended: list[Span] = []
        self._open: dict[tuple[int, str], list[tuple[float, int]]] = {}
        """When each unfinished event began, and for which variant."""

    def add(self, name: str, event: Mapping[str, Any]) -> None:
        """Record that an event begins or ends in the compilation called ``name``."""
        phase, event_name = event["ph"], event["name"]
        time_s = event["ts"] / 1e6 - self._recording.started - self._recording.waited_s
        open_events = self._open.setdefault((event.get("tid", 0), event_name), [])
        stage = STAGE_OF_EVENT.get(event_name)
        if phase == "B":
            open_events.append((time_s, self._recording.of(name).variant if name else 0))
            if stage:
                self._recording.notify(Notice("phase", stage=stage, state="begin", compilation=name))
        elif phase == "E" and open_events:
            start_s, variant = open_events.pop()
            depth = sum(map(len, self._open.values()))
            compilation = variant or self._recording.compilation_id(name) if name else 0
            is_short = event_name.startswith(PASS) and time_s - start_s < SHORT_PASS_S
            if not is_short or compilation <= EVERY_PASS_OF:
                self._ended.append(Span(0, compilation, event_name, stage, start_s, time_s - start_s, depth))
            if stage:
                self._recording.notify(Notice("phase", stage=stage, state="end", compilation=name, seconds=time_s - start_s))

    def flush(self) -> None:
        """Write the events that have ended."""
        spans, self._ended = self._ended, []
        with self._recording.noting("times"):
            self._recording.writer.add_all(spans)
