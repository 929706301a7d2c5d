"""Which result of Dynamo's graph each output of AOTAutograd's forward graph is: inputs that were
changed come before them, bases of views and what is saved for the backward behind.

AOTAutograd describes every output (torch/_functorch/_aot_autograd/descriptors.py).
"""

from __future__ import annotations

from typing import Any

import torch


def results_of(module: torch.fx.GraphModule) -> tuple[int, ...]:
    """Return the position among Dynamo's results for each output of a graph, -1 for one that is
    none of them; () where torch has not described them.
    """
    output = next((node for node in reversed(module.graph.nodes) if node.op == "output"), None)
    described = output.meta.get("desc") if output is not None else None
    return tuple(map(_result, described)) if isinstance(described, list | tuple) else ()


def _result(described: Any) -> int:
    return int(described.idx) if type(described).__name__ == "PlainAOTOutput" else -1
