"""What a capture costs: its time divided by that of the same cold compile without us.

    python -m benchmarks.capture_cost [MODEL ...] [--build] [--pairs N]

Inspecting (the default) is compared by wall time, ``--build`` by CPU time. Budgets: inspecting 0.6 for MLP and ResNet and 0.8
for a 12-layer Llama, building 1.05.
"""

from __future__ import annotations

import argparse
import statistics

from benchmarks.common import Cost, paired_costs, summary, warm_up

DEFAULT_MODELS = ["mlp", "resnet", "llama12"]


def report(model: str, build: bool, pairs: int) -> None:
    costs = paired_costs(model, "build" if build else "inspect", pairs)
    quantities = ["cpu_s", "own_cpu_s"] if build else ["wall_s", "own_cpu_s"]
    for quantity in quantities:
        print(f"{model:12} {quantity:10} {_line(costs, quantity)}", flush=True)


def _line(costs: list[tuple[Cost, Cost]], quantity: str) -> str:
    bare = [getattr(pair[0], quantity) for pair in costs]
    ours = [getattr(pair[1], quantity) for pair in costs]
    ratios = [b / a for a, b in zip(bare, ours, strict=True)]
    return f"{summary(ratios)}   bare {statistics.median(bare):.1f} s, captured {statistics.median(ours):.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="*", default=DEFAULT_MODELS, help="mlp, resnet, transformer, llamaN, bert, t5, vit")
    parser.add_argument("--build", action="store_true", help="build the kernels, as the bare compile does")
    parser.add_argument("--pairs", type=int, default=3)
    arguments = parser.parse_args()
    warm_up()
    for model in arguments.models:
        report(model, arguments.build, arguments.pairs)


if __name__ == "__main__":
    main()
