"""What the benchmarks share: cold, paired runs in fresh processes, and ratios that say how sure they are."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parents[1]
How = Literal["bare", "inspect", "build"]


@dataclass(frozen=True)
class Cost:
    """What one compile took."""

    wall_s: float
    own_cpu_s: float
    """CPU time of the process that compiles."""
    cpu_s: float
    """The same plus that of its children: the C++ compiler."""


def cold_environment(folder: Path) -> dict[str, str]:
    """A fresh cache directory. The probe of the CPU's vector instructions (6 to 11 s in each fresh directory, and not needed
    when nothing is built) is skipped for every kind of run, which is to our disadvantage."""
    return {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TORCHINDUCTOR_VEC_ISA_OK": "1",
        "PYTHONPATH": str(ROOT),
    }


def cold_compile(model: str, how: How, folder: Path) -> Cost:
    """One compile in a process of its own; its cache and session are left in ``folder``."""
    command = [sys.executable, "-m", "benchmarks.one_compile", model, how, str(folder / "session.fxs")]
    ended = subprocess.run(command, env=cold_environment(folder), cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stderr}")
    return Cost(**json.loads(ended.stdout.splitlines()[-1]))


def paired_costs(model: str, how: How, pairs: int) -> list[tuple[Cost, Cost]]:
    """(bare, captured) costs. Runs alternate, and so does which of a pair goes first, so that a slow minute hits both."""
    costs = []
    for number in range(pairs):
        order: Sequence[How] = ("bare", how) if number % 2 == 0 else (how, "bare")
        found: dict[str, Cost] = {}
        for kind in order:
            with tempfile.TemporaryDirectory() as folder:
                found[kind] = cold_compile(model, kind, Path(folder))
        costs.append((found["bare"], found[how]))
    return costs


def warm_up() -> None:
    """Build Inductor's precompiled header, once a machine (12 s), which would otherwise fall on the first run."""
    with tempfile.TemporaryDirectory() as folder:
        cold_compile("mlp", "bare", Path(folder))


def summary(ratios: Sequence[float]) -> str:
    """``0.56 (0.54 to 0.58 in 3 pairs)``: the median and the range."""
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} pairs)"
