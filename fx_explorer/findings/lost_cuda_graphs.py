"""CUDA graphs that were asked for (mode="reduce-overhead", "max-autotune", triton.cudagraphs) and
are not had: graphs that torch does not record, records in part, or records again and again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.cuda_graph_states import (
    CudaGraph,
    CudaGraphReason,
    cuda_graphs,
    skip_reason,
)
from fx_explorer.analysis.documents import Place, place_of_path
from fx_explorer.analysis.input_names import InputNames
from fx_explorer.analysis.words import listed
from fx_explorer.findings.finding import Finding, Remedy, Urgency
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

MANY_RECORDINGS = 3
"""Number of recordings of one graph from which on they are reported: each takes memory and a slow
call.
"""

FEWER_SIZES = (
    Remedy("Pad to a few sizes."),
    Remedy("Set torch._inductor.config.triton.cudagraph_skip_dynamic_graphs = True."),
)


@dataclass(frozen=True, slots=True)
class _Words:
    """What a reason of torch's means, and what to do."""

    begins: str
    """How torch's words begin."""
    explanation: str
    remedies: tuple[Remedy, ...] = ()


CPU_OPERATOR = "cpu ops"

COPY = "DeviceCopy ops"

MOST_INPUTS = 4

ON_THE_GPU = Remedy(
    "Make the tensor on the GPU (device=…), once and before the call; a scalar tensor may become "
    "a Python number."
)

REASONS = (
    _Words(
        "mutated inputs",
        "torch copies the inputs of a CUDA graph to its own memory, so writes into them would not "
        "reach the program. Parameters, buffers and results of other CUDA graphs are not copied, "
        "and may be written into.",
        (
            Remedy("Return the new value, and assign it outside of the compiled function."),
            Remedy(
                "If it is the same tensor in each call, make it a buffer of the module, or call "
                "torch._dynamo.mark_static_address(tensor) before the first call."
            ),
        ),
    ),
    _Words(
        CPU_OPERATOR,
        "An operator computes with a tensor on the CPU, which no CUDA graph can record. torch "
        "records the operators before and after it.",
        (ON_THE_GPU,),
    ),
    _Words(
        COPY,
        "Each call copies a tensor between the CPU and the GPU, which torch does not record in a "
        "CUDA graph.",
        (ON_THE_GPU,),
    ),
    _Words("cpu device", "The graph has tensors on the CPU.", (ON_THE_GPU,)),
    _Words(
        "unbacked binding ops",
        "The size of a result depends on the values, so it is known only when the operator has "
        "run. torch records the operators before and after it.",
        (
            Remedy(
                "Use an operator whose result has a fixed size, such as torch.where with a mask."
            ),
        ),
    ),
    _Words(
        "input storage mutation",
        "The graph gives an input other memory (set_), but a CUDA graph has fixed addresses.",
        (Remedy("Call set_ outside of the compiled function."),),
    ),
    _Words(
        "CUDAGraph-unsafe custom ops",
        "The operator cannot be recorded: it waits for the GPU, is a loop in the graph, writes by "
        "a boolean mask, makes a sparse tensor, or has the tag cudagraph_unsafe. torch records "
        "the operators before and after it.",
        (Remedy("If it writes by a boolean mask, use torch.where with the mask."),),
    ),
    _Words(
        "dynamic shape ops",
        "torch._inductor.config.triton.cudagraph_skip_dynamic_graphs is set, so graphs with "
        "dynamic sizes are not recorded.",
        (Remedy("Pad to a few sizes, and remove the option."),),
    ),
)
"""torch's reasons (torch/_inductor/cudagraph_utils.py; scheduler.py, should_partition)."""


def _words_for(reason: CudaGraphReason) -> _Words:
    for words in REASONS:
        if reason.text.startswith(words.begins):
            return words
    return _Words("", "")


def find_cuda_graphs(reader: SessionReader) -> Iterator[Finding]:
    """Yield a finding for each reason why a graph does not run as a CUDA graph, with the graphs
    that it holds for, and for each graph that is recorded too seldom or too often.
    """
    asked = cuda_graphs(reader)
    skipped = [graph for graph in asked.graphs if graph.state == "skipped"]
    in_parts = [graph for graph in asked.graphs if graph.state == "in parts"]
    unknown = [graph for graph in asked.graphs if graph.state == "not known"]
    yield from _by_reason(
        reader, skipped, "{graphs} does not run as a CUDA graph: {why}.", "not compiled"
    )
    yield from _by_reason(
        reader,
        in_parts,
        "{graphs} runs only in part as CUDA graphs; outside of them: {why}.",
        "slow",
    )
    yield from _by_reason(
        reader,
        unknown,
        "{graphs} would run only in part as CUDA graphs; outside of them: {why}.",
        "slow",
    )
    for graph in asked.graphs:
        if graph.state == "not recorded":
            yield _not_recorded(graph)
        elif graph.recorded >= MANY_RECORDINGS:
            yield _recordings(graph)
    for graph in unknown:
        yield from _decided(reader, graph)
    whole = [row for row in unknown if not (row.reasons or row.mutated or row.changing)]
    if whole:
        yield _would_run(reader, whole)


