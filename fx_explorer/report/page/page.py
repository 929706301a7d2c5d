"""This module writes a session as one HTML file: the answer, the findings and the figures, the
linked view, and every view with rows. No request leaves the page, and nothing in it runs but its
own script (a Content-Security-Policy with the hash of each).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from fx_explorer.analysis.documents import Place, is_of_graph
from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.whole_session import is_log
from fx_explorer.findings.every_kind import findings, search
from fx_explorer.findings.finding import Finding
from fx_explorer.highlight import printable
from fx_explorer.overview.figures_row import FigureInRow, figures_row
from fx_explorer.overview.overview import overview
from fx_explorer.report.heading import answer, target_name, versions
from fx_explorer.report.page.drawn_graphs import DrawnGraphs, drawn_graphs
from fx_explorer.report.page.level_texts import SHOWN_LEVELS
from fx_explorer.report.page.linked_texts import LinkedText, LinkedTexts, linked_texts
from fx_explorer.report.page.pictures import Pictures, pictures
from fx_explorer.report.page.template import policy, resource, template
from fx_explorer.report.sections import ReportSection, sections
from fx_explorer.session import SessionReader
from fx_explorer.session.in_page import compressed


@dataclass(frozen=True, slots=True)
class _Page:
    """What the template is filled with."""

    target: str
    environment: str
    answer: str
    findings: list[Finding]
    facts: list[Fact]
    looked_for: str
    figures: list[FigureInRow]
    sections: list[ReportSection]
    pictures: Pictures
    panes: Mapping[str, str]
    left_out: int
    has_texts: bool
    has_backward: bool
    """Whether there is a backward graph, to be shown beside its forward graph."""
    without_levels: bool
    """Whether there are Triton kernels, and none of them is compiled further."""
    drawn: DrawnGraphs
    is_log: bool


ROWS_AT_FIRST = 100
"""Number of rows of a table that are shown before the others are asked for: laying out 500 takes a
quarter of a second.
"""

SCRIPTS = (
    "page.js",
    "linked_pane.js",
    "turned_panes.js",
    "linked_view.js",
    "graph_parts.js",
    "graph_view.js",
    "pictures.js",
    "tables.js",
    "keys.js",
    "start.js",
)
"""The scripts of the page in their order; it has them as one."""

PANES = {
    "source": "Source",
    "graph": "Graph",
    "kernel": "Generated code",
}
"""Pane → its title; that of the texts below a kernel names the levels that are there."""


def html_page(reader: SessionReader, session: bytes) -> str:
    """Return the page of a session; ``session`` is the file itself, which the page carries."""
    with reader.snapshot():
        texts = linked_texts(reader)
        drawn = drawn_graphs(reader, texts.texts)
        page = _page(reader, texts, drawn)
    place_link = partial(_place_link, _numbers(texts), texts)
    details = _Details()
    whole = template("page.html", place_link=place_link)
    style, script = resource("page.css"), "\n".join(map(resource, SCRIPTS))
    return whole.render(
        page=page,
        detail_number=details.number,
        packed_details=details.packed,
        rows_at_first=ROWS_AT_FIRST,
        style=style,
        script=script,
        policy=policy(style, script),
        data=_packed(_data(texts)),
        lines=[_packed(text.lines) for text in texts.texts],
        links=_packed({"links": texts.links, "linked": texts.linked}),
        drawn=_packed(drawn.data),
        pictures=_packed(page.pictures.drawn),
        session=compressed(session),
        session_name=f"{_file_stem(page.target)}.fxs",
    )


def _page(reader: SessionReader, texts: LinkedTexts, drawn: DrawnGraphs) -> _Page:
    every_finding = findings(reader)
    facts = overview(reader)
    every_section = list(sections(reader))
    with_texts = {text.pane for text in texts.texts}
    return _Page(
        target=target_name(reader),
        environment=versions(reader),
        answer=answer(every_finding, facts),
        findings=every_finding,
        facts=[fact for fact in facts if fact.topic != "next"],
        looked_for=search(reader).description,
        figures=figures_row(reader),
        sections=every_section,
        pictures=pictures(every_section),
        panes=_panes(texts),
        left_out=texts.left_out,
        has_texts=bool(texts.texts),
        has_backward=any(_is_backward(text) for text in texts.texts) and "kernel" in with_texts,
        without_levels=_without_levels(texts),
        drawn=drawn,
        is_log=is_log(reader),
    )


def _panes(texts: LinkedTexts) -> dict[str, str]:
    """Return the panes that have texts, with their titles."""
    with_texts = {text.pane for text in texts.texts}
    panes: dict[str, str] = {name: title for name, title in PANES.items() if name in with_texts}
    if "level" in with_texts:
        below = {text.document.language for text in texts.texts if text.pane == "level"}
        panes["level"] = ", ".join(level.upper() for level in SHOWN_LEVELS if level in below)
    return panes


def _is_backward(text: LinkedText) -> bool:
    return text.pane == "graph" and text.document.direction == "backward"


class _Details:
    """What rows say of themselves when they are asked: apart from the page, which has thousands."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def packed(self) -> str:
        return _packed(list(self._numbers))


def _without_levels(texts: LinkedTexts) -> bool:
    is_triton = any(text.document.language == "triton" for text in texts.texts)
    return is_triton and not any(text.pane == "level" for text in texts.texts)


def _packed(data: object) -> str:
    return compressed(json.dumps(data, separators=(",", ":")).encode())


def _file_stem(target: str) -> str:
    name = target.replace("\\", "/").rpartition("/")[2].partition(":")[0]
    return name.removesuffix(".py") or "session"


# the linked view


def _data(texts: LinkedTexts) -> dict[str, object]:
    """Return what the script of the page reads first: all of the texts but their lines, each of
    which is read when it is shown.
    """
    return {
        "texts": [
            {
                "pane": text.pane,
                "title": printable(text.title),
                "compilation": text.document.compilation,
                "stage": text.document.stage,
                "direction": text.document.direction,
                "count": len(text.lines),
                "weight": round(text.weight, 4),
                "marks": text.marks,
                "events": text.events,
                **({"kernel": text.kernel, "sources": text.sources} if text.sources else {}),
            }
            for text in texts.texts
        ],
        "start": texts.start,
    }


def _numbers(texts: LinkedTexts) -> dict[tuple[str, int], int]:
    """Return (kind, id) of a document → number of its text."""
    numbers: dict[tuple[str, int], int] = {}
    for number, text in enumerate(texts.texts):
        kind = "graph" if text.pane == "graph" else text.document.kind
        numbers[kind, text.document.id] = number
    return numbers


@dataclass(frozen=True, slots=True)
class _Link:
    """A link to a line of the linked view."""

    label: str
    text: int
    """Number of the text; -1 where the page does not have it."""
    line: int


def _place_link(numbers: Mapping[tuple[str, int], int], texts: LinkedTexts, place: Place) -> _Link:
    document = place.document
    is_graph = is_of_graph(document.kind)
    number = numbers.get(("graph" if is_graph else document.kind, document.id), -1)
    line = place.line
    if number >= 0 and document.kind == "graph":
        line = texts.texts[number].line_of_row.get(line, 0)
    return _Link(f"{document.title}:{place.line + 1}", number, line)
