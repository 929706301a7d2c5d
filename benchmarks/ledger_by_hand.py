"""``fx-explorer ledger`` held against itself, and against torch's profiler in a process without
fx-explorer.

For every model: how much of a call its steps account for, and the time of each kernel (generated
kernels by their names, library calls by their operators) beside what ``torch.profiler`` says of the
same compiled program, called by a script of a few lines. On the CPU that script has Inductor put a
record around each kernel (``cpp.enable_kernel_profile``). Both wait after each call. They share the
compiler's caches, because each kernel of a GPU is to run in the one configuration that was found
fastest: two searches often choose differently where kernels take 2 µs. The profiler takes about a
microsecond for each record within an operator, so on the CPU the inputs are large, and only kernels
whose calls are long are compared. And Inductor's records change the kernels that they are in: the
softmax of a GPT-2 takes 184 µs by its record, 226 µs by a clock around the call of that same
kernel, and 212 µs by such a clock where there is no record in it. So there is that clock on the CPU
as well.

    python -m benchmarks.ledger_by_hand [MODEL ...] [--device cuda] [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from typing import Any, TypeVar

from benchmarks.common import ROOT

IMPORTS = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))

MODELS = ("mlp", "convnet", "transformer", "gpt2", "bert", "vit")

NEAR = 0.1
Pair = tuple[str, float, float]
Took = TypeVar("Took", float, tuple[float, float])

LEAST_US = {"cpu": 30.0, "cuda": 1.0}
"""Kernels of which one call takes less are not compared."""

BATCH = {"mlp": 4096, "convnet": 64, "transformer": 64, "gpt2": 16, "bert": 64, "vit": 32}
"""On the CPU; on a GPU the model's own."""

BY_HAND = """
import json, os, sys, time, torch
from torch.profiler import ProfilerActivity, profile
from benchmarks.models import batched, build, inputs

name, device, batch, source = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
on_gpu = device == "cuda"
torch._inductor.config.cpp.enable_kernel_profile = not on_gpu and source == "profiler"
model, given = build(name).to(device), batched(name, batch) if batch else inputs(name)
def moved(value):
    return value.to(device) if isinstance(value, torch.Tensor) else value
keywords = {key: moved(value) for key, value in given.items()} if isinstance(given, dict) else {}
arguments = () if isinstance(given, dict) else tuple(moved(value) for value in given)
compiled = torch.compile(model)
def step():
    with torch.no_grad():
        compiled(*arguments, **keywords)
    if on_gpu:
        torch.cuda.synchronize()
for _ in range(10):
    step()
calls = 50
took = {}
def middle(times):
    "Sum up, over the launches of a name in one call, the middle half of each: they have different sizes."
    launches = [times[i :: len(times) // calls] for i in range(len(times) // calls)]
    inner = [sorted(one)[calls // 4 : calls - calls // 4] for one in launches]
    return sum(sum(one) / len(one) for one in inner)
def told():
    print(json.dumps({key: [middle(times), len(times) / calls] for key, times in took.items()}))
    raise SystemExit
if source == "clock":
    def clocked(key, function):
        def run(*arguments, **keywords):
            began = time.perf_counter()
            try:
                return function(*arguments, **keywords)
            finally:
                took.setdefault(key, []).append((time.perf_counter() - began) * 1e6)
        return run
    class Clocked:
        def __init__(self, kernels):
            self.kernels = kernels
        def __getattr__(self, key):
            return clocked("aten::" + key, getattr(self.kernels, key))
    folder = os.environ["TORCHINDUCTOR_CACHE_DIR"]
    for module in [one for one in list(sys.modules.values()) if folder in str(getattr(one, "__file__", ""))]:
        for key, value in list(vars(module).items()):
            if key.startswith("cpp_fused"):
                setattr(module, key, clocked(key, value))
            if key == "extern_kernels":
                module.extern_kernels = Clocked(value)
    for _ in range(calls):
        step()
    told()
with profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as seen:
    for _ in range(calls):
        step()
wanted = torch.autograd.DeviceType.CUDA if on_gpu else torch.autograd.DeviceType.CPU
for event in seen.events():
    if event.device_type == wanted:
        took.setdefault(event.name, []).append(event.time_range.elapsed_us())
told()
"""


