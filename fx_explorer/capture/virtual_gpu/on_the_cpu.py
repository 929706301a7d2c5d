"""This module does torch's work on the device during compilation without a device: autotuning,
folding of constants, the choice of a convolution.

Autotuning has no device to time candidates on: a Triton template is shown rather than a library,
and all are noted.

Inductor folds constants by computing one element of them on the device; here that is done on the
CPU. Hook: ``UniformValueConstantFolder`` (torch/_inductor/fx_passes/joint_graph.py).

While a program runs on the CPU, Dynamo would ask which CPU library does a convolution, and is kept
from it. The answer depends on the batch: oneDNN and NNPACK want 16 of them. A batch that varies
would get a guard that no GPU asks for, and other code behind it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.backends.mkldnn
import torch.backends.nnpack

from fx_explorer.capture.torch_compat.private_names import (
    CompileContext,
    TorchDispatchMode,
    tree_map,
)
from fx_explorer.capture.torch_compat.versions import require
from fx_explorer.capture.virtual_gpu.device_queries import Choice, Emulation


def note_choices(emulation: Emulation) -> None:
    """Take the first candidate of each choice from now on, and note all of them."""
    from fx_explorer.capture.inductor.autotuner_choices import (
        keep_choices,  # it imports the compiler, which must find torch.cuda's answers in place
    )

    def templates_first(candidates: list[Any]) -> list[Any]:
        ordered = sorted(candidates, key=is_library)
        if len(ordered) > 1:
            emulation.choices.append(_choice(ordered))
        keep_choices(ordered)
        return ordered[:1]

    require(
        "torch._inductor.select_algorithm", "get_algorithm_selector_cache"
    )().preprocessing_fns.append(templates_first)


def is_library(candidate: Any) -> bool:
    return bool(type(candidate).__name__ == "ExternKernelCaller")


def _choice(candidates: list[Any]) -> Choice:
    listed = []
    for candidate in candidates:
        description = str(getattr(candidate, "description", ""))
        listed.append(
            {
                "name": candidate.name,
                "library": is_library(candidate),
                "description": description,
            }
        )
    return {
        "compilation": str(CompileContext.current_compile_id() or ""),
        "shown": listed[0]["name"],
        "candidates": listed,
    }


# Constants, folded on the CPU.


class OnCpu(TorchDispatchMode):
    """A dispatch mode that runs operators on the CPU when the program asks for the GPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*tree_map(_cpu, args), **tree_map(_cpu, kwargs or {}))


def _cpu(argument: Any) -> Any:
    is_gpu = isinstance(argument, torch.device) and argument.type == "cuda"
    if not is_gpu:
        return argument
    return torch.device("cpu")


def fold_on_cpu() -> None:
    folder = require("torch._inductor.fx_passes.joint_graph", "UniformValueConstantFolder")
    folder.__init__, folder.run = _on_cpu(folder.__init__), _on_cpu(folder.run)


def _on_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with OnCpu():
            return function(*args, **kwargs)

    return run


# The choice of a convolution.


def ask_no_library(emulation: Emulation) -> None:
    """Answer without a library. Hook: ``torch._C._select_conv_backend``, which the fake convolution
    asks (torch/_subclasses/fake_impls.py).
    """
    original = require("torch._C", "_select_conv_backend")

    @functools.wraps(original)
    def select(*args: Any, **kwargs: Any) -> Any:
        if emulation.mode != "transplant":
            return original(*args, **kwargs)
        onednn, nnpack = (
            torch.backends.mkldnn.set_flags(False),
            torch.backends.nnpack.set_flags(False),
        )
        try:
            return original(*args, **kwargs)
        finally:
            torch.backends.mkldnn.set_flags(onednn[0])
            torch.backends.nnpack.set_flags(nnpack[0])

    torch._C._select_conv_backend = select
