"""The graphs of the page as drawings: nested boxes in rows, and the colours of their operations by
kernel, dtype, region or cost.

The numbers of operations and of boxes are those of ``drawing/graph_boxes.py``: each in the order of
the nested boxes. Texts that occur often stand in one list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from fx_explorer import model
from fx_explorer.analysis.annotated_regions import region_value
from fx_explorer.analysis.graph_uses import uses_in_graph
from fx_explorer.analysis.words import careful_share, counted, listed, value_text
from fx_explorer.drawing.box_contents import Content, Contents, ModuleBox
from fx_explorer.drawing.colours import KERNEL_COLOURS, RegionColours
from fx_explorer.drawing.graph_boxes import BoxDifference, NestedBoxes, nested_boxes
from fx_explorer.drawing.view_table import shown_name
from fx_explorer.highlight import printable, printable_text
from fx_explorer.instruments.kernels.costs import kernel_weights
from fx_explorer.instruments.kernels.line_heat import Measure
from fx_explorer.report.page.linked_texts import LinkedText
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernels import kernels_of_each

MOST_OPERATIONS = 60_000
"""Maximum number of operations in all drawings; later graphs are left out, and the page says so."""

MOST_KEYS = 40
"""Maximum number of colours that the key of a drawing explains."""

HEAT = (0.02, 0.1, 0.25, 0.5)
"""Shares of the most expensive operation's cost at which the next colour begins."""

NO_DIFFERENCE = BoxDifference()

ROUNDING = 1e-9
"""Two sums are equal up to rounding if they differ by less than this fraction of the whole."""

NO_NETWORKX = (
    "Graphs are drawn with networkx, which is not installed where this page was made: "
    "pip install 'fx-explorer[graphs]'"
)


@dataclass(frozen=True, slots=True)
class DrawnGraphs:
    """What the page draws."""

    data: Mapping[str, object]
    """What the script of the page reads."""
    count: int
    left_out: int
    """Number of graphs for which there was no room."""
    why_not: str = ""
    """Why nothing is drawn; empty otherwise."""


@dataclass(slots=True)
class _Table:
    """Distinct texts, in the order in which they came."""

    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


def drawn_graphs(reader: SessionReader, texts: Sequence[LinkedText]) -> DrawnGraphs:
    """Return the graphs of the linked view as drawings."""
    table, contents = _Table(), Contents()
    colours = _Colours(reader)
    graphs: list[dict[str, object]] = []
    numbered = [(number, text) for number, text in enumerate(texts) if text.pane == "graph"]
    operations = left_out = 0
    for number, text in numbered:
        graph = reader.get(model.Graph, text.document.id)
        operations += graph.node_count
        if operations > MOST_OPERATIONS:
            left_out += 1
            continue
        graphs.append(_graph(reader, graph, (number, text), contents, colours, table))
    try:
        arranged = [_content(content) for content in contents.all]
    except ImportError:
        return DrawnGraphs({}, 0, len(numbered), NO_NETWORKX)
    data = {
        "texts": list(table.numbers),
        "contents": arranged,
        "graphs": graphs,
        "start": _start(reader, [text for _, text in numbered][: len(graphs)]),
    }
    return DrawnGraphs(data, len(graphs), left_out)


def _start(reader: SessionReader, drawn: Sequence[LinkedText]) -> int:
    """Return the number of the drawing to begin with: the largest of AOTAutograd's forward graphs,
    which are what runs, else the largest.
    """
    best, best_size = 0, (False, 0)
    for number, text in enumerate(drawn):
        size = (text.document.stage == "forward", len(text.row_of_line))
        if size > best_size:
            best, best_size = number, size
    return best


