"""A start that found code in torch's caches: how much it found, and what was done all the same."""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer.instruments.caches.answers import CacheAnswer
from fx_explorer.instruments.compile_time.timing import STAGE_IN_WORDS, stage_times
from fx_explorer.session import SessionReader


@dataclass(frozen=True, slots=True)
class WarmStart:
    """What the caches answered, and where the time went."""

    hits: int
    """Compilations that found something."""
    asked: int
    """Compilations that asked."""
    saved_s: float
    """As torch reckons."""
    done: tuple[tuple[str, float], ...]
    """Phases, in words, with their seconds; the longest first."""
    total_s: float


def warm_start(reader: SessionReader, answers: list[CacheAnswer]) -> WarmStart | None:
    """Return what is known of a warm start; None where no cache answered with code. ``answers`` are
    all of the session.
    """
    found = {one.compilation.id for one in answers if one.record.outcome == "hit"}
    if not found:
        return None
    times = stage_times(reader)
    done = sorted(
        ((STAGE_IN_WORDS.get(stage, stage), spent) for stage, spent in times.by_stage.items()),
        key=lambda one: -one[1],
    )
    asked = {one.compilation.id for one in answers}
    return WarmStart(len(found), len(asked), _saved(answers), tuple(done), times.total_s)


def _saved(answers: list[CacheAnswer]) -> float:
    """Add up what the hits saved. A hit of AOTAutograd's cache takes in those of Inductor's below
    it.
    """
    outer: dict[int, float] = {}
    inner: dict[int, float] = {}
    for one in answers:
        if one.record.outcome == "hit":
            of = outer if one.record.cache == "aotautograd" else inner
            of[one.compilation.id] = of.get(one.compilation.id, 0.0) + one.record.saved_s
    return sum(outer.get(key) or inner.get(key, 0.0) for key in {*outer, *inner})
