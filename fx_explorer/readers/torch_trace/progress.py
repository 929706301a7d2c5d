"""How far the reading of a log is, and that in words."""

from __future__ import annotations

from dataclasses import dataclass

SILENT_FROM_S = 3.0
"""From when on it is said of a log that is followed that nothing is added."""

CELLS = 12
"""Of the bar."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the reading of a log is."""

    share_found: float
    """Of the log, from 0 to 1; 1 when every record was found."""
    compilations: int
    """That were found."""
    decoded: int = 0
    """Of these, those whose graphs, guards and code are in the session."""
    idle_s: float | None = None
    """For how long nothing was added to a log that is followed; None for one that is not."""


def in_words(progress: Progress) -> str:
    """Return ``finding records ▰▰▰▱▱▱▱▱▱▱▱▱ 25 %, 812 compilations``; without a bar where nobody
    knows how long the log is.
    """
    compilations = (
        f"{progress.compilations:,} compilation{'' if progress.compilations == 1 else 's'}"
    )
    if progress.idle_s is not None:
        return f"following the log, {compilations}, {_since(progress.idle_s)}"
    if progress.share_found < 1:
        how_far = f"{bar(progress.share_found)}, " if progress.share_found else ""
        return f"finding records {how_far}{compilations}"
    return (
        f"decoding graphs {bar(progress.decoded / max(1, progress.compilations))} of {compilations}"
    )


def _since(idle_s: float) -> str:
    if idle_s < SILENT_FROM_S:
        return "being written"
    if idle_s < 120:
        return f"nothing new for {int(idle_s)} s"
    return f"nothing new for {int(idle_s) // 60} min"


def bar(share: float) -> str:
    full = int(share * CELLS)
    return f"{'▰' * full}{'▱' * (CELLS - full)} {share:.0%}".replace("%", " %")
