"""torch's list of graph breaks (``torch/_dynamo/graph_break_registry.json``), for what a report
itself leaves out.

Its texts are templates, some with placeholders for what only the report knows; those are not used.
"""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from fx_explorer.torch_texts.reports import BreakReport

_PLACEHOLDER = ("{", "_explanation", '"')


class RegistryEntry(NamedTuple):
    registry_id: str
    explanation: str
    hints: tuple[str, ...]


def completed(report: BreakReport) -> BreakReport:
    """Return ``report`` with id, explanation and hints from the registry where it has none of its
    own.
    """
    if report.registry_id and report.explanation and report.hints:
        return report
    entry = entry_of(report.registry_id, report.reason)
    return replace(
        report,
        registry_id=report.registry_id or entry.registry_id,
        explanation=report.explanation or entry.explanation,
        hints=report.hints or entry.hints,
    )


def entry_of(registry_id: str, reason: str = "") -> RegistryEntry:
    """Return what the registry says about an id, or else about a reason in its own words; empty
    when it knows neither.
    """
    registry = _registry()
    known = registry_id or next(
        (key for key, forms in registry.items() if any(f["Gb_type"] == reason for f in forms)), ""
    )
    forms = registry.get(known, [])
    explanations = [form["Explanation"] for form in forms if _is_plain(form["Explanation"])]
    hints = [tuple(hint for hint in form["Hints"] if _is_plain(hint)) for form in forms]
    return RegistryEntry(
        known if forms else "", next(iter(explanations), ""), next(filter(None, hints), ())
    )


def _is_plain(text: str) -> bool:
    return bool(text) and not any(mark in text for mark in _PLACEHOLDER)


@functools.cache
def _registry() -> dict[str, list[dict[str, Any]]]:
    path = Path(torch.__file__).parent / "_dynamo" / "graph_break_registry.json"
    return dict(json.loads(path.read_text())) if path.is_file() else {}
