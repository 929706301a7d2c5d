"""This module folds a graph by module. Which nodes belong together, and what differs among layers,
is what the drawn graph has found (``drawing/graph_boxes.py``); here it gets rows.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from fx_explorer import model
from fx_explorer.analysis.alignment_words import brief_operation
from fx_explorer.analysis.graph_uses import uses_in_graph
from fx_explorer.analysis.input_names import InputNames, input_kind
from fx_explorer.analysis.repeated_layers import LayerDifferences
from fx_explorer.drawing.box_contents import Content, Contents, ModuleBox, Operation, Part
from fx_explorer.drawing.graph_boxes import INPUTS, NestedBoxes, are_layers, nested_boxes
from fx_explorer.instruments.memory.sizes import UnknownSize, shape_bytes
from fx_explorer.instruments.modules.folded_graph import (
    FoldedGraph,
    FoldedRow,
    GroupKind,
    NodeGroup,
)
from fx_explorer.session import SessionReader, answered_once

MOST_OPERATIONS = 3
"""Maximum number of kinds of operations that a row names."""

FEWEST_TOGETHER = 2
"""Minimum number of neighbouring operations that get a row in a module with modules in it."""


@answered_once
def folded_graph(reader: SessionReader, graph_id: int) -> FoldedGraph:
    """Fold a graph by module. It reads all nodes of the graph: about 0.1 ms each."""
    graph = reader.get(model.Graph, graph_id)
    nodes = reader.nodes(graph)
    first = graph.first_node
    edges: list[tuple[int, int]] = []
    for producer, consumer in uses_in_graph(reader, graph, nodes):
        edges.append((producer - first, consumer - first))
    contents = Contents()
    boxes = nested_boxes(nodes, edges, contents)
    ordered = [nodes[position] for position in boxes.positions]
    folding = _Folding(ordered, boxes, contents.all, parameter_bytes(reader, ordered))
    folding.add_content(boxes.root, 0, "", 0)
    row_of_position = array("i", bytes(array("i").itemsize * len(nodes)))
    for row, entry in enumerate(folding.rows):
        if isinstance(entry, int):
            row_of_position[entry] = row
    return FoldedGraph(folding.rows, folding.depths, boxes.positions, row_of_position)


UNKNOWN_BYTES = -1


def parameter_bytes(reader: SessionReader, nodes: Sequence[model.Node]) -> dict[int, int]:
    """Return the place of each parameter and buffer among the nodes → its bytes, or
    ``UNKNOWN_BYTES``.
    """
    names = InputNames(reader).of(node for node in nodes if node.op == "placeholder")
    sizes: dict[int, int] = {}
    for at, node in enumerate(nodes):
        if node.shape is None or node.op not in INPUTS:
            continue
        if node.op == "placeholder":
            kind = input_kind(node, names[node.id])
            if kind not in ("parameter", "buffer"):
                continue
        try:
            sizes[at] = shape_bytes(node.dtype, node.shape, {})
        except UnknownSize:
            sizes[at] = UNKNOWN_BYTES
    return sizes


class _Module(NamedTuple):
    """A module that gets a row."""

    name: str
    box: ModuleBox
    number: int
    """Its number in the order of the nested boxes."""


_Piece = int | list[_Module]
"""What gets one row: so many neighbouring operations; a module; or modules that are layers."""


class _Folding:
    """Makes the rows of a graph, content by content, in the order of its nested boxes."""

    def __init__(
        self,
        ordered: Sequence[model.Node],
        boxes: NestedBoxes,
        contents: Sequence[Content],
        parameters: Mapping[int, int],
    ) -> None:
        self._ordered = ordered
        self._operations: list[str] = []
        """What each node does, by its place; empty for inputs and the output."""
        for node in ordered:
            is_call = node.op.startswith("call")
            self._operations.append(brief_operation(node) if is_call else "")
        self._boxes = boxes
        self._contents = contents
        self._parameters = parameters
        self._next = 0
        """Place of the next node among the ordered ones."""
        self.rows: list[FoldedRow] = []
        self.depths = array("B")

    def add_content(self, content: int, number: int, path: str, depth: int) -> None:
        """Add the rows of what is in box ``number``."""
        pieces = self._pieces(content, number)
        has_modules = any(isinstance(piece, list) for piece in pieces)
        for piece in pieces:
            if isinstance(piece, list):
                self._add_modules(piece, path, depth, "")
            elif has_modules and piece >= FEWEST_TOGETHER:
                row, start = self._begin(depth)
                self._add_nodes(piece, depth + 1)
                self._finish(row, start, "operations", "", path, "")
            else:
                self._add_nodes(piece, depth)

    def _pieces(self, content: int, number: int) -> list[_Piece]:
        """Return what gets a row in the content of box ``number``."""
        pieces: list[_Piece] = []
        for part, of_part in self._parts(content, number):
            last = pieces[-1] if pieces else 0
            if isinstance(part, Operation):
                if pieces and isinstance(last, int):
                    pieces[-1] = last + 1
                else:
                    pieces.append(1)
                continue
            modules = self._modules(part, of_part)
            if isinstance(last, list) and are_layers(last[-1].box, part, self._contents):
                last += modules
            else:
                pieces.append(modules)
        return pieces

    def _parts(self, content: int, number: int) -> Iterator[tuple[Part, int]]:
        """Yield the parts of box ``number``, each with the number of its first box. Boxes of
        neighbours, which a drawing needs, are no row.
        """
        number += 1
        for part in self._contents[content].parts:
            if isinstance(part, ModuleBox) and part.names == ("",):
                yield from self._parts(part.content, number)
            else:
                yield part, number
            if isinstance(part, ModuleBox):
                number += self._box_count(part) * len(part.names) + (len(part.names) > 1)

    def _box_count(self, box: ModuleBox) -> int:
        """Return how many boxes one module is, with those in it."""
        return 1 + self._contents[box.content].boxes

    def _modules(self, box: ModuleBox, number: int) -> list[_Module]:
        first = number + (len(box.names) > 1)
        step = self._box_count(box)
        return [_Module(name, box, first + step * at) for at, name in enumerate(box.names)]

    def _add_modules(self, modules: list[_Module], path: str, depth: int, before: str) -> None:
        """Add the row of a module or of layers, with all in it. ``before`` are the names of modules
        around it that hold nothing else.
        """
        if len(modules) > 1:
            self._add_layers(modules, path, depth, before)
            return
        name, box, number = modules[0]
        inner = _joined(path, name)
        pieces = self._pieces(box.content, number)
        if len(pieces) == 1 and isinstance(pieces[0], list):
            self._add_modules(pieces[0], inner, depth, f"{before}{name}.")
            return
        row, start = self._begin(depth)
        self.add_content(box.content, number, inner, depth + 1)
        self._finish(row, start, "module", f"{before}{name}", inner, box.type)

    def _add_layers(self, modules: list[_Module], path: str, depth: int, before: str) -> None:
        row, start = self._begin(depth)
        differences = self._differences(modules)
        for at, (layer, box, number) in enumerate(modules):
            layer_row, layer_start = self._begin(depth + 1)
            inner = _joined(path, layer)
            self.add_content(box.content, number, inner, depth + 2)
            difference = differences.of_layer.get(at, "")
            self._finish(layer_row, layer_start, "module", layer, inner, box.type, (), difference)
        names = tuple(layer.name for layer in modules)
        between = " … " if len(names) > 2 else ", "
        title = f"{before}{names[0]}{between}{names[-1]}"
        class_name = next((layer.box.type for layer in modules if layer.box.type), "")
        first = _joined(path, names[0])
        self._finish(row, start, "layers", title, first, class_name, names, differences.sentence)

    def _differences(self, modules: Sequence[_Module]) -> LayerDifferences:
        """Return what the boxes say of the layers that begin with a module."""
        first = modules[0]
        is_pile = len(first.box.names) > 1
        difference = self._boxes.differences[first.number - is_pile]
        assert difference.layers is not None
        return difference.layers

    def _begin(self, depth: int) -> tuple[int, int]:
        """Add the row of a group, which is not finished. Returns it, and where its nodes begin."""
        self.rows.append(NOT_FINISHED)
        self.depths.append(depth)
        return len(self.rows) - 1, self._next

    def _finish(
        self,
        row: int,
        start: int,
        kind: GroupKind,
        name: str,
        path: str,
        class_name: str,
        layers: tuple[str, ...] = (),
        difference: str = "",
    ) -> None:
        frequent = Counter(self._operations[start : self._next])
        del frequent[""]
        leads = start
        while leads < self._next - 1 and not self._operations[leads]:
            leads += 1
        if not self._operations[leads]:
            leads = start
        sizes = [self._parameters[at] for at in range(start, self._next) if at in self._parameters]
        self.rows[row] = NodeGroup(
            kind=kind,
            depth=self.depths[row],
            name=name,
            path=path,
            type=class_name,
            start=start,
            end=self._next,
            leads=self._ordered[leads].position,
            after=len(self.rows),
            calls=frequent.total(),
            operations=_listed_operations(frequent),
            parameters=len(sizes),
            parameter_bytes=None if UNKNOWN_BYTES in sizes else sum(sizes),
            layers=layers,
            difference=difference,
        )

    def _add_nodes(self, count: int, depth: int) -> None:
        for node in self._ordered[self._next : self._next + count]:
            self.rows.append(node.position)
            self.depths.append(depth)
        self._next += count


NOT_FINISHED = -1


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _listed_operations(counts: Counter[str]) -> str:
    parts: list[str] = []
    for name, count in counts.most_common(MOST_OPERATIONS):
        parts.append(f"{name} ×{count:,}" if count > 1 else name)
    if len(counts) > MOST_OPERATIONS:
        return f"{', '.join(parts)}, …"
    return ", ".join(parts)
