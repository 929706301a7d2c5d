"""This module describes what ran: versions, machine, and the torch settings that differ from their
defaults.
"""

from __future__ import annotations

import json
import platform
import shutil
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo.config
import torch._functorch.config
import torch._inductor.config

from fx_explorer.capture.torch_compat.installed import is_installed, version_of
from fx_explorer.capture.torch_compat.versions import marks_one_size
from fx_explorer.model import CaptureRequest

Unavailable = Callable[[str, str], object]
"""Is given what is not shown, and why."""


def environment(request: CaptureRequest, unavailable: Unavailable) -> dict[str, object]:
    """Make ``meta["environment"]``; the GPU is known once the program has used it. What cannot be
    found out is None, and ``unavailable`` is given its name and why: a description of the machine
    never ends a capture.
    """
    # Asking earlier would initialise CUDA in the user's process, which must not happen before the
    # program itself does it.
    cuda = torch.cuda.is_initialized() and not request.gpu
    questions: dict[str, Callable[[], object]] = {
        "torch": lambda: torch.__version__,
        "python": platform.python_version,
        "executable": lambda: sys.executable,
        "platform": platform.platform,
        "device": lambda: "cuda" if request.gpu else request.device or "cpu",
        "virtual_gpu": lambda: request.gpu.title if request.gpu else None,
        "gpu": lambda: torch.cuda.get_device_name() if cuda else None,
        "gpu_properties": lambda: _gpu_properties() if cuda else None,
        "cuda": lambda: torch.version.cuda,
        "cxx": lambda: shutil.which("g++") or shutil.which("clang++"),
        "triton": lambda: version_of("triton") if is_installed("triton") else None,
        "marks_one_size": marks_one_size,
        "threads": torch.get_num_threads,
    }
    return {name: _answer(name, question, unavailable) for name, question in questions.items()}


def _answer(name: str, question: Callable[[], object], unavailable: Unavailable) -> object:
    try:
        return question()
    except Exception as error:  # noqa: BLE001 - whatever an installation lacks; it is reported
        unavailable(f"{name} in the environment", f"{type(error).__name__}: {error}")
        return None


GPU_PROPERTIES = (
    "major",
    "minor",
    "multi_processor_count",
    "warp_size",
    "regs_per_multiprocessor",
    "shared_memory_per_block",
    "shared_memory_per_block_optin",
    "shared_memory_per_multiprocessor",
    "max_threads_per_multi_processor",
    "max_threads_per_block",
    "L2_cache_size",
    "total_memory",
    "clock_rate",
    "memory_clock_rate",
    "memory_bus_width",
    "gcnArchName",
)
"""Attributes of ``torch.cuda.get_device_properties()``; rates are in kHz. No release has all of
them.
"""


def _gpu_properties() -> dict[str, object]:
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {name: getattr(properties, name) for name in GPU_PROPERTIES if hasattr(properties, name)}


def changed_settings() -> str:
    """Return JSON of every entry of torch's compiler configs that is not at its default."""
    modules = {
        "torch._dynamo.config": torch._dynamo.config,
        "torch._functorch.config": torch._functorch.config,
        "torch._inductor.config": torch._inductor.config,
    }
    return json.dumps(
        {name: _changed(module) for name, module in modules.items()}, indent=2, default=str
    )


def _changed(module: Any) -> dict[str, Any]:
    """Return the entries of a config module (torch/utils/_config_module.py) whose value differs
    from the declared default.
    """
    names = [name for name in sorted(module._config) if not module._is_default(name)]
    return {name: getattr(module, name) for name in names}
