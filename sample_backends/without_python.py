"""The program of an MLP run by C++ alone, its time beside PyTorch's.

python -m sample_backends.without_python [--features 512] [--runs 50] [--threads N]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import time

import torch

from sample_backends.small import small
from sample_backends.small_backend.cache import artefacts_made
from sample_backends.small_backend.library import standalone
from sample_models.mlp import MLP


def seconds(model: torch.nn.Module, x: torch.Tensor) -> float:
    begin = time.perf_counter()
    model(x)
    return time.perf_counter() - begin


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(max(1, arguments.threads))
    model, x = (
        MLP(arguments.features, arguments.features, arguments.features),
        torch.randn(arguments.features, arguments.features),
    )

    torch.compile(model, backend=small)(x)
    (artefact,) = artefacts_made()
    print(f"artefact: {artefact}")
    subprocess.run(
        [standalone(), artefact, str(arguments.runs), str(arguments.threads)], check=True
    )
    times = [seconds(model, x) for _ in range(arguments.runs)]
    print(
        f"PyTorch, uncompiled, in Python: median {statistics.median(times) * 1e6:.1f} µs, least {min(times) * 1e6:.1f} µs"
    )


if __name__ == "__main__":
    main()
