"""Fingerprints of graphs, checks and texts: equal on two ranks that did the same, in whatever process, on whatever device.

What differs between any two processes is left out: the number of the device, addresses, and ids of objects.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fx_explorer import model
from fx_explorer.analysis.ranks.summary import Fingerprint

_NAME = re.compile(r"[A-Za-z_]\w*")

_NUMBER = re.compile(r"(?<![\w.])-?(?:0x[0-9a-f]+|\d[\w.]*)")

_DEVICE = re.compile(r"\b(cuda|xpu|hip|mps|cpu):\d+|device\(type='\w+', index=\d+\)|\bdevice=\d+")

_IDENTITY = re.compile(r"\b0x[0-9a-f]{6,}|\b\d{6,}\b")
"""Addresses, and ids of objects and types."""

_COLLECTIVE = re.compile(r"\b_?c10d(?:_functional)?\b|\bsymm_mem\b")


class GraphPrints(NamedTuple):
    """Of one graph with those nested in it."""

    operations: Fingerprint
    inputs: Fingerprint
    tensors: Fingerprint
    numbers: Fingerprint
    collectives: Fingerprint


NO_GRAPH = GraphPrints("", "", "", "", "")


def fingerprint(parts: Iterable[str]) -> Fingerprint:
    """Return the same text for the same parts in the same order; empty for none."""
    digest, is_empty = hashlib.blake2b(digest_size=8), True
    for part in parts:
        is_empty = False
        digest.update(part.encode("utf-8", "surrogatepass"))
        digest.update(b"\0")
    return "" if is_empty else digest.hexdigest()


def graph_prints(nodes: Sequence[model.Node]) -> GraphPrints:
    """Return the fingerprints of a graph. A node is known by its position, so that names do not count."""
    position = {node.name: f"%{at}" for at, node in enumerate(nodes)}
    operations, inputs, tensors, numbers = [], [], [], []
    for node in nodes:
        arguments = _NAME.sub(
            lambda name: position.get(name[0], name[0]), _DEVICE.sub(r"\1", node.arguments)
        )
        does = f"{node.op} {'' if node.op == 'placeholder' else node.target}"
        operations.append(f"{does}({_NUMBER.sub('N', arguments)})")
        tensor = f"{node.dtype}{node.shape}{node.stride}"
        tensors.append(tensor)
        if node.op == "placeholder":
            inputs.append(tensor)
        else:
            numbers.append(arguments)
    collectives = [short_target(node.target) for node in nodes if is_collective(node.target)]
    return GraphPrints(*map(fingerprint, (operations, inputs, tensors, numbers, collectives)))


def is_collective(target: str) -> bool:
    """Return whether an operation is one of torch's functional collectives, or waits for one."""
    return bool(_COLLECTIVE.search(target))


def short_target(target: str) -> str:
    """Return ``all_reduce`` for ``torch.ops._c10d_functional.all_reduce_.default``."""
    plain = target.removeprefix("torch.ops.").removesuffix(".default")
    return plain.rpartition(".")[2].removesuffix("_")


def checked(check: model.GuardCheck) -> str:
    """Return what is checked, without the numbers."""
    return f"{check.kind} {unnumbered(check.source)} {unnumbered(str(check.code))}"


def unnumbered(text: str) -> str:
    return _NUMBER.sub("N", _DEVICE.sub("device", text))


def without_identities(text: str) -> str:
    """Return a text without what differs between any two processes."""
    return _IDENTITY.sub("…", _DEVICE.sub("device", text))
