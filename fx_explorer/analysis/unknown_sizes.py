"""Lines whose result depends on whether a size that only the run knows is 1. torch decides them while compiling, unchecked."""

from __future__ import annotations

import json
import re

from fx_explorer.session import SessionReader
from fx_explorer.session.queries.nodes import squeezes

_UNKNOWN = re.compile(r"\bu\d+\b")
"""How torch names a symbol that has no value while compiling (``create_unbacked_symint`` in torch's symbolic_shapes.py)."""


def squeezed_unknown_sizes(reader: SessionReader) -> list[tuple[str, int]]:
    """The (file, line) of each ``squeeze`` that may have to take away a size which only the run knows, in graph order.

    torch takes such a size not to be 1 (``guard_or_false`` in ``squeeze`` of torch/_refs/__init__.py) and puts no check of that
    into the graph, so where it is 1 after all a dimension stays.
    """
    found = squeezes(reader)
    return list(dict.fromkeys((file, line) for file, line, given, shape in found if _may_squeeze(given, json.loads(shape))))


def _may_squeeze(arguments: str, shape: list[str]) -> bool:
    """Whether a size among those that the call asks about, all of them when it names none, is not known while compiling."""
    numbers = [int(number) for number in re.findall(r"-?\b\d+\b", re.sub(r"\w*[a-zA-Z_]\w*", "", arguments.partition(",")[2]))]
    asked = [shape[number] for number in numbers if -len(shape) <= number < len(shape)] if numbers else shape
    return any(_UNKNOWN.search(size) for size in asked)
