"""This module makes rows of generated kernels (lowered_kernels.py): kernels, their calls, their
code, and the post-grad node of each line.

A library call has no code of its own: it is the line of the output code that makes it, one Kernel
row per call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from fx_explorer.capture.inductor.autotuner_choices import TemplateChoice
from fx_explorer.capture.inductor.line_text import LineNodes
from fx_explorer.capture.inductor.lowered_kernels import (
    GeneratedCall,
    GeneratedKernel,
    LoweredKernels,
)
from fx_explorer.capture.recording.segments import RecordedGraph
from fx_explorer.capture.recording.state import Recording
from fx_explorer.model import (
    SOURCE_LEVEL,
    Artifact,
    ArtifactKind,
    Direction,
    Kernel,
    KernelBuild,
    KernelCall,
    LineNode,
    LineSource,
    WithoutKernel,
)
from fx_explorer.model.rows.graph import How


def add_lowered(recording: Recording, lowered: LoweredKernels) -> None:
    """Store everything that one graph became. A graph that was never recorded (a foreign caller of
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
    a pass put another in its place.
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

    def add_library_call(self, kernel: GeneratedKernel, call: GeneratedCall) -> None:
        kernel_id = self._add_kernel(kernel, first_line=call.line, artifact=0)
        call_id = self._add_call(kernel_id, 0, call)
        if call.alone and call.alone.device:
            self._recording.library_calls[call_id] = call.alone
        self._add_choices(kernel_id, kernel, [call_id])

    def add_generated(self, kernel: GeneratedKernel) -> None:
        artifact = self._add_source("kernel", kernel, kernel.source)
        kernel_id = self._add_kernel(kernel, first_line=kernel.first_line, artifact=artifact)
        calls = [
            self._add_call(kernel_id, position, call) for position, call in enumerate(kernel.calls)
        ]
        for call, call_id in zip(kernel.calls, calls, strict=True):
            self._writer.add_values(
                LineNode, self._code_lines(artifact, call.nodes, call.line_nodes, call_id)
            )
        self._writer.add_all(self._copied_lines(artifact, kernel))
        self._add_choices(kernel_id, kernel, calls)

    def _copied_lines(self, artifact: int, kernel: GeneratedKernel) -> Iterator[LineSource]:
        """Yield the lines of a kernel that were copied from the user's files. Empty lines are
        nobody's.
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
        """Add the row of a kernel after those before it, and return its id."""
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
        """Add what the autotuner would choose from. For a template on a virtual GPU, the first is
        the kernel itself. Of a real GPU's choices more is known when the recording ends
        (launch_rows.py).
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
        """Link a choice to its call: timed on a GPU, each call has the choices in an order of its
        own.
        """
        for choice in call.choices:
            if choice.options == options:
                nodes = (choice.alone,) if choice.alone else call.nodes
                self._writer.add_values(
                    LineNode, self._code_lines(artifact, nodes, choice.line_nodes, call_id)
                )

    def _add_call(self, kernel_id: int, position: int, call: GeneratedCall) -> int:
        call_id = self._writer.add(KernelCall(0, kernel_id, position, call.line))
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
    """Make the row of a choice. A library has nothing that could be built."""
    if choice.source:
        return KernelBuild(0, kernel_id, position, choice.options, gpu, origin="template")
    return KernelBuild(
        0, kernel_id, position, choice.options, gpu, "built", "library", name=choice.name
    )


def _as_timed(row: KernelBuild, kernel: GeneratedKernel, choice: TemplateChoice) -> KernelBuild:
    """Return the row of a choice that was timed on a real GPU."""
    return replace(
        row,
        state="failed" if choice.error else "built",
        timing_s=choice.timing_s,
        is_picked=kernel.language == "extern" and kernel.name.endswith(f".{choice.name}"),
        error=choice.error,
    )
