"""This module finds lines whose result depends on whether a size that only the run knows is 1.
torch decides that while compiling, without a check.
"""

from __future__ import annotations

import json
import re

from fx_explorer.session import SessionReader
from fx_explorer.session.queries.nodes import squeezes

_UNKNOWN = re.compile(r"\bu\d+\b")
"""Matches torch's name of a symbol without a value while compiling (``create_unbacked_symint`` in
torch's symbolic_shapes.py).
"""


def squeezed_unknown_sizes(reader: SessionReader) -> list[tuple[str, int]]:
    """Return the (file, line) of each ``squeeze`` that may have to remove a size which only the run
    knows, in graph order.

    torch takes such a size not to be 1 (``guard_or_false`` in ``squeeze`` of
    torch/_refs/__init__.py) and puts no check of that into the graph. So where the size is 1 after
    all, the dimension stays.
    """
    places: dict[tuple[str, int], None] = {}
    for file, line, arguments, shape in squeezes(reader):
        if _may_squeeze(arguments, json.loads(shape)):
            places[file, line] = None
    return list(places)


def _may_squeeze(arguments: str, shape: list[str]) -> bool:
    """Return whether a size that the call asks about is unknown while compiling. A call that names
    no sizes asks about all.
    """
    without_names = re.sub(r"\b\w*[a-zA-Z_]\w*", "", arguments.partition(",")[2])
    numbers = [int(number) for number in re.findall(r"-?\b\d+\b", without_names)]
    sizes = shape
    if numbers:
        sizes = [shape[number] for number in numbers if -len(shape) <= number < len(shape)]
    return any(_UNKNOWN.search(size) for size in sizes)
