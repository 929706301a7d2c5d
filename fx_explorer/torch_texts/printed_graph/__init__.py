"""FX graphs as torch prints them (``GraphModule.print_readable``), read back as nodes."""

from fx_explorer.torch_texts.printed_graph.nodes import PrintedNode
from fx_explorer.torch_texts.printed_graph.reading import PrintedGraph, read_graphs

__all__ = ["PrintedGraph", "PrintedNode", "read_graphs"]
