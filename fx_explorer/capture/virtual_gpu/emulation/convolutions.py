"""Keep Dynamo from asking which CPU library would do a convolution, while a program runs on the
CPU.

The answer depends on the batch: oneDNN and NNPACK want 16 of them. A batch that varies would get a
guard that no GPU asks for, and other code behind it.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.backends.mkldnn
import torch.backends.nnpack

from fx_explorer.capture.torch_compat.versions import require
from fx_explorer.capture.virtual_gpu.emulation.emulation_mode import Emulation


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
