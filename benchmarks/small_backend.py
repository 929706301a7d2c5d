"""The sample backend beside Inductor: an MLP with matrices of 512, called in turns.

Told is how fast the small backend's program is: Inductor's time ÷ its own, the median of the rounds
and their range, for inference and for a training step. Uncompiled PyTorch is a third contender, to
show what the library calls alone take.

On a machine that others use, too, ``--threads 1`` and the least time of the rounds tell more than
medians: both are printed.

    python -m benchmarks.small_backend [--features 512] [--batch 512] [--rounds 20] [--calls 20] [--threads N]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from benchmarks.common import summary
from sample_backends.small import small
from sample_models.mlp import MLP

CONTENDERS = ("uncompiled", "inductor", "small")
Call = Callable[[], object]


def contender(name: str, features: int, batch: int, is_training: bool) -> Call:
    """A call of the MLP, compiled or not; every contender has the same weights and input."""
    torch.manual_seed(0)
    model = MLP(features, features, features)
    x = torch.randn(batch, features)
    called = (
        model
        if name == "uncompiled"
        else torch.compile(model, backend=small if name == "small" else name)
    )

    def infer() -> object:
        with torch.no_grad():
            return called(x)

    def train() -> object:
        model.zero_grad(set_to_none=True)
        called(x).sum().backward()
        return [parameter.grad for parameter in model.parameters()]

    return train if is_training else infer


def seconds(call: Call, calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - begin) / calls


def compare(features: int, batch: int, rounds: int, calls: int, is_training: bool) -> None:
    ready = {name: contender(name, features, batch, is_training) for name in CONTENDERS}
    expected = ready["uncompiled"]()
    for call in ready.values():
        torch.testing.assert_close(call(), expected, rtol=1e-4, atol=1e-3)
        seconds(call, calls)
    times: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for _ in range(rounds):
        for name, call in ready.items():
            times[name].append(seconds(call, calls))
    print(
        f"{'a training step' if is_training else 'inference'}, {features} features, batch {batch}:"
    )
    for name in CONTENDERS:
        print(
            f"  {name:12} {statistics.median(times[name]) * 1e6:9.1f} µs (least {min(times[name]) * 1e6:.1f} µs)"
        )
    for name in ("inductor", "uncompiled"):
        ratios = [other / own for other, own in zip(times[name], times["small"], strict=True)]
        least = min(times[name]) / min(times["small"])
        print(
            f"  small runs at {summary(ratios)} of the speed of {name}; by the least times at {least:.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--calls", type=int, default=20, help="calls of each contender in a round")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    for is_training in (False, True):
        compare(arguments.features, arguments.batch, arguments.rounds, arguments.calls, is_training)


if __name__ == "__main__":
    main()
