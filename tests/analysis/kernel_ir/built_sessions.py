"""These helpers write sessions around a recorded kernel: a post-grad graph, the kernel, and one
configuration built or not.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from fx_explorer import model
from fx_explorer.gpus import find_gpu
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.ownership import mark_as_captured_here
from tests.analysis.kernel_ir.samples import Sample

REGISTERS = 30
ESTIMATED_BYTES = 516_000
"""Inductor's estimate for the softmax: 64 × 1000 floats in and out, and 1000 more."""


@dataclass(frozen=True)
class Written:
    path: Path
    kernel: int
    artifact: int
    graph: model.Graph
    """Post-grad; its nodes are those that the kernel's lines compute."""


def write_kernel(
    path: Path,
    sample: Sample,
    *,
    source: str = "",
    name: str = "",
    built: bool = True,
    own: bool = True,
) -> Written:
    """Write a kernel with ``source`` and ``name`` in place of the recorded ones. ``own`` marks the
    session as captured here.
    """
    with SessionWriter(path) as writer:
        writer.set_meta(
            "request", {"target": "m.py", "gpu": dataclasses.asdict(find_gpu(sample.gpu))}
        )
        names = sorted({name for nodes in sample.fields["fx_lines"].values() for name in nodes})
        nodes = [
            model.Node(0, 0, 0, node, "call_function", f"aten.{node}", "", ("64",), "f32")
            for node in names
        ]
        compilation = writer.add(model.Compilation(0, "0/0", 0, 0, "f", "/p/m.py", 1, status="ok"))
        graph = writer.add_graph(
            model.Graph(0, compilation, "post_grad", "forward", call_count=len(nodes)), nodes, []
        )
        name = name or sample.fields["kernel"]
        text = source or sample.source
        artifact = writer.add(
            model.Artifact(
                0,
                compilation,
                "kernel",
                "kernel",
                "forward",
                name,
                "triton",
                writer.text(text),
                text.count("\n"),
            )
        )
        kernel = writer.add(
            model.Kernel(
                0, compilation, "forward", 0, name, "triton", artifact, 0, 0, "", ESTIMATED_BYTES, 0
            )
        )
        call = writer.add(model.KernelCall(0, kernel, 0, 0))
        ids = {node: graph.first_node + i for i, node in enumerate(names)}
        writer.add_all(
            model.LineNode(artifact, int(line), ids[node], "codegen", call)
            for line, of_line in sample.fields["fx_lines"].items()
            for node in of_line
        )
        if built:
            writer.add(_build(writer, sample, compilation, kernel))
        if own:
            assert mark_as_captured_here(path, writer)
    return Written(path, kernel, artifact, graph)


OWN_FIRST_LINES = "\n"
"""In front of the recorded source in a choice's own: the module it was recorded from began with an
empty line, too.
"""


def write_choices(written: Written, sample: Sample) -> int:
    """Make a template of the kernel, with another choice that has a source of its own and nothing
    built, and the library. Returns the Artifact of that source: the recorded one a line further
    down.
    """
    with SessionReader(written.path) as reader, SessionWriter(written.path) as writer:
        own = reader.get(model.Artifact, written.artifact)
        source = writer.text(OWN_FIRST_LINES + sample.source)
        artifact = writer.add(
            dataclasses.replace(
                own, id=0, kind="candidate", text=source, line_count=own.line_count + 1
            )
        )
        rows = reader.rows(model.LineNode, artifact=written.artifact)
        writer.add_all(
            dataclasses.replace(row, artifact=artifact, line=row.line + bool(row.line))
            for row in rows
        )
        first = model.KernelBuild(
            0, written.kernel, 0, {"BLOCK_M": 1, "num_warps": 8}, sample.gpu, origin="template"
        )
        options: dict[str, object] = {"BLOCK_M": 2, "num_warps": 8}
        levels = {model.SOURCE_LEVEL: artifact}
        writer.add_all(
            [
                first,
                dataclasses.replace(
                    first, position=1, options=options, source=source, levels=levels
                ),
                model.KernelBuild(
                    0,
                    written.kernel,
                    2,
                    {"library": "mm"},
                    sample.gpu,
                    "built",
                    "library",
                    name="mm",
                ),
            ]
        )
        assert mark_as_captured_here(written.path, writer)
    return artifact


def _build(
    writer: SessionWriter, sample: Sample, compilation: int, kernel: int
) -> model.KernelBuild:
    levels = {
        level: writer.add(
            model.Artifact(
                0,
                compilation,
                level,
                "kernel",
                "forward",
                level,
                level,
                writer.text(text),
                text.rstrip("\n").count("\n") + 1,
            )
        )
        for level, text in sample.levels.items()
    }
    return model.KernelBuild(
        id=0,
        kernel=kernel,
        position=0,
        options={"XBLOCK": 1, "num_warps": 8, "num_stages": 1},
        gpu=sample.gpu,
        state="built",
        toolchain="triton 3.7.1",
        file=sample.file.name,
        lines_before=1,
        threads=sample.fields["threads"],
        registers=REGISTERS,
        spill_bytes=0,
        shared_bytes=sample.fields["shared_bytes"],
        levels=levels,
    )
