"""The backend as a function, for settings that replace the backend that the program asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._dynamo.backends import registry

from fx_explorer.errors import UsageError

Compiler = Callable[..., Any]


def compiler_for(settings: Mapping[str, object], asked_for: Compiler) -> Compiler:
    """Return the compiler that ``torch.compile(backend=…, mode=…)`` would make; ``asked_for`` when
    neither is set.
    """
    if not {"compile.backend", "compile.mode"} & settings.keys():
        return asked_for
    backend, mode = (
        str(settings.get("compile.backend") or "inductor"),
        settings.get("compile.mode") or None,
    )
    try:
        if backend == "inductor":
            wrapper: Compiler = torch._TorchCompileInductorWrapper(mode, None, None)
            return wrapper
        return registry.lookup_backend(backend)
    except (torch._dynamo.exc.InvalidBackend, RuntimeError) as error:
        raise UsageError(
            f"backend {backend!r} with mode {mode!r} cannot be used: {error}"
        ) from error
