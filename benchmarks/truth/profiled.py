"""Train a model compiled and write a torch.profiler trace of its last two steps.

python benchmarks/truth/profiled.py NAME TRACE DEVICE
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch

from benchmarks.truth import families


def main(name: str, trace: str, device: str) -> None:
    torch.set_default_device(device)
    torch.manual_seed(0)
    step = families.training_step(name)
    for _ in range(3):
        step()
    with torch.profiler.profile() as profile:
        for _ in range(2):
            step()
    profile.export_chrome_trace(trace)


if __name__ == "__main__":
    main(*sys.argv[1:])
