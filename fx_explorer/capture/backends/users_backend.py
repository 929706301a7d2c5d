"""The backend that the user asked for, where torch has put one of its own in front of it.

Inside DistributedDataParallel that is DDPOptimizer (torch/_dynamo/backends/distributed.py): it cuts
Dynamo's graph so that gradients can be reduced while the backward runs, and hands each part, a
bucket, to the user's backend.
"""

from __future__ import annotations

from typing import Any


def users_backend(compiler: Any) -> Any:
    """Return the backend behind DDPOptimizer; any other one as it is."""
    owner = getattr(compiler, "__self__", None)
    if type(owner).__name__ != "DDPOptimizer":
        return compiler
    return getattr(owner, "backend_compile_fn", compiler)
