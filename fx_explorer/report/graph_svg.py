"""This module draws a graph of a session as SVG, for ``graph X NAME --format svg``: the boxes of
the page's drawing, all open as far as there is room.
"""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.graph_uses import uses_in_graph
from fx_explorer.analysis.words import listed, value_text
from fx_explorer.drawing.box_contents import Contents
from fx_explorer.drawing.graph_boxes import nested_boxes
from fx_explorer.drawing.graph_picture import PictureOperation, graph_picture_svg
from fx_explorer.errors import UsageError
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import source_paths
from fx_explorer.session.queries.kernels import kernels_of_each

NO_NETWORKX = (
    "graphs are arranged with networkx, which is not installed: pip install 'fx-explorer[graphs]'"
)


def graph_svg(reader: SessionReader, graph: model.Graph, title: str) -> str:
    """Return the picture of a graph. Raises UsageError where networkx is not installed."""
    nodes = reader.nodes(graph)
    first = graph.first_node
    uses = uses_in_graph(reader, graph, nodes)
    edges = [(producer - first, consumer - first) for producer, consumer in uses]
    contents = Contents()
    boxes = nested_boxes(nodes, edges, contents)
    kernels = kernels_of_each(reader, [node.id for node in nodes])
    names = {kernel.id: kernel.name for kernel in reader.rows(model.Kernel)}
    paths = source_paths(reader)
    operations = []
    for position in boxes.positions:
        node = nodes[position]
        of_node = kernels.get(node.id, [])
        line = in_file(paths[node.file], node.line) if node.file in paths else ""
        computed = listed([names[kernel] for kernel in of_node if kernel in names])
        about = [node.target, value_text(node), node.module, line, computed]
        operations.append(
            PictureOperation(node.name, list(filter(None, about)), of_node[0] if of_node else 0)
        )
    try:
        return graph_picture_svg(title, boxes.root, contents.all, operations)
    except ImportError as error:
        raise UsageError(NO_NETWORKX) from error
