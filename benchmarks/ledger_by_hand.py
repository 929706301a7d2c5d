"""``fx-explorer ledger`` held against itself, and against torch's profiler in a process without fx-explorer.

For every model: how much of a call its steps account for, and the time of each kernel (generated kernels by their names,
library calls by their operators) beside what ``torch.profiler`` says of the same compiled program, called by a script of a few
lines. On the CPU that script has Inductor put a record around each kernel (``cpp.enable_kernel_profile``). Both wait after each
call. They share the compiler's caches, because each kernel of a GPU is to run in the one configuration that was found fastest:
two searches often choose differently where kernels take 2 µs. The profiler takes about a microsecond for each record within an
operator, so on the CPU the inputs are large, and only kernels whose calls are long are compared.

    python -m benchmarks.ledger_by_hand [MODEL ...] [--device cuda]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks.common import ROOT

IMPORTS = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))

MODELS = ("mlp", "convnet", "transformer", "gpt2", "bert", "vit")

NEAR = 0.1
LEAST_US = {"cpu": 30.0, "cuda": 1.0}
"""Kernels of which one call takes less are not compared."""

BATCH = {"mlp": 4096, "convnet": 64, "transformer": 64, "gpt2": 16, "bert": 64, "vit": 32}
"""On the CPU; on a GPU the model's own."""

BY_HAND = """
import json, sys, torch
from torch.profiler import ProfilerActivity, profile
from benchmarks.models import batched, build, inputs

name, device, batch = sys.argv[1], sys.argv[2], int(sys.argv[3])
on_gpu = device == "cuda"
torch._inductor.config.cpp.enable_kernel_profile = not on_gpu
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
with profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as seen:
    for _ in range(calls):
        step()
took = {}
wanted = torch.autograd.DeviceType.CUDA if on_gpu else torch.autograd.DeviceType.CPU
for event in seen.events():
    if event.device_type == wanted:
        took.setdefault(event.name, []).append(event.time_range.elapsed_us())
def middle(times):
    ordered = sorted(times)
    inner = ordered[len(ordered) // 4 : len(ordered) - len(ordered) // 4]
    return sum(inner) / len(inner) * len(times) / calls
print(json.dumps({key: [middle(times), len(times) / calls] for key, times in took.items()}))
"""


def ledger_of(model: str, device: str, batch: int, folder: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "fx_explorer", "ledger", "benchmarks/models.py", "--format", "json", "--no-train"]
    inputs = f"batched({model!r}, {batch})" if batch else f"inputs({model!r})"
    command += ["--call", f"build({model!r})", "--inputs", inputs, "--device", device]
    told: dict[str, Any] = json.loads(printed_by(command, folder))
    return told


def by_hand(model: str, device: str, batch: int, folder: str) -> dict[str, tuple[float, float]]:
    """Return of everything that torch's profiler names µs per call of the model, and how often it runs in one."""
    command = [sys.executable, "-c", BY_HAND, model, device, str(batch)]
    told: dict[str, tuple[float, float]] = json.loads(printed_by(command, folder).splitlines()[-1])
    return told


def printed_by(command: list[str], folder: str) -> str:
    """Return what a process prints whose compiler caches lie in the folder."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": folder, "PYTHONPATH": IMPORTS}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"{' '.join(command[:6])} … ended with {ended.returncode}:\n{ended.stderr}")
    return ended.stdout


def kernels(told: dict[str, Any], device: str) -> dict[str, float]:
    """Return µs per call of each kernel by the name that a profiler knows it by. Library calls of a GPU run kernels of other
    names, so they are left out there.
    """
    found: dict[str, float] = {}
    for step in told["steps"]:
        is_library = step["kind"] == "library"
        if step["kind"] != "kernel" and (not is_library or device == "cuda"):
            continue
        name = f"aten::{step['name'].split('.')[-1]}" if step["name"].startswith("extern_kernels.") else step["name"]
        took_s = step["device_s"] if device == "cuda" else step["host_s"]
        found[name] = found.get(name, 0.0) + took_s * 1e6
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=[], metavar="MODEL")
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    arguments = parser.parse_args()
    for model in arguments.models or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            batch = BATCH.get(model, 0) if arguments.device == "cpu" else 0
            hand = by_hand(model, arguments.device, batch, folder)
            told = ledger_of(model, arguments.device, batch, folder)
        pairs = []
        for name, took_us in kernels(told, arguments.device).items():
            same = [value for key, value in hand.items() if key == name or (name.startswith("cpp_") and key.endswith(name))]
            if same and same[0][0] / same[0][1] >= LEAST_US[arguments.device]:
                pairs.append((took_us / same[0][0], name, took_us, same[0][0]))
        near = sum(abs(ratio - 1) <= NEAR for ratio, *_ in pairs)
        ours, theirs = sum(pair[2] for pair in pairs), sum(pair[3] for pair in pairs)
        print(
            f"{model:12} a call {told['call_s'] * 1e6:9.1f} µs, accounted for {told['accounted_s'] / told['call_s']:6.1%}; "
            f"{near} of {len(pairs)} kernels within {NEAR:.0%} of the profiler, together {ours:.1f} and {theirs:.1f} µs",
            flush=True,
        )
        for ratio, name, took_us, same_us in sorted(pairs, key=lambda pair: -abs(pair[0] - 1))[:3]:
            if abs(ratio - 1) > NEAR:
                print(f"    {name}: {took_us:.2f} µs, by hand {same_us:.2f}", flush=True)


if __name__ == "__main__":
    main()