def ledger_of(model: str, device: str, batch: int, folder: str) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "fx_explorer",
        "ledger",
        "benchmarks/models.py",
        "--format",
        "json",
        "--no-train",
    ]
    inputs = f"batched({model!r}, {batch})" if batch else f"inputs({model!r})"
    command += ["--call", f"build({model!r})", "--inputs", inputs, "--device", device]
    told: dict[str, Any] = json.loads(printed_by(command, folder))
    return told


def by_hand(
    model: str, device: str, batch: int, source: str, folder: str
) -> dict[str, tuple[float, float]]:
    """Return of everything that the source names µs per call of the model, and how often it runs in
    one.
    """
    command = [sys.executable, "-c", BY_HAND, model, device, str(batch), source]
    told: dict[str, tuple[float, float]] = json.loads(printed_by(command, folder).splitlines()[-1])
    return told


def printed_by(command: list[str], folder: str) -> str:
    """Return what a process prints whose compiler caches lie in the folder."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": folder, "PYTHONPATH": IMPORTS}
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise SystemExit(
            f"{' '.join(command[:6])} … ended with {ended.returncode}:\n{ended.stderr}"
        )
    return ended.stdout


def kernels(told: dict[str, Any], device: str) -> dict[str, float]:
    """Return µs per call of each kernel by the name that a profiler knows it by. Library calls of a
    GPU run kernels of other names, so they are left out there.
    """
    found: dict[str, float] = {}
    for step in told["steps"]:
        is_library = step["kind"] == "library"
        if step["kind"] != "kernel" and (not is_library or device == "cuda"):
            continue
        name = (
            f"aten::{step['name'].split('.')[-1]}"
            if step["name"].startswith("extern_kernels.")
            else step["name"]
        )
        took_s = step["device_s"] if device == "cuda" else step["host_s"]
        found[name] = found.get(name, 0.0) + took_s * 1e6
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=[], metavar="MODEL")
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    parser.add_argument(
        "--rounds",
        type=int,
        default=1,
        help="times that all of it is measured, in turns (default: 1)",
    )
    arguments = parser.parse_args()
    sources = ("profiler", "clock") if arguments.device == "cpu" else ("profiler",)
    for model in arguments.models or MODELS:
        batch = BATCH.get(model, 0) if arguments.device == "cpu" else 0
        took_us: dict[str, float] = {}
        hands: dict[str, dict[str, tuple[float, float]]] = {source: {} for source in sources}
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(arguments.rounds):
                for source in sources:
                    keep_least(
                        hands[source], by_hand(model, arguments.device, batch, source, folder)
                    )
                told = ledger_of(model, arguments.device, batch, folder)
                keep_least(took_us, kernels(told, arguments.device))
                accounted = told["accounted_s"] / told["call_s"]
                print(
                    f"{model:12} a call {told['call_s'] * 1e6:9.1f} µs, accounted for {accounted:6.1%}",
                    flush=True,
                )
        for source, hand in hands.items():
            compare(source, pairs_of(took_us, hand, LEAST_US[arguments.device]))


def keep_least(least: dict[str, Took], found: dict[str, Took]) -> None:
    """Keep of each kernel the least time of all rounds: a machine that is busy for a minute makes
    others longer.
    """
    for name, took in found.items():
        least[name] = min(least.get(name, took), took)


def pairs_of(
    took_us: dict[str, float], hand: dict[str, tuple[float, float]], least_us: float
) -> list[Pair]:
    """Return (name, ours, by hand), in µs per call of the model, of every kernel whose calls are
    long enough.
    """
    found = []
    for name, ours in took_us.items():
        same = [
            value
            for key, value in hand.items()
            if key == name or (name.startswith("cpp_") and key.endswith(name))
        ]
        if same and same[0][0] / same[0][1] >= least_us:
            found.append((name, ours, same[0][0]))
    return found


def compare(source: str, pairs: list[Pair]) -> None:
    """Print how many are near, and the three that are farthest."""
    far = [pair for pair in pairs if abs(pair[1] / pair[2] - 1) > NEAR]
    ours, theirs = sum(pair[1] for pair in pairs), sum(pair[2] for pair in pairs)
    near = len(pairs) - len(far)
    print(
        f"  {near} of {len(pairs)} kernels within {NEAR:.0%} of the {source}, together {ours:.1f} and {theirs:.1f} µs",
        flush=True,
    )
    for name, took_us, same_us in sorted(far, key=lambda pair: -abs(pair[1] / pair[2] - 1))[:3]:
        print(f"    {name}: {took_us:.2f} µs, by hand {same_us:.2f}", flush=True)


if __name__ == "__main__":
    main()
