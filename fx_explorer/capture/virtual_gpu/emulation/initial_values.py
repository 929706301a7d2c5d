"""Skip ``trunc_normal_`` for tensors without content: it would draw values again while any is out
of bounds.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch

from fx_explorer.capture.torch_compat.versions import require


def draw_nothing() -> None:
    """Draw nothing for a tensor without content. Hook: ``_no_grad_trunc_normal_``
    (torch/nn/init.py).
    """
    original = require("torch.nn.init", "_no_grad_trunc_normal_")

    @functools.wraps(original)
    def trunc_normal(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        has_no_content = isinstance(tensor, require("torch._subclasses.fake_tensor", "FakeTensor"))
        drawn: torch.Tensor = tensor if has_no_content else original(tensor, *args, **kwargs)
        return drawn

    sys.modules["torch.nn.init"]._no_grad_trunc_normal_ = trunc_normal  # type: ignore[attr-defined]
