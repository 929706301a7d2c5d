"""Which variant is the active one: the one that waits at a pause, else the one the program uses."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.variants.lineage import root_name
from fx_explorer.analysis.variants.other_variants import variant_in_words
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import other_variants

MOST_CELLS = 40
"""Longer words for what makes a variant differ are left to the outline."""


def active_variant_in_words(reader: SessionReader, paused_in: str = "") -> str:
    """Return ``variant 1: inductor.max_fusion_size = 8`` or ``original``; empty where there is one
    variant only. ``paused_in`` is the name of the one that waits, if one does.

    With several compilations it says whose variant it is: ``variant 1 of [0/0]``.
    """
    if not paused_in and not other_variants(reader):
        return ""
    rows = reader.rows(model.Compilation)
    with_variants = {root_name(row.name) for row in rows if row.variant_of}
    if paused_in and root_name(paused_in) not in with_variants and "~" not in paused_in:
        return ""
    active = _active(rows, paused_in)
    if len(active) > 1 and not paused_in:
        return f"variants in use: {', '.join(f'[{row.name}]' for row in active)}"
    of = len({root_name(row.name) for row in rows}) > 1
    name = paused_in or (active[0].name if active else "")
    number = name.rpartition("~")[2] if "~" in name else ""
    if not number:
        return "original" + (f" of [{name}]" if of and name else "")
    words = f"variant {number}" + (f" of [{root_name(name)}]" if of else "")
    changes = ", ".join(variant_in_words(reader, active[0])) if active else ""
    return f"{words}: {changes}" if 0 < len(changes) <= MOST_CELLS else words


def _active(rows: list[model.Compilation], paused_in: str) -> list[model.Compilation]:
    """Return the variants that are active. Of the compilations with several, originals count only
    where no other one is in use.
    """
    if paused_in:
        return [row for row in rows if row.name == paused_in]
    others = [row for row in rows if row.variant_of and row.in_use]
    with_variants = {root_name(row.name) for row in rows if row.variant_of}
    return others or [row for row in rows if row.in_use and row.name in with_variants][:1]
