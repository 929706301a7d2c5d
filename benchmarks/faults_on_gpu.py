"""Faults planted in the compiler, and where ``fx-explorer numerics`` finds them on a GPU.

    python -m benchmarks.faults_on_gpu [--only NAME ...] [--jobs 4] [--device cuda]

Each program of tests/numerics/programs.py registers one fault: a decomposition, a pass, a lowering
or the text of a Triton kernel. It counts as located where the stage, the operator, the line of the
program and, where that is known, the line of the kernel are the right ones.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT
from tests.numerics.programs import GPU_FAULTS

LIMIT_S = 400


def answer_of(name: str, device: str) -> dict[str, Any]:
    """Return what ``numerics`` says of one program, as JSON; empty where it says nothing."""
    fault = GPU_FAULTS[name]
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program.py"
        program.write_text(fault.text)
        command = [sys.executable, "-m", "fx_explorer", "numerics", str(program)]
        command += ["--device", device, "--format", "json", "--no-bisect", *fault.options]
        ended = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT_S
        )
    try:
        answer: dict[str, Any] = json.loads(ended.stdout)
    except ValueError:
        print(ended.stderr[-1000:], file=sys.stderr)
        return {}
    return answer


def is_located(name: str, answer: dict[str, Any]) -> bool:
    """Return whether the first operator that differs is the one with the fault."""
    fault, finding = GPU_FAULTS[name], answer.get("finding") or {}
    place = [finding.get(field) for field in ("stage", "operation", "line")]
    is_line = fault.kernel_code in (finding.get("kernel_code") or "")
    return place == [fault.stage, fault.operation, fault.line] and is_line


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", choices=list(GPU_FAULTS), default=list(GPU_FAULTS))
    parser.add_argument("--jobs", type=int, default=1, help="programs at once")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    located = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        answers = pool.map(lambda name: answer_of(name, options.device), options.only)
        for name, answer in zip(options.only, answers, strict=True):
            is_right = is_located(name, answer)
            located += is_right
            print(f"{'located' if is_right else 'NOT LOCATED':<12} {name}", flush=True)
            for sentence in (answer.get("verdict") or [])[:2]:
                print(f"    {sentence}")
    print(f"{located} of {len(options.only)} located")
    return int(located < len(options.only))


if __name__ == "__main__":
    raise SystemExit(main())
