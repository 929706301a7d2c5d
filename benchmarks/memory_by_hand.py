"""``fx-explorer memory`` held against torch's own counters.

For every model: the peak of a training step as it is predicted from a capture that built nothing,
and the same step in a process without fx-explorer, compiled and called by a script of a few lines.
There the peak is ``torch.cuda.max_memory_allocated`` on a GPU, and what torch's profiler notes of
the allocator on the CPU; saved bytes are those of ``saved_tensors_hooks``.

    python -m benchmarks.memory_by_hand [MODEL ...] [--device cuda] [--batch N] [--json FILE]

*known* is what is there before the step (parameters, buffers, inputs). *others* is what else a GPU's
allocator holds before the step: workspaces that cuBLAS keeps for good, one for each thread. They are
in ``max_memory_allocated`` and in no graph, so the difference is told with and without them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.common import ROOT

BATCHES: dict[str, tuple[int, int]] = {
    "mlp": (4096, 1 << 22),
    "convnet": (64, 16384),
    "resnet": (16, 4096),
    "transformer": (16, 16384),
    "gpt2": (16, 4096),
    "bert": (16, 16384),
    "vit": (32, 16384),
    "llama4": (16, 8192),
    "keeping": (1024, 1 << 18),
    "dropping": (1024, 1 << 18),
}
"""Model of benchmarks/models.py → batch on the CPU, batch on a GPU. On a GPU a step is to take
gigabytes, since cuBLAS alone keeps some tens of megabytes.
"""

BY_HAND = """
import json, sys, torch
from benchmarks.models import batched, build

name, batch, device = sys.argv[1], int(sys.argv[2]), sys.argv[3]
is_gpu = device.startswith("cuda")
model, example = build(name).to(device), batched(name, batch)
if isinstance(example, dict):
    arguments, keywords = (), {key: value.to(device) for key, value in example.items()}
else:
    arguments, keywords = tuple(value.to(device) for value in example), {}
del example
compiled = torch.compile(model)

def step():
    output = compiled(*arguments, **keywords)
    loss = output.loss if hasattr(output, "loss") else output.sum()
    loss.backward()
    return None

def clear():
    for parameter in model.parameters():
        parameter.grad = None

def block(size):
    return -(-size // 512) * 512 if is_gpu else size

for _ in range(3):
    clear()
    step()
clear()
there = {*model.parameters(), *model.buffers(), *arguments, *keywords.values()}
owned = {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in there}
known = sum(block(size) for size in owned.values())
found = {"known": known, "others": 0, "torch": torch.__version__, "device": "cpu"}
if is_gpu:
    torch.cuda.synchronize()
    found["device"] = torch.cuda.get_device_name()
    found["others"] = torch.cuda.memory_allocated() - known
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    found["peak"] = torch.cuda.max_memory_allocated()
    stats = torch.cuda.memory_stats()
    found["requested"] = stats.get("requested_bytes.all.peak", 0)
else:
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        step()
    events = [one for one in seen.profiler.kineto_results.events() if one.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda one: one.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    found["peak"] = found["requested"] = known + most
clear()
saved = {}
def pack(tensor):
    saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
    return tensor
with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
    output = compiled(*arguments, **keywords)
found["saved"] = sum(saved.values())
found["computed"] = sum(size for pointer, size in saved.items() if pointer not in owned)
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Row:
    """One model: bytes that are predicted, and bytes that torch counted."""

    model: str
    batch: int
    predicted: int
    measured: int
    others: int
    predicted_saved: int
    measured_saved: int
    device: str
    torch: str

    @property
    def difference(self) -> float:
        return self.predicted / self.measured - 1

    @property
    def difference_without_others(self) -> float:
        return self.predicted / (self.measured - self.others) - 1

    def __str__(self) -> str:
        megabytes = (f"{size / 1e6:10.2f}" for size in (self.predicted, self.measured, self.others))
        saved = "equal" if self.predicted_saved == self.measured_saved else "DIFFER"
        return (
            f"{self.model:12} {self.batch:8} {' '.join(megabytes)} {self.difference:+8.1%} "
            f"{self.difference_without_others:+8.1%} {self.predicted_saved:14,} {self.measured_saved:14,} {saved}"
        )


HEADING = (
    f"{'model':12} {'batch':>8} {'predicted':>10} {'measured':>10} {'others':>10} {'differ':>8} {'without':>8} "
    f"{'saved, predicted':>14} {'saved, hooks':>14}"
)


def predicted(model: str, batch: int, device: str, folder: Path) -> tuple[int, int]:
    """(peak, bytes that the forward computes and saves) as ``fx-explorer memory`` tells them."""
    command = [
        sys.executable,
        "-m",
        "fx_explorer",
        "memory",
        "benchmarks/models.py",
        "--format",
        "json",
        "--train",
    ]
    command += [
        "--call",
        f"build({model!r})",
        "--inputs",
        f"batched({model!r}, {batch})",
        "--device",
        device,
    ]
    told = json.loads(ran(command, folder))
    return int(told["peak_bytes"]), int(told["saved_bytes"])


def by_hand(model: str, batch: int, device: str, folder: Path) -> dict[str, object]:
    printed = ran([sys.executable, "-c", BY_HAND, model, str(batch), device], folder)
    return dict(json.loads(printed.splitlines()[-1]))


class Failed(Exception):
    """A process that gave no answer; the message is the end of what it wrote."""


def ran(command: Sequence[str], folder: Path) -> str:
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise Failed(
            f"{' '.join(command[:6])} … ended with {ended.returncode}: {ended.stderr.strip()[-600:]}"
        )
    return ended.stdout


def measured_row(model: str, batch: int, device: str, folder: Path) -> Row:
    hand = by_hand(model, batch, device, folder)
    peak, saved = predicted(model, batch, device, folder)
    numbers = {key: int(str(hand[key])) for key in ("peak", "others", "computed")}
    return Row(
        model,
        batch,
        peak,
        numbers["peak"],
        numbers["others"],
        saved,
        numbers["computed"],
        str(hand["device"]),
        str(hand["torch"]),
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"default: {' '.join(BATCHES)}")
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    parser.add_argument(
        "--batch", type=int, default=0, help="for all models, instead of each one's own"
    )
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    arguments = parser.parse_args()
    rows = []
    print(HEADING, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for model in arguments.models or BATCHES:
            began, own = time.monotonic(), BATCHES.get(model, (4, 64))
            batch = arguments.batch or own[arguments.device.startswith("cuda")]
            try:
                rows.append(measured_row(model, batch, arguments.device, Path(folder)))
                print(f"{rows[-1]}  {time.monotonic() - began:.0f} s", flush=True)
            except (Failed, ValueError, KeyError, ZeroDivisionError) as error:
                print(f"{model:12} {batch:8} failed: {error!r}", flush=True)
    if rows:
        near = sum(abs(row.difference) <= 0.1 for row in rows)
        print(
            f"{rows[0].device}, torch {rows[0].torch}: predicted peaks within 10 %: {near} of {len(rows)} steps; ",
            end="",
        )
        print(
            f"saved bytes equal in {sum(row.predicted_saved == row.measured_saved for row in rows)} of {len(rows)}"
        )
    if arguments.json:
        figures = [{**asdict(row), "difference": row.difference} for row in rows]
        arguments.json.write_text(json.dumps(figures, indent=1))
    return 0 if rows else 1


if __name__ == "__main__":
    raise SystemExit(main())
