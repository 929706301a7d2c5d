"""Optimizers take all parameters at once (``foreach``) by default, if they are on a GPU: other kernels, where one is compiled.

Hook: ``_get_foreach_kernels_supported_devices``, which ``_default_to_fused_or_foreach`` asks (torch/optim/optimizer.py).
"""

from __future__ import annotations

import sys

from fx_explorer.capture.torch_compat.versions import require
from fx_explorer.capture.virtual_gpu.emulation.emulation_mode import Emulation


def prefer_foreach(emulation: Emulation) -> None:
    """While the program runs on the CPU, where the results are the same, its optimizers choose as they would on the GPU."""
    from fx_explorer.capture.recording.hidden_from_dynamo import (
        traced_as,  # it imports the compiler, which must find torch.cuda as on the GPU
    )

    name = "_get_foreach_kernels_supported_devices"
    original, module = require("torch.optim.optimizer", name), sys.modules["torch.optim.optimizer"]
    devices: list[str] = ["cpu", *original()]

    def supported_devices() -> list[str]:  # Dynamo traces it: nothing but the list
        return devices

    traced_as(original, supported_devices)
    setattr(module, name, supported_devices)
    emulation.when_fake.append(lambda: setattr(module, name, original))
