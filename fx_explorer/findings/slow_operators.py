"""Operators that slow the compiled code down: those that Inductor does not generate code for, so
that they are fused with nothing, and those whose derivative becomes many operations.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from fx_explorer import model
from fx_explorer.analysis.documents import Place, place_of_source
from fx_explorer.analysis.lineage import variants_in_use
from fx_explorer.analysis.words import counted, listed
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.graphs import origins
from fx_explorer.session.queries.kernels import kernel_nodes, lines_of_nodes

FALLBACK = "torch.ops."
"""Beginning of the name of a library call that Inductor makes because it generates no code for the
operator (torch/_inductor/ir.py, FallbackKernel). Its own library calls are ``extern_kernels.``.
"""

BETTER_CALLED = (
    "scaled_dot_product", "attention", "convolution", "conv_", "mm", "bmm", "mkldnn", "onednn",
    "quantized", "rnn", "lstm", "gru", "embedding_bag",
    "_linear", "rand", "bernoulli", "linalg", "fft", "set_", "resize", "manual_seed",
    "device_put", "copy_", "record_stream", "wait_tensor", "sparse",
)  # fmt: skip
"""Parts of names of operators that are no finding: the library's code is at least as good as what
could be generated, or they compute nothing.
"""

LEAST_OPERATIONS = 20
"""Number of operations in one direction from which on an operator counts as one that expands. That
of a normalization is below 30, and all of it is fused.
"""

LEAST_FALLBACKS = 2

MOST_OPERATIONS = 6_000
"""Maximum number of operations of a graph that is followed through the stages."""


@dataclass
class _Fallbacks:
    """Calls of one operator on one line."""

    forward: int = 0
    backward: int = 0
    nodes: set[int] = field(default_factory=set)
    is_custom: bool = False
    """Whether the operator is none of PyTorch's own."""

    @property
    def total(self) -> int:
        return self.forward + self.backward


def find_slow_operators(reader: SessionReader) -> Iterator[Finding]:
    """Yield operators that expand first, then those that are not fused, each once a line."""
    fallbacks = _fallbacks(reader)
    explained: set[tuple[int, int]] = set()
    for compilation in variants_in_use(reader):
        for finding, line in _expanding(reader, compilation, fallbacks):
            if line not in explained:
                explained.add(line)
                yield finding
    for (name, line), calls in fallbacks.items():
        # What a package calls is nothing that the user can change.
        if line not in explained and reader.get(model.SourceFile, line[0]).is_user:
            yield _not_fused(reader, name, line, calls)


def fallback_lines(reader: SessionReader) -> Iterator[tuple[str, str, int]]:
    """Yield (operator, file, line) of each library call that Inductor makes because it generates no
    code for the operator, without those that are better called.
    """
    for (operator, (file, line)), calls in _fallbacks(reader).items():
        path = reader.get(model.SourceFile, file).path
        for _ in range(calls.total):
            yield operator, path, line


def _fallbacks(reader: SessionReader) -> dict[tuple[str, tuple[int, int]], _Fallbacks]:
    """Return (operator, (file, line)) → its calls, without those that are better called."""
    rows = [
        kernel
        for kernel in reader.rows(model.Kernel, language="extern")
        if kernel.name.startswith(FALLBACK) and not kernel.runs and not _is_better(kernel.name)
    ]
    if not rows:
        return {}
    nodes = kernel_nodes(reader)
    calls: dict[tuple[str, tuple[int, int]], _Fallbacks] = {}
    for kernel in rows:
        of_kernel = nodes.get(kernel.id, [])
        own = _own_nodes(reader, kernel, of_kernel) or of_kernel
        lines = lines_of_nodes(reader, own) or lines_of_nodes(reader, of_kernel)
        if not lines:
            continue
        known = calls.setdefault((_operator(kernel.name), next(iter(lines.values()))), _Fallbacks())
        known.nodes.update(own)
        known.is_custom = _namespace(kernel.name) not in _PYTORCHS
        if kernel.direction == "backward":
            known.backward += 1
        else:
            known.forward += 1
    return calls


def _own_nodes(reader: SessionReader, kernel: model.Kernel, nodes: list[int]) -> list[int]:
    """Return those of a call's nodes that are its operator. What computes its input is among them
    where that became a part of the call.
    """
    operator = _operator(kernel.name)
    return [row.id for row in reader.by_ids(model.Node, nodes) if _operator(row.target) == operator]


def _is_better(name: str) -> bool:
    operator, namespace = _operator(name), _namespace(name)
    if namespace.endswith(_COLLECTIVES) or namespace == _OF_GRAPHS:
        return True
    return any(part in operator for part in BETTER_CALLED)


_OF_GRAPHS = "higher_order"
"""The namespace of operators that run a graph or another operator, as checkpointing does with
``run_and_save_rng_state``.
"""

_COLLECTIVES = ("c10d_functional", "c10d", "symm_mem", "dtensor")
"""Ends of the namespaces of collectives: they send to other ranks, and compute nothing."""


