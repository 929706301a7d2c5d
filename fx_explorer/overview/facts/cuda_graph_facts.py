"""Whether graphs run as CUDA graphs where that is asked for, as facts for the overview."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fx_explorer.analysis.cuda_graphs import (
    CudaGraph,
    CudaGraphs,
    Reason,
    cuda_graphs,
    skip_reason,
)
from fx_explorer.analysis.documents import Place, place_of_path
from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.words import counted, listed
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

SHOWN_AT_MOST = 5

MANY_RECORDINGS = 3
"""Recordings of one graph from which on they are told: each takes memory and a slow call."""


def cuda_graph_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield what happened to the CUDA graphs that were asked for; nothing where none were."""
    found = cuda_graphs(reader)
    skipped = [one for one in found.graphs if one.state == "skipped"]
    in_parts = [one for one in found.graphs if one.state == "in parts"]
    if not found.asked and not skipped and not in_parts:
        return
    yield from _by_reason(reader, skipped, "{graphs} does not run as a CUDA graph: {why}.")
    yield from _by_reason(
        reader,
        in_parts,
        "{graphs} runs only in part as CUDA graphs; outside of them: {why}.",
    )
    whole = [one for one in found.graphs if one.state == "captured"]
    if whole and not skipped and not in_parts:
        names = listed([one.name for one in whole])
        yield Fact("call", "good", f"Recorded as CUDA graphs, as {found.asked} asks: {names}.")
    for one in found.graphs:
        if one.recorded >= MANY_RECORDINGS:
            yield _recordings(one)
    yield from _not_known(reader, found)


def _by_reason(reader: SessionReader, graphs: Sequence[CudaGraph], text: str) -> Iterator[Fact]:
    """Yield a fact for each reason, with the graphs that it holds for."""
    names: dict[Reason, list[str]] = {}
    for one in graphs:
        for reason in one.reasons:
            names.setdefault(reason, []).append(one.name)
    for reason, own in list(names.items())[:SHOWN_AT_MOST]:
        told = text.format(graphs=listed(own), why=f"{reason.text}{_where(reason)}")
        yield Fact("call", "problem", told, reason.code, _place(reader, reason))
    if len(names) > SHOWN_AT_MOST:
        more = counted(len(names) - SHOWN_AT_MOST, "more reason")
        yield Fact("call", "problem", f"… and {more} why graphs do not run as CUDA graphs.")


def _where(reason: Reason) -> str:
    return f" at {in_file(reason.file, reason.line)}" if reason.file else ""


def _place(reader: SessionReader, reason: Reason) -> Place | None:
    return place_of_path(reader, reason.file, reason.line) if reason.file else None


def _recordings(graph: CudaGraph) -> Fact:
    why = f" ({graph.why_again[0]})" if graph.why_again else ""
    return Fact(
        "call",
        "notice",
        f"{graph.name} was recorded {graph.recorded} times as a CUDA graph{why}.",
        "Each recording takes memory of its own and a call that is slow. torch records "
        "one for each "
        "size: pad to a few sizes, or set triton.cudagraph_skip_dynamic_graphs.",
    )


def _not_known(reader: SessionReader, found: CudaGraphs) -> Iterator[Fact]:
    """Say of which graphs nobody knows whether they run as CUDA graphs."""
    unknown = [one for one in found.graphs if one.state == "not known"]
    if found.graphs and not unknown:
        return
    for one in unknown:
        if one.mutated:
            reason = skip_reason(one.mutated)
            text = (
                f"{one.name} writes into inputs{_where(reason)}: torch runs it as a CUDA "
                "graph only where "
                "they come from another one."
            )
            yield Fact("call", "notice", text, reason.code, _place(reader, reason))
        for reason in one.reasons:
            text = (
                f"{one.name} would run only in part as CUDA graphs; outside of them: "
                f"{reason.text}{_where(reason)}."
            )
            yield Fact("call", "notice", text, reason.code, _place(reader, reason))
    if not found.has_run:
        yield Fact(
            "call",
            "notice",
            f"{found.asked} asks for CUDA graphs, which are recorded while the program "
            "runs: whether it "
            "gets them is not known here.",
            "On a GPU and with --build it is told of each graph that is called three "
            "times or more.",
        )
