"""The texts of the page's linked view: the user's source, the graphs as Python, and the generated
code, with the lines that belong together, as the app's linked panes have them.
"""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

from fx_explorer import highlight, model
from fx_explorer.analysis.documents import (
    Document,
    Place,
    documents_of,
    lines_of,
    read_sources,
)
from fx_explorer.analysis.graph_texts import graph_text
from fx_explorer.analysis.lineage import variants_in_use
from fx_explorer.analysis.link_tables import links_for_all_places
from fx_explorer.analysis.linked_lines import Selection
from fx_explorer.instruments.kernels.costs import kernel_costs, source_heat
from fx_explorer.overview.own_file import line_events, own_place
from fx_explorer.report.page.level_texts import levels_of_kernels
from fx_explorer.session import SessionReader

Pane = Literal["source", "graph", "kernel", "level"]

GRAPH_STAGES: tuple[model.Stage, ...] = ("dynamo", "forward", "backward", "post_grad", "backend")
"""Stages whose graphs the page has. A joint graph is the forward and the backward once more."""

CODE_STAGES: tuple[model.Stage, ...] = ("kernel", "output_code", "backend")

MOST_LINES = 150_000
"""Maximum number of lines of all texts; later texts are left out, and the page says how many."""

LEAST_SHARE = 0.005
"""The time is shown beside a line from this fraction of the kernels' time on."""

Ranges = tuple[tuple[int, int], ...]
"""First and last line (from 0) of each run of linked lines."""


