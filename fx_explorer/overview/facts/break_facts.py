"""Facts on graph breaks: each with what it costs, and the costliest as the one to look at first."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.words import counted
from fx_explorer.instruments.breaks.break_cost import NO_COST
from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file


def break_fact(one: DistinctBreak, *, advises: bool = True) -> Fact:
    """Return the fact of a break: the line and what it costs; with ``advises``, torch's first hint."""
    where = in_file(one.file, one.line) if one.file else "somewhere"
    hits = f" ({counted(one.count, 'time')})" if one.count > 1 else ""
    loss = f". {one.loss[0].upper()}{one.loss[1:]}" if one.loss else ""
    text = f"{where} breaks the graph{hits}: {one.in_words}{loss}."
    cost = one.cost.in_words if one.cost.is_known and one.cost != NO_COST else ""
    hint = one.hints[0] if one.hints and advises else ""
    detail = " · ".join(part for part in (one.code, cost, hint) if part)
    return Fact(
        "breaks", "notice" if one.is_wrappers else "problem", text, detail, one.place, "breaks"
    )


def look_at(fact: Fact) -> str:
    return f"Look first at: {fact.text}"


def costliest_fact(one: DistinctBreak, breaks: int) -> Fact:
    """Return the fact that this break costs most, how much, and torch's advice."""
    cost = f"The costliest of {breaks} breaks" if breaks > 1 else "What it costs"
    advice = " · ".join(part for part in (one.code, one.hints[0] if one.hints else "") if part)
    detail = "\n".join(filter(None, (f"{cost}: {one.cost.in_words}.", advice)))
    return Fact("next", "problem", look_at(break_fact(one)), detail, one.place, "breaks")


def stopped_by(reader: SessionReader, compilation: model.Compilation) -> str:
    """Say which break left a function to Python; empty where none did. torch's error is the text of
    that break, which is told with it.
    """
    hits = [hit for hit in reader.rows(model.GraphBreak, compilation=compilation.id) if hit.file]
    if hits:
        return f"The break at {in_file(hits[-1].file, hits[-1].line)} does it, see below."
    return ""
