"""This module walks links in two ways that answer alike: by a query for each question, which is
fast for one place, and in tables that are read once, which is fast for all places of a session.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Protocol

from fx_explorer import model
from fx_explorer.session import SessionReader
from fx_explorer.session.queries import links as queries
from fx_explorer.session.queries import nodes as node_queries

LinesByArtifact = dict[int, set[tuple[int, int]]]
"""Artifact → (line from 1, or 0 for the whole artifact; KernelCall or 0)."""

Frames = tuple[model.Frame, ...]

MOST_LINKS = 2_000_000
"""Number of links from which on no tables are made of them: they would take half a gigabyte."""


class Links(Protocol):
    """The questions about links; see the queries of these names for the answers."""

    def ancestors(self, nodes: Iterable[int]) -> frozenset[int]: ...

    def descendants(self, nodes: Iterable[int]) -> frozenset[int]: ...

    def lines_computing(self, nodes: Iterable[int]) -> LinesByArtifact: ...

    def user_stacks(self, nodes: Iterable[int]) -> list[Frames]: ...

    def embedded_kernels(
        self, output_code: int, artifacts: Iterable[int]
    ) -> list[tuple[int, int, int]]: ...

    def call_lines(
        self, kernels: Iterable[int], calls: Iterable[int], whole: Iterable[int]
    ) -> Iterable[int]: ...


class LinkQueries:
    """Asks the session each time."""

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader

    def ancestors(self, nodes: Iterable[int]) -> frozenset[int]:
        return queries.ancestors(self._reader, nodes)

    def descendants(self, nodes: Iterable[int]) -> frozenset[int]:
        return queries.descendants(self._reader, nodes)

    def lines_computing(self, nodes: Iterable[int]) -> LinesByArtifact:
        return queries.lines_computing(self._reader, nodes)

    def user_stacks(self, nodes: Iterable[int]) -> list[Frames]:
        return node_queries.user_stacks(self._reader, nodes)

    def embedded_kernels(
        self, output_code: int, artifacts: Iterable[int]
    ) -> list[tuple[int, int, int]]:
        return queries.embedded_kernels(self._reader, output_code, artifacts)

    def call_lines(
        self, kernels: Iterable[int], calls: Iterable[int], whole: Iterable[int]
    ) -> Iterable[int]:
        return queries.call_lines(self._reader, kernels, calls, whole)


class LinkTables:
    """Holds all links of a session in memory, as of the time this object was made."""

    def __init__(self, reader: SessionReader) -> None:
        self._children: dict[int, list[int]] = defaultdict(list)
        self._parents: dict[int, list[int]] = defaultdict(list)
        for child, parent in queries.every_link(reader):
            self._children[parent].append(child)
            self._parents[child].append(parent)
        self._lines: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for node, artifact, line, call in queries.every_computing_line(reader):
            self._lines[node].append((artifact, line, call))
        self._stacks = node_queries.stacks_of_nodes(reader)
        self._frames = {stack.id: stack.frames for stack in reader.rows(model.Stack)}
        self._kernels: dict[int, list[model.Kernel]] = defaultdict(list)
        for kernel in reader.rows(model.Kernel):
            self._kernels[kernel.artifact].append(kernel)
        self._calls: dict[int, model.KernelCall] = {}
        self._calls_of: dict[int, list[model.KernelCall]] = defaultdict(list)
        for kernel_call in reader.rows(model.KernelCall):
            self._calls[kernel_call.id] = kernel_call
            self._calls_of[kernel_call.kernel].append(kernel_call)

    def ancestors(self, nodes: Iterable[int]) -> frozenset[int]:
        return _reached(nodes, self._parents)

    def descendants(self, nodes: Iterable[int]) -> frozenset[int]:
        return _reached(nodes, self._children)

    def lines_computing(self, nodes: Iterable[int]) -> LinesByArtifact:
        lines: LinesByArtifact = {}
        for node in nodes:
            for artifact, line, call in self._lines.get(node, ()):
                lines.setdefault(artifact, set()).add((line, call))
        return lines

    def user_stacks(self, nodes: Iterable[int]) -> list[Frames]:
        stacks = {self._stacks[node] for node in nodes if node in self._stacks}
        return [self._frames[stack] for stack in sorted(stacks) if stack in self._frames]

    def embedded_kernels(
        self, output_code: int, artifacts: Iterable[int]
    ) -> list[tuple[int, int, int]]:
        embedded = []
        for artifact in artifacts:
            embedded += [
                (kernel.id, artifact, kernel.first_line)
                for kernel in self._kernels.get(artifact, ())
                if kernel.output_code == output_code
            ]
        return embedded

    def call_lines(
        self, kernels: Iterable[int], calls: Iterable[int], whole: Iterable[int]
    ) -> Iterable[int]:
        wanted = set(kernels)
        lines = set()
        for number in calls:
            call = self._calls.get(number)
            if call is not None and call.line and call.kernel in wanted:
                lines.add(call.line)
        for kernel in whole:
            lines.update(call.line for call in self._calls_of.get(kernel, ()) if call.line)
        return lines


def _reached(nodes: Iterable[int], neighbours: Mapping[int, list[int]]) -> frozenset[int]:
    """Return these nodes and all that are reached from them."""
    reached = set(nodes)
    waiting = list(reached)
    while waiting:
        for neighbour in neighbours.get(waiting.pop(), ()):
            if neighbour not in reached:
                reached.add(neighbour)
                waiting.append(neighbour)
    return frozenset(reached)


def links_for_all_places(reader: SessionReader) -> Links:
    """Return what is fast for many places: tables, unless they would be too large."""
    if reader.count(model.Link) > MOST_LINKS:
        return LinkQueries(reader)
    return LinkTables(reader)
