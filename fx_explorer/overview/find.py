"""This module searches a session: nodes and their arguments, kernels, source lines, lines that a
backend published, and graph breaks, best match first; also lines by place, such as ``model.py:12``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.documents import (
    Document,
    Place,
    document_of,
    lines_of,
    place_of_kernel,
    read_sources,
    source_documents,
)
from fx_explorer.analysis.published import published_stages
from fx_explorer.analysis.words import value_text
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import compilation_names, source_paths
from fx_explorer.session.queries.kernels import operations_by_line
from fx_explorer.session.queries.nodes import nodes_beginning, nodes_containing, nodes_taking

MatchKind = Literal["break", "kernel", "node", "line"]

LIMIT = 100

IN_ARGUMENTS = 3
"""Rank of a node that matches only with its arguments."""


@dataclass(frozen=True, slots=True)
class Match:
    kind: MatchKind
    text: str
    detail: str
    """What tells matches of one text apart comes first, as its end may be cut."""
    place: Place
    rank: int
    """How well the name matches: 0 is equal to the query, 1 begins with it, 2 contains it; 3 only
    the arguments of a node do.
    """


def find(reader: SessionReader, typed: str, limit: int = LIMIT) -> list[Match]:
    """Search for ``typed`` and return at most ``limit`` matches. Every word must occur (upper and
    lower case alike); no words match nothing. A file's name, with a line or without, matches that
    line.
    """
    words = typed.casefold().split()
    if not words:
        return []
    published_texts = [
        stage.document for stage in published_stages(reader) if stage.document.kind == "artifact"
    ]
    kinds: list[Iterator[Match]] = [
        _named_lines(reader, typed.strip().casefold()),
        _breaks(reader, words),
        _kernels(reader, words),
        _nodes(reader, words, limit),
        _nodes_taking(reader, words, limit),
        _lines(reader, words, read_sources(reader)),
        _lines(reader, words, published_texts),
    ]
    matches: list[Match] = []
    for kind in kinds:
        matches += islice(kind, limit)
    matches.sort(key=lambda match: match.rank)
    by_place: dict[tuple[MatchKind, Place], Match] = {}
    for match in matches:
        by_place.setdefault((match.kind, match.place), match)
    return list(by_place.values())[:limit]


def _rank(name: str, words: list[str]) -> int:
    """Return 0 for a name that is the first word, 1 for one that begins with it, else 2."""
    name = name.casefold()
    if name == words[0]:
        return 0
    return 1 if name.startswith(words[0]) else 2


def _contains(texts: Iterable[str], words: list[str]) -> bool:
    whole = " ".join(texts).casefold()
    return all(word in whole for word in words)


_PLACE = re.compile(r"(.+?)(?::(\d{0,9}))?")
"""Matches a file and a line, as the screen writes them: ``model.py:12``, also before the line is
typed to its end.
"""


def _named_lines(reader: SessionReader, typed: str) -> Iterator[Match]:
    """Yield the line that ``typed`` names, of each file with that name: its first, where no line is
    named.
    """
    named = _PLACE.fullmatch(typed)
    if named is None:
        return
    name, number = named[1], int(named[2] or 1)
    for document in source_documents(reader):
        title = document.title.casefold()
        if title != name and not title.endswith(f"/{name}"):
            continue
        lines = lines_of(reader, document)
        if 1 <= number <= len(lines):
            where = f"{document.title}:{number}"
            text = lines[number - 1].strip() or where
            yield Match("line", text, where, Place(document, number - 1), 0)


def _breaks(reader: SessionReader, words: list[str]) -> Iterator[Match]:
    for graph_break in distinct_breaks(reader):
        place = graph_break.place
        if not place:
            continue
        texts = (
            graph_break.reason,
            graph_break.code,
            graph_break.registry_id,
            graph_break.file,
            "graph break",
        )
        if _contains(texts, words):
            where = f"{place.document.title}:{graph_break.line}"
            yield Match("break", graph_break.reason, where, place, 1)


def _kernels(reader: SessionReader, words: list[str]) -> Iterator[Match]:
    matching = []
    for kernel in reader.rows(model.Kernel):
        texts = (kernel.name, kernel.language, kernel.direction)
        if _contains(texts, words):
            matching.append(kernel)
    matching.sort(key=lambda kernel: _rank(kernel.name, words))
    names = compilation_names(reader)
    lines = _lines_of_kernels(reader, [kernel.id for kernel in matching[:LIMIT]])
    for kernel in matching:
        place = place_of_kernel(reader, kernel)
        if place:
            where = f"[{names.get(kernel.compilation, '')}] {kernel.direction}".strip()
            parts = (f"#{kernel.id}", where, lines.get(kernel.id, ""))
            detail = " · ".join(filter(None, parts))
            yield Match("kernel", kernel.name, detail, place, _rank(kernel.name, words))


KERNELS_AT_ONCE = 64
"""Number of kernels whose lines are read in one query, which takes 3 ms; that of one takes 0.6."""


def _lines_of_kernels(reader: SessionReader, kernels: Iterable[int]) -> dict[int, str]:
    """Return kernel → ``model.py:12``, the user's line of most of its operations."""
    paths = source_paths(reader)
    most: dict[int, int] = {}
    lines: dict[int, str] = {}
    for page in sorted({kernel // KERNELS_AT_ONCE for kernel in kernels}):
        first = page * KERNELS_AT_ONCE
        ids = range(first, first + KERNELS_AT_ONCE)
        for kernel, file, line, count in operations_by_line(reader, ids):
            if file in paths and count > most.get(kernel, 0):
                most[kernel] = count
                lines[kernel] = in_file(paths[file], line)
    return lines


def _nodes(reader: SessionReader, words: list[str], limit: int) -> Iterator[Match]:
    """Yield the nodes that contain the words, those whose names begin with them first."""
    ids = []
    if len(words) == 1:
        ids += nodes_beginning(reader, words[0], limit)
    ids += nodes_containing(reader, words, limit)
    paths = source_paths(reader)
    for node, document in _in_graphs(reader, ids):
        detail = f"{_where(node, document, paths)} · {node.target}"
        place = Place(document, node.position)
        yield Match("node", node.name, detail, place, _rank(node.name, words))


def _nodes_taking(reader: SessionReader, words: list[str], limit: int) -> Iterator[Match]:
    """Yield the nodes that contain the words only with their arguments, in order."""
    paths = source_paths(reader)
    for node, document in _in_graphs(reader, nodes_taking(reader, words, limit)):
        detail = f"{_where(node, document, paths)} · {node.target}({node.arguments})"
        yield Match("node", node.name, detail, Place(document, node.position), IN_ARGUMENTS)


def _where(node: model.Node, document: Document, paths: Mapping[int, str]) -> str:
    """Return ``[0/0] Joint graph · model.py:12 · f32[4, 8]``."""
    parts = [document.full_title]
    if node.file in paths:
        parts.append(in_file(paths[node.file], node.line))
    parts.append(value_text(node))
    return " · ".join(filter(None, parts))


def _in_graphs(reader: SessionReader, ids: Iterable[int]) -> Iterator[tuple[model.Node, Document]]:
    """Yield nodes with their graphs, in the order of the ids of the nodes."""
    nodes = sorted(reader.by_ids(model.Node, dict.fromkeys(ids)), key=lambda node: node.id)
    graphs = {node.graph for node in nodes}
    documents = {graph: document_of(reader, "graph", graph) for graph in graphs}
    for node in nodes:
        yield node, documents[node.graph]


def _lines(
    reader: SessionReader, words: list[str], documents: Iterable[Document]
) -> Iterator[Match]:
    for document in documents:
        for number, line in enumerate(lines_of(reader, document)):
            if _contains((line,), words):
                where = f"{document.title}:{number + 1}"
                yield Match("line", line.strip(), where, Place(document, number), 2)
