"""This module says what torch.compile did and did not do, as facts for the overview: stages, graph
breaks, CUDA graphs, buckets of DistributedDataParallel, and regional compilation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fx_explorer import model
from fx_explorer.analysis.cuda_graphs import (
    CudaGraph,
    CudaGraphs,
    Reason,
    cuda_graphs,
    skip_reason,
)
from fx_explorer.analysis.documents import Document, Place, place_of_path
from fx_explorer.analysis.facts import Fact, Severity
from fx_explorer.analysis.lineage import first_variants, variants_in_use
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.stage_data import StagePoint
from fx_explorer.analysis.stage_work import stage_points, stage_work
from fx_explorer.analysis.words import counted, listed, seconds
from fx_explorer.instruments.breaks.break_cost import NO_COST
from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.breaks.hints import first_hint
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

MOST_NODES = 5_000
"""Maximum number of graph nodes for which stages are compared one by one, since the overview must
appear at once: 14,000 nodes take 0.14 s.
"""


def stage_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield what the stages did to the first compilation that went beyond Dynamo. For a big graph
    only the operations are counted.
    """
    first = _first_beyond_dynamo(reader)
    if first is None:
        return
    points = stage_points(reader, first)
    if len(points) < 2:
        return
    text = f"{plain_function(first.function)}, stage by stage."
    graphs = {graph.id: graph for graph in reader.rows(model.Graph, compilation=first.id)}
    sentences = []
    if sum(graph.node_count for graph in graphs.values()) <= MOST_NODES:
        for point in points:
            work = stage_work(reader, point)
            if not work.is_as_before:
                sentences.append(_with_direction(work.sentence, work.point))
    else:
        calls = {number: graph.call_count for number, graph in graphs.items()}
        for point in points:
            sentence = _only_counted(point, calls)
            if sentence:
                sentences.append(sentence)
    yield Fact("stages", "good", text, "\n".join(sentences), view="stages")


def _first_beyond_dynamo(reader: SessionReader) -> model.Compilation | None:
    for compilation in variants_in_use(reader):
        if reader.count(model.Graph, compilation=compilation.id) > 1:
            return compilation
    return None


def _with_direction(sentence: str, point: StagePoint) -> str:
    """Return the sentence with the direction (forward or backward) added, where there is more than
    one.
    """
    is_one_of_two = point.direction in ("forward", "backward")
    if is_one_of_two:
        return sentence.replace(point.title, f"{point.title} ({point.direction})", 1)
    return sentence


def _only_counted(point: StagePoint, calls: Mapping[int, int]) -> str:
    """Return ``AOTAutograd: 640 operations became 3,139.``; empty where the number is unchanged,
    and for a stage whose input or output is not a graph.
    """
    if not _are_known(point.before, calls) or not _are_known(point.after, calls):
        return ""
    before = _operations(point.before, calls)
    after = _operations(point.after, calls)
    if before == after:
        return ""
    if point.key == "partition":
        together = ", forward and backward together"
    else:
        together = ""
    sentence = f"{point.title}: {counted(before, 'operation')} became {after:,}{together}."
    return _with_direction(sentence, point)


def _are_known(documents: Sequence[Document], calls: Mapping[int, int]) -> bool:
    """Return whether there are graphs and the operations of each are counted."""
    return bool(documents) and all(_is_known(document, calls) for document in documents)


def _is_known(document: Document, calls: Mapping[int, int]) -> bool:
    return document.kind == "graph" and document.id in calls


def _operations(documents: Sequence[Document], calls: Mapping[int, int]) -> int:
    return sum(calls[document.id] for document in documents)


SHOWN_AT_MOST = 5

MANY_RECORDINGS = 3
"""Number of recordings of one graph from which on they are reported: each takes memory and a slow
call.
"""


