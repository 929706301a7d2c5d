"""Hold the sums of ``fx-explorer profile`` against the trace that they are made of, on a GPU.

    python -m benchmarks.truth.profile_sums [--only NAME …] [--json FILE] [--device cuda]

For each model: a script trains it compiled and writes a torch.profiler trace of its last two steps,
all under ``fx-explorer run --build``. The kernels, copies and fills of the trace are added up here,
straight from its events; ``fx-explorer profile --format json`` must say the same, and its parts
must add up to it.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT, cold_environment

GPU_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
NAMES = ("llama", "qwen3", "gpt2", "bert", "t5", "vit", "dinov2", "convnextv2", "resnet", "mixtral")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=list(NAMES), metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append each result as a line")
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    wrong = 0
    for name in arguments.only:
        result = compare(name, arguments.device)
        wrong += bool(result["problems"])
        print(json.dumps(result), flush=True)
        if arguments.json:
            with arguments.json.open("a") as file:
                file.write(json.dumps(result) + "\n")
    print(f"{len(arguments.only) - wrong} of {len(arguments.only)} add up")
    raise SystemExit(bool(wrong))


def compare(name: str, device: str) -> dict[str, Any]:
    """Return the sums of one model and what is wrong with them."""
    with tempfile.TemporaryDirectory() as folder:
        session = Path(folder) / "trained.fxs"
        trace = Path(folder) / "trace.json"
        script = ROOT / "benchmarks" / "truth" / "profiled.py"
        explorer = [sys.executable, "-m", "fx_explorer"]
        record = [*explorer, "run", str(script), "-o", str(session), "--build"]
        _run([*record, "--", name, str(trace), device], Path(folder))
        ask = [*explorer, "profile", str(session), str(trace), "--all", "--format", "json"]
        said = json.loads(_run(ask, Path(folder)))
        events = json.loads(trace.read_text())["traceEvents"]
    work_s = sum(event["dur"] for event in events if event.get("cat") in GPU_WORK) / 1e6
    profile = said["profile"]
    kernels_s = sum(kernel["seconds"] for kernel in said["kernels"])
    elsewhere_s = sum(row["seconds"] for row in said["elsewhere"])
    lines_s = sum(line["forward_s"] + line["backward_s"] for line in said["lines"])
    problems = []
    for what, sum_s, whole_s in (
        ("GPU time beside the trace's own events", profile["work_s"], work_s),
        ("kernels beside what is joined", kernels_s, profile["joined_s"]),
        ("kernels and the rest beside the whole", kernels_s + elsewhere_s, profile["work_s"]),
        ("lines beside what is said of them", lines_s, said["at_line_s"]),
    ):
        if not math.isclose(sum_s, whole_s, rel_tol=1e-3, abs_tol=1e-7):
            problems.append(f"{what}: {sum_s:.6f} s, {whole_s:.6f} s")
    return {
        "name": name,
        "work_s": work_s,
        "compiled": profile["compiled_s"] / work_s if work_s else None,
        "joined": profile["joined_s"] / work_s if work_s else None,
        "problems": problems,
    }


def _run(command: list[str], folder: Path) -> str:
    ended = subprocess.run(
        command,
        env=cold_environment(folder),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise SystemExit(f"{' '.join(command)}: {ended.returncode}\n{ended.stderr[-2000:]}")
    return ended.stdout


if __name__ == "__main__":
    main()
