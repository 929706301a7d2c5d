"""Fold Inductor's constants on the CPU: it computes one element of them on the device.

Hook: ``UniformValueConstantFolder`` (torch/_inductor/fx_passes/joint_graph.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from fx_explorer.capture.torch_compat.versions import require


class OnCpu(TorchDispatchMode):
    """A dispatch mode that does on the CPU what is asked for on the GPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*_pytree.tree_map(_cpu, args), **_pytree.tree_map(_cpu, kwargs or {}))


def _cpu(argument: Any) -> Any:
    is_gpu = isinstance(argument, torch.device) and argument.type == "cuda"
    return torch.device("cpu") if is_gpu else argument


def fold_on_cpu() -> None:
    folder = require("torch._inductor.fx_passes.joint_graph", "UniformValueConstantFolder")
    folder.__init__, folder.run = _on_cpu(folder.__init__), _on_cpu(folder.run)


def _on_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with OnCpu():
            return function(*args, **kwargs)

    return run
