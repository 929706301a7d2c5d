"""``Precompile`` runs torch.compile phase by phase, from Python.

>>> import torch
>>> from fx_explorer.precompile import Precompile
>>> gm, bytecode, guards, example_inputs = Precompile.dynamo(lambda x: x * 2 + 1, torch.ones(3))
>>> compiled_fn, guards = Precompile.aot_autograd(
...     gm, guards, compiler=lambda graph, inputs: graph.forward
... )
>>> compiled_fn(example_inputs)
tensor([3., 3., 3.])
"""

from __future__ import annotations

import torch

from fx_explorer.precompile.api import Precompile
from fx_explorer.precompile.compiled_function import CompiledFunction, Guards
from fx_explorer.precompile.errors import (
    CompilerError,
    GraphBreakError,
    GuardError,
    PrecompileError,
    PrecompileWarning,
    SaveError,
)

__all__ = [
    "CompiledFunction",
    "CompilerError",
    "GraphBreakError",
    "GuardError",
    "Guards",
    "Precompile",
    "PrecompileError",
    "PrecompileWarning",
    "SaveError",
    "install",
]


def install() -> None:
    """Put ``Precompile`` at ``torch.Precompile``. Again and again is the same as once.

    A ``torch.Precompile`` that torch has itself is left alone; ``fx_explorer.Precompile`` is always
    ours.

    >>> install()
    >>> torch.Precompile is Precompile
    True
    """
    if not hasattr(torch, "Precompile"):
        torch.Precompile = Precompile