@dataclass(slots=True)
class LinkedText:
    """A text of the linked view."""

    document: Document
    pane: Pane
    title: str
    lines: list[str]
    """The lines as HTML, coloured and escaped."""
    weight: float = 0.0
    """Fraction of all kernels' time that its kernel takes; 0 if it is not known."""
    marks: dict[int, str] = field(default_factory=dict)
    """Line (from 0) → its share of the kernels' time, in words."""
    events: dict[int, str] = field(default_factory=dict)
    """Line (from 0) → graph breaks and recompiles at it."""
    line_of_row: Mapping[int, int] = field(default_factory=dict)
    """Of a graph: row → line of the text."""
    row_of_line: Mapping[int, int] = field(default_factory=dict)
    kernel: int = -1
    """Of a level below a kernel: the number of the kernel's text."""
    sources: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Of such a level: line → lines of the kernel's text, all from 0. What else they are linked to
    follows from that.
    """


@dataclass(frozen=True, slots=True)
class LinkedTexts:
    """All texts, the links between their lines, and the line to begin with."""

    texts: Sequence[LinkedText]
    links: Sequence[Sequence[int]]
    """For each text and line: the number of its links in ``linked``; -1 for none."""
    linked: Sequence[Mapping[int, Ranges]]
    """Distinct links: number of a text → the lines of it."""
    start: tuple[int, int] | None
    """(number of a text, line from 0) to begin with; None where there is no source."""
    left_out: int
    """Number of texts for which there was no room."""


def linked_texts(reader: SessionReader) -> LinkedTexts:
    """Return the texts of a session with their links."""
    chosen, left_out = _chosen(reader)
    texts = [_text(reader, document) for document in chosen]
    _add_costs(reader, texts)
    links, linked = _links(reader, texts)
    start = _start(reader, texts, links)
    levels, without_room = _levels(reader, texts)
    texts += levels
    links += [[-1] * len(text.lines) for text in levels]
    return LinkedTexts(texts, links, linked, start, left_out + without_room)


def _chosen(reader: SessionReader) -> tuple[list[Document], int]:
    """Return the documents that the page has, and how many there was no room for."""
    documents = read_sources(reader)
    for compilation in variants_in_use(reader):
        documents += [row for row in documents_of(reader, compilation) if _pane_of(row)]
    chosen = []
    lines = 0
    for document in documents:
        lines += document.line_count
        if lines > MOST_LINES:
            break
        chosen.append(document)
    return chosen, len(documents) - len(chosen)


def _levels(reader: SessionReader, texts: Sequence[LinkedText]) -> tuple[list[LinkedText], int]:
    """Return the texts below the kernels, and how many there was no room for."""
    number_of = {text.document: number for number, text in enumerate(texts)}
    kernels = [text.document for text in texts if text.pane == "kernel"]
    room = MOST_LINES - sum(len(text.lines) for text in texts)
    levels: list[LinkedText] = []
    left_out = 0
    for level in levels_of_kernels(reader, kernels):
        room -= level.document.line_count
        if room < 0:
            left_out += 1
            continue
        number = number_of[level.kernel]
        text = _text(reader, level.document, "level")
        text.kernel, text.sources, text.weight = number, level.sources, texts[number].weight
        levels.append(text)
    return levels, left_out


def _pane_of(document: Document) -> Pane | None:
    if document.kind == "source":
        return "source"
    if document.kind == "graph":
        return "graph" if document.stage in GRAPH_STAGES and document.line_count else None
    if document.stage not in CODE_STAGES or document.language == "json":
        return None  # a table of torch's is no code
    return "kernel"


def _text(reader: SessionReader, document: Document, below: Pane | None = None) -> LinkedText:
    """Return the text of a document; ``below`` is its pane where that is not by its stage."""
    pane = below or _pane_of(document) or "kernel"
    title = document.full_title
    if document.kind != "graph":
        text = "\n".join(lines_of(reader, document))
        return LinkedText(document, pane, title, coloured(text, document.language))
    graph = reader.get(model.Graph, document.id)
    code = graph_text(reader, "code", document.id)
    line_of_row = {node - graph.first_node: line for node, line in code.line_of_node.items()}
    row_of_line = {line: node - graph.first_node for line, node in code.node_of_line.items()}
    lines = coloured(code.text, "python")
    return LinkedText(
        document, pane, title, lines, line_of_row=line_of_row, row_of_line=row_of_line
    )


def coloured(text: str, language: str) -> list[str]:
    """Return the lines of a text as HTML: each token in an element of its kind, all escaped."""
    return [_coloured_line(line) for line in highlight.lines(text, language)]


def _coloured_line(line: highlight.Line) -> str:
    parts = []
    for text, kind in line:
        escaped = html.escape(text)
        parts.append(escaped if kind == "text" else f'<i class="{kind}">{escaped}</i>')
    return "".join(parts)


def _add_costs(reader: SessionReader, texts: Iterable[LinkedText]) -> None:
    """Add what the kernels cost to the texts, and what happened at lines of the source."""
    times: defaultdict[int, float] = defaultdict(float)
    for cost in kernel_costs(reader):
        times[cost.use.kernel.artifact] += cost.time_s
    total = sum(times.values())
    heat = source_heat(reader)
    for text in texts:
        if text.pane == "kernel" and total:
            text.weight = times[text.document.id] / total
        elif text.pane == "source":
            for line, line_heat in heat.files.get(text.document.id, {}).items():
                if line_heat.share >= LEAST_SHARE:
                    text.marks[line] = f"{line_heat.share:.0%}"
            for line, events in line_events(reader, text.document).items():
                text.events[line] = "\n".join(event.text for event in events)


def _start(
    reader: SessionReader, texts: Sequence[LinkedText], links: Sequence[Sequence[int]]
) -> tuple[int, int] | None:
    """Return the most interesting line of the user's own file; without one, the most expensive or
    the first linked line of the source with most of them.
    """
    heat = source_heat(reader)
    own = own_place(reader, heat)
    most_linked, start = -1, None
    for number, text in enumerate(texts):
        if own and text.document == own.place.document:
            return number, own.place.line
        linked = [line for line, answer in enumerate(links[number]) if answer >= 0]
        if text.pane == "source" and len(linked) > most_linked:
            shares = heat.files.get(text.document.id, {})
            costly = max(shares, key=lambda line: shares[line].share, default=None)
            most_linked = len(linked)
            start = number, costly if costly is not None else (linked or [0])[0]
    return start


# links


def _links(
    reader: SessionReader, texts: Sequence[LinkedText]
) -> tuple[list[list[int]], list[Mapping[int, Ranges]]]:
    """Return the links of all lines, each distinct answer once."""
    answers = _Answers(reader, texts)
    links = []
    with reader.snapshot():
        for text in texts:
            of_lines = [-1] * len(text.lines)
            for line, row in _linked_rows(text):
                of_lines[line] = answers.of(Place(text.document, row))
            links.append(of_lines)
    return links, answers.distinct


class _Answers:
    """The linked lines of places. Lines with the same nodes, as most of a kernel's have, are
    answered once.
    """

    def __init__(self, reader: SessionReader, texts: Sequence[LinkedText]) -> None:
        self._reader = reader
        self._texts = texts
        self._links = links_for_all_places(reader)
        self._by_nodes: dict[tuple[object, ...], int] = {}
        self._by_lines: dict[tuple[tuple[int, Ranges], ...], int] = {}
        self.distinct: list[Mapping[int, Ranges]] = []

    def of(self, place: Place) -> int:
        """Return the number of the answer for a place in ``distinct``; -1 where nothing is
        linked.
        """
        selection = Selection(self._reader, place, self._links)
        if selection.own_lines:
            return self._number(_linked_lines(selection, self._texts))
        if not selection.nodes:
            return -1
        document = place.document
        key = (document.kind == "source", document.direction, *sorted(selection.nodes))
        if key not in self._by_nodes:
            self._by_nodes[key] = self._number(_linked_lines(selection, self._texts))
        return self._by_nodes[key]

    def _number(self, answer: Mapping[int, Ranges]) -> int:
        if not answer:
            return -1
        key = tuple(answer.items())
        if key not in self._by_lines:
            self._by_lines[key] = len(self.distinct)
            self.distinct.append(answer)
        return self._by_lines[key]


def _linked_rows(text: LinkedText) -> Iterator[tuple[int, int]]:
    """Yield (line, line of the document) where there may be links."""
    if text.pane == "graph":
        yield from text.row_of_line.items()
    else:
        yield from ((line, line) for line in range(len(text.lines)))


def _linked_lines(selection: Selection, texts: Sequence[LinkedText]) -> dict[int, Ranges]:
    """Return the linked lines of each text that has some."""
    answer = {}
    for number, text in enumerate(texts):
        document = text.document
        if document.stage == "kernel" and document.id not in selection.kernel_texts:
            continue
        rows = selection.other_lines_in(document)
        if text.pane == "graph":
            lines = {text.line_of_row[row] for row in rows if row in text.line_of_row}
        else:
            lines = {row for row in rows if row < len(text.lines)}
        if lines:
            answer[number] = _ranges(lines)
    return answer


def _ranges(lines: Iterable[int]) -> Ranges:
    """Return runs of lines that follow each other."""
    ranges = []
    for _, run in groupby(enumerate(sorted(lines)), lambda pair: pair[1] - pair[0]):
        numbers = [line for _, line in run]
        ranges.append((numbers[0], numbers[-1]))
    return tuple(ranges)
