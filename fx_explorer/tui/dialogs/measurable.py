"""What can be built and run for its time, and the words for it. Pure."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.measured import call_time, measured, run_time
from fx_explorer.analysis.variants.lineage import first_variants
from fx_explorer.analysis.variants.other_variants import variant_in_words, variants_of
from fx_explorer.session import SessionReader
from fx_explorer.tui.dialogs.choose import Choice
from fx_explorer.tui.status.live import Waiting

LATER = "A variant is built and run once the program has ended: go on first, with c."
BREAKS = ("graph breaks",)
"""In place of names of variants."""

NOTHING = "Nothing was compiled to its end, so there is nothing to run."


def measurable_at(reader: SessionReader, waiting: Waiting) -> list[Choice[tuple[str, ...]]]:
    """Before anything is compiled, but with Dynamo through all of the program, its breaks are known and can be measured."""
    if waiting == Waiting("dynamo"):
        return _breaks(reader)
    return [] if waiting.gate else measurable(reader)


def measurable(reader: SessionReader) -> list[Choice[tuple[str, ...]]]:
    """Names of variants to measure: all of a compilation first, then each."""
    choices: list[Choice[tuple[str, ...]]] = []
    for compilation in first_variants(reader):
        variants = [variant for variant in variants_of(reader, compilation) if variant.status in ("ok", "broke")]
        if len(variants) > 1:
            choices.append(
                Choice(
                    f"all variants of [{compilation.name}]", "one after the other", tuple(variant.name for variant in variants)
                )
            )
        choices += [Choice(f"[{variant.name}]", _detail(reader, variant), (variant.name,)) for variant in variants]
    return [*choices, *_breaks(reader)]


def _breaks(reader: SessionReader) -> list[Choice[tuple[str, ...]]]:
    if not reader.count(model.GraphBreak):
        return []
    call = call_time(reader)
    last = f" · measured: a call of {run_time(call.median_s)}" if call else ""
    return [Choice("graph breaks", f"what a call spends at each{last}", BREAKS)]


def breaks_first(choices: list[Choice[tuple[str, ...]]]) -> list[Choice[tuple[str, ...]]]:
    return sorted(choices, key=lambda choice: choice.value != BREAKS)


def _detail(reader: SessionReader, variant: model.Compilation) -> str:
    what = ", ".join(variant_in_words(reader, variant)) or ("as before" if variant.branch_of else "the first variant")
    last = [f"{row.what.replace('+', ' and ')} {run_time(row.median_s)}" for row in measured(reader, variant).values()]
    return " · ".join((what, *(f"measured: {one}" for one in [", ".join(last)] if one)))
