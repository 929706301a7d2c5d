"""The facts of a place are given in a few words each, most important first, for the line at the
bottom of the screen.
"""

from __future__ import annotations

from collections.abc import Sequence

from fx_explorer import model
from fx_explorer.analysis.annotated_regions import region_value
from fx_explorer.analysis.documents import (
    node_at,
    place_of_source,
)
from fx_explorer.analysis.input_names import InputNames, with_own_names
from fx_explorer.analysis.kernel_documents import triton_place
from fx_explorer.analysis.linked_lines import Selection
from fx_explorer.analysis.selected_nodes import copies, place_of_users_kernel
from fx_explorer.analysis.words import counted, listed, plural, value_text
from fx_explorer.overview.own_file import line_events
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernels import names_of_kernels_of
from fx_explorer.session.queries.nodes import operation_counts, operation_names
from fx_explorer.tui.content.shown_lines import EVENT_GLYPHS


def summary(selection: Selection) -> list[str]:
    """Return the facts of a place in a few words each, most important first: the inspector line."""
    node = node_at(selection.reader, selection.place)
    if node:
        return _node_summary(selection, node)
    return _kernel_summary(selection) or line_summary(selection)


def _kernel_summary(selection: Selection) -> list[str]:
    """Return the summary of a line of a Triton kernel, or of a level below it; empty for any other
    line.
    """
    reader, place = selection.reader, selection.place
    if not place.document.is_level and place.document.language != "triton":
        return []
    from fx_explorer.tui.content import inspect_kernel  # not needed for the first paint

    if place.document.is_level:
        _, *computed = line_summary(selection.of(triton_place(reader, place)))
        here = inspect_kernel.describe_level(reader, place)
    else:
        line, *computed = line_summary(selection)
        here = [line]
    return [*here, *computed, *inspect_kernel.describe_kernel(reader, place)]


def _node_summary(selection: Selection, node: model.Node) -> list[str]:
    reader = selection.reader
    value = value_text(node)
    if value and node.stride:
        value += f" stride ({', '.join(node.stride)})"
    regions = [f'region "{region_value(v)}"' for v in (node.annotations or {}).values()]
    operation = node.target if node.target != node.name else node.op
    parts = [
        users_name(reader, node),
        node.name,
        operation,
        f"{value} {node.device}".strip(),
        _where(reader, node),
        node.module,
        *regions,
        *_describe_kernel(selection),
    ]
    return [part for part in parts if part]


def users_name(reader: SessionReader, node: model.Node) -> str:
    """Return the user's name of an input of a graph; empty for other nodes."""
    if node.op == "placeholder":
        input_name = InputNames(reader).of([node])[node.id]
    else:
        input_name = None
    if input_name and input_name.node:
        return input_name.name
    return ""


def line_summary(selection: Selection) -> list[str]:
    """Return the facts about a line: its events, the line it copies, and what it computes."""
    reader, place, nodes = selection.reader, selection.place, selection.nodes
    here = f"{place.document.title}:{place.line + 1}"
    happened = [
        f"{EVENT_GLYPHS[event.what][0]} {event.text}"
        for event in line_events(reader, place.document).get(place.line, ())
    ]
    if not nodes:
        if place.document.kind == "source":
            why = "no node comes from this line"
        else:
            why = "no node is known for this line"
        return [here, *(happened or [why])]
    own_lines = selection.own_lines
    if place.document.kind == "source" and own_lines:
        copied = (f"{kernel.name}:{at.line + 1}" for kernel, at in copies(reader, own_lines))
        return [
            here,
            *happened,
            f"is {listed(copied)}",
            f"called by {listed(with_own_names(operation_names(reader, nodes)))}",
        ]
    if place.document.kind != "source":
        names = with_own_names(operation_names(reader, nodes))
        written = place_of_users_kernel(reader, own_lines)
        if written:
            return [
                here,
                f"is {written.document.title}:{written.line + 1}",
                f"called by {listed(names)}",
            ]
        if names:
            return [here, f"computes {listed(names, 6)}"]
        return [here, f"belongs to {counted(len(nodes), 'node')}"]
    traced = operation_names(reader, nodes, "dynamo")
    became = _became(reader, nodes)
    if traced:
        became = f"{listed(traced, 5)} {became}"
    return [here, *happened, *_describe_kernel(selection), became]


def _became(reader: SessionReader, nodes: Sequence[int]) -> str:
    """Describe the nodes that a line's nodes became: ``became 9 forward and 13 backward
    operations``. They are counted in the last graphs, since each stage has its own.
    """
    operations = operation_counts(reader, nodes)
    if not operations:
        return f"became {counted(len(nodes), 'node')}"
    last = max((stage for stage, _ in operations), key=_position_of_stage)
    counts = {direction: count for (stage, direction), count in operations.items() if stage == last}
    directions = [direction for direction in model.DIRECTIONS if direction in counts]
    shown = [f"{counts[direction]} {direction}".strip() for direction in directions]
    return f"became {' and '.join(shown)} {plural(sum(counts.values()), 'operation')}"


def _position_of_stage(stage: model.Stage) -> int:
    """Return the position of a stage in the order. A backend's published stages come first, because
    they may have the same operations several times.
    """
    if stage == "backend":
        return -1
    return model.STAGES.index(stage)


def _describe_kernel(selection: Selection) -> list[str]:
    kernels = names_of_kernels_of(selection.reader, selection.below)
    if kernels:
        names = listed(f"#{number} {name}" for number, name in kernels)
        return [f"{plural(len(kernels), 'kernel')} {names}"]
    return []


def _where(reader: SessionReader, node: model.Node) -> str:
    """Return ``model.py:32`` for the innermost user frame; empty when the node has none."""
    if node.file:
        place = place_of_source(reader, node.file, node.line)
    else:
        place = None
    if place:
        return f"{place.document.title}:{node.line}"
    return ""
