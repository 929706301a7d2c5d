"""This module makes the JSON of facts about values, of collectives and of redistributions."""

from __future__ import annotations

from fx_explorer.instruments.values.collectives import (
    Collective,
    collectives,
    describe_collective,
)
from fx_explorer.instruments.values.figures import values_of_graphs
from fx_explorer.session import SessionReader


def values_json(reader: SessionReader) -> list[dict[str, object]]:
    """Return one object for each input or output that is out of the ordinary."""
    return [
        {
            "value": value.name,
            "how": value.how,
            "of": value.base,
            "sentence": value.text,
            "kind": value.kind,
            "copied_bytes": value.copied_bytes,
            "compilation": value.compilation,
            "function": value.function,
            "file": value.file,
            "line": value.line or None,
        }
        for value in values_of_graphs(reader)
    ]


def collectives_json(reader: SessionReader) -> list[dict[str, object]]:
    """Return one object for each collective, in the order of the graphs."""
    return [_collective(collective) for collective in collectives(reader)]


def _collective(collective: Collective) -> dict[str, object]:
    row = collective.redistribution
    between = collective.between
    return {
        "compilation": collective.compilation,
        "direction": collective.direction,
        "order": collective.order,
        "operator": collective.operator,
        "node": collective.node.name,
        "group": collective.group,
        "group_description": collective.group_description,
        "group_size": collective.group_size if collective.group_size >= 0 else None,
        "bytes": collective.size_bytes if collective.size_bytes >= 0 else None,
        "waited_for_by": collective.wait.name if collective.wait else "",
        "meanwhile": list(between.names) if between else [],
        "meanwhile_from": _origin(collective),
        "redistributes": f"{row.before} → {row.after}" if row else "",
        "mesh": row.mesh if row else "",
        "sentence": describe_collective(collective),
        "file": collective.file,
        "line": collective.line or None,
    }


def _origin(collective: Collective) -> str:
    if collective.between is None:
        return ""
    return "generated code" if collective.between.is_of_code else "graph"
