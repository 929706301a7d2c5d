"""This module has the presets, which define the documents that the linked panes show, for one
compilation or for a stage of it.

A *slot* is what a pane is for. A pane in a slot follows the selection: select a node of another
file, direction or kernel, and the pane turns to it. A pane the user gave a document of their own
has no slot and stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.documents import ARTIFACT_TITLES, Document, place_of_path
from fx_explorer.analysis.published import PROGRAM
from fx_explorer.analysis.stage_data import Fate, StagePoint
from fx_explorer.model import LEVELS
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.nodes import first_operation

Slot = (
    Literal[
        "",
        "source",
        "graph",
        "neighbourhood",
        "kernel",
        "dynamo",
        "forward",
        "backward",
        "joint",
        "bytecode_original",
        "bytecode_modified",
    ]
    | model.FrontEndName
    | model.Level
)

PRESETS: dict[str, tuple[Slot, ...]] = {
    "source": ("source", "graph", "kernel"),
    "backward": ("forward", "backward"),
    "neighbourhood": ("neighbourhood", "source", "kernel"),
    "joint": ("joint", "forward", "backward"),
    "front_ends": ("source", "dynamo", *model.FRONT_ENDS),
    "bytecode": ("source", "bytecode_original", "bytecode_modified"),
    "below": ("source", "graph", "kernel", "ttgir", "ptx", "sass"),
    "below_amd": ("source", "graph", "kernel", "ttgir", "llir", "amdgcn"),
}

MISSING: dict[Slot, str] = {
    "source": "The text of the source file was not kept, or this compilation has no file.",
    "graph": "No graph was recorded for this compilation yet.",
    "neighbourhood": "No graph was recorded for this compilation yet.",
    "kernel": (
        "No generated code was recorded for this compilation, and its backend published no program."
    ),
    "dynamo": "Dynamo's graph was not recorded for this compilation yet.",
    "forward": "No forward graph was recorded for this compilation.",
    "backward": "There is no backward graph: this is inference, or the backward was never "
    "compiled.",
    "joint": (
        "There is no joint graph: only training has one, when AOTAutograd is part of the backend."
    ),
    "bytecode_original": "No bytecode was recorded for this compilation yet.",
    "bytecode_modified": "Dynamo made no bytecode for this compilation: it has not finished, or "
    "gave up.",
    "": "Nothing is shown here.",
    **{
        name: f"This front end was not run. Capture with --frontend {name}, or --frontend all."
        for name in model.FRONT_ENDS
    },
    **dict.fromkeys(model.LEVELS, "No level below the kernel is shown yet."),
}
"""Text of an empty pane, by its slot."""

OF_GRAPH_SLOTS: tuple[Slot, ...] = ("graph", "neighbourhood")
"""Slots that show the graph of the selection: its rows, or the nodes around one."""

_GRAPH_STAGES: tuple[model.Stage, ...] = (
    "post_grad",
    "forward",
    "backward",
    "joint",
    "pre_grad",
    "dynamo",
)
"""Stages of a graph, the one nearest to the kernels first."""


@dataclass(frozen=True, slots=True)
class ShowableDocuments:
    """The documents that the panes can choose from, for one compilation."""

    sources: Sequence[Document]
    """Source files; the compilation's own comes first."""
    documents: Sequence[Document]
    """Graphs and texts of the compilation, in stage order."""
    compilation: int = 0
    """The id of the compilation."""
    front_ends: Sequence[Document] = ()
    """The graphs of other front ends, which belong to no compilation."""


def document_for(
    slot: Slot, showable: ShowableDocuments, direction: model.Direction = ""
) -> Document | None:
    """Return the document that a pane in ``slot`` shows first; ``direction`` is that of the
    selection, empty without one.
    """
    if slot == "source":
        return next(iter(showable.sources), None)
    if slot == "kernel":
        return _kernel(showable.documents, direction) or program(showable.documents, direction)
    if slot == "joint":
        return next(_graphs(showable.documents, ("joint",)), None)
    if slot == "backward":
        return next(_graphs(showable.documents, _GRAPH_STAGES, ("backward",)), None)
    if slot == "forward":
        return next(_graphs(showable.documents, _GRAPH_STAGES, ("forward", "inference")), None)
    if slot == "dynamo":
        return next(_graphs(showable.documents, ("dynamo",)), None)
    if slot in model.FRONT_ENDS:
        title = model.FRONT_END_CALLS[slot]
        return next((graph for graph in showable.front_ends if graph.title == title), None)
    if slot in OF_GRAPH_SLOTS:
        return _graph(showable.documents, direction)
    if slot in ("bytecode_original", "bytecode_modified"):
        return next((d for d in showable.documents if bytecode_slot(d) == slot), None)
    return None