def _content(content: Content) -> dict[str, object]:
    """Return a content for the script. Places where nothing comes in or leaves are left out."""
    used = {end for edge in content.layers.edges for end in edge}
    ports = {0, len(content.parts) + 1} - used
    rows = [[item for item in row if item not in ports] for row in content.layers.rows]
    parts: list[object] = []
    for part in content.parts:
        if isinstance(part, ModuleBox):
            parts.append([[printable(name) for name in part.names], part.type, part.content])
        else:
            parts.append(printable(short_operation(part.label)))
    return {
        "parts": parts,
        "rows": [row for row in rows if row],
        "edges": content.layers.edges,
        "operations": content.operations,
        "boxes": content.boxes,
    }


def short_operation(label: str) -> str:
    """Return ``mul`` for ``aten.mul.Tensor``: what there is room for."""
    parts = label.split(".")
    if parts[0] in ("aten", "prims") and len(parts) > 1:
        return parts[1]
    return parts[-1]


def _graph(
    reader: SessionReader,
    graph: model.Graph,
    numbered: tuple[int, LinkedText],
    contents: Contents,
    colours: _Colours,
    table: _Table,
) -> dict[str, object]:
    number, text = numbered
    nodes = reader.nodes(graph)
    uses = uses_in_graph(reader, graph, nodes)
    first = graph.first_node
    edges = [(producer - first, consumer - first) for producer, consumer in uses]
    boxes = nested_boxes(nodes, edges, contents)
    ordered = [nodes[position] for position in boxes.positions]
    measure, costs = colours.costs(graph)
    ways = {
        "kernel": colours.kernels(graph, ordered),
        "dtype": _dtypes(ordered),
        "region": colours.regions(ordered),
        "cost": _heat([costs.get(node.id, 0.0) for node in ordered]),
    }
    return {
        "title": printable(text.title),
        "text": number,
        "root": boxes.root,
        "names": [printable(node.name) for node in ordered],
        "labels": [table.number(printable(_label(node))) for node in ordered],
        "values": [table.number(printable(value_text(node))) for node in ordered],
        "modules": [table.number(printable(node.module)) for node in ordered],
        "lines": [text.line_of_row.get(position, -1) for position in boxes.positions],
        "ways": {name: way.data(table) for name, way in ways.items() if way.key},
        "measure": measure,
        "boxes": _sentences(boxes, ordered, costs, measure, table),
    }


def _label(node: model.Node) -> str:
    return node.target if node.op.startswith("call") else f"{node.op} {node.target}"


def _sentences(
    boxes: NestedBoxes,
    ordered: Sequence[model.Node],
    costs: Mapping[int, float],
    measure: Measure,
    table: _Table,
) -> list[int]:
    """Return the text of each box. Its first line stands in the box; the others say more of its
    cost, and how it differs from its neighbours.
    """
    whole = sum(costs.values())
    sums = [0.0]
    for node in ordered:
        sums.append(sums[-1] + costs.get(node.id, 0.0))
    numbers = []
    for at, (start, end) in enumerate(boxes.runs):
        part = sums[end] - sums[start]
        if part > whole * (1 - ROUNDING):
            part = whole
        share = careful_share(part, whole) if part > whole * ROUNDING else ""
        difference = boxes.differences.get(at, NO_DIFFERENCE)
        first = [counted(end - start, "node"), share]
        if difference.unlike:
            first.append(f"unlike {difference.unlike}")
        lines = [" · ".join(filter(None, first))]
        if share:
            lines.append(f"{share} of the {measure}")
        if difference.sentence:
            lines.append(difference.sentence)
        numbers.append(table.number(printable_text("\n".join(lines))))
    return numbers


# colours


@dataclass(slots=True)
class _Way:
    """One way to colour the operations."""

    of: list[int]
    """For each operation its place in ``key``; -1 without a colour."""
    key: list[tuple[str, str]]
    """Class of the style sheet, and what it stands for."""

    def data(self, table: _Table) -> dict[str, object]:
        counts = Counter(self.of)
        entries = []
        for at, (style, text) in enumerate(self.key):
            entries.append((style, table.number(printable(text)), counts[at]))
        shown = sorted(range(len(entries)), key=lambda at: -entries[at][2])[:MOST_KEYS]
        return {"of": self.of, "key": entries, "shown": shown}


