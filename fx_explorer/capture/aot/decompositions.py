"""This module records which operator was decomposed into a node of a traced graph, and where its
decomposition stands.

AOTAutograd traces operators with a table of decompositions; each node remembers the operator that
was called (``original_aten``, torch/fx/experimental/proxy_tensor.py). Inductor's table is
``select_decomp_table`` (torch/_inductor/decomposition.py).
"""

from __future__ import annotations

import inspect
from typing import Any

from fx_explorer.capture.recording.compilation_state import RecordedGraph
from fx_explorer.capture.recording.fx_graphs import CALLS, target_name
from fx_explorer.capture.recording.state import Recording
from fx_explorer.model import Decomposed


def add_decompositions(recording: Recording, recorded: RecordedGraph) -> None:
    """Store a row for each node of a traced graph that is not the operator that was called."""
    table = _table(recording)
    places: dict[str, tuple[str, str, int, int]] = {}
    rows = []
    for part in recorded.whole():
        for node, number in part.ids.items():
            # By name: the meta may be of a copied graph, with operators that are copies.
            operator = str(node.meta.get("original_aten") or "")
            if node.op not in CALLS or not operator or operator == target_name(node):
                continue
            if operator not in places:
                places[operator] = _place(recording, table.get(operator))
            rows.append(Decomposed(number, operator, *places[operator]))
    recording.writer.add_all(rows)


def _table(recording: Recording) -> dict[str, Any]:
    """Return operator → its decomposition, by name; none for a backend other than Inductor, which
    gives AOTAutograd a table of its own.
    """
    backend = recording.of(recording.compilation_name()).backend or recording.request.backend
    if backend != "inductor":
        return {}
    from fx_explorer.capture.torch_compat.private_names import inductor_decomposition

    table = inductor_decomposition.select_decomp_table()
    return {str(operator): decomposition for operator, decomposition in table.items()}


def _place(recording: Recording, decomposition: Any) -> tuple[str, str, int, int]:
    """Return the name, the file, the line and the text of a decomposition; empty and 0 where it is
    no function in Python.
    """
    if decomposition is None:
        return "", "", 0, 0
    function = inspect.unwrap(decomposition)
    code = getattr(function, "__code__", None)
    if code is None:
        return "", "", 0, 0
    return code.co_name, code.co_filename, code.co_firstlineno, _source(recording, function)


def _source(recording: Recording, function: Any) -> int:
    try:
        lines, _ = inspect.getsourcelines(function)
    except OSError:  # torch without its sources
        return 0
    return recording.writer.text("".join(lines))
