"""This module reads torch's record of a look-up in one of its caches: the result, the key, and the
components that are hashed into the key.

``fx_graph_cache_hit`` and its like (torch/_inductor/compile_fx.py), ``aotautograd_cache_hit`` and
its like (torch/_functorch/_aot_autograd/autograd_cache.py). A component is a line
``[HASH] NAME: VALUE`` (``debug_lines`` of torch/_inductor/codecache.py).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

from fx_explorer.model.checked_json import finite_number

Cache = Literal["aotautograd", "fx_graph"]

Outcome = Literal["hit", "miss", "bypass"]

OF_CACHE: tuple[Cache, ...] = ("aotautograd", "fx_graph")

_NAME = re.compile(r"(?P<cache>aotautograd|fx_graph)_cache_(?P<outcome>hit|miss|bypass)")

_COMPONENT = re.compile(r"\[(?P<hash>\w+)\] (?P<name>\w+(?:\[[^\]]*\])?): ?(?P<value>.*)", re.S)


@dataclass(frozen=True, slots=True)
class Component:
    """One part of a key."""

    name: str
    """torch's name of the component: ``gm``, ``example_inputs[0]``,
    ``inductor_config[max_fusion_size]``.
    """
    digest: str
    value: str


@dataclass(frozen=True, slots=True)
class CacheRecord:
    """One look-up in a cache."""

    cache: Cache
    outcome: Outcome
    key: str
    """Key in the cache; empty where the cache was not asked."""
    components: tuple[Component, ...]
    """Components in torch's order. AOTAutograd's cache lists none in torch 2.13."""
    reason: str
    """Why the cache was not asked, in torch's words."""
    saved_s: float
    """Seconds that a hit saved: the compile time that torch stored with the entry."""


def is_cache_record(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def parse_cache_record(name: str, text: str) -> CacheRecord | None:
    """Parse a record; None if it is not one. Missing parts are empty."""
    named = _NAME.fullmatch(name)
    try:
        content: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if named is None or not isinstance(content, dict):
        return None
    lines = content.get("components")
    if not isinstance(lines, list):
        lines = []
    cache: Cache = "fx_graph" if named["cache"] == "fx_graph" else "aotautograd"
    outcome: Outcome = "bypass"
    if named["outcome"] == "hit":
        outcome = "hit"
    elif named["outcome"] == "miss":
        outcome = "miss"
    return CacheRecord(
        cache,
        outcome,
        str(content.get("key") or ""),
        tuple(_components(lines)),
        " ".join(str(content.get("cache_bypass_reason") or "").split()),
        finite_number(content.get("time_saved_ns")) / 1e9
        or finite_number(content.get("time_saved_ms")) / 1e3,
    )


def _components(lines: list[object]) -> list[Component]:
    components = []
    for line in lines:
        match = _COMPONENT.match(str(line))
        if match:
            components.append(Component(match["name"], match["hash"], match["value"]))
    return components
