"""``fx-explorer bench`` held against itself, and against the same measured by hand with
``torch.utils.benchmark``.

Each target is measured by ``fx-explorer bench`` twice, and in between by a script of a few lines in
a process of its own for each contender. Told are, for every cell, the three times with their
spreads, and in how many cells the two runs agree (their intervals overlap) and the script lies
within the spread of the bench, and of how many cells a run itself says that nearly all rounds were
disturbed.

    python -m benchmarks.bench_by_hand [TARGET ...] [--budget 15] [--batch N] [--device cuda]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.common import ROOT

BACKENDS = ("aot_eager", "inductor")

TARGETS = {
    "mlp": ("mlp", (4, 64)),
    "convnet": ("convnet", (4, 16)),
    "transformer": ("transformer", (2, 8)),
    "gpt2": ("gpt2", (1, 4)),
    "vit": ("vit", (1, 4)),
}
"""Name → model of benchmarks/models.py, and batches."""

BY_HAND = """
import sys, json, statistics, torch
from torch.utils.benchmark import Timer
from benchmarks.models import build, inputs

name, backend, batch, device = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
model, given = build(name).to(device), inputs(name)
def sized(value):
    return value[torch.arange(batch) % value.shape[0]].to(device) if isinstance(value, torch.Tensor) else value
keywords = {key: sized(value) for key, value in given.items()} if isinstance(given, dict) else {}
arguments = () if isinstance(given, dict) else tuple(sized(value) for value in given)
called = model if backend == "uncompiled" else torch.compile(model, backend=backend)

def step():
    with torch.no_grad():
        return called(*arguments, **keywords)

for _ in range(5):
    step()
if device == "cuda":
    from triton.testing import do_bench
    times = [do_bench(step, return_mode="median") / 1000 for _ in range(8)]
    print(json.dumps([statistics.median(times), min(times), max(times)]))
    raise SystemExit
timer = Timer("step()", globals={"step": step}, num_threads=torch.get_num_threads())
times = [timer.blocked_autorange(min_run_time=0.3).median for _ in range(8)]
print(json.dumps([statistics.median(times), min(times), max(times)]))
"""


@dataclass(frozen=True)
class Measured:
    """Seconds per call: the median, and the ends of its interval."""

    middle: float
    low: float
    high: float

    def overlaps(self, other: Measured) -> bool:
        return self.low <= other.high and other.low <= self.high

    def __str__(self) -> str:
        return f"{self.middle * 1e6:9.1f} µs ({self.low * 1e6:.1f} to {self.high * 1e6:.1f})"


Cells = dict[tuple[str, int], Measured]


class Benched(NamedTuple):
    """What ``fx-explorer bench`` tells of every cell."""

    times: Cells
    """Seconds per call."""
    speed_ups: Cells
    disturbed: set[tuple[str, int]]
    """Cells whose times it calls too high."""


def benched(model: str, batches: tuple[int, ...], budget_s: float, device: str) -> Benched:
    cells = len(batches) * (1 + len(BACKENDS))
    command = [
        sys.executable,
        "-m",
        "fx_explorer",
        "bench",
        "benchmarks/models.py",
        "--format",
        "json",
        "--no-train",
    ]
    command += [
        "--call",
        f"build({model!r})",
        "--inputs",
        f"inputs({model!r})",
        "--backends",
        ",".join(BACKENDS),
    ]
    command += [
        "--device",
        device,
        "--batch",
        ",".join(map(str, batches)),
        "--budget",
        str(budget_s * cells),
    ]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stderr}")
    times: Cells = {}
    speed_ups: Cells = {}
    disturbed = set()
    for cell in json.loads(ended.stdout)["cells"]:
        key = (cell["contender"], cell["sizes"]["batch"])
        if cell["call_interval_s"]:
            times[key] = Measured(**cell["call_interval_s"])
        if cell["speed_up"]:
            speed_ups[key] = Measured(**cell["speed_up"])
        if cell["rounds_disturbed"]:
            disturbed.add(key)
    return Benched(times, speed_ups, disturbed)


def by_hand(model: str, contender: str, batch: int, device: str) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": folder, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", BY_HAND, model, contender, str(batch), device]
        printed = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        ).stdout
    return Measured(*json.loads(printed.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", default=[], choices=[[], *TARGETS], metavar="TARGET")
    parser.add_argument(
        "--budget", type=float, default=15.0, help="seconds for each cell of a bench (default: 15)"
    )
    parser.add_argument("--batch", type=int, help="one batch, instead of each target's own")
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    arguments = parser.parse_args()
    agree = ratios_agree = near = count = compared = disturbed = 0
    for name in arguments.targets or TARGETS:
        model, batches = TARGETS[name]
        batches = (arguments.batch,) if arguments.batch else batches
        one = benched(model, batches, arguments.budget, arguments.device)
        hand = {key: by_hand(model, *key, arguments.device) for key in one.times}
        other = benched(model, batches, arguments.budget, arguments.device)
        for key in one.times.keys() & other.times.keys():
            first, second = one.times[key], other.times[key]
            is_disturbed = key in one.disturbed | other.disturbed
            disturbed += is_disturbed
            agree += first.overlaps(second)
            near += hand[key].overlaps(first) or hand[key].overlaps(second)
            count += 1
            said = "  disturbed" if is_disturbed else ""
            print(
                f"{name:12} batch {key[1]:<4} {key[0]:12} {first}  {second}  by hand {hand[key]}{said}",
                flush=True,
            )
        for key in one.speed_ups.keys() & other.speed_ups.keys():
            ratios_agree += one.speed_ups[key].overlaps(other.speed_ups[key])
            compared += 1
    print(
        f"two runs agree in {agree} of {count} times and in {ratios_agree} of {compared} speed-ups"
    )
    print(f"{disturbed} of the times were disturbed in a run, as it says")
    print(f"by hand within the spread of one of them: {near} of {count}")


if __name__ == "__main__":
    main()
