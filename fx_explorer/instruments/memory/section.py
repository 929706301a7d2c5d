"""What the forward saves for the backward, in the JSON report, with the reason of the partitioner."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.instruments.memory.choices import choices, why
from fx_explorer.instruments.memory.saved_values import (
    SavedValue,
    kept_bytes,
    saved_values,
    user_names,
)
from fx_explorer.session import SessionReader

Json = dict[str, object]


def saved_tensors(reader: SessionReader) -> list[Json]:
    """Return each value that a forward saves, with what the partitioner decided on."""
    decided, values = choices(reader), saved_values(reader)
    names = user_names(reader, values)
    return [
        _saved_tensor(
            value,
            decided.get((value.saved.compilation, value.saved.name)),
            names.get(value.saved.id, value.saved.name),
        )
        for value in values
    ]


def _saved_tensor(value: SavedValue, choice: model.PartitionChoice | None, name: str) -> Json:
    """Return one value that the forward saves. A size that is a symbol stays text."""
    saved = value.saved
    return {
        "compilation": value.compilation,
        "name": saved.name,
        "user_name": name,
        "kind": saved.kind,
        "shape": [int(dim) if dim.isdecimal() else dim for dim in saved.shape],
        "dtype": saved.dtype,
        "bytes": saved.size_bytes,
        "storage": saved.storage or None,
        "storage_bytes": kept_bytes(saved),
        "why": why(choice) if choice else None,
        "weight": choice.weight if choice and choice.weight >= 0 else None,
        "producer": value.producer or None,
        "file": value.file or None,
        "line": value.line or None,
        "consumers": list(value.consumers),
    }
