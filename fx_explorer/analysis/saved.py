"""What the forward keeps for the backward: size, where it was computed, and what needs it."""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.breaks import compilation_names
from fx_explorer.analysis.documents import Place, place_of_node
from fx_explorer.analysis.ways import in_use
from fx_explorer.session import SessionReader


@dataclass(frozen=True, slots=True)
class SavedValue:
    """One saved tensor with what is known about its two ends."""

    saved: model.SavedTensor
    compilation: str
    producer: str
    """Target of the operation that made it; empty for inputs."""
    place: Place | None
    """The node of the forward graph."""
    file: str
    line: int
    consumers: tuple[str, ...]
    """Names of the backward nodes that take it."""


def saved_values(reader: SessionReader) -> list[SavedValue]:
    """Of the ways in use, biggest first; sizes that are not known come last."""
    names = compilation_names(reader)
    paths = dict(reader.query("SELECT id, path FROM source_file"))
    rows = sorted(_rows(reader), key=lambda row: -row.size_bytes)
    producers = {node.id: node for node in reader.by_ids(model.Node, (row.producer for row in rows))}
    return [_value(reader, row, producers.get(row.producer), names, paths) for row in rows]


def _rows(reader: SessionReader) -> list[model.SavedTensor]:
    used = in_use(reader)
    return [row for row in reader.rows(model.SavedTensor) if used is None or row.compilation in used.saving]


def _value(
    reader: SessionReader, row: model.SavedTensor, producer: model.Node | None, names: dict[int, str], paths: dict[int, str]
) -> SavedValue:
    consumers = reader.by_ids(model.Node, reader.users(row.consumer)) if row.consumer else []
    return SavedValue(
        saved=row,
        compilation=names.get(row.compilation, ""),
        producer=producer.target if producer and producer.op != "placeholder" else "",
        place=place_of_node(reader, producer) if producer else None,
        file=paths.get(producer.file, "") if producer else "",
        line=producer.line if producer else 0,
        consumers=tuple(node.name for node in consumers),
    )


@dataclass(frozen=True, slots=True)
class SavedTotal:
    count: int
    size_bytes: int
    """Of those whose size is known."""
    unknown_sizes: int


def saved_total(reader: SessionReader, *, kind: str | None = None) -> SavedTotal:
    """All saved tensors, or those of one kind (``activation``, ``parameter`` …)."""
    rows = [row for row in _rows(reader) if kind in (None, row.kind)]
    return SavedTotal(len(rows), sum(row.size_bytes for row in rows), sum(not row.size_bytes for row in rows))
