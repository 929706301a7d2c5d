"""This module counts how often each nested compile region is called, traced, reused and compiled
(``torch.compiler.nested_compile_region``), and says why Dynamo traced it again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.documents import Place, graph_document
from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.lineage import in_use
from fx_explorer.analysis.naming import plain_source
from fx_explorer.analysis.words import counted, how_often
from fx_explorer.session import SessionReader, answered_once
from fx_explorer.session.queries.graphs import callers_of_nested_graph, calls_of_nested_graph

_GUARD = re.compile(
    r"^guard (?P<kind>\w+) on (?P<source>.{1,1000}?) fails"
    r"(?:: expected (?P<old>.*), got (?P<new>.*))?$",
    re.DOTALL,
)
"""Matches the reason of a guard that failed, as the capture writes it."""

_WORDS = {
    "tensor metadata mismatch": "a tensor among its arguments has another shape, stride, dtype or "
    "device, or requires a gradient where the other did not",
    "treespec mismatch": "the nesting of its arguments differs",
    "input count mismatch": "the number of arguments differs",
    "tag mismatch": "an argument is of another kind",
    "output contains non-tensor types": "it returns something other than a tensor",
    "output type": "it returns something other than a tensor or a list of tensors",
    "subgraph has side effects": "it changes an object that outlives the call",
    "unsupported input VT types": "an argument is of a kind that Dynamo does not compare",
}
"""Part of torch's reason → the reason in words."""


@dataclass(frozen=True, slots=True)
class NestedRegion:
    """The calls and compilations of one function that is a region, in one compilation."""

    label: str
    """The user's function, such as ``Block.forward``."""
    first: model.Graph
    """Dynamo's graph of the region; if it was traced for several kinds of input, the first."""
    calls: int
    """How many places in Dynamo's graphs call it."""
    compiled: int
    """Number of graphs that were compiled separately for it."""
    inlined: int
    """Number of calls that torch replaced by the region's operations, as it does for a graph with a
    single call.
    """
    traced: int = 0
    """Number of calls for which Dynamo traced it; 0 where the session does not say."""
    reused: int = 0
    """Number of calls for which an earlier trace was used."""
    reasons: tuple[str, ...] = ()
    """Why it was traced again, in sentences without an end."""


@answered_once
def nested_regions(reader: SessionReader) -> tuple[NestedRegion, ...]:
    """Return the nested regions of the variants in use, in the order in which Dynamo met them."""
    used = in_use(reader)
    graphs: dict[tuple[int, str], list[model.Graph]] = {}
    traced: dict[tuple[int, str], None] = {}
    for graph in reader.rows(model.Graph):
        if not graph.label or model.is_bucket_label(graph.label):
            continue
        if used is not None and graph.id not in used.graphs:
            continue
        region = (graph.compilation, graph.label)
        graphs.setdefault(region, []).append(graph)
        if graph.stage == "dynamo":
            traced[region] = None
    return tuple(_region(reader, graphs[region]) for region in traced)


def _region(reader: SessionReader, graphs: Sequence[model.Graph]) -> NestedRegion:
    of_dynamo = [graph for graph in graphs if graph.stage == "dynamo"]
    first = of_dynamo[0]
    lowered = [
        graph for graph in graphs if graph.stage == "post_grad" and graph.direction != "backward"
    ]
    calls = sum(calls_of_nested_graph(reader, graph) for graph in of_dynamo)
    inlined = 0
    if reader.count(model.Graph, compilation=first.compilation, stage="post_grad"):
        kept = sum(calls_of_nested_graph(reader, graph) for graph in lowered)
        inlined = max(0, calls - kept)
    uses = [
        use
        for use in reader.rows(model.RegionUse, compilation=first.compilation)
        if use.function == first.label
    ]
    compilation = reader.get(model.Compilation, first.compilation)
    reasons: list[str] = []
    for use in uses:
        texts = [text for text in (use.not_kept, use.reason) if text]
        reasons += [explain_reason(text, compilation) for text in texts]
    return NestedRegion(
        label=first.label,
        first=first,
        calls=calls,
        compiled=len(lowered),
        inlined=inlined,
        traced=sum(use.calls for use in uses if use.outcome == "traced"),
        reused=sum(use.calls for use in uses if use.outcome == "reused"),
        reasons=tuple(dict.fromkeys(reasons)),
    )


def explain_reason(reason: str, compilation: model.Compilation) -> str:
    """Return torch's reason for another trace, with the user's names."""
    match = _GUARD.match(reason)
    if match is None:
        words = next((text for part, text in _WORDS.items() if part in reason), "")
        return f"{words} ({reason})" if words else reason
    name = plain_source(match["source"], compilation)
    if match["old"] is None:
        return f"{name} cannot be looked up for that call (guard {match['kind']})"
    if match["old"] == match["new"]:
        return f"{name} is another object (guard {match['kind']})"
    return f"{name} is {match['new']}, and was {match['old']} before (guard {match['kind']})"


def region_called_by(reader: SessionReader, node: model.Node) -> NestedRegion | None:
    """Return the region that a node of Dynamo's graph calls; None for another node."""
    if not node.subgraph_names:
        return None
    for region in nested_regions(reader):
        if region.first.parent != node.graph:
            continue
        nested = reader.rows(model.Graph, parent=node.graph, stage="dynamo")
        graphs = [graph for graph in nested if graph.label == region.label]
        if any(node.id in callers_of_nested_graph(reader, graph) for graph in graphs):
            return region
    return None


def describe_region(region: NestedRegion) -> str:
    """Return how often a region is called, traced, reused and compiled, in a sentence."""
    text = f"The nested region {region.label} is called {how_often(region.calls)}"
    if region.traced:
        text += f", traced {how_often(region.traced)}"
        if region.reused:
            text += f", reused {how_often(region.reused)}"
    if region.compiled:
        text += f" and compiled {how_often(region.compiled)}"
    if region.inlined:
        text += f"; torch inlined {counted(region.inlined, 'call')} into the surrounding graph"
    return f"{text}."


def why_traced_again(region: NestedRegion) -> str:
    """Return why Dynamo traced a region more than once; empty where it did not, or does not say."""
    if region.traced < 2 or not region.reasons:
        return ""
    return f"Traced again because {'; or because '.join(region.reasons)}."


def nested_region_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield how often each nested region is called, reused and compiled."""
    for region in nested_regions(reader):
        place = Place(graph_document(region.first))
        text = describe_region(region)
        detail = why_traced_again(region)
        yield Fact("graphs", "good", text, detail=detail, place=place, view="graphs")
