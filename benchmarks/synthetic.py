"""Builds a large session without compiling anything: a Llama-like training step of any number of
layers.

What the UI benchmarks open: the shape of a real one (nodes a layer, links, shared kernels, stacks)
at any size, in seconds.

    python -m benchmarks.synthetic out.fxs --layers 48
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.synthetic_code import SOURCE, SOURCE_PATH, Layer, kernel_code, line_of
from fx_explorer import model
from fx_explorer.session import SessionReader
from fx_explorer.session.writer import SessionWriter, finish_session

HIDDEN = "f32[4, 512, 4096]"
GROUP = 8
"""Nodes that one kernel computes."""


@dataclass
class Draft:
    """A graph under construction: its nodes, edges and where each node came from (positions in the
    parent graphs).
    """

    nodes: list[model.Node] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)
    """Position in the graph of the stage before, -1 for none."""

    def add(self, node: model.Node, origin: int = -1) -> int:
        position = len(self.nodes)
        self.origins.append(origin)
        used: list[int] = []
        if position and node.op == "call_function":
            used.append(position - 1)
            if position > 1:
                used.append(max(0, position - 6))
        names = [self.nodes[other].name for other in used]
        self.nodes.append(replace(node, arguments=", ".join(names)))
        self.edges += [(other, position) for other in used]
        return position


@dataclass(frozen=True)
class Written:
    """What a session that was built holds, for the benchmark's report."""

    path: Path
    nodes: int
    links: int
    largest_graph: int


def llama_session(path: Path, layers: int = 48) -> Written:
    """Write the session of a training step with ``layers`` layers: about 700 nodes a layer over all
    stages.
    """
    path.unlink(missing_ok=True)
    with SessionWriter(path) as writer:
        session = _Session(writer, layers)
        session.write()
    finish_session(path)
    return Written(path, session.node_count, session.link_count, session.largest_graph)


def add_times(path: Path) -> None:
    """Give the session a profile in which every call of a kernel ran ten times."""
    with SessionReader(path) as reader:
        calls = reader.rows(model.KernelCall)
    seconds = [10e-6 * (1 + at * 7919 % 1000) for at in range(len(calls))]
    whole = sum(seconds)
    counts = {"events": 0, "skipped": 0, "graph_calls": 10, "joined_calls": 10, "gaps": 0}
    sums = {
        "work_s": whole,
        "compiled_s": whole,
        "joined_s": whole,
        "shared_s": 0.0,
        "span_s": whole,
        "busy_s": whole,
    }
    with SessionWriter(path) as writer, writer.transaction():
        profile = writer.add(
            model.Profile(
                0, "trace.json", "synthetic", "a GPU", is_of_gpu=True, problem="", **counts, **sums
            )  # type: ignore[arg-type]
        )
        writer.add_all(
            model.ProfileTime(0, profile, call.kernel, call.id, "order", took, 10)
            for call, took in zip(calls, seconds, strict=True)
        )


