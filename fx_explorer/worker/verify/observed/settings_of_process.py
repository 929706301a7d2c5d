"""What a call can change in the process: torch's modes and defaults, the state of random numbers,
the working directory.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
from typing import Any

import torch

from fx_explorer.worker.verify.observed.plain_values import digest


def settings_of_process() -> dict[str, Any]:
    """Return the current settings, by their names in words."""
    found: dict[str, Any] = {
        "whether gradients are recorded": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "the default dtype": str(torch.get_default_dtype()),
        "the default device": str(torch.get_default_device()),
        "autocast on the CPU": torch.is_autocast_enabled("cpu"),
        "autocast's dtype on the CPU": str(torch.get_autocast_dtype("cpu")),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "the precision of matrix products": torch.get_float32_matmul_precision(),
        "the number of threads": torch.get_num_threads(),
        "anomaly detection": torch.is_anomaly_enabled(),
        "torch's random numbers": digest(torch.get_rng_state().numpy().tobytes()),
        "Python's random numbers": digest(repr(random.getstate())),
    }
    if "numpy" in sys.modules:
        found["NumPy's random numbers"] = digest(
            repr(sys.modules["numpy"].random.get_state()[1].tobytes())
        )
    with contextlib.suppress(FileNotFoundError):
        found["the working directory"] = os.getcwd()
    return found
