"""This module describes how two aligned graphs differ, in a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from fx_explorer import model
from fx_explorer.analysis.graph_alignment import GraphAlignment, NodePair, Size, is_size
from fx_explorer.analysis.words import counted, listed

MOST_SIZES = 4
"""Maximum number of sizes that a sentence lists."""

NO_DIFFERENCE = "no difference"


def describe_alignment(alignment: GraphAlignment) -> str:
    """Return ``1 node added (sin), 2 changed (f32 → bf16); sizes: 8 → 16 in 12 nodes``, or ``no
    difference``.
    """
    parts: list[str] = []
    removed = [pair.before for pair in alignment.pairs if pair.after is None and pair.before]
    added = [pair.after for pair in alignment.pairs if pair.before is None and pair.after]
    for nodes, verb in ((removed, "removed"), (added, "added")):
        if nodes:
            amount = f"{len(nodes):,}" if parts else counted(len(nodes), "node")
            parts.append(f"{amount} {verb} ({name_operations(nodes)})")
    changed = [pair for pair in alignment.pairs if pair.changes]
    if changed:
        amount = f"{len(changed):,}" if parts else counted(len(changed), "node")
        parts.append(f"{amount} changed ({_what_changed(changed)})")
    sentences = [", ".join(parts)] if parts else []
    if alignment.sizes:
        sentences.append(describe_sizes(alignment.sizes, alignment.resized))
    return "; ".join(sentences) or NO_DIFFERENCE


def describe_sizes(sizes: Mapping[Size, int], nodes: int) -> str:
    """Return ``sizes: 8 → 16, 128 → 256 in 12 nodes``."""
    pairs = [f"{old} → {new}" for old, new in sizes]
    return f"sizes: {listed(pairs, MOST_SIZES)} in {counted(nodes, 'node')}"


def name_operations(nodes: Sequence[model.Node]) -> str:
    counts = Counter(brief_operation(node) for node in nodes)
    names = [f"{count:,}× {name}" if count > 1 else name for name, count in counts.most_common()]
    return listed(names, 4)


def brief_operation(node: model.Node) -> str:
    """Return ``gelu`` for ``torch._C._nn.gelu``, ``mul`` for ``aten.mul.Tensor``; ``input`` for an
    input.
    """
    if node.op == "placeholder":
        return "size" if is_size(node) else "input"
    plain = node.target.removeprefix("torch.ops.").removesuffix(".default")
    if plain.startswith(("aten.", "prims.")):
        return plain.split(".")[1]
    return plain.rpartition(".")[2]


def _what_changed(pairs: Sequence[NodePair]) -> str:
    counts: Counter[str] = Counter()
    for pair in pairs:
        counts.update(pair.changes)
    texts = [f"{what} {count:,}×" if count > 1 else what for what, count in counts.most_common()]
    return listed(texts, 4)
