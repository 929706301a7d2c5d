"""Nested compile regions (``torch.compiler.nested_compile_region``): how often each is called and
compiled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.documents import Place, graph_document
from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.variants.lineage import in_use
from fx_explorer.analysis.words import counted
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.graphs import calls_of_nested_graph


@dataclass(frozen=True, slots=True)
class RegionUse:
    """The calls and compilations of one function that is a region, in one compilation."""

    label: str
    """The user's function, such as ``Block.forward``."""
    first: model.Graph
    """Dynamo's graph of the region; if it was traced for several kinds of input, the first one."""
    calls: int
    """How many places in Dynamo's graphs call it."""
    compiled: int
    """How many graphs were compiled for it on their own."""
    inlined: int
    """How many calls torch replaced by the region's operations, as it does with a graph that is
    called once.
    """


def region_uses(reader: SessionReader) -> list[RegionUse]:
    """Return the nested regions of the variants in use, in the order in which Dynamo met them."""
    used = in_use(reader)
    graphs = [
        g
        for g in reader.rows(model.Graph)
        if g.label and not model.is_bucket_label(g.label) and (used is None or g.id in used.graphs)
    ]
    groups = dict.fromkeys((g.compilation, g.label) for g in graphs if g.stage == "dynamo")
    return [
        _use(reader, [g for g in graphs if (g.compilation, g.label) == group]) for group in groups
    ]


def _use(reader: SessionReader, graphs: Sequence[model.Graph]) -> RegionUse:
    traced = [g for g in graphs if g.stage == "dynamo"]
    lowered = [g for g in graphs if g.stage == "post_grad" and g.direction != "backward"]
    calls = sum(calls_of_nested_graph(reader, g) for g in traced)
    kept = sum(calls_of_nested_graph(reader, g) for g in lowered)
    was_lowered = (
        reader.count(model.Graph, compilation=traced[0].compilation, stage="post_grad") > 0
    )
    return RegionUse(
        traced[0].label, traced[0], calls, len(lowered), max(0, calls - kept) if was_lowered else 0
    )


def nested_region_facts(reader: SessionReader) -> Iterator[Fact]:
    for one in region_uses(reader):
        compiled = f" and compiled {_times(one.compiled)}" if one.compiled else ""
        if one.inlined:
            inlined = f"; torch put {counted(one.inlined, 'call')} into the graph around it"
        else:
            inlined = ""
        text = f"The nested region {one.label} is called {_times(one.calls)}{compiled}{inlined}."
        yield Fact("graphs", "good", text, place=Place(graph_document(one.first)), view="graphs")


def _times(number: int) -> str:
    return "once" if number == 1 else counted(number, "time")