def cuda_graph_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield what happened to the CUDA graphs that were requested; nothing where none were."""
    asked = cuda_graphs(reader)
    skipped = [graph for graph in asked.graphs if graph.state == "skipped"]
    in_parts = [graph for graph in asked.graphs if graph.state == "in parts"]
    if not asked.asked and not skipped and not in_parts:
        return
    yield from _by_reason(reader, skipped, "{graphs} does not run as a CUDA graph: {why}.")
    yield from _by_reason(
        reader,
        in_parts,
        "{graphs} runs only in part as CUDA graphs; outside of them: {why}.",
    )
    whole = [graph for graph in asked.graphs if graph.state == "captured"]
    if whole and not skipped and not in_parts:
        names = listed([graph.name for graph in whole])
        yield Fact("call", "good", f"Recorded as CUDA graphs, as {asked.asked} asks: {names}.")
    for graph in asked.graphs:
        if graph.state == "not recorded":
            yield _not_recorded(graph)
        elif graph.recorded >= MANY_RECORDINGS:
            yield _recordings(graph)
    yield from _not_known(reader, asked)


def _by_reason(reader: SessionReader, graphs: Sequence[CudaGraph], text: str) -> Iterator[Fact]:
    """Yield a fact for each reason, with the graphs that it holds for."""
    names: dict[Reason, list[str]] = {}
    for graph in graphs:
        for reason in graph.reasons:
            names.setdefault(reason, []).append(graph.name)
    for reason, graph_names in list(names.items())[:SHOWN_AT_MOST]:
        sentence = text.format(graphs=listed(graph_names), why=f"{reason.text}{_where(reason)}")
        yield Fact("call", "problem", sentence, reason.code, _place(reader, reason))
    if len(names) > SHOWN_AT_MOST:
        more = counted(len(names) - SHOWN_AT_MOST, "more reason")
        yield Fact("call", "problem", f"… and {more} why graphs do not run as CUDA graphs.")


def _where(reason: Reason) -> str:
    if not reason.file:
        return ""
    return f" at {in_file(reason.file, reason.line)}"


def _place(reader: SessionReader, reason: Reason) -> Place | None:
    if not reason.file:
        return None
    return place_of_path(reader, reason.file, reason.line)


FEWER_SIZES = "pad to a few sizes, or set triton.cudagraph_skip_dynamic_graphs."


def _not_recorded(graph: CudaGraph) -> Fact:
    if graph.sizes == 1:
        return Fact(
            "call",
            "notice",
            f"{graph.name} was called too seldom to be recorded as a CUDA graph.",
            "torch records a graph when it is called the second time.",
        )
    return Fact(
        "call",
        "problem",
        f"{graph.name} was called with {graph.sizes} sizes, none of them twice: none was "
        "recorded as a CUDA graph.",
        "torch makes a recording for each size, when that size comes the second time: "
        f"{FEWER_SIZES}",
    )


def _recordings(graph: CudaGraph) -> Fact:
    why = f" ({graph.why_again[0]})" if graph.why_again else ""
    sizes = f", for {graph.sizes} sizes" if graph.sizes > 1 else ""
    return Fact(
        "call",
        "notice",
        f"{graph.name} was recorded {graph.recorded} times as a CUDA graph{sizes}{why}.",
        "Each recording takes memory of its own and a call that is slow. torch records "
        f"one for each size: {FEWER_SIZES}",
    )


RUN_TIME = (
    "The second call with given sizes records the CUDA graph; later calls replay it if their "
    "inputs are at the same addresses. A capture on a GPU with --build reports it for each graph "
    "that is called three times or more."
)
"""Sentence on what torch decides about CUDA graphs while a program runs."""


def _not_known(reader: SessionReader, asked: CudaGraphs) -> Iterator[Fact]:
    """Yield, for graphs that were not run as CUDA graphs here, what torch decided while it compiled
    them, and that the rest is not known.
    """
    unknown = [graph for graph in asked.graphs if graph.state == "not known"]
    if asked.graphs and not unknown:
        return
    for graph in unknown:
        yield from _decided(reader, graph)
    nothing = [graph.name for graph in unknown if not graph.reasons and not graph.mutated]
    if nothing:
        text = (
            f"Nothing that torch decided while it compiled keeps {listed(nothing)} from running as "
            "CUDA graphs."
        )
        yield Fact("call", "good", text)
    if asked.has_run:
        return
    if unknown:
        text = (
            f"{asked.asked} asks for CUDA graphs: which calls record and replay them is decided "
            "while the program runs, and not recorded here."
        )
        yield Fact("call", "notice", text, RUN_TIME)
        return
    yield Fact(
        "call",
        "notice",
        f"{asked.asked} asks for CUDA graphs, which are recorded while the program "
        "runs: whether it gets them is not known here.",
        "A capture on a GPU with --build reports it for each graph that is called three times or "
        "more.",
    )


def _decided(reader: SessionReader, graph: CudaGraph) -> Iterator[Fact]:
    """Yield what torch decided about a graph's CUDA graph while it compiled the graph."""
    if graph.mutated:
        reason = skip_reason(graph.mutated)
        text = (
            f"{graph.name} writes into inputs{_where(reason)}: torch runs it as a CUDA "
            "graph only where they come from another one."
        )
        yield Fact("call", "notice", text, reason.code, _place(reader, reason))
    for reason in graph.reasons:
        text = (
            f"{graph.name} would run only in part as CUDA graphs; outside of them: "
            f"{reason.text}{_where(reason)}."
        )
        yield Fact("call", "problem", text, reason.code, _place(reader, reason))
    if graph.changing:
        text = (
            f"{graph.name} takes sizes that may change ({listed(graph.changing)}): torch records a "
            "CUDA graph for each combination that comes twice."
        )
        yield Fact("call", "notice", text, FEWER_SIZES[0].upper() + FEWER_SIZES[1:])


