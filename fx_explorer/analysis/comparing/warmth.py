"""Whether a compilation began cold, or found something that an earlier one had made: a time of the
one says little beside a time of the other.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.words import counted
from fx_explorer.session import SessionReader


@dataclass(frozen=True, slots=True)
class Warmth:
    """What a compilation had when it began."""

    is_warm: bool
    words: str
    """``cold: the first of its process``, ``warm: 2 graphs came from torch's caches``."""


def warmth(reader: SessionReader, variant: model.Compilation) -> Warmth:
    """Say whether a compilation was warm: a graph came from torch's caches, a variant shared stages,
    or the process had compiled before, which loads Inductor and fills what torch keeps in memory.
    """
    hits = cache_hits(reader, variant.id)
    if hits:
        return Warmth(True, f"warm: {counted(hits, 'graph')} came from torch's caches")
    if variant.variant_of:
        shared = (
            f", from {model.GATE_WORDS[variant.variant_from]} on" if variant.variant_from else ""
        )
        return Warmth(True, f"warm: its process had compiled before{shared}")
    first = min(
        reader.rows(model.Compilation), key=lambda row: (row.start_s, row.id), default=variant
    )
    if first.id == variant.id:
        return Warmth(False, "cold: the first of its process")
    return Warmth(True, f"warm: its process had compiled [{first.name}] before")


def cache_hits(reader: SessionReader, compilation: int | None = None) -> int:
    """Return how often torch found a graph in one of its caches (``fx_graph_cache_hit``,
    ``aotautograd_cache_hit`` of its trace), for one compilation or for all.
    """
    of_one = {} if compilation is None else {"compilation": compilation}
    return sum(
        _is_hit(row.value) for row in reader.rows(model.Metric, name="cache_event", **of_one)
    )


def _is_hit(value: str) -> bool:
    try:
        event = json.loads(value)
    except (ValueError, RecursionError):  # the file may be anybody's
        return False
    return isinstance(event, str) and event.endswith("_hit")


def caches_of(reader: SessionReader) -> str:
    """Say of a whole capture whether it could be warm: ``off``, ``used, 2 hits``, ``used, no hit``."""
    request = reader.request()
    hits = cache_hits(reader)
    if request is None or not request.use_caches:
        return "off" if not hits else f"used, {counted(hits, 'hit')}"
    return f"used, {counted(hits, 'hit')}" if hits else "used, no hit"
