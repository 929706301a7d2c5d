"""This module says what torch.compile did and did not do, as facts for the overview: stages, graph
breaks, CUDA graphs, buckets of DistributedDataParallel, and regional compilation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fx_explorer import model
from fx_explorer.analysis.cuda_graph_states import (
    CudaGraphs,
    cuda_graphs,
)
from fx_explorer.analysis.documents import Document
from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.lineage import first_variants, variants_in_use
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.stage_data import StagePoint
from fx_explorer.analysis.stage_work import stage_points, stage_work
from fx_explorer.analysis.words import counted, listed
from fx_explorer.instruments.kernels.gpu_limits import microseconds
from fx_explorer.session import SessionReader

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


OVERWRITTEN = (
    "The outputs of a CUDA graph are overwritten by its next call: clone() what you keep, or call "
    "torch.compiler.cudagraph_mark_step_begin() before each step. In training, run the backward of "
    "a call before the next call."
)


def cuda_graph_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield which graphs run as the CUDA graphs that were requested, and what is not known of it;
    nothing where none were. Why others do not is among the findings.
    """
    asked = cuda_graphs(reader)
    if not asked.asked:
        return
    states = {graph.state for graph in asked.graphs}
    whole = [graph for graph in asked.graphs if graph.state == "captured"]
    if whole and not states & {"skipped", "in parts"}:
        names = listed([graph.name for graph in whole])
        text = f"Recorded as CUDA graphs, as {asked.asked} asks: {names}."
        yield Fact("call", "good", text, f"{_gain(reader)} {OVERWRITTEN}")
    yield from _not_known(reader, asked)


NOT_MEASURED = (
    "The gain per call was not measured: fx-explorer bench --modes default,reduce-overhead "
    "compares both."
)

WITHOUT_GRAPHS, WITH_GRAPHS = "inductor", "inductor reduce-overhead"
"""Contenders of a bench that differ by CUDA graphs alone."""


def _gain(reader: SessionReader) -> str:
    """Return what a call gains by CUDA graphs, as the session's bench measured it."""
    if not reader.count(model.BenchCell):
        return NOT_MEASURED
    from fx_explorer.instruments.bench.cells import bench_figures

    bench = bench_figures(reader)
    sentences = []
    for size in bench.sizes if bench else ():
        cells = {cell.cell.contender: cell for cell in bench.of_size(size)} if bench else {}
        without, with_graphs = cells.get(WITHOUT_GRAPHS), cells.get(WITH_GRAPHS)
        if without is None or with_graphs is None:
            continue
        if without.interval is None or with_graphs.interval is None:
            continue
        at = f" at {size}" if size else ""
        if with_graphs.interval.high < without.interval.low:
            sentences.append(
                f"A call{at} takes {microseconds(with_graphs.interval.middle)} with them and "
                f"{microseconds(without.interval.middle)} without (bench)."
            )
        else:
            sentences.append(f"The bench shows no gain from them{at}.")
    return " ".join(sentences) or NOT_MEASURED


RUN_TIME = (
    "The second call with given sizes records the CUDA graph; later calls copy their inputs to "
    "its memory and replay it. A changed address of a parameter records it again. A capture on a "
    "GPU with --build reports this for each graph that is called three times or more."
)
"""Sentence on what torch decides about CUDA graphs while a program runs."""


def _not_known(reader: SessionReader, asked: CudaGraphs) -> Iterator[Fact]:
    """Yield, for graphs that were not run as CUDA graphs here, that the rest is not known."""
    unknown = [graph for graph in asked.graphs if graph.state == "not known"]
    if asked.graphs and not unknown:
        return
    nothing = [graph.name for graph in unknown if not graph.reasons and not graph.mutated]
    if nothing:
        text = (
            f"No decision of torch at compile time prevents {listed(nothing)} from running as "
            "CUDA graphs."
        )
        yield Fact("call", "good", text, OVERWRITTEN)
    if asked.has_run:
        return
    if unknown:
        text = (
            f"{asked.asked} asks for CUDA graphs: which calls record and replay them is decided "
            "at run time, and not recorded here."
        )
        yield Fact("call", "notice", text, RUN_TIME)
        return
    yield Fact(
        "call",
        "notice",
        f"{asked.asked} asks for CUDA graphs, which are recorded at run time: whether it gets "
        "them is not known here.",
        "A capture on a GPU with --build reports this for each graph that is called three times "
        "or more.",
    )


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
                "Each has its own forward and backward, so that DistributedDataParallel can send "
                "the gradients of one while the backward of the next one runs. This is not a "
                "graph break.",
                view="graphs",
            )


WHAT_TO_DO = (
    "Mark a region, or put the code to compile under with "
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


def look_at(fact: Fact) -> str:
    return f"Look first at: {fact.text}"
