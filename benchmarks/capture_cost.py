"""The cost of looking: what a capture takes, divided by what the same cold compile takes without
us, and where the time goes.

    python -m benchmarks.capture_cost [MODEL ...] [--device cuda] [--how HOW ...] [--rounds N] [--minutes M] [--profile]

Per round and model one bare compile, one that is inspected (the default of a capture) and one with
``--build``, in turns, so that a slow minute hits all of them. ``--how`` chooses among ``inspect``,
``build``, ``trace`` (inspected with ``--record-trace``), ``unrecorded`` (a capture that records
nothing: how far recording could be brought down), ``unbuilt`` (torch's own work for it, nothing of
it left out) and ``eager`` (the program without torch.compile: while inspecting, it runs so). Rounds
go on until there are ``--rounds`` of them or ``--minutes`` are over; the first is always completed.
``--profile`` first looks into one bare compile and one that is inspected (``sampling.py``).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict

from benchmarks.common import Cost, How, OneRun, RunFailed, in_fresh_folder, summary, warm_up

DEFAULT_MODELS = ["gpt2-12", "llama12", "convnextv2"]
QUANTITIES = {
    "wall_s": "wall time",
    "cpu_s": "CPU time",
    "own_cpu_s": "CPU time of the compiling process",
}
HOWS = ("eager", "unbuilt", "unrecorded", "inspect", "trace", "build")
LONGEST_LIST = 14

Costs = dict[How, list[Cost]]


def one_run(model: str, how: How, device: str, profile: bool) -> OneRun | None:
    """Run one compile; None when it failed, which is printed."""
    try:
        return in_fresh_folder(model, how, device=device, profile=profile)
    except RunFailed as error:
        print(f"{model}: {error}", flush=True)
        return None


def one_round(model: str, hows: list[How], device: str, number: int, costs: Costs) -> bool:
    """Add one cost for bare and each of ``hows``, or none where one of them failed."""
    order: list[How] = ["bare", *hows]
    start = number % len(order)
    found: dict[How, OneRun] = {}
    for how in order[start:] + order[:start]:
        run = one_run(model, how, device, profile=False)
        if run is None:
            return False
        found[how] = run
    for how, run in found.items():
        costs[how].append(run.cost)
    return True


def print_costs(model: str, costs: Costs) -> None:
    for how in costs:
        if how == "bare":
            continue
        for quantity, words in QUANTITIES.items():
            bare, ours = ([getattr(cost, quantity) for cost in costs[one]] for one in ("bare", how))
            ratios = [b / a for a, b in zip(bare, ours, strict=True)]
            seconds = f"bare {statistics.median(bare):.1f} s, {how} {statistics.median(ours):.1f} s"
            print(f"{model:12} {how:10} {words:34} {summary(ratios)}   {seconds}", flush=True)


def print_profile(model: str, device: str) -> bool:
    """Print the seconds of each phase, bare and inspected side by side, and what of ours takes how
    long.
    """
    found = {how: one_run(model, how, device, profile=True) for how in ("bare", "inspect")}
    bare, ours = found["bare"], found["inspect"]
    if bare is None or ours is None:
        return False
    print(f"\n{model}: seconds, bare {bare.cost.wall_s:.1f} and inspected {ours.cost.wall_s:.1f}")
    for title, key in (
        ("by phase (sampled, exclusive)", "phases"),
        ("as torch times itself (inclusive)", "torch"),
    ):
        print(f"  {title:64} {'bare':>7} {'inspect':>7}")
        names = sorted(
            {*bare.profile[key], *ours.profile[key]},
            key=lambda name: -ours.profile[key].get(name, 0.0),
        )
        for name in names[: 2 * LONGEST_LIST]:
            print(
                f"    {name:62} {bare.profile[key].get(name, 0.0):7.2f} {ours.profile[key].get(name, 0.0):7.2f}"
            )
    print("  functions of fx-explorer (sampled)")
    for name, seconds in list(ours.profile["ours"].items())[:LONGEST_LIST]:
        print(f"    {name:62} {'':7} {seconds:7.2f}")
    print(flush=True)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "models",
        nargs="*",
        default=DEFAULT_MODELS,
        help="any of benchmarks/models.py: mlp, resnet, llamaN, gpt2-N, …",
    )
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--how", nargs="+", default=["inspect", "build"], choices=HOWS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--minutes", type=float, default=30.0, help="begin no round that would end later"
    )
    parser.add_argument("--profile", action="store_true", help="say where the time goes")
    arguments = parser.parse_args()
    began_s = time.perf_counter()
    if arguments.device == "cpu":
        warm_up()
    is_well = True
    if arguments.profile:
        for model in arguments.models:
            is_well &= print_profile(model, arguments.device)
    costs: dict[str, Costs] = {model: defaultdict(list) for model in arguments.models}
    longest_s = 0.0
    for number in range(arguments.rounds):
        round_began_s = time.perf_counter()
        if number and round_began_s - began_s + longest_s > 60 * arguments.minutes:
            break
        for model in arguments.models:
            is_well &= one_round(model, arguments.how, arguments.device, number, costs[model])
            print_costs(model, costs[model])
        longest_s = max(longest_s, time.perf_counter() - round_began_s)
        print(flush=True)
    raise SystemExit(0 if is_well else 1)


if __name__ == "__main__":
    main()
