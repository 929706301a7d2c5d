"""The ways in which a selection can be marked as a region: by its nodes, by a module, or by source
lines.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fx_explorer import model
from fx_explorer.analysis.documents import Document, Place
from fx_explorer.analysis.links.selection import nodes_at
from fx_explorer.analysis.words import counted
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.graphs import nodes_of_stage
from fx_explorer.session.queries.links import ancestors


@dataclass(frozen=True, slots=True)
class Markable:
    """One way to mark the selection. The mark has no name yet."""

    words: str
    detail: str
    mark: model.Mark
    compilation: str
    """Name of the compilation the Dynamo graph belongs to."""

    def named(self, name: str) -> model.Mark:
        return replace(self.mark, name=name)

    @property
    def suggestion(self) -> str:
        """Return a name for the region that says what it is."""
        if self.mark.module:
            return self.mark.module.rpartition(".")[2]
        return self.mark.nodes[0] if self.mark.nodes else f"line_{self.mark.first_line}"


def markables(reader: SessionReader, document: Document, lines: Sequence[int]) -> list[Markable]:
    """Return the ways to mark these lines of a document (from 0), the most literal first; empty
    when no Dynamo node belongs to them.
    """
    nodes = _dynamo_nodes(reader, document, lines)
    if not nodes:
        return []
    graph = reader.get(model.Graph, nodes[0].graph)
    owner = reader.get(model.Compilation, graph.compilation).name
    names = tuple(node.name for node in nodes)
    by_node = Markable(
        counted(len(names), "node"), ", ".join(names), model.Mark("", nodes=names), owner
    )
    found = [by_node]
    if document.kind == "source":
        file = reader.get(model.SourceFile, document.id)
        first, last = min(lines) + 1, max(lines) + 1
        words = f"line {first}" if first == last else f"lines {first} to {last}"
        mark = model.Mark("", file=file.path, first_line=first, last_line=last)
        found.insert(
            0,
            Markable(
                f"{words} of {document.title}", f"now {counted(len(names), 'node')}", mark, owner
            ),
        )
    inner = [node for node in reader.nodes(graph) if node.op.startswith("call_")]
    for module in _modules(nodes):
        size = sum(node.module == module or node.module.startswith(f"{module}.") for node in inner)
        found.append(
            Markable(
                f"module {module}", counted(size, "node"), model.Mark("", module=module), owner
            )
        )
    return found


def _dynamo_nodes(
    reader: SessionReader, document: Document, lines: Sequence[int]
) -> list[model.Node]:
    """Return the nodes of one Dynamo graph that these lines stand for, or come from, in the order
    of the graph.
    """
    at = [node for line in lines for node in nodes_at(reader, Place(document, line))]
    found = reader.by_ids(
        model.Node, nodes_of_stage(reader, {*at, *ancestors(reader, at)}, "dynamo")
    )
    computed = [node for node in found if node.op.startswith("call_")]
    return [node for node in computed if node.graph == computed[0].graph]


def _modules(nodes: Sequence[model.Node]) -> list[str]:
    """Return the modules that all these nodes are in, innermost first."""
    paths = [node.module.split(".") for node in nodes]
    # A node outside of all modules has an empty path, which splits into one empty part.
    alike = itertools.takewhile(
        lambda parts: len(set(parts)) == 1 and parts[0], zip(*paths, strict=False)
    )
    common = [parts[0] for parts in alike]
    return [".".join(common[:depth]) for depth in range(len(common), 0, -1)]
