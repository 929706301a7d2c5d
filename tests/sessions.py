"""This module writes sessions by hand: a small training step with every kind of row, and graphs of
any size.

The answers expected of them can be read off this file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fx_explorer import model
from fx_explorer.session import SessionReader, SessionWriter

SOURCE = """import torch
import torch.nn.functional as F


class MLP(torch.nn.Module):
    def forward(self, x):
        h = F.gelu(self.fc1(x))
        return self.fc2(h)
"""
OUTPUT_CODE = """# forward
kernel = async_compile.cpp('''
void kernel(const float* in) {
    auto tmp0 = in[0];
    auto tmp1 = gelu(tmp0);
}
''')
def call(args):
    extern_kernels.addmm(bias, x, w)
    kernel(buf0)
    extern_kernels.addmm(bias2, buf0, w2)
"""
KERNEL = """void kernel(const float* in) {
    auto tmp0 = in[0];
    auto tmp1 = gelu(tmp0);
}
"""


Written = Callable[[Callable[[SessionWriter], object]], SessionReader]
"""The fixture that opens a session some function writes."""


@dataclass
class Hand:
    """Hand has the ids of the rows that ``write_training_step`` wrote, by name."""

    path: Path
    source: int
    graphs: dict[str, model.Graph]
    kernel: int
    output_code: int
    kernel_artifact: int
    bytecode: int

    def node(self, graph: str, position: int) -> int:
        return self.graphs[graph].first_node + position


def write_training_step(path: Path, *, finished: bool = True) -> Hand:
    """An MLP's training step, by hand: dynamo → joint → forward/backward → post-grad → one kernel
    and two library calls.
    """
    with SessionWriter(path) as writer:
        writer.set_meta("fx_explorer", "0.1.0")
        writer.set_meta("environment", {"torch": "2.13.0", "python": "3.11", "device": "cpu"})
        writer.set_meta(
            "target",
            {
                "name": "mlp.py:MLP",
                "kind": "module",
                "file": "/p/mlp.py",
                "object": "MLP",
                "train": True,
            },
        )
        writer.set_meta("build", False)
        file = writer.add(model.SourceFile(0, "/p/mlp.py", writer.text(SOURCE), SOURCE.count("\n")))
        stacks = {
            line: writer.add_stack(
                model.Stack(
                    0,
                    (
                        model.Frame(
                            "/p/mlp.py", line, "forward", SOURCE.splitlines()[line - 1].strip()
                        ),
                    ),
                ),
                {"/p/mlp.py": file},
            )
            for line in (7, 8)
        }
        compilation = writer.add(
            model.Compilation(
                0,
                "0/0",
                0,
                0,
                "MLP.forward",
                "/p/mlp.py",
                6,
                status="ok",
                backend="inductor",
                duration_s=2.0,
            )
        )

        def node(
            name: str, target: str, line: int, *, op: str = "call_function", **extra: object
        ) -> model.Node:
            stack = stacks.get(line, 0)
            shape = ("4", "8")
            return model.Node(
                0,
                0,
                0,
                name,
                op,
                target,
                "",
                shape,
                "f32",
                stack=stack,
                file=file if stack else 0,
                line=line,
                **extra,
            )  # type: ignore[arg-type]

        def graph(
            stage: model.Stage, direction: model.Direction, nodes: list[model.Node]
        ) -> model.Graph:
            calls = sum(n.op == "call_function" for n in nodes)
            chain = [(i, i + 1) for i in range(len(nodes) - 1)]
            return writer.add_graph(
                model.Graph(0, compilation, stage, direction, call_count=calls), nodes, chain
            )

        x = node("x", "x", 0, op="placeholder")
        out = node("output", "output", 0, op="output")
        forward = [
            x,
            node("addmm", "aten.addmm.default", 7),
            node("gelu", "aten.gelu.default", 7),
            node("addmm_1", "aten.addmm.default", 8),
            out,
        ]
        backward = [
            node("tangent", "tangent", 0, op="placeholder"),
            node("mm", "aten.mm.default", 8, is_backward=True),
            node("gelu_backward", "aten.gelu_backward.default", 7, is_backward=True),
            out,
        ]
        graphs = {
            "dynamo": graph(
                "dynamo",
                "",
                [
                    x,
                    node("fc1", "linear", 7),
                    node("gelu", "gelu", 7),
                    node("fc2", "linear", 8),
                    out,
                ],
            ),
            "joint": graph("joint", "", forward[:-1] + backward[1:]),
            "forward": graph("forward", "forward", forward),
            "backward": graph("backward", "backward", backward),
            "post_forward": graph("post_grad", "forward", forward),
            "post_backward": graph("post_grad", "backward", backward),
        }

        def link(
            child: str, positions: list[int], parent: str, parents: list[int], how: str
        ) -> None:
            pairs = zip(positions, parents, strict=True)
            writer.add_all(
                model.Link(graphs[child].first_node + c, graphs[parent].first_node + p, how)  # type: ignore[arg-type]
                for c, p in pairs
            )

        link("joint", [1, 2, 3, 4, 5], "dynamo", [1, 2, 3, 3, 2], "source_fn_stack")
        link("forward", [1, 2, 3], "joint", [1, 2, 3], "identity")
        link("backward", [1, 2], "joint", [4, 5], "identity")
        link("post_forward", [1, 2, 3], "forward", [1, 2, 3], "identity")
        link("post_backward", [1, 2], "backward", [1, 2], "identity")

        def artifact(
            kind: str, stage: str, direction: str, title: str, language: str, text: str
        ) -> int:
            return writer.add(
                model.Artifact(
                    0,
                    compilation,
                    kind,
                    stage,
                    direction,
                    title,
                    language,
                    writer.text(text),
                    text.count("\n"),  # type: ignore[arg-type]
                )
            )

        bytecode = artifact(
            "bytecode_original", "dynamo", "", "", "bytecode", "7 LOAD_FAST x\n8 CALL\n"
        )
        writer.add_all(
            [model.LineSource(bytecode, 1, file, 7), model.LineSource(bytecode, 2, file, 8)]
        )
        output_code = artifact("output_code", "output_code", "forward", "", "python", OUTPUT_CODE)
        kernel_artifact = artifact("kernel", "kernel", "forward", "kernel", "cpp", KERNEL)
        kernel = writer.add(
            model.Kernel(
                0, compilation, "forward", 1, "kernel", "cpp", kernel_artifact, output_code, 3
            )
        )
        call = writer.add(model.KernelCall(0, kernel, 0, 10))
        post = graphs["post_forward"].first_node
        writer.add_all(
            [
                model.LineNode(kernel_artifact, 0, post + 2, "origins", call),
                model.LineNode(kernel_artifact, 3, post + 2, "codegen"),
            ]
        )
        for position, line, computed in ((0, 9, post + 1), (2, 11, post + 3)):
            writer.add(
                model.Kernel(
                    0,
                    compilation,
                    "forward",
                    position,
                    "extern_kernels.addmm",
                    "extern",
                    0,
                    output_code,
                    line,
                )
            )
            writer.add(model.LineNode(output_code, line, computed, "call_site"))
        writer.add(
            model.SavedTensor(
                0,
                compilation,
                "addmm",
                "activation",
                ("4", "8"),
                "f32",
                128,
                graphs["forward"].first_node + 1,
                graphs["backward"].first_node,
            )
        )
        writer.add_all(
            [
                model.Span(0, compilation, "_compile.compile_inner", "dynamo", 0.0, 2.0, 0),
                model.Span(0, compilation, "GraphLowering.run", "schedule", 0.5, 1.0, 1),
                model.Span(0, compilation, "codegen", "output_code", 0.75, 0.5, 2),
            ]
        )
        if finished:
            writer.set_meta("outcome", model.Outcome("finished").to_json())
            writer.set_meta("finished", 2.5)
    return Hand(path, file, graphs, kernel, output_code, kernel_artifact, bytecode)


def write_large(path: Path, node_count: int, *, nodes_a_line: int = 20) -> Hand:
    """A training step of ``node_count`` nodes a graph: every node linked through all stages, one
    kernel for each ten nodes.
    """
    with SessionWriter(path) as writer:
        lines = node_count // nodes_a_line + 2
        source = "\n".join(f"    x = layer_{i}(x)" for i in range(lines)) + "\n"
        file = writer.add(model.SourceFile(0, "/p/big.py", writer.text(source), lines))
        compilation = writer.add(
            model.Compilation(
                0, "0/0", 0, 0, "Big.forward", "/p/big.py", 1, status="ok", duration_s=9.0
            )
        )
        with writer.transaction():
            stacks = [
                writer.add_stack(
                    model.Stack(0, (model.Frame("/p/big.py", i + 1, "forward"),)),
                    {"/p/big.py": file},
                )
                for i in range(lines)
            ]
        nodes = [
            model.Node(0, 0, 0, f"mul_{i}", "call_function", "aten.mul.Tensor", "x, 2", ("4", "64"), "f32",
                       stack=stacks[i // nodes_a_line], file=file, line=i // nodes_a_line + 1)
            for i in range(node_count)
        ]  # fmt: skip
        edges = [(i, i + 1) for i in range(node_count - 1)]
        graphs = {}
        plan: list[tuple[str, model.Stage, model.Direction, str]] = [
            ("dynamo", "dynamo", "", ""),
            ("joint", "joint", "", "dynamo"),
            ("forward", "forward", "forward", "joint"),
            ("backward", "backward", "backward", "dynamo"),
            ("post_forward", "post_grad", "forward", "forward"),
            ("post_backward", "post_grad", "backward", "backward"),
        ]
        for name, stage, direction, parent in plan:
            graphs[name] = writer.add_graph(
                model.Graph(0, compilation, stage, direction, call_count=node_count), nodes, edges
            )
            if parent:
                child_first, parent_first = graphs[name].first_node, graphs[parent].first_node
                writer.add_all(
                    model.Link(child_first + i, parent_first + i, "identity")
                    for i in range(node_count)
                )
        kernel = artifact = output_code = 0
        for name, direction in (("post_forward", "forward"), ("post_backward", "backward")):
            text = "".join(f"    kernel_{i}(x)\n" for i in range(node_count // 10))
            output_code = writer.add(
                model.Artifact(0, compilation, "output_code", "output_code", direction, "", "python", writer.text(text),
                               node_count // 10)  # type: ignore[arg-type]
            )  # fmt: skip
            with writer.transaction():
                for i in range(node_count // 10):
                    code = f"void kernel_{i}() {{\n" + "    tmp = x;\n" * 10 + "}\n"
                    artifact = writer.add(
                        model.Artifact(
                            0,
                            compilation,
                            "kernel",
                            "kernel",
                            direction,
                            f"kernel_{i}",
                            "cpp",
                            writer.text(code),
                            12,
                        )  # type: ignore[arg-type]
                    )
                    kernel = writer.add(
                        model.Kernel(
                            0,
                            compilation,
                            direction,
                            i,
                            f"kernel_{i}",
                            "cpp",
                            artifact,
                            output_code,
                        )
                    )  # type: ignore[arg-type]
                    writer.add(model.KernelCall(0, kernel, 0, i + 1))
                    first = graphs[name].first_node + 10 * i
                    writer.add_all(
                        model.LineNode(artifact, line, first + (line - 1 if line else j), "codegen")
                        for line, j in [(0, j) for j in range(10)] + [(j + 2, j) for j in range(9)]
                    )
        writer.set_meta("outcome", model.Outcome("finished").to_json())
    return Hand(path, file, graphs, kernel, output_code, artifact, 0)
