"""The stages that backends have published, in the order of publishing, as documents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.documents import Document, artifact_document, graph_document
from fx_explorer.analysis.words import counted
from fx_explorer.session import SessionReader

PROGRAM = "program"
"""The stage whose lines are what runs."""


@dataclass(frozen=True, slots=True)
class ShownStage:
    stage: model.PublishedStage
    backend: str
    document: Document

    @property
    def size(self) -> str:
        """Return ``14 lines`` or ``8 nodes``."""
        return counted(
            self.document.line_count, "node" if self.document.kind == "graph" else "line"
        )


def published_stages(reader: SessionReader) -> list[ShownStage]:
    """Return the stages of every compilation, those of one after the other."""
    rows = reader.rows(model.PublishedStage)
    if not rows:
        return []
    compilations = {row.id: row for row in reader.rows(model.Compilation)}
    graphs = {
        row.id: row for row in reader.by_ids(model.Graph, {one.graph for one in rows if one.graph})
    }
    texts = {
        row.id: row
        for row in reader.by_ids(model.Artifact, {one.artifact for one in rows if one.artifact})
    }
    found = []
    for one in sorted(rows, key=lambda one: (one.compilation, one.position)):
        of = compilations.get(one.compilation)
        owner = of.name if of else ""
        if one.graph in graphs:
            document = graph_document(graphs[one.graph], owner)
        elif one.artifact in texts:
            document = artifact_document(texts[one.artifact], owner)
        else:  # a damaged session
            continue
        found.append(ShownStage(one, of.backend if of else "", document))
    return found


def stage_names(stages: Iterable[ShownStage]) -> list[str]:
    """Return the names of the stages, each once, in the order in which they were first published."""
    return list(dict.fromkeys(one.stage.name for one in stages))
