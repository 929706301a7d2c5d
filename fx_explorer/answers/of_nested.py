"""The answer about graphs that other graphs run: regions, branches, bodies of loops."""

from __future__ import annotations

from fx_explorer.analysis.compiled_calls import calls_of_compilations
from fx_explorer.analysis.nested_regions import describe_region, why_traced_again
from fx_explorer.analysis.words import listed
from fx_explorer.answers.answer import Answer, Json
from fx_explorer.errors import UsageError
from fx_explorer.overview.nested_graphs import NestedGraph, nested_graphs
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import compilation_names, source_paths


def of_nested(reader: SessionReader, name: str) -> Answer:
    """Return the graphs that another graph runs; with a name, those with it in theirs. Raises
    UsageError where none has it.
    """
    nested = nested_graphs(reader)
    if name:
        fitting = [graph for graph in nested if name.casefold() in graph.name.casefold()]
        if nested and not fitting:
            names = ", ".join(dict.fromkeys(graph.name for graph in nested))
            raise UsageError(f"there is no nested graph called {name!r}; nested graphs: {names}")
        nested = fitting
    kernels = [kernel.name for graph in nested for kernel in graph.kernels]
    return Answer(
        text=_sentence(nested),
        rows=[_row(reader, graph) for graph in nested],
        known_from="the graphs that nodes of Dynamo's graphs call, the links from their nodes to "
        "the later stages, and Inductor's output code; traced, reused: from Dynamo's "
        "own record",
        next=[f"kernel {kernels[0]}"] if kernels else ["graphs"],
    )


def _sentence(nested: list[NestedGraph]) -> str:
    if not nested:
        return "No graph runs another one: no nested region, conditional or loop is in the session."
    texts = []
    for graph in nested[:6]:
        names = list(dict.fromkeys(kernel.name for kernel in graph.kernels))
        kernels = f"computed by {listed(names, 5)}" if names else "its kernels are not known"
        texts.append(f"{graph.name} runs {graph.runs}, {kernels}.")
    more = f" {len(nested) - 6} more." if len(nested) > 6 else ""
    return " ".join(texts) + more


def _row(reader: SessionReader, nested: NestedGraph) -> Json:
    first, region = nested.graphs[0], nested.region
    paths = source_paths(reader)
    callers = [f"{paths[node.file]}:{node.line}" for node in nested.callers if node.file in paths]
    nodes = [node for node in reader.nodes(first) if node.file in paths and node.op[:4] == "call"]
    lines = [f"{paths[node.file]}:{node.line}" for node in nodes]
    return {
        "name": nested.name,
        "run_by": nested.operator,
        "compilation": compilation_names(reader).get(first.compilation, ""),
        "direction": first.direction,
        "called_from": list(dict.fromkeys(callers)),
        "calls": len(nested.callers),
        "runs": nested.runs,
        "calls_of_compiled_code": calls_of_compilations(reader).get(first.compilation),
        "operations": nested.operations,
        "lines": list(dict.fromkeys(lines)),
        "kernels": _names(nested, is_backward=False),
        "backward_kernels": _names(nested, is_backward=True),
        "graph_numbers": [graph.id for graph in nested.graphs],
        "traced": region.traced or None if region else None,
        "reused": region.reused or None if region else None,
        "compiled": region.compiled or None if region else None,
        "inlined": region.inlined or None if region else None,
        "remark": f"{describe_region(region)} {why_traced_again(region)}" if region else "",
    }


def _names(nested: NestedGraph, *, is_backward: bool) -> list[str]:
    names: dict[str, None] = {}
    for kernel in nested.kernels:
        if (kernel.direction == "backward") == is_backward:
            names[kernel.name] = None
    return list(names)
