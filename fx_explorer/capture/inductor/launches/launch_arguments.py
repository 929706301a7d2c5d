"""The arguments a Triton kernel is launched with, described without their contents, and the grid
they ask for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from fx_explorer.capture.torch_compat.versions import require
from fx_explorer.model import Argument


def described(autotuner: Any, arguments: tuple[Any, ...]) -> tuple[Argument, ...]:
    """Describe what ``CachingAutotuner.run`` was given, in order, with the names that the kernel
    has for it.
    """
    names = [*argument_names(autotuner), *autotuner.inductor_meta.get("extra_launcher_args", ())]
    names += [f"argument {number}" for number in range(len(names), len(arguments))]
    return tuple(
        _described(name, value, autotuner) for name, value in zip(names, arguments, strict=False)
    )


def argument_names(autotuner: Any) -> Iterator[str]:
    """Yield the names of the arguments that are passed. Those that are ``tl.constexpr`` belong to
    the configuration.
    """
    constants = require("torch._inductor.runtime.triton_helpers", "get_constexprs")(autotuner.fn)
    return (
        name for position, name in enumerate(autotuner.fn.arg_names) if position not in constants
    )


def _described(name: str, value: object, autotuner: Any) -> Argument:
    if isinstance(value, torch.Tensor):
        return {
            "name": name,
            "dtype": str(value.dtype).removeprefix("torch."),
            "shape": list(value.shape),
            "stride": list(value.stride()),
            "device": value.device.type,
            "is_mutated": name in autotuner.mutated_arg_names,
        }
    if value is None or isinstance(value, int | float | str):
        return {"name": name, "value": value}
    return {"name": name, "type": type(value).__name__}


def grid_of(autotuner: Any, config: Any, arguments: tuple[Any, ...]) -> tuple[int, ...]:
    """Compute the grid as the launcher does (``GridExpr``,
    torch/_inductor/runtime/triton_heuristics.py).
    """
    expression = require("torch._inductor.runtime.triton_heuristics", "GridExpr").from_meta(
        autotuner.inductor_meta, config
    )
    names = [*argument_names(autotuner), *autotuner.inductor_meta.get("extra_launcher_args", ())]
    return tuple(
        int(size) for size in expression.eval_slow(dict(zip(names, arguments, strict=False)))
    )
