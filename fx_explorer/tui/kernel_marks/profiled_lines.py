"""What a profile says before the lines of generated code, and of a graph as a text: ``12.3 µs``."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING

from fx_explorer.tui.widgets.lines.line_painter import Piece

if TYPE_CHECKING:
    from fx_explorer.analysis.graph_code.code import GraphText
    from fx_explorer.analysis.profiles.places import GraphTimes, PlaceTime

TIME_CELLS = 10
"""``Σ 0.123 µs``."""

SUM = "Σ"
"""Stands before the sum of all calls, where the code of a kernel begins: the calls have their own times."""

DEFINES = ("def ", "void ", 'extern "C"')

LINES_LOOKED_AT = 400


def time_in_code(
    calls: Mapping[int, PlaceTime], definitions: Mapping[int, PlaceTime], line: int
) -> Piece | None:
    """Return what stands before a line (from 0) of the output code: the time of the calls it makes, or in grey the sum of
    all calls of the kernel that it defines.
    """
    if time := calls.get(line):
        return (f"{time.in_words:>{TIME_CELLS}}", "text")
    time = definitions.get(line)
    return (f"{f'{SUM} {time.in_words}':>{TIME_CELLS}}", "muted") if time else None


def time_in_graph(times: GraphTimes, text: GraphText, line: int) -> Piece | None:
    """Return what stands before a line (from 0) of a graph as a text: the time of the node, at the first of its lines."""
    node = text.node_of_line.get(line, 0)
    time = times.of_node(node) if node and text.line_of_node[node] == line else None
    return (f"{time.in_words:>{TIME_CELLS}}", "text") if time else None


def definition_line(text: str, name: str) -> int:
    """Return the line (from 0) on which the function of a kernel of this name is defined: Inductor's helpers may stand
    before it, and C++ has names of its own. The first line where none looks like it.
    """
    found = 0
    for at, line in enumerate(islice(text.split("\n"), LINES_LOOKED_AT)):
        if line.lstrip().startswith(f"def {name}("):
            return at
        found = found or (at if line.lstrip().startswith(DEFINES) else 0)
    return found