def asked_slots(name: str, asked: Collection[str]) -> tuple[Slot, ...]:
    """Return the slots of a preset. Slots of front ends that were not asked for are left out when
    others were.
    """
    return tuple(
        slot for slot in PRESETS[name] if slot not in model.FRONT_ENDS or not asked or slot in asked
    )


def fits(slot: Slot, document: Document) -> bool:
    """Return whether a pane in this slot shows documents of this kind."""
    of_document = slot_of(document)
    return bool(slot) and (
        slot == of_document or (of_document == "graph" and slot in OF_GRAPH_SLOTS)
    )


def slot_of(document: Document) -> Slot:
    """Return the slot of a document, in the preset source | graph | kernel or the one with
    bytecode.
    """
    if document.kind == "source":
        return "source"
    if document.stage == "front_end":
        return front_end_slot(document)
    if document.kind == "graph":
        return "graph"
    if level := next(
        (level for level in LEVELS if document.is_level and level == document.language), None
    ):
        return level
    is_code = document.stage in ("kernel", "output_code") or (document.kind, document.stage) == (
        "artifact",
        "backend",
    )
    return "kernel" if is_code else bytecode_slot(document)


def front_end_slot(document: Document) -> Slot:
    """Return the slot of a front end's graph; empty for a graph nested in it."""
    return next(
        (name for name in model.FRONT_ENDS if model.FRONT_END_CALLS[name] == document.title), ""
    )


def bytecode_slot(document: Document) -> Slot:
    """Return which of the bytecode slots this document is for; empty when it is no bytecode."""
    if document.language != "bytecode" or document.stage == "backend":
        return ""
    if document.title == ARTIFACT_TITLES["bytecode_modified"]:
        return "bytecode_modified"
    return "bytecode_original"


def _graph(documents: Sequence[Document], direction: model.Direction) -> Document | None:
    preferred = (direction,) if direction else ("forward", "inference")
    wanted = next(_graphs(documents, _GRAPH_STAGES, preferred), None)
    return wanted or next(_graphs(documents, _GRAPH_STAGES), None)


def _graphs(
    documents: Iterable[Document], stages: Sequence[model.Stage], directions: Sequence[str] = ()
) -> Iterator[Document]:
    graphs = [d for d in documents if d.kind == "graph" and d.stage in stages and d.line_count]
    if directions:
        graphs = [d for d in graphs if d.direction in directions]
    # sorted() is stable, so a graph comes before the subgraphs nested in it.
    return iter(sorted(graphs, key=lambda d: stages.index(d.stage)))


def program(documents: Sequence[Document], direction: model.Direction = "") -> Document | None:
    """Return the program that a user's backend has published in place of kernels: the text of that
    name, else its last text, in this direction if possible.
    """
    texts = [d for d in documents if d.kind == "artifact" and d.stage == "backend"]
    preferred = (direction,) if direction else ("forward", "inference", "")
    wanted = [d for d in texts if d.direction in preferred] or texts
    named = [d for d in wanted if d.title.partition(" · ")[0] == PROGRAM]
    return next(reversed(named or wanted), None)


def _kernel(documents: Sequence[Document], direction: model.Direction) -> Document | None:
    preferred = (direction,) if direction else ("forward", "inference", "backward", "")
    for stage in ("kernel", "output_code"):
        for wanted in preferred:
            for document in documents:
                if (
                    document.kind == "artifact"
                    and document.stage == stage
                    and document.direction == wanted
                ):
                    return document
    return None


AS_BEFORE: frozenset[Fate] = frozenset(("kept", "forward", "view"))
"""Fates of operations that a stage did not change. The cursor begins at the first operation with
another fate.
"""


def stage_sources(reader: SessionReader, point: StagePoint) -> tuple[Document, ...]:
    """Return the documents shown as the source of a stage without a graph before it: the source
    file that Dynamo read.
    """
    if point.before:
        return ()
    variant = reader.get(model.Compilation, point.compilation)
    place = place_of_path(reader, variant.file, variant.line)
    return (place.document,) if place else ()


def shown_parts(point: StagePoint) -> list[Document]:
    """Return the documents of the whole graph before and after: one each, except that the partition
    makes two.
    """
    after = {
        (document.kind, document.stage, document.direction): document
        for document in reversed(point.after)
    }
    return [*point.before[:1], *reversed(after.values())]


def first_marked(reader: SessionReader, graph: Document, fates: Mapping[int, Fate]) -> int:
    """Return the row of the first operation that changed; of the first one if none did."""
    first = reader.get(model.Graph, graph.id).first_node
    rows = range(first, first + graph.line_count)
    marked = next(
        (node - first for node in rows if node in fates and fates[node] not in AS_BEFORE), None
    )
    if marked is None:
        return first_operation(reader, graph.id)
    return marked
