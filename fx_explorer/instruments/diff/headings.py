"""What the two sides of a comparison are called: by what makes them differ, which is what one wants
to know of each column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fx_explorer import model
from fx_explorer.analysis.lineage import root_name
from fx_explorer.analysis.naming import plain_function
from fx_explorer.model.setting_values import as_python, python_text
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import file_name


def original_first(
    left: model.Compilation, right: model.Compilation
) -> tuple[model.Compilation, model.Compilation]:
    """Return both with the earlier one first, which the later one set out from or was compiled
    beside.
    """
    return (left, right) if left.id <= right.id else (right, left)


def headings(
    reader: SessionReader,
    left: model.Compilation,
    right: model.Compilation,
    left_had: Mapping[str, object] | None = None,
) -> tuple[str, str, str]:
    """Return what stands above the names of the figures, and above each side: of each what the
    other side does not have. What both were given is left out.

    Where one option differs, its name is told once: ``max_fusion_size``, ``original: 64`` and
    ``variant 1: 8``. Else ``original`` and ``variant 1: mode = "lite", region "mlp"``. ``left_had``
    are options that were set by hand while the left one was compiled: no row of it tells.
    """
    sides = (left, right)
    changes = [model.Changes.from_json(side.changes or {}) for side in sides]
    changes[0] = replace(changes[0], settings={**(left_had or {}), **changes[0].settings})
    names = list(dict.fromkeys([*changes[0].settings, *changes[1].settings]))
    given = [
        [_given(reader, side, changed, name) for name in names]
        for side, changed in zip(sides, changes, strict=True)
    ]
    differing = [i for i in range(len(names)) if given[0][i] != given[1][i]]
    options = [[(_short(names[i]), values[i]) for i in differing] for values in given]
    if left.backend != right.backend and "compile.backend" not in names:
        options = [
            [*one, ("backend", python_text(side.backend))]
            for one, side in zip(options, sides, strict=True)
        ]
    edits = [
        _edits(changed, other) + _alone(reader, side)
        for side, changed, other in zip(sides, changes, reversed(changes), strict=True)
    ]
    if len(options[0]) == 1 and not any(edits):
        (name, value), (_, other_value) = options[0][0], options[1][0]
        return name, f"{_who(left, right)}: {value}", f"{_who(right, left)}: {other_value}"
    parts = [
        [*(f"{name} = {value}" for name, value in one), *more]
        for one, more in zip(options, edits, strict=True)
    ]
    return "", _heading(left, right, parts[0]), _heading(right, left, parts[1])


def variant_name(variant: model.Compilation) -> str:
    """Return ``original`` or ``variant 2``."""
    number = variant.name.rpartition("~")[2]
    return f"variant {number}" if variant.variant_of else "original"


def _heading(side: model.Compilation, other: model.Compilation, parts: Sequence[str]) -> str:
    if not parts and side.variant_from and _are_variants(side, other):
        parts = [f"compiled again from {model.GATE_WORDS[side.variant_from]}"]
    return f"{_who(side, other)}: {', '.join(parts)}" if parts else _who(side, other)


def _who(side: model.Compilation, other: model.Compilation) -> str:
    """Return ``variant 1``; for another compilation its function, or which version it is."""
    if _are_variants(side, other):
        return variant_name(side)
    if side.function != other.function:
        return f"[{side.name}] {plain_function(side.function)}"
    return f"[{side.name}] {f'recompile {side.recompile}' if side.recompile else 'first version'}"


def _are_variants(side: model.Compilation, other: model.Compilation) -> bool:
    return root_name(side.name) == root_name(other.name)


def _short(name: str) -> str:
    """Return ``max_fusion_size`` for ``inductor.max_fusion_size``."""
    return name.partition(".")[2] or name


def _given(
    reader: SessionReader, side: model.Compilation, changes: model.Changes, name: str
) -> str:
    """Return the value of an option on one side: what was changed, else what was in force; ``as it
    was`` where the session does not say.
    """
    if name in changes.settings:
        return python_text(changes.settings[name])
    if name == "compile.backend" and side.backend:
        return python_text(side.backend)
    rows = reader.rows(model.OptionInForce, name=name)
    # Of this function where the session tells functions apart.
    values = [row.value for row in rows if row.function == side.function] or [
        row.value for row in rows
    ]
    values += [row.value for row in reader.rows(model.Setting) if row.full_name == name]
    return next(iter(as_python(values)), "as it was")


def _edits(changes: model.Changes, other: model.Changes) -> list[str]:
    """Return the regions and passes that only this side has."""
    marks = {mark.name for mark in other.marks}
    words = [f'region "{mark.name}"' for mark in changes.marks if mark.name not in marks]
    return words + [
        f"pass_ of {file_name(pass_file.path)}"
        for pass_file in changes.passes
        if pass_file not in other.passes
    ]


def _alone(reader: SessionReader, side: model.Compilation) -> list[str]:
    lowered = [
        lowering
        for lowering in reader.rows(model.RegionLowering, compilation=side.id)
        if lowering.subgraph
    ]
    if not any(lowering.is_reused for lowering in lowered):
        return []
    return [
        f'only region "{name}"'
        for name in dict.fromkeys(lowering.name for lowering in lowered if not lowering.is_reused)
    ]
