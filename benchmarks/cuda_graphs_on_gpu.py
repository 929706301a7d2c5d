"""What is told of CUDA graphs on a GPU, beside what torch counts of the same scripts by itself.

    python -m benchmarks.cuda_graphs_on_gpu [--json FILE]

Each script of tests/data/cuda_graphs is run under ``fx-explorer run --build``, once more with
``--gpu h100``, which runs nothing on a GPU, and alone, with torch's counters and warnings.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT

SCRIPTS = ROOT / "tests" / "data" / "cuda_graphs"

ALONE = """
import json, logging, runpy, sys
from torch._dynamo.utils import counters
from torch._inductor import cudagraph_trees as trees

recorded = 0
original = trees.CUDAGraphTreeManager.record_function

def record(*arguments):
    global recorded
    recorded += 1
    return original(*arguments)

trees.CUDAGraphTreeManager.record_function = record
runpy.run_path(sys.argv[1], run_name="__main__")
skips = counters["inductor"]["cudagraph_skips"]
print(json.dumps({"recorded": recorded, "skips": skips}))
"""


def output_of(command: Sequence[str]) -> tuple[str, str]:
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    return ended.stdout, ended.stderr


def told(script: Path, folder: Path, *options: str) -> dict[str, Any]:
    """Return what the report and the first lines of the overview say."""
    session = folder / f"{script.stem}{len(options)}.fxs"
    explorer = [sys.executable, "-m", "fx_explorer"]
    output_of([*explorer, "run", str(script), "-o", str(session), "--force", *options])
    report, problem = output_of([*explorer, "report", str(session), "--format", "json"])
    text, _ = output_of([*explorer, str(session)])
    try:
        graphs = json.loads(report)["cuda_graphs"]
    except ValueError:
        graphs = problem[-800:]
    return {"report": graphs, "first_lines": text.splitlines()[:6]}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="append a line a script here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for script in sorted(SCRIPTS.glob("*.py")):
            counted, warned = output_of([sys.executable, "-c", ALONE, str(script)])
            row = {
                "script": script.name,
                "torch": counted.splitlines()[-1:],
                "warnings": [line for line in warned.splitlines() if "cudagraph" in line],
                "built": told(script, Path(folder), "--build"),
                "without_gpu": told(script, Path(folder), "--gpu", "h100"),
            }
            print(json.dumps(row, indent=1), flush=True)
            if arguments.json:
                with arguments.json.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
