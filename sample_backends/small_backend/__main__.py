"""Artefacts from the command line: look at one, or run it without torch.compile.

python -m sample_backends.small_backend show ARTEFACT
python -m sample_backends.small_backend run ARTEFACT [--runs 20] [--threads N] [--standalone]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

from sample_backends.small_backend import artefact, texts
from sample_backends.small_backend.cache import load
from sample_backends.small_backend.errors import SmallBackendError
from sample_backends.small_backend.library import standalone
from sample_backends.small_backend.program import Layout
from sample_backends.small_backend.segment import Segment


def numbers(layout: Layout, k: int) -> torch.Tensor:
    """Return the k-th input as ``runtime/standalone.cpp`` makes it."""
    whole = (torch.arange(layout.length) * 7 + 13 * k) % 101
    return (whole.float() / 101.0 - 0.5).as_strided(layout.sizes, layout.strides)


def show(path: Path) -> None:
    content = artefact.read(path)
    lines = texts.artefact_lines(path.name, content, "on disk")
    print(texts.text_of([*lines, *texts.program_lines({"program": artefact.unpacked(content)})]))


def run(path: Path, runs: int) -> None:
    segment = Segment(load(path))
    inputs = [numbers(layout, k) for k, layout in enumerate(segment.made.program.inputs)]
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        results = segment(*inputs)
        times.append(time.perf_counter() - begin)
    print(
        f"median of {runs} runs: {statistics.median(times) * 1e6:.1f} µs, least {min(times) * 1e6:.1f} µs"
    )
    for k, result in enumerate(results if isinstance(results, tuple) else (results,)):
        print(f"result {k}: {tuple(result.shape)}, sum {result.double().sum().item():.6g}")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="small_backend",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=["show", "run"])
    parser.add_argument("artefact", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--standalone", action="store_true", help="run it by a C++ program that knows no Python"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(max(1, arguments.threads))
    try:
        if arguments.command == "show":
            show(arguments.artefact)
        elif arguments.standalone:
            command = [
                str(standalone()),
                str(arguments.artefact),
                str(arguments.runs),
                str(arguments.threads),
            ]
            return subprocess.run(command, check=False).returncode
        else:
            run(arguments.artefact, max(1, arguments.runs))
    except SmallBackendError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
