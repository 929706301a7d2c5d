"""This helper compiles in the test process, in inspection mode, and returns the kernels that were
recorded.
"""

from __future__ import annotations

import contextlib
import importlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._functorch.config
import torch._inductor.config

from fx_explorer.capture.inductor.generated import GeneratedKernel, LoweredKernels, kernel_recording
from fx_explorer.capture.inspecting import inspecting
from fx_explorer.capture.recorder import UNSEEN_WORK


@contextlib.contextmanager
def fresh_compiler() -> Iterator[None]:
    """Reset Dynamo, bypass caches, and ignore torch's own warnings."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    with (
        warnings.catch_warnings(),
        torch._inductor.config.patch(fx_graph_cache=False),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        warnings.simplefilter("ignore")
        yield
    torch._dynamo.reset()


@contextlib.contextmanager
def unseen_work() -> Iterator[None]:
    """Compile inside the block without the work that a capture leaves out."""
    with contextlib.ExitStack() as stack:
        for module, name in UNSEEN_WORK.values():
            hook = getattr(importlib.import_module(f"fx_explorer.capture.{module}"), name)
            stack.enter_context(hook(None))
        yield


def lower(
    program: Callable[[Callable[..., Any]], object], function: Any, **options: Any
) -> list[LoweredKernels]:
    """Every graph that ``program(torch.compile(function))`` gave to Inductor, in order."""
    graphs: list[LoweredKernels] = []
    with fresh_compiler(), inspecting(), kernel_recording(graphs.append):
        program(torch.compile(function, **options))
    return graphs


def call_names(graph: LoweredKernels) -> set[str]:
    return {node.name for node in graph.module.graph.nodes if node.op == "call_function"}


def linked_names(graph: LoweredKernels) -> set[str]:
    return {node for kernel in graph.kernels for call in kernel.calls for node in call.nodes}


def code_line(graph: LoweredKernels, line: int) -> str:
    return graph.output_code.split("\n")[line - 1]


def source_line(kernel: GeneratedKernel, line: int) -> str:
    return kernel.source.split("\n")[line - 1]
