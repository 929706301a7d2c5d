"""A capture followed while it runs: what the worker is doing right now, in the few words the header and pipeline bar need.

The data itself is in the session file; notices only say that it changed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

from fx_explorer.model import Notice, Outcome, Stage


class CaptureLike(Protocol):
    """What the app needs of ``client.Capture``; tests inject their own."""

    session_path: Path
    outcome: Outcome | None

    async def start(self) -> None: ...

    def notices(self) -> AsyncIterator[Notice]: ...

    async def wait(self) -> Outcome: ...

    async def cancel(self, grace_s: float = ...) -> Outcome: ...

    def discard(self) -> None: ...


class LiveCapture:
    """One capture and its latest news. ``follow`` runs until the capture is over."""

    def __init__(self, capture: CaptureLike) -> None:
        self.capture = capture
        self.doing = "starting Python"
        self.is_over = False
        self._began = time.monotonic()
        self._open_stages: Counter[Stage] = Counter()
        self.notes: list[str] = []
        """What the worker wants the user to know and no view tells, oldest first."""

    @property
    def session_path(self) -> Path:
        return self.capture.session_path

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    @property
    def running_stages(self) -> frozenset[Stage]:
        """Stages that began and have not ended."""
        return frozenset() if self.is_over else frozenset(+self._open_stages)

    async def start(self) -> None:
        """Create the session and start the worker. Raises FxExplorerError when that fails."""
        await self.capture.start()

    async def follow(self) -> None:
        async for notice in self.capture.notices():
            self.take(notice)
        await self.capture.wait()
        self.is_over = True

    def take(self, notice: Notice) -> None:
        """One notice's news."""
        if notice.kind == "worker":
            self.doing = notice.text
        elif notice.kind == "note" and notice.stage is None:  # a note on a stage (a graph break) is in the session too
            self.notes.append(notice.text)
        elif notice.kind == "phase" and notice.stage:
            self._open_stages[notice.stage] += 1 if notice.state == "begin" else -1
            self.doing = _doing(notice) or self.doing

    async def stop(self, grace_s: float | None = None) -> None:
        """End the worker; does nothing to one that has ended."""
        if not self.is_over:
            await (self.capture.cancel() if grace_s is None else self.capture.cancel(grace_s))


STAGE_VERBS: dict[Stage, str] = {
    "dynamo": "Dynamo is reading",
    "pre_grad": "pre-grad passes on",
    "joint": "AOTAutograd is tracing",
    "forward": "AOTAutograd is partitioning",
    "backward": "AOTAutograd is partitioning",
    "post_grad": "post-grad passes on",
    "schedule": "Inductor is fusing",
    "output_code": "Inductor is writing code for",
    "kernel": "building kernels of",
}


def _doing(notice: Notice) -> str:
    if notice.state != "begin" or not notice.stage:
        return ""
    return f"{STAGE_VERBS[notice.stage]} {f'[{notice.compilation}]' if notice.compilation else 'the graph'}"
