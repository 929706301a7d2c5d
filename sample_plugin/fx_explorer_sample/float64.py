"""A kind of problem: operations in float64 of a program whose inputs are not float64."""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer.plugins import Problem, ProblemKind, SessionReader, model


def find_float64(reader: SessionReader) -> Iterator[Problem]:
    """Yield a problem for each line that begins to compute in float64: the result of its operation
    is float64, and nothing that the operation is given is.
    """
    lines: dict[tuple[int, int], list[model.Node]] = {}
    for graph in reader.rows(model.Graph, stage="dynamo"):
        nodes = reader.nodes(graph)
        wide = {node.id for node in nodes if node.dtype == "f64"}
        for node in nodes:
            begins = node.id in wide and wide.isdisjoint(reader.producers(node.id))
            if begins and node.op.startswith("call_") and node.file:
                lines.setdefault((node.file, node.line), []).append(node)
    for (file, line), nodes in lines.items():
        names = ", ".join(dict.fromkeys(node.target for node in nodes))
        yield Problem(
            text=f"Line {line} begins to compute in float64, and is given no float64.",
            urgency="slow",
            evidence=(f"Operations whose result is float64: {names}.",),
            explanation="A GPU computes in float64 at a fraction of its speed in float32.",
            remedies=("Give dtype=torch.float32 where the tensor is made.",),
            file=reader.get(model.SourceFile, file).path,
            line=line,
        )


FLOAT64 = ProblemKind(
    interface=1,
    looked_for="operations in float64",
    find=find_float64,
    needs="graphs",
)