def bucket_count(reader: SessionReader, compilation: int) -> int:
    """Return into how many buckets the graph of a compilation was cut; 0 if it was not cut."""
    graphs = reader.rows(model.Graph, compilation=compilation, parent=0)
    labels = {graph.label for graph in graphs if graph.stage != "dynamo"}
    return sum(map(model.is_bucket_label, labels))


def bucket_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield, for each graph that was cut into buckets, the number of buckets and the reason."""
    for row in first_variants(reader):
        buckets = bucket_count(reader, row.id)
        if buckets:
            yield Fact(
                "graphs",
                "good",
                f"torch split the graph of {plain_function(row.function)} into {buckets} "
                "buckets (DDPOptimizer).",
                "Each has its own forward and backward, so that DistributedDataParallel can "
                "send the gradients of one while the backward of the next one runs. It is no graph "
                "break.",
                view="graphs",
            )


WHAT_TO_DO = (
    "Mark a region, or put what is to be compiled under with "
    'torch.fx.traceback.annotate({"compile_with_inductor": "name"}).'
)


def regional_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield a fact per compilation in which regional_inductor had nothing to compile."""
    for row in first_variants(reader):
        missing = row.missing_stages or {}
        reason = missing.get("output_code")
        has_begun = "joint" not in missing
        if (
            reason
            and has_begun
            and row.backend == "regional_inductor"
            and row.status in ("ok", "broke")
        ):
            yield Fact(
                "kernels",
                "problem",
                f"[{row.name}] was not compiled: {reason}.",
                WHAT_TO_DO,
                view="regions",
            )


def break_fact(graph_break: DistinctBreak, *, advises: bool = True) -> Fact:
    """Return the fact about a break: the line and its cost; with ``advises``, torch's first hint
    too.
    """
    if graph_break.file:
        where = in_file(graph_break.file, graph_break.line)
    else:
        where = "somewhere"
    if graph_break.count > 1:
        hits = f" ({counted(graph_break.count, 'time')})"
    else:
        hits = ""
    if graph_break.loss:
        loss = f". {graph_break.loss[0].upper()}{graph_break.loss[1:]}"
    else:
        loss = ""
    text = f"{where} breaks the graph{hits}: {graph_break.description}{loss}."
    cost = ""
    if graph_break.cost.is_known and graph_break.cost != NO_COST:
        cost = graph_break.cost.description
    hint = first_hint(graph_break) if advises else ""
    detail = " · ".join(part for part in (graph_break.code, cost, hint) if part)
    severity: Severity = "notice" if graph_break.is_wrappers else "problem"
    in_short = _in_short(graph_break) if cost else ""
    brief = f"{where} graph break{hits}: {graph_break.description}"
    return Fact("breaks", severity, text, detail, graph_break.place, "breaks", "", in_short, brief)


def _in_short(graph_break: DistinctBreak) -> str:
    """Return ``+1 graph``, and the time of a call at the break where that was measured."""
    if graph_break.cost.run_s:
        return f"{graph_break.cost.in_short}, {seconds(graph_break.cost.run_s)}"
    return graph_break.cost.in_short


def look_at(fact: Fact) -> str:
    return f"Look first at: {fact.text}"


def costliest_fact(graph_break: DistinctBreak, breaks: int) -> Fact:
    """Return the fact that this break costs most, how much, and torch's advice."""
    if breaks > 1:
        cost = f"The costliest of {breaks} breaks"
    else:
        cost = "What it costs"
    lines = [f"{cost}: {graph_break.cost.description}."]
    hint = first_hint(graph_break)
    advice = " · ".join(part for part in (graph_break.code, hint) if part)
    if advice:
        lines.append(advice)
    text = look_at(break_fact(graph_break))
    return Fact("next", "problem", text, "\n".join(lines), graph_break.place, "breaks")


def stopped_by(reader: SessionReader, compilation: model.Compilation) -> str:
    """Return a sentence with the break that left a function to Python; empty if there is none.
    torch's error is the text of that break, which is shown with it.
    """
    hits = [hit for hit in reader.rows(model.GraphBreak, compilation=compilation.id) if hit.file]
    if hits:
        return f"The break at {in_file(hits[-1].file, hits[-1].line)} is the cause."
    return ""
