"""The call: a segment as a module that runs its program on the tensors it is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from sample_backends.small_backend.cache import Made
from sample_backends.small_backend.errors import SmallBackendError
from sample_backends.small_backend.library import Seconds
from sample_backends.small_backend.program import Layout

_FLOATS: dict[str, Any] = {
    "dtype": torch.float32,
    "device": "cpu",
}  # whatever the user's defaults are


class Segment(torch.nn.Module):
    """Stands in the graph where the segment's nodes were.

    The compiler promises what the inputs are; it is looked at all the same, since the kernels would
    read whatever lies there. Inputs with other strides are copied, and for anything else (tensors
    without memory, subclasses) the graph itself runs.
    """

    def __init__(self, made: Made, by_pytorch: torch.nn.Module | None = None) -> None:
        super().__init__()
        self.made = made
        self._by_pytorch = [
            by_pytorch
        ]  # in a list, so that it is no submodule and is not printed with the graph
        self._inputs = [(layout.sizes, layout.strides) for layout in made.program.inputs]

    def forward(self, *inputs: torch.Tensor, seconds: Seconds | None = None) -> Any:
        """Return the results, one as it is and several as a tuple; ``seconds`` has room for the time of each instruction."""
        if all(map(_is_plain, inputs)) and [tensor.shape for tensor in inputs] == [
            sizes for sizes, _ in self._inputs
        ]:
            results = self._run(inputs, seconds)
            return results[0] if len(results) == 1 else results
        if self._by_pytorch[0] is None:
            raise SmallBackendError(
                f"the program needs float32 tensors on the CPU of sizes {[sizes for sizes, _ in self._inputs]}"
            )
        return self._by_pytorch[0](*inputs)

    @torch.no_grad()
    def _run(
        self, inputs: Sequence[torch.Tensor], seconds: Seconds | None
    ) -> tuple[torch.Tensor, ...]:
        program = self.made.program
        laid_out = [
            _laid_out(tensor, strides)
            for tensor, (_, strides) in zip(inputs, self._inputs, strict=True)
        ]
        outputs = [
            torch.empty_strided(layout.sizes, layout.strides, **_FLOATS)
            for layout in program.outputs
        ]
        addresses = (
            [tensor.data_ptr() for tensor in laid_out],
            [tensor.data_ptr() for tensor in outputs],
        )
        self.made.loaded.run(*addresses, torch.get_num_threads(), seconds)
        bases = {"input": laid_out, "output": outputs}
        return tuple(
            _view(bases[each.base][each.number], each.offset, each.layout)
            for each in program.results
        )


def _is_plain(tensor: torch.Tensor) -> bool:
    is_known_type = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    return (
        is_known_type
        and tensor.dtype == torch.float32
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
    )


def _laid_out(tensor: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """Return the tensor with the strides that the program was made for; mostly it has them."""
    if tensor.stride() == strides and not tensor.is_neg() and not tensor._is_zerotensor():
        return tensor
    return torch.empty_strided(tensor.shape, strides, **_FLOATS).copy_(tensor)


def _view(base: torch.Tensor, offset: int, layout: Layout) -> torch.Tensor:
    """Return a result: the output as it is, or a view as PyTorch would have returned it."""
    if offset == 0 and base.shape == layout.sizes and base.stride() == layout.strides:
        return base
    return base.as_strided(layout.sizes, layout.strides, base.storage_offset() + offset)
