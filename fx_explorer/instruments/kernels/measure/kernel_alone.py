"""This module loads one generated Triton kernel from its source and builds it in one configuration,
with arguments of its own to run on.
"""

from __future__ import annotations

import copy
from typing import Any

import torch

from fx_explorer.capture.torch_compat.versions import require
from fx_explorer.errors import UsageError
from fx_explorer.model import Argument

QUOTED = "\n"
"""Inductor compiles a kernel's source with the line feed after its quotes. With it, Triton finds
the kernel in its cache.
"""


class KernelAlone:
    """A kernel with its own arguments; ``run()`` launches it once on the current stream.

    Its data is random where floating point, and zero elsewhere, because any index is then valid.
    ``put_back()`` undoes what it writes.
    """

    def __init__(
        self, name: str, source: str, options: dict[str, object], arguments: tuple[Argument, ...]
    ) -> None:
        """Load and build the kernel. Raises UsageError if that fails, or if an argument cannot be
        made.
        """
        self._arguments = make_values(arguments)
        self._before = [
            (value, value.clone())
            for value, argument in zip(self._arguments, arguments, strict=True)
            if argument.get("is_mutated") and isinstance(value, torch.Tensor)
        ]
        try:
            autotuner = _loaded(name, source)
            configuration = with_options(autotuner.configs[0], options)
            autotuner.configs = [configuration]
            autotuner.precompile()
        except Exception as error:
            raise UsageError(
                f"{name} cannot be built here: {type(error).__name__}: {error}"
            ) from error
        self.options = {**options, **as_options(configuration)}
        self._launcher = autotuner.launchers[0]
        self._stream = torch.cuda.current_stream().cuda_stream
        _give_scratch_memory()

    def run(self) -> None:
        self._launcher(*self._arguments, stream=self._stream)

    def put_back(self) -> None:
        for tensor, before in self._before:
            tensor.copy_(before)


def make_values(arguments: tuple[Argument, ...], device: str = "cuda") -> list[Any]:
    """Return values as described. Raises UsageError for a value that cannot be made, such as a tile
    descriptor.
    """
    return [_make_value(argument, device) for argument in arguments]


def _make_value(argument: Argument, device: str) -> Any:
    if "value" in argument:
        return argument["value"]
    if "dtype" not in argument:
        raise UsageError(
            f"its argument {argument['name']} is a {argument.get('type')}, which cannot be made up."
        )
    strided = require("torch._dynamo.testing", "rand_strided")
    if argument.get("device") == "cpu":
        device = "cpu"
    dtype = getattr(torch, str(argument["dtype"]))
    return strided(argument["shape"], argument["stride"], dtype, device)


def with_options(configuration: Any, options: dict[str, object]) -> Any:
    """Return a copy of a ``triton.Config`` with the values of ``options`` for the parameters it
    has.
    """
    made = copy.deepcopy(configuration)
    made.kwargs.update({name: value for name, value in options.items() if name in made.kwargs})
    for name in ("num_warps", "num_stages"):
        setattr(made, name, options.get(name, getattr(made, name)))
    return made


def as_options(configuration: Any) -> dict[str, object]:
    return {
        **configuration.kwargs,
        "num_warps": configuration.num_warps,
        "num_stages": configuration.num_stages,
    }


def _loaded(name: str, source: str) -> Any:
    return getattr(require("torch._inductor.codecache", "PyCodeCache").load(QUOTED + source), name)


def _give_scratch_memory() -> None:
    """Give the kernel scratch memory as ``CachingAutotuner.run`` does before a launch."""
    import triton

    if hasattr(triton, "set_allocator"):
        triton.set_allocator(
            lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda")
        )