CATEGORIES = 8
"""Number of the style sheet's colours for kinds that have no order."""


def _way(texts: Iterable[tuple[str, str]]) -> _Way:
    """Return a way of (class, text) for each operation; an empty text has no colour."""
    numbers: dict[tuple[str, str], int] = {}
    of = [numbers.setdefault(pair, len(numbers)) if pair[1] else -1 for pair in texts]
    return _Way(of, list(numbers))


def _dtypes(nodes: Sequence[model.Node]) -> _Way:
    style: dict[str, str] = {}
    for node in nodes:
        if node.dtype:
            style.setdefault(node.dtype, f"c{len(style) % CATEGORIES}")
    return _way((style.get(node.dtype, ""), node.dtype) for node in nodes)


def _heat(costs: Sequence[float]) -> _Way:
    largest = max(costs, default=0.0)
    words = [f"below {HEAT[0]:.0%} of the most expensive operation"]
    words += [f"from {least:.0%}" for least in HEAT]
    pairs = []
    for cost in costs:
        level = sum(cost >= least * largest for least in HEAT)
        pairs.append((f"h{level}", words[level] if cost else ""))
    way = _way(pairs)
    order = sorted(range(len(way.key)), key=lambda at: way.key[at][0], reverse=True)
    place = {at: number for number, at in enumerate(order)}
    of = [place.get(at, -1) for at in way.of]
    return _Way(of, [way.key[at] for at in order])


class _Colours:
    """What the session knows of the nodes besides the graph."""

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader

    @cached_property
    def _weights(self) -> tuple[Measure, dict[int, float]]:
        return kernel_weights(self._reader)

    @cached_property
    def _names(self) -> dict[int, str]:
        return {row.id: row.name for row in self._reader.rows(model.Kernel)}

    @cached_property
    def _region_colours(self) -> RegionColours:
        return RegionColours()

    def _kernels(self, graph: model.Graph) -> dict[int, list[int]]:
        return self._reader.once(_kernels_of_graph, graph.id)

    def kernels(self, graph: model.Graph, nodes: Sequence[model.Node]) -> _Way:
        kernels = self._kernels(graph)
        pairs = []
        for node in nodes:
            of_node = [kernel for kernel in kernels.get(node.id, ()) if kernel in self._names]
            style = f"c{(of_node[0] - 1) % KERNEL_COLOURS}" if of_node else ""
            pairs.append((style, listed([shown_name(self._names[kernel]) for kernel in of_node])))
        return _way(pairs)

    def regions(self, nodes: Sequence[model.Node]) -> _Way:
        pairs = []
        for node in nodes:
            names = [region_value(value) for value in (node.annotations or {}).values()]
            style = ""
            if names:
                number = int(self._region_colours.kind(names[0]).rpartition("-")[2])
                style = f"c{number % CATEGORIES}"
            pairs.append((style, listed(names)))
        return _way(pairs)

    def costs(self, graph: model.Graph) -> tuple[Measure, dict[int, float]]:
        """Return the cost of each node: that of a kernel in equal parts for the nodes of the graph
        that it computes.
        """
        measure, weights = self._weights
        kernels = self._kernels(graph)
        counts: Counter[int] = Counter()
        for of_node in kernels.values():
            counts.update(of_node)
        costs: dict[int, float] = {}
        for node, of_node in kernels.items():
            costs[node] = sum(weights.get(kernel, 0.0) / counts[kernel] for kernel in of_node)
        return measure, costs


def _kernels_of_graph(reader: SessionReader, graph: int) -> dict[int, list[int]]:
    row = reader.get(model.Graph, graph)
    return kernels_of_each(reader, range(row.first_node, row.first_node + row.node_count))
