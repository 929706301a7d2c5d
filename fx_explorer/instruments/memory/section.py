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
            one,
            decided.get((one.saved.compilation, one.saved.name)),
            names.get(one.saved.id, one.saved.name),
        )
        for one in values
    ]


def _saved_tensor(one: SavedValue, choice: model.PartitionChoice | None, name: str) -> Json:
    """Return one value that the forward saves. A size that is a symbol stays text."""
    saved = one.saved
    return {
        "compilation": one.compilation,
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
        "producer": one.producer or None,
        "file": one.file or None,
        "line": one.line or None,
        "consumers": list(one.consumers),
    }