def _namespace(name: str) -> str:
    """Return ``aten`` for ``torch.ops.aten.cumprod.default``."""
    return name.removeprefix(FALLBACK).partition(".")[0]


def _operator(name: str) -> str:
    """Return ``cumprod`` for ``torch.ops.aten.cumprod.default``."""
    parts = name.removeprefix(FALLBACK).split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def _not_fused(
    reader: SessionReader, name: str, line: tuple[int, int], calls: _Fallbacks
) -> Finding:
    where, place = _where(reader, line)
    parts = []
    if calls.forward:
        parts.append(f"{calls.forward} in the forward")
    if calls.backward:
        parts.append(f"{calls.backward} in the backward")
    is_custom = calls.is_custom
    whose = "a custom operator" if is_custom else "PyTorch's own operator"
    return Finding(
        kind="operator not fused",
        text=(
            f"{where} computes {name} by {whose} ({listed(parts)}), which is fused with no other "
            "operation."
        ),
        urgency="minor",
        severity="notice",
        topic="kernels",
        place=place,
        view="kernels",
        explanation=_OF_CUSTOM if is_custom else _OF_PYTORCH,
        count=calls.total,
    )


_OF_PYTORCH = (
    "Inductor generates no code for this operator here and calls PyTorch's. Values before and "
    "after it are written to memory and read again."
)

_OF_CUSTOM = (
    "Inductor does not compile a custom operator; it calls it unchanged. Values before and after "
    "it are written to memory and read again."
)

_PYTORCHS = ("aten", "prims", "mkldnn", "onednn", "inductor", "quantized", "c10d", "torch")
"""Namespaces of PyTorch's own operators."""


def _where(reader: SessionReader, line: tuple[int, int]) -> tuple[str, Place | None]:
    file = reader.get(model.SourceFile, line[0])
    return in_file(file.path, line[1]), place_of_source(reader, line[0], line[1])


def _expanding(
    reader: SessionReader,
    compilation: model.Compilation,
    fallbacks: dict[tuple[str, tuple[int, int]], _Fallbacks],
) -> Iterator[tuple[Finding, tuple[int, int]]]:
    """Yield the operators that become many operations with calls among them, and their lines."""
    graphs = reader.rows(model.Graph, compilation=compilation.id)
    before = {graph.id for graph in graphs if graph.stage == "dynamo"}
    after = {graph.id: graph for graph in graphs if graph.stage == "post_grad"}
    if not before or not after or not fallbacks:
        return
    if sum(graph.call_count for graph in graphs) > MOST_OPERATIONS:
        return
    by_parent: dict[int, list[int]] = defaultdict(list)
    for origin in origins(reader, before, list(after)):
        by_parent[origin.parent].append(origin.child)
    calls = {node for known in fallbacks.values() for node in known.nodes}
    for parent, children in by_parent.items():
        called = [child for child in children if child in calls]
        if len(children) < LEAST_OPERATIONS or len(called) < LEAST_FALLBACKS:
            continue
        node = reader.get(model.Node, parent)
        if node.file:
            yield _expanded(reader, node, children, called), (node.file, node.line)


def _expanded(
    reader: SessionReader, node: model.Node, children: list[int], called: list[int]
) -> Finding:
    where, place = _where(reader, (node.file, node.line))
    rows = reader.by_ids(model.Node, children)
    directions = Counter(reader.get(model.Graph, row.graph).direction or "forward" for row in rows)
    most, number = directions.most_common(1)[0]
    called_names = Counter(
        row.target.split(".")[1] if "." in row.target else row.target
        for row in reader.by_ids(model.Node, called)
    )
    names = listed([f"{count}× {name}" for name, count in called_names.items()], 5)
    operator = node.target.rpartition(".")[2]
    return Finding(
        kind="expanding operator",
        text=(
            f"{operator} at {where} becomes {counted(number, 'operation')} in the {most}, and "
            f"{names} of these are not fused."
        ),
        urgency="slow",
        severity="problem",
        topic="kernels",
        place=place,
        view="stages",
        explanation=(
            f"The {most} of {operator} is decomposed into other operators. Eager mode sees the "
            "values and chooses a shorter algorithm; compiled code must be valid for all values."
        ),
        remedies=(
            *(Remedy(text) for text in _INSTEAD.get(operator, ())),
            Remedy(
                f"Keep {operator} out of the graph: call it in a function decorated with "
                "torch.compiler.disable. That breaks the graph there."
            ),
            Remedy(
                "Write its derivative yourself, in a torch.autograd.Function or with "
                "torch.library.register_autograd for a custom operator."
            ),
        ),
        count=len(called),
    )


_INSTEAD = {
    "cumprod": (
        "If all factors are positive: torch.exp(torch.cumsum(torch.log(x), dim)), whose "
        "derivative is one cumsum. Results differ by rounding.",
    ),
}
"""Operator → other ways to compute the same."""
