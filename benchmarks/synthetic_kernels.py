"""Builds a session with one large post-grad graph and a kernel for each of its nodes, without
compiling anything.

What `ui_stalls.py` opens: a table of 100,000 kernels, and a graph of 100,000 nodes to be written as
Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.synthetic_code import SOURCE, SOURCE_PATH, kernel_code, line_of
from fx_explorer import model
from fx_explorer.session.writer import SessionWriter, finish_session

OPERATIONS = ("add", "mul", "erf", "view", "mm", "permute", "sigmoid", "sub")


def kernels_session(path: Path, kernels: int = 100_000) -> Path:
    """Write a session with so many kernels; each computes a node of one graph, and the next one
    reads it.
    """
    path.unlink(missing_ok=True)
    with SessionWriter(path) as writer:
        file = _begin(writer)
        compilation = writer.add(
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
        nodes = list(_nodes(kernels, file))
        edges = [(at, at + 1) for at in range(kernels)]
        graph = writer.add_graph(
            model.Graph(0, compilation, "post_grad", "forward", call_count=kernels), nodes, edges
        )
        lines = [
            "def call(args):",
            *(f"    {_kernel_name(at)}(buf{at}, buf{at + 1})" for at in range(kernels)),
        ]
        text = writer.text("\n".join(lines) + "\n")
        output = writer.add(
            model.Artifact(
                0,
                compilation,
                "output_code",
                "output_code",
                "forward",
                "Output code",
                "python",
                text,
                len(lines),
            )
        )
        _write_kernels(writer, graph, output, kernels)
    finish_session(path)
    return path


def _begin(writer: SessionWriter) -> int:
    put = writer.set_meta
    put("fx_explorer", "0")
    put("request", {"target": SOURCE_PATH, "session": "", "arguments": [], "backend": "inductor"})
    put("environment", {"torch": "2.13.0", "python": "3.11", "platform": "linux", "device": "cpu"})
    put(
        "target",
        {
            "name": "llama.py:Llama",
            "kind": "module",
            "file": SOURCE_PATH,
            "object": "Llama",
            "train": False,
        },
    )
    put("build", False)
    put("outcome", model.Outcome("finished").to_json())
    return writer.add(model.SourceFile(0, SOURCE_PATH, writer.text(SOURCE), SOURCE.count("\n")))


def _nodes(kernels: int, file: int) -> Iterator[model.Node]:
    yield model.Node(0, 0, 0, "arg0_1", "placeholder", "arg0_1", "", ("4", "512"), "f32")
    names = ["arg0_1", *(f"{OPERATIONS[at % len(OPERATIONS)]}_{at}" for at in range(kernels))]
    for at in range(kernels):
        yield model.Node(
            0,
            0,
            0,
            names[at + 1],
            "call_function",
            f"aten.{OPERATIONS[at % len(OPERATIONS)]}.Tensor",
            f"{names[at]}, {names[max(0, at - 5)]}",
            ("4", "512"),
            "f32",
            ("512", "1"),
            "cpu",
            file=file,
            line=1 + at % 20,
            module=f"layers.{at // 200}.mlp",
            module_type="MLP",
        )


def _kernel_name(at: int) -> str:
    return f"cpp_fused_{OPERATIONS[at % len(OPERATIONS)]}_{at}"


def _write_kernels(writer: SessionWriter, graph: model.Graph, output: int, kernels: int) -> None:
    body = writer.text(kernel_code("cpp_fused", 4))
    rows: list[model.LineNode] = []
    for at in range(kernels):
        name = _kernel_name(at)
        artifact = writer.add(
            model.Artifact(
                0, graph.compilation, "kernel", "kernel", "forward", name, "cpp", body, 20
            )
        )
        size = {"estimated_bytes": 4096 * (1 + at % 97)}
        writer.add(
            model.Kernel(
                0, graph.compilation, "forward", at, name, "cpp", artifact, output, at + 2, **size
            )
        )  # type: ignore[arg-type]
        rows.append(model.LineNode(artifact, 0, graph.first_node + 1 + at, "origins"))
    writer.add_all(rows)
