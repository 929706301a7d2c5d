"""Keep the gradients that each call of ``backward()`` leaves, to compare them with those of another
run.

A training script has thrown them away by its end, and what an optimizer with a small learning rate
makes of a wrong one is lost in rounding.

Hook: ``torch.autograd._engine_run_backward``, which ``torch.autograd.backward`` goes through. A
backward that is part of a graph does not come here.
"""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.program.plain_values import own_tensor

MOST_CALLS, MOST_BYTES = 200, 256 * 2**20
"""Limits on what is kept: calls, and bytes of gradients. Later calls are only counted."""

MOST_ELEMENTS = 4096
"""Elements that are kept of a gradient. Of a larger one they lie evenly spaced."""


class BackwardCalls:
    """Counts the outermost calls of ``backward()``, and keeps the gradients that the first ones
    leave.
    """

    def __init__(self) -> None:
        self.count = 0
        self.kept = 0
        """How many of the calls are kept."""
        self._gradients: list[tuple[int, torch.Tensor, torch.Tensor]] = []
        """(number of the call, leaf, elements of its gradient)."""
        self._bytes = 0
        self._inside = threading.local()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Watch every call inside the block."""
        with patched(torch.autograd, "_engine_run_backward", self._watching):
            yield

    def of_leaves(self, names: Mapping[int, str]) -> dict[str, torch.Tensor]:
        """Return ``the gradient of model.weight at call 2 of backward()`` → its elements. ``names``
        maps ids of tensors to their names. What has none any more, a model that was deleted or
        replaced, goes by its shape, and several of one shape by the size of their gradients.
        """
        found: dict[str, torch.Tensor] = {}
        nameless: dict[str, list[torch.Tensor]] = defaultdict(list)
        for call, leaf, gradient in self._gradients:
            at = f"at call {call} of backward()"
            if name := names.get(id(leaf)):
                found[f"the gradient of {name} {at}"] = gradient
            else:
                nameless[f"the gradient of a tensor {list(leaf.shape)} {at}"].append(gradient)
        for text, gradients in nameless.items():
            for rank, gradient in enumerate(sorted(gradients, key=_size), 1):
                found[text if len(gradients) == 1 else f"{text}, {rank} of {len(gradients)}"] = (
                    gradient
                )
        return found

    def _watching(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run_backward(t_outputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            if not kwargs.get("accumulate_grad") or getattr(self._inside, "call", False):
                return original(t_outputs, *args, **kwargs)
            leaves = list(_leaves(t_outputs))  # before the graph is freed
            self._inside.call = True
            try:
                result = original(t_outputs, *args, **kwargs)
            finally:
                self._inside.call = False
            self._keep(leaves)
            return result

        return run_backward

    def _keep(self, leaves: Sequence[torch.Tensor]) -> None:
        self.count += 1
        if self.count > MOST_CALLS or self._bytes > MOST_BYTES:
            return
        self.kept = self.count
        for leaf in leaves:
            gradient = leaf.grad
            if gradient is not None and gradient.layout == torch.strided and not gradient.is_nested:
                elements = _some_of(own_tensor(gradient))
                self._bytes += elements.nbytes
                self._gradients.append((self.count, leaf, elements))


def _leaves(outputs: Sequence[Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors that a backward from these outputs (tensors, or ``GradientEdge``) leaves
    gradients in, each once.
    """
    yield from (output for output in outputs if isinstance(output, torch.Tensor) and output.is_leaf)
    waiting = [
        output.grad_fn if isinstance(output, torch.Tensor) else output.node for output in outputs
    ]
    seen = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if type(node).__name__ == "AccumulateGrad":
            yield node.variable
        waiting += [inner for inner, _ in node.next_functions]


def _size(gradient: torch.Tensor) -> float:
    wide = torch.complex128 if gradient.is_complex() else torch.float64
    return float(gradient.to(wide).norm())


def _some_of(gradient: torch.Tensor) -> torch.Tensor:
    flat = gradient.reshape(-1)
    if flat.numel() > MOST_ELEMENTS:
        return flat[:: -(-flat.numel() // MOST_ELEMENTS)].clone()
    return flat