class _Session:
    """Writes the stages one after the other, as a worker would."""

    def __init__(self, writer: SessionWriter, layers: int) -> None:
        self._writer = writer
        self._layers = layers
        self.node_count = 0
        self.link_count = 0
        self.largest_graph = 0

    def write(self) -> None:
        self._write_meta()
        lines = SOURCE.count("\n")
        self._file = self._writer.add(
            model.SourceFile(0, SOURCE_PATH, self._writer.text(SOURCE), lines)
        )
        self._stacks = {op.code: self._stack(op.code, op.function) for op in Layer.OPS}
        self._compilation = self._writer.add(
            model.Compilation(
                0,
                "0/0",
                0,
                0,
                "Llama.forward",
                SOURCE_PATH,
                line_of("def forward(self, tokens"),
                status="ok",
            )
        )
        dynamo, joint = self._dynamo_and_joint()
        top = self._add_graph("dynamo", "", dynamo)
        middle = self._add_graph("joint", "", joint, top)
        for direction in ("forward", "backward"):
            aot = self._part(joint, direction == "backward")
            graph = self._add_graph(direction, direction, aot, middle)
            lowered = Draft()
            for position, node in enumerate(aot.nodes):
                lowered.add(node, position)
            post_grad = self._add_graph("post_grad", direction, lowered, graph)
            self._write_kernels(direction, post_grad)
        self._write_observations()

    def _write_meta(self) -> None:
        put = self._writer.set_meta
        put("fx_explorer", "0")
        put(
            "request",
            {"target": SOURCE_PATH, "session": "", "arguments": [], "backend": "inductor"},
        )
        put(
            "environment",
            {"torch": "2.13.0", "python": "3.11", "platform": "linux", "device": "cpu"},
        )
        put("started", "2026-01-01T00:00:00+00:00")
        put(
            "target",
            {
                "name": "llama.py:Llama",
                "kind": "module",
                "file": SOURCE_PATH,
                "object": "Llama",
                "train": True,
            },
        )
        put("build", False)
        put("progress", "")
        put(
            "counters",
            {"frames": {"total": 1, "ok": 1}, "stats": {"unique_graphs": 1}, "graph_break": {}},
        )
        put("outcome", model.Outcome("finished").to_json())
        put("finished", 30.0)

    def _stack(self, code: str, function: str) -> int:
        frames = (
            model.Frame(SOURCE_PATH, line_of("x = layer(x)"), "Llama.forward", "x = layer(x)"),
            model.Frame(SOURCE_PATH, line_of("x = x + self.attention"), "Layer.forward"),
            model.Frame(SOURCE_PATH, line_of(code), function, code),
        )
        return self._writer.add_stack(model.Stack(0, frames), {SOURCE_PATH: self._file})

    def _dynamo_and_joint(self) -> tuple[Draft, Draft]:
        dynamo, joint = Draft(), Draft()
        dynamo.add(
            model.Node(0, 0, 0, "l_tokens_", "placeholder", "L_tokens_", "", ("4", "512"), "i64")
        )
        joint.add(
            model.Node(0, 0, 0, "primals_1", "placeholder", "primals_1", "", ("4", "512"), "i64"), 0
        )
        backward: list[tuple[model.Node, int]] = []
        for layer in range(self._layers):
            for op in Layer.OPS:
                here = dynamo.add(
                    self._node(op.name, op.target, layer, op.code, op.module, len(dynamo.nodes))
                )
                for target in op.forward:
                    node = self._node(
                        target,
                        f"aten.{target}.default",
                        layer,
                        op.code,
                        op.module,
                        len(joint.nodes),
                    )
                    joint.add(node, here)
                nodes = [
                    self._node(target, f"aten.{target}.default", layer, op.code, op.module, 0)
                    for target in op.backward
                ]
                backward += [(node, here) for node in nodes]
        for node, origin in reversed(backward):
            joint.add(_renamed(node, len(joint.nodes), is_backward=True), origin)
        return dynamo, joint

    def _node(
        self, name: str, target: str, layer: int, code: str, module: str, number: int
    ) -> model.Node:
        return model.Node(
            0,
            0,
            0,
            f"{name}_{number}",
            "call_function",
            target,
            "",
            ("4", "512", "4096"),
            "f32",
            ("2097152", "4096", "1"),
            "cpu",
            stack=self._stacks[code],
            file=self._file,
            line=line_of(code),
            module=f"layers.{layer}.{module}",
            module_type="Attention" if module.startswith("attention") else "MLP",
            seq_nr=number,
            is_view=target.split(".")[-2:-1] in (["view"], ["permute"]),
        )

    @staticmethod
    def _part(joint: Draft, is_backward: bool) -> Draft:
        part = Draft()
        for position, node in enumerate(joint.nodes):
            if node.op == "placeholder" or node.is_backward == is_backward:
                part.add(node, position)
        return part

    def _add_graph(
        self, stage: model.Stage, direction: str, draft: Draft, parent: model.Graph | None = None
    ) -> model.Graph:
        calls = sum(node.op == "call_function" for node in draft.nodes)
        wanted = model.Graph(0, self._compilation, stage, direction, call_count=calls)  # type: ignore[arg-type]
        graph = self._writer.add_graph(wanted, draft.nodes, draft.edges)
        if parent is not None:
            links = [
                model.Link(graph.first_node + position, parent.first_node + origin, "from_node")
                for position, origin in enumerate(draft.origins)
                if origin >= 0
            ]
            self._writer.add_all(links)
            self.link_count += len(links)
        self.node_count += graph.node_count
        self.largest_graph = max(self.largest_graph, graph.node_count)
        return graph

    # kernels

    def _write_kernels(self, direction: model.Direction, graph: model.Graph) -> None:
        """Repeated layers share their kernels: one for every ``GROUP`` nodes of the first layer,
        called once a layer.
        """
        per_layer = (graph.node_count - 1) // self._layers
        groups = [
            range(start, min(start + GROUP, per_layer)) for start in range(0, per_layer, GROUP)
        ]
        output, placed = self._output_code(direction, groups)
        output_id = self._artifact(
            "output_code", "output_code", direction, f"Output code ({direction})", "python", output
        )
        rows: list[model.LineNode] = []
        for index, (group, (name, first_line)) in enumerate(zip(groups, placed, strict=True)):
            artifact = self._artifact(
                "kernel", "kernel", direction, name, "cpp", kernel_code(name, len(group))
            )
            kernel = self._writer.add(
                model.Kernel(
                    0,
                    self._compilation,
                    direction,
                    index,
                    name,
                    "cpp",
                    artifact,
                    output_id,
                    first_line,
                )
            )
            rows += self._lines_of_kernel(
                graph, group, per_layer, index, kernel, artifact, output_id, len(groups), output
            )
        self._writer.add_all(rows)

    def _lines_of_kernel(
        self,
        graph: model.Graph,
        group: range,
        per_layer: int,
        index: int,
        kernel: int,
        artifact: int,
        output_id: int,
        group_count: int,
        output: str,
    ) -> Iterator[model.LineNode]:
        first_call = output[: output.index("def call(")].count("\n") + 2
        for layer in range(self._layers):
            line = first_call + (layer * group_count + index) * 2 + 2
            call = self._writer.add(model.KernelCall(0, kernel, layer * group_count + index, line))
            for offset, position in enumerate(group):
                node = graph.first_node + 1 + layer * per_layer + position
                yield model.LineNode(artifact, 0, node, "origins", call)
                yield model.LineNode(artifact, 5 + offset, node, "codegen", call)
                yield model.LineNode(output_id, line, node, "call_site", call)

    def _output_code(
        self, direction: str, groups: list[range]
    ) -> tuple[str, list[tuple[str, int]]]:
        """The text, and each kernel's name with the line (from 1) where its code starts."""
        lines = [
            "# AOT ID: ['0_forward']",
            "import torch",
            "from torch._inductor.async_compile import AsyncCompile",
        ]
        lines += [
            "async_compile = AsyncCompile()",
            "empty_strided_cpu = torch._C._dynamo.guards._empty_strided_cpu",
            "",
        ]
        placed = []
        for index, group in enumerate(groups):
            name = f"cpp_fused_{direction}_add_mul_{index}"
            lines.append(f"{name} = async_compile.cpp_pybinding(['const float*', 'float*'], r'''")
            placed.append((name, len(lines) + 1))
            lines += [*kernel_code(name, len(group)).splitlines(), "''')", ""]
        lines += ["async_compile.wait(globals())", "def call(args):", "    primals_1, = args"]
        for layer in range(self._layers):
            for index in range(len(groups)):
                buffer = layer * len(groups) + index
                lines.append(
                    f"    buf{buffer} = empty_strided_cpu((4, 512, 4096), (2097152, 4096, 1), torch.float32)"
                )
                lines.append(f"    {placed[index][0]}(primals_1, buf{buffer})")
        lines.append("    return (buf0, )")
        return "\n".join(lines) + "\n", placed

    def _artifact(
        self, kind: str, stage: str, direction: str, title: str, language: str, text: str
    ) -> int:
        return self._writer.add(
            model.Artifact(
                0,
                self._compilation,
                kind,  # type: ignore[arg-type]
                stage,  # type: ignore[arg-type]
                direction,  # type: ignore[arg-type]
                title,
                language,
                self._writer.text(text),
                text.count("\n"),
            )
        )

    def _write_observations(self) -> None:
        self._writer.add_all(
            model.Guard(
                0,
                self._compilation,
                i,
                "TENSOR_MATCH",
                f"L['self'].layers[{i}].weight",
                "check_tensor(...)",
                "",
            )
            for i in range(self._layers * 4)
        )
        spans: list[tuple[str, model.Stage, float, float, int]] = [
            ("_compile.compile_inner", "dynamo", 0.0, 30.0, 0),
            ("bytecode_tracing", "dynamo", 0.1, 6.0, 1),
            ("create_aot_dispatcher_function", "joint", 6.2, 9.0, 1),
            ("GraphLowering.run", "post_grad", 15.5, 5.0, 1),
            ("GraphLowering.codegen", "output_code", 20.6, 9.0, 1),
        ]
        self._writer.add_all(
            model.Span(0, self._compilation, name, stage, start, duration, depth)
            for name, stage, start, duration, depth in spans
        )
        self._writer.add(model.ConsoleLine(0, "stdout", "loss 2.31", 29.0))


def _renamed(node: model.Node, number: int, is_backward: bool) -> model.Node:
    name = node.name.rpartition("_")[0]
    return replace(node, name=f"{name}_{number}", is_backward=is_backward)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path)
    parser.add_argument("--layers", type=int, default=48)
    options = parser.parse_args()
    written = llama_session(options.path, options.layers)
    size_mb = written.path.stat().st_size / 1e6
    print(f"{written.path}: {written.nodes:,} nodes, {written.links:,} links, {size_mb:.1f} MB")


if __name__ == "__main__":
    main()
