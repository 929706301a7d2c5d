"""These helpers write graphs by hand, for tests of the nodes around a node."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fx_explorer import model
from fx_explorer.session import SessionWriter

Edge = tuple[int, int]


@dataclass(frozen=True)
class Written:
    path: Path
    graph: model.Graph
    kernels: dict[str, int]

    def id_of(self, position: int) -> int:
        return self.graph.first_node + position


def write_graph(
    path: Path, count: int, edges: Sequence[Edge], fused: dict[str, Sequence[int]] | None = None
) -> Written:
    """Write a post-grad graph of so many nodes, with edges between positions, and the kernels that
    compute some of them.
    """
    nodes = [
        model.Node(0, 0, 0, f"n{at}", "call_function", f"aten.op{at}", "", ("4",), "f32")
        for at in range(count)
    ]
    kernels: dict[str, int] = {}
    with SessionWriter(path) as writer:
        compilation = writer.add(model.Compilation(0, "0/0", 0, 0, "f", "/p/m.py", 1, status="ok"))
        graph = writer.add_graph(
            model.Graph(0, compilation, "post_grad", "forward", call_count=count),
            nodes,
            list(dict.fromkeys(edges)),
        )
        for name, positions in (fused or {}).items():
            artifact = writer.add(
                model.Artifact(
                    0,
                    compilation,
                    "kernel",
                    "kernel",
                    "forward",
                    name,
                    "triton",
                    writer.text("code\n" * 9),
                    9,
                )
            )
            kernels[name] = writer.add(
                model.Kernel(0, compilation, "forward", 0, name, "triton", artifact, 0, 0, "", 0, 0)
            )
            call = writer.add(model.KernelCall(0, kernels[name], 0, 0))
            writer.add_all(
                model.LineNode(artifact, 1 + at, graph.first_node + at, "codegen", call)
                for at in positions
            )
    return Written(path, graph, kernels)


def random_graph(path: Path, seed: int) -> Written:
    """Write a graph at random: up to 60 nodes, each with up to 3 producers before it, in kernels at
    random.
    """
    chance = random.Random(seed)
    count = chance.randint(3, 60)
    edges = [
        (chance.randrange(at), at) for at in range(1, count) for _ in range(chance.randint(1, 3))
    ]
    kernels: dict[str, list[int]] = {}
    for at in range(count):
        if chance.random() < 0.7:
            kernels.setdefault(f"triton_{chance.randrange(1 + count // 6)}", []).append(at)
    return write_graph(path, count, edges, kernels)
