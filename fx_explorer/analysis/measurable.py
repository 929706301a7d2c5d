"""Parts of a session can be built and run to measure their time (variants, and a call's graph
breaks): this module names each.
"""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.lineage import first_variants
from fx_explorer.analysis.measured_times import call_time, measured, run_time
from fx_explorer.analysis.other_variants import variant_in_words, variants_of
from fx_explorer.session import SessionReader


@dataclass(frozen=True, slots=True)
class Measurable:
    """One thing that can be measured."""

    words: str
    detail: str
    variants: tuple[str, ...]
    """Names of the variants to build and run; empty for the graph breaks."""


def measurable_variants(reader: SessionReader) -> list[Measurable]:
    """Return the variants that were compiled to their end: all of a compilation together first,
    then each.
    """
    measurables: list[Measurable] = []
    for compilation in first_variants(reader):
        variants = variants_of(reader, compilation)
        variants = [variant for variant in variants if variant.status in ("ok", "broke")]
        if len(variants) > 1:
            names = tuple(variant.name for variant in variants)
            title = f"all variants of [{compilation.name}]"
            measurables.append(Measurable(title, "one after the other", names))
        for variant in variants:
            detail = _detail(reader, variant)
            measurables.append(Measurable(f"[{variant.name}]", detail, (variant.name,)))
    return measurables


def measurable_breaks(reader: SessionReader) -> list[Measurable]:
    """Return the graph breaks of a call, as something to measure; empty where there are none."""
    if not reader.count(model.GraphBreak):
        return []
    call = call_time(reader)
    last = f" · measured: a call of {run_time(call.median_s)}" if call else ""
    return [Measurable("graph breaks", f"what a call spends at each{last}", ())]


def _detail(reader: SessionReader, variant: model.Compilation) -> str:
    """Return what makes the variant differ, and the times that were measured of it."""
    detail = ", ".join(variant_in_words(reader, variant))
    if not detail:
        detail = "as before" if variant.variant_of else "the first variant"
    times = [
        f"{row.what.replace('+', ' and ')} {run_time(row.median_s)}"
        for row in measured(reader, variant).values()
    ]
    if times:
        detail += f" · measured: {', '.join(times)}"
    return detail