def _would_run(reader: SessionReader, graphs: Sequence[CudaGraph]) -> Finding:
    """Return that graphs which did not run on a GPU would run as CUDA graphs there, and what comes
    of it: the one thing about them that no capture without a GPU shows.
    """
    one = len(graphs) == 1
    emulated = reader.meta("virtual_gpu") or {}
    is_on_cpu = emulated.get("feeding") == "transplant"
    is_moved = is_on_cpu or bool(emulated.get("puts_everything_there"))
    evidence = []
    if is_moved:
        evidence.append(
            "In this capture, all tensors of the program were moved to the virtual GPU. If the "
            "program keeps a tensor on the CPU, torch cannot record operators that use it."
        )
    return Finding(
        kind="CUDA graph",
        text=(
            f"{listed([graph.name for graph in graphs])} would run as "
            f"{'a CUDA graph' if one else 'CUDA graphs'}"
            f"{' with all tensors on the GPU' if is_moved else ''}: each call overwrites the "
            "results of the call before."
        ),
        evidence=tuple(evidence),
        urgency="minor",
        severity="notice",
        topic="call",
        explanation=(
            "torch compiled for CUDA graphs and excluded nothing. All calls of a CUDA graph share "
            "memory: a result that is kept beyond the next call is overwritten, and torch raises "
            "an error when it is read."
        ),
        remedies=(
            Remedy(
                "Clone results that you keep from one call to the next, outside of the "
                "compiled code."
            ),
            Remedy("Call torch.compiler.cudagraph_mark_step_begin() before each step."),
        ),
        count=len(graphs),
    )


def _by_reason(
    reader: SessionReader, graphs: Sequence[CudaGraph], text: str, urgency: Urgency
) -> Iterator[Finding]:
    names: dict[CudaGraphReason, list[str]] = {}
    for graph in graphs:
        for reason in _causes(graph):
            names.setdefault(reason, []).append(graph.name)
    for reason, graph_names in names.items():
        sentence = text.format(graphs=listed(graph_names), why=f"{reason.text}{_where(reason)}")
        words = _words_for(reason)
        evidence = [reason.code] if reason.code else []
        inputs = _inputs_on_cpu(reader, graph_names) if ON_THE_GPU in words.remedies else []
        if inputs:
            evidence.append(f"Inputs on the CPU: {listed(inputs, MOST_INPUTS)}.")
        yield Finding(
            kind="CUDA graph",
            text=sentence,
            urgency=urgency,
            topic="call",
            place=_place(reader, reason),
            evidence=tuple(evidence),
            explanation=words.explanation,
            remedies=words.remedies,
            count=len(graph_names),
        )


def _causes(graph: CudaGraph) -> list[CudaGraphReason]:
    """Return the reasons of a graph, without a copy to the GPU of the tensor that another reason
    has already: torch leaves out both the copy and what computes with it.
    """
    on_cpu = {(row.file, row.line) for row in graph.reasons if row.text.startswith(CPU_OPERATOR)}
    return [
        reason
        for reason in graph.reasons
        if not (reason.text.startswith(COPY) and (reason.file, reason.line) in on_cpu)
    ]


def _inputs_on_cpu(reader: SessionReader, graph_names: Sequence[str]) -> list[str]:
    """Return the inputs of these graphs that are tensors on the CPU, as the program names them."""
    placeholders: list[model.Node] = []
    for compilation in reader.rows(model.Compilation):
        for graph in reader.rows(model.Graph, compilation=compilation.id, stage="post_grad"):
            if f"[{compilation.name}] {graph.direction}".strip() in graph_names:
                inputs = reader.rows(model.Node, graph=graph.id, op="placeholder")
                placeholders += [node for node in inputs if node.device == "cpu"]
    names = InputNames(reader).of(placeholders)
    return list(dict.fromkeys(name.name for name in names.values()))


def _where(reason: CudaGraphReason) -> str:
    return f" at {in_file(reason.file, reason.line)}" if reason.file else ""


def _place(reader: SessionReader, reason: CudaGraphReason) -> Place | None:
    return place_of_path(reader, reason.file, reason.line) if reason.file else None


def _not_recorded(graph: CudaGraph) -> Finding:
    if graph.sizes == 1:
        return Finding(
            kind="CUDA graph",
            text=f"{graph.name} was not called often enough to be recorded as a CUDA graph.",
            urgency="minor",
            severity="notice",
            topic="call",
            explanation="torch records a graph when it is called the second time.",
        )
    return Finding(
        kind="CUDA graph",
        text=(
            f"{graph.name} was called with {graph.sizes} sizes, each only once, so none was "
            "recorded as a CUDA graph."
        ),
        urgency="not compiled",
        topic="call",
        explanation="torch records a size when it occurs the second time.",
        remedies=FEWER_SIZES,
    )


def _recordings(graph: CudaGraph) -> Finding:
    why = f" ({graph.why_again[0]})" if graph.why_again else ""
    sizes = f", for {graph.sizes} sizes" if graph.sizes > 1 else ""
    return Finding(
        kind="CUDA graph",
        text=f"{graph.name} was recorded {graph.recorded} times as a CUDA graph{sizes}{why}.",
        urgency="again",
        severity="notice",
        topic="call",
        explanation=(
            "Each recording takes extra memory and one slow call. torch records one for each size."
        ),
        remedies=FEWER_SIZES,
        count=graph.recorded,
    )


def _decided(reader: SessionReader, graph: CudaGraph) -> Iterator[Finding]:
    """Yield what torch decided about a graph's CUDA graph while it compiled the graph."""
    if graph.mutated:
        reason = skip_reason(graph.mutated)
        yield Finding(
            kind="CUDA graph",
            text=(
                f"{graph.name} writes into inputs{_where(reason)}: torch runs it as a CUDA graph "
                "only if these come from another CUDA graph."
            ),
            urgency="slow",
            severity="notice",
            topic="call",
            place=_place(reader, reason),
            evidence=(reason.code,) if reason.code else (),
        )
    if graph.changing:
        yield Finding(
            kind="CUDA graph",
            text=(
                f"{graph.name} takes dynamic sizes ({listed(graph.changing)}): torch "
                "records a CUDA graph for each combination that comes twice."
            ),
            urgency="slow",
            severity="notice",
            topic="call",
            remedies=FEWER_SIZES,
        )
