"""Let optimizers take all parameters at once (``foreach``), as they do by default on a GPU:
compiled ones then have other kernels.

Hook: ``_get_foreach_kernels_supported_devices``, which ``_default_to_fused_or_foreach`` asks
(torch/optim/optimizer.py).
"""

from __future__ import annotations

import sys

from fx_explorer.capture.torch_compat.versions import require
from fx_explorer.capture.virtual_gpu.emulation.emulation_mode import Emulation


def prefer_foreach(emulation: Emulation) -> None:
    """Make optimizers choose as on the GPU while the program runs on the CPU, where the results are
    the same.
    """
    from fx_explorer.capture.recording.hidden_from_dynamo import (
        traced_as,  # it imports the compiler, which must find torch.cuda as on the GPU
    )

    name = "_get_foreach_kernels_supported_devices"
    original, module = require("torch.optim.optimizer", name), sys.modules["torch.optim.optimizer"]
    devices: list[str] = ["cpu", *original()]

    def supported_devices() -> list[
        str
    ]:  # Dynamo traces it, so it does nothing but return the list
        return devices

    traced_as(original, supported_devices)
    setattr(module, name, supported_devices)
    emulation.when_fake.append(lambda: setattr(module, name, original))
