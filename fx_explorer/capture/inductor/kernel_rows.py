"""This module makes rows of what one Inductor graph became (lowered_kernels.py): kernels, their
calls, library calls, their code, and the FX nodes of each call and each line.

A library call has no code of its own: it is the line of the output code that makes it, one Kernel
row per call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch

from fx_explorer.capture.inductor.autotuner_choices import TemplateChoice
from fx_explorer.capture.inductor.decisions import Decision
from fx_explorer.capture.inductor.fusion_decisions import UnfusedNodes
from fx_explorer.capture.inductor.lines_by_node import LineNodes
from fx_explorer.capture.inductor.loop_nests import NestOfLoops
from fx_explorer.capture.inductor.lowered_kernels import (
    GeneratedCall,
    GeneratedKernel,
    LoweredKernels,
)
from fx_explorer.capture.recording.compilation_state import RecordedGraph
from fx_explorer.capture.recording.state import Recording
from fx_explorer.model import (
    SOURCE_LEVEL,
    Artifact,
    ArtifactKind,
    Direction,
    Kernel,
    KernelBuild,
    KernelCall,
    KernelDecision,
    LineNode,
    LineSource,
    LoopNest,
    UnfusedPair,
    WithoutKernel,
)
from fx_explorer.model.rows.graph import How
from fx_explorer.model.rows.kernels import BuildState


def add_lowered(recording: Recording, lowered: LoweredKernels) -> None:
    """Store all results of one graph. A graph that was never recorded (from another caller of
    Inductor) is recorded here.
    """
    inside = recording.segment().subgraph
    direction = recording.here.direction or _direction(lowered)
    if inside:
        lowered = replace(lowered, subgraph=f"{inside}.{lowered.subgraph}".strip("."))
    graph = _graph(recording, lowered, direction)
    with recording.writer.transaction():
        output_code = _output_code(recording, lowered, direction)
        rows = _KernelRows(recording, graph, direction, output_code, lowered.subgraph)
        for kernel in lowered.kernels:
            if kernel.language == "extern":
                for call in kernel.calls:
                    rows.add_library_call(kernel, call)
            else:
                rows.add_generated(kernel)
        rows.add_unfused(lowered.unfused)
        rows.add_nests(lowered.nests)
        rows.add_decisions(lowered.decisions)
        ids = graph.by_name
        absent = lowered.without_kernel.items()
        recording.writer.add_all(
            WithoutKernel(ids[name], reason) for name, reason in absent if name in ids
        )
    if lowered.kernels:
        recording.saw("kernel")
    for problem in lowered.problems:
        recording.unavailable("kernels", problem)


def _direction(lowered: LoweredKernels) -> Direction:
    if lowered.is_backward:
        return "backward"
    return "inference" if lowered.is_inference else "forward"


def _graph(recording: Recording, lowered: LoweredKernels, direction: Direction) -> RecordedGraph:
    """Return the rows of the graph that was lowered. The module is the recorded one itself, unless
    a pass replaced it.
    """
    segment = recording.segment()
    for recorded in segment.post_grad.values():
        recorded_graph = recorded.find(lowered.module)
        if recorded_graph is not None:
            return recorded_graph
    if direction not in segment.post_grad:
        segment.post_grad[direction] = recording.add_graph(
            lowered.module, "post_grad", direction, name=lowered.subgraph
        )
    return segment.post_grad[direction]


def _output_code(recording: Recording, lowered: LoweredKernels, direction: Direction) -> int:
    if not lowered.output_code:
        return 0
    title = f"output code {lowered.subgraph or recording.segment().bucket}".strip()
    artifact = recording.add_artifact(
        "output_code",
        "output_code",
        lowered.output_code,
        title=title,
        language="python",
        direction=direction,
    )
    recording.output_codes.add(recording.writer.text(lowered.output_code))
    return artifact


class _KernelRows:
    """Adds the kernels of one graph, in order."""

    def __init__(
        self,
        recording: Recording,
        graph: RecordedGraph,
        direction: Direction,
        output_code: int,
        subgraph: str,
    ) -> None:
        self._recording = recording
        self._writer = recording.writer
        self._graph = graph
        self._direction: Direction = direction
        self._output_code = output_code
        self._subgraph = subgraph
        self._position = 0
        self._writers: dict[str, int] = {}
        """Buffer → the first KernelCall that writes it."""
        self._cpp_calls: set[int] = set()
        """The KernelCalls of C++ kernels, which may have several loop nests."""
        self._library_calls: dict[str, int] = {}
        """Post-grad node → the first KernelCall of a library that computes it."""

    def add_library_call(self, kernel: GeneratedKernel, call: GeneratedCall) -> None:
        kernel_id = self._add_kernel(kernel, first_line=call.line, artifact=0)
        call_id = self._add_call(kernel_id, 0, call)
        for node in call.nodes:
            self._library_calls.setdefault(node, call_id)
        if call.alone and call.alone.device:
            self._recording.library_calls[call_id] = call.alone
        self._add_choices(kernel_id, kernel, [call_id])

    def add_generated(self, kernel: GeneratedKernel) -> None:
        artifact = self._add_source("kernel", kernel, kernel.source)
        kernel_id = self._add_kernel(kernel, first_line=kernel.first_line, artifact=artifact)
        calls = [
            self._add_call(kernel_id, position, call) for position, call in enumerate(kernel.calls)
        ]
        if kernel.language == "cpp":
            self._cpp_calls.update(calls)
        for call, call_id in zip(kernel.calls, calls, strict=True):
            self._writer.add_values(
                LineNode, self._code_lines(artifact, call.nodes, call.line_nodes, call_id)
            )
        self._writer.add_all(self._copied_lines(artifact, kernel))
        self._add_choices(kernel_id, kernel, calls)

    def add_unfused(self, pairs: Iterable[UnfusedNodes]) -> None:
        """Add the pairs of calls that were not fused, once all calls are there. A node without a
        kernel, an empty tensor for one, has no call.
        """
        for pair in pairs:
            first = self._writer_of(pair.first)
            second = self._writer_of(pair.second)
            if not first or not second:
                continue
            if first == second and first not in self._cpp_calls:
                continue
            first_loops, second_loops = pair.first_loops, pair.second_loops
            first_buffers, second_buffers = pair.first, pair.second
            if not pair.is_dependent and first > second:
                first, second = second, first
                first_loops, second_loops = second_loops, first_loops
                first_buffers, second_buffers = second_buffers, first_buffers
            self._writer.add(
                UnfusedPair(
                    id=0,
                    first=first,
                    second=second,
                    is_dependent=pair.is_dependent,
                    state=pair.state,
                    reason=pair.reason,
                    check=pair.check,
                    saved_bytes=pair.saved_bytes,
                    first_loops=first_loops,
                    second_loops=second_loops,
                    first_buffers=tuple(sorted(first_buffers)),
                    second_buffers=tuple(sorted(second_buffers)),
                    buffers=pair.buffers,
                    names=pair.names,
                    is_exact=pair.is_exact,
                )
            )

    def add_nests(self, nests: Iterable[NestOfLoops]) -> None:
        """Add the loop nests of the kernels that have several."""
        by_call: dict[int, list[NestOfLoops]] = {}
        for nest in nests:
            call = self._writer_of(nest.buffers)
            if call in self._cpp_calls:
                by_call.setdefault(call, []).append(nest)
        for call, of_call in by_call.items():
            if len(of_call) > 1:
                self._writer.add_all(self._nest(call, i, nest) for i, nest in enumerate(of_call))

    def _nest(self, call: int, position: int, nest: NestOfLoops) -> LoopNest:
        ids = self._graph.by_name
        return LoopNest(
            id=0,
            call=call,
            position=position,
            name=nest.name,
            loops=nest.loops,
            buffers=tuple(sorted(nest.buffers)),
            nodes=tuple(sorted(ids[name] for name in nest.nodes if name in ids)),
            outer=nest.outer_name,
            is_outer_shared=nest.written.is_shared,
            local_buffers=nest.written.local_buffers,
        )

    def add_decisions(self, decisions: Iterable[Decision]) -> None:
        """Add the decisions about these calls, once all calls are there. What is about a call that
        was never written (it was not used, or a template took its place) is left out.
        """
        ids = self._graph.by_name
        for decision in decisions:
            call = self._writer_of(decision.buffers)
            if decision.kind == "library call":
                call = self._library_calls.get(decision.node, 0)
            is_of_call = decision.kind == "library call" or not decision.node
            node = ids.get(decision.node, 0)
            if (is_of_call and not call) or not (call or node):
                continue
            self._writer.add(
                KernelDecision(
                    id=0,
                    node=node,
                    call=call,
                    kind=decision.kind,
                    outcome=decision.outcome,
                    check=decision.check,
                    reason=decision.reason,
                    about=ids.get(decision.about, 0),
                    numbers=decision.numbers,
                    texts=decision.texts,
                )
            )

    def _writer_of(self, buffers: Iterable[str]) -> int:
        return next((self._writers[name] for name in buffers if name in self._writers), 0)

    def _copied_lines(self, artifact: int, kernel: GeneratedKernel) -> Iterator[LineSource]:
        """Yield the lines of a kernel that were copied from the user's files. Empty lines are left
        out.
        """
        lines = kernel.source.split("\n")
        for copied in kernel.copied:
            file = self._recording.sources.file(copied.file)
            for i in range(copied.count):
                if lines[copied.line + i - 1].strip():
                    yield LineSource(
                        artifact, copied.line + i, file, copied.file_line + i, "copied"
                    )

    def _add_source(self, kind: ArtifactKind, kernel: GeneratedKernel, source: str) -> int:
        """Add the source as a document of its own and return its id."""
        text = self._writer.text(source, like=f"{kind} {kernel.name}")
        lines = source.removesuffix("\n").count("\n") + 1
        language = kernel.language if kernel.language != "extern" else "triton"
        artifact = Artifact(
            0,
            self._recording.variant_id(),
            kind,
            "kernel",
            self._direction,
            kernel.name,
            language,
            text,
            lines,
        )
        return self._writer.add(artifact)

    def _add_kernel(self, kernel: GeneratedKernel, *, first_line: int, artifact: int) -> int:
        """Add a row for a kernel, in the order of the generated code, and return the row's id."""
        row = Kernel(
            id=0,
            compilation=self._recording.variant_id(),
            direction=self._direction,
            position=self._position,
            name=kernel.name,
            language=kernel.language,
            artifact=artifact,
            output_code=self._output_code,
            first_line=first_line,
            subgraph=self._subgraph,
            estimated_bytes=kernel.estimated_bytes,
            estimated_flops=kernel.estimated_flops,
            runs=kernel.runs,
        )
        self._position += 1
        return self._writer.add(row)

    def _add_choices(self, kernel_id: int, kernel: GeneratedKernel, calls: list[int]) -> None:
        """Add the autotuner's choices. For a template on a virtual GPU, the first is the kernel
        itself. For a real GPU more is known when the recording ends (kernel_launches.py).
        """
        gpu = self._recording.request.gpu
        gpu_name = ""
        if kernel.choices:
            gpu_name = gpu.name if gpu else torch.cuda.get_device_name()
        for position, choice in enumerate(kernel.choices):
            is_kernel = bool(gpu) and position == 0 and bool(choice.source)
            row = _choice_row(kernel_id, position, choice, gpu_name)
            if choice.source and not is_kernel:
                artifact = self._add_source("candidate", kernel, choice.source)
                source = self._writer.text(choice.source)
                row = replace(row, source=source, name=choice.name, levels={SOURCE_LEVEL: artifact})
                for call, call_id in zip(kernel.calls, calls, strict=True):
                    self._link_choice(artifact, call, call_id, choice.options)
            if not gpu:
                row = _as_timed(row, kernel, choice)
            self._writer.add(row)

    def _link_choice(
        self, artifact: int, call: GeneratedCall, call_id: int, options: dict[str, object]
    ) -> None:
        """Link the lines of the choice with these options to this call. Each call has its own
        choices: when they are timed on a GPU, their order differs from call to call.
        """
        for choice in call.choices:
            if choice.options == options:
                nodes = (choice.alone,) if choice.alone else call.nodes
                self._writer.add_values(
                    LineNode, self._code_lines(artifact, nodes, choice.line_nodes, call_id)
                )

    def _add_call(self, kernel_id: int, position: int, call: GeneratedCall) -> int:
        call_id = self._writer.add(
            KernelCall(0, kernel_id, position, call.line, tuple(sorted(call.buffers)))
        )
        for name in call.buffers:
            self._writers.setdefault(name, call_id)
        if self._output_code and call.line:
            nodes = self._node_ids(call.nodes)
            self._writer.add_values(
                LineNode,
                ((self._output_code, call.line, node, "call_site", call_id) for node in nodes),
            )
        return call_id

    def _code_lines(
        self, artifact: int, nodes: tuple[str, ...], line_nodes: LineNodes, call_id: int
    ) -> Iterator[tuple[int, int, int, How, int]]:
        """Yield the fields of each LineNode."""
        for node in self._node_ids(nodes):
            yield artifact, 0, node, "origins", call_id
        for line, name in line_nodes:
            if name in self._graph.by_name:
                yield artifact, line, self._graph.by_name[name], "codegen", call_id

    def _node_ids(self, names: tuple[str, ...]) -> list[int]:
        return [self._graph.by_name[name] for name in names if name in self._graph.by_name]


def _choice_row(kernel_id: int, position: int, choice: TemplateChoice, gpu: str) -> KernelBuild:
    """Return the row of a choice. A library call has nothing to build."""
    if choice.source:
        return KernelBuild(0, kernel_id, position, choice.options, gpu, origin="template")
    return KernelBuild(
        0, kernel_id, position, choice.options, gpu, "built", "library", name=choice.name
    )


def _as_timed(row: KernelBuild, kernel: GeneratedKernel, choice: TemplateChoice) -> KernelBuild:
    """Return the row of a choice that was timed on a real GPU."""
    state: BuildState = "failed" if choice.error else "built"
    is_picked = kernel.language == "extern" and kernel.name.endswith(f".{choice.name}")
    return replace(
        row, state=state, timing_s=choice.timing_s, is_picked=is_picked, error=choice.error
    )
