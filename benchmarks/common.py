"""What the benchmarks share: cold runs in fresh processes, and ratios that say how sure they are."""

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
How = Literal["bare", "eager", "unbuilt", "unrecorded", "inspect", "trace", "build"]
"""What a compile runs under (``one_compile.py``). Between ``unrecorded`` and ``inspect`` lies the
recording alone.
"""


@dataclass(frozen=True)
class Cost:
    """What one compile took."""

    wall_s: float
    own_cpu_s: float
    """CPU time of the process that compiles."""
    cpu_s: float
    """The same plus that of its children: the C++ compiler."""


def cold_environment(folder: Path) -> dict[str, str]:
    """A fresh cache directory. The probe of the CPU's vector instructions (6 to 11 s in each fresh
    directory, and not needed when nothing is built) is skipped for every kind of run, which is to
    our disadvantage.
    """
    return {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TORCHINDUCTOR_VEC_ISA_OK": "1",
        "PYTHONPATH": str(ROOT),
    }


class RunFailed(Exception):
    """A measured process ended with an error; its last lines are the message."""


@dataclass(frozen=True)
class OneRun:
    cost: Cost
    profile: dict[str, dict[str, float]]
    """Seconds by what ``sampling.py`` and torch itself tell apart; empty when that was not asked
    for.
    """


def cold_compile(
    model: str, how: How, folder: Path, *, device: str = "cpu", profile: bool = False
) -> OneRun:
    """One compile in a process of its own; its cache and session are left in ``folder``. Raises
    RunFailed.
    """
    command = [
        sys.executable,
        "-m",
        "benchmarks.one_compile",
        model,
        how,
        f"--session={folder / 'session.fxs'}",
    ]
    command += [f"--device={device}", *(["--profile"] if profile else [])]
    ended = subprocess.run(
        command, env=cold_environment(folder), cwd=ROOT, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise RunFailed(
            f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stderr[-3000:]}"
        )
    told = json.loads(ended.stdout.splitlines()[-1])
    return OneRun(Cost(**told["cost"]), told["profile"])


def in_fresh_folder(model: str, how: How, *, device: str = "cpu", profile: bool = False) -> OneRun:
    """One cold compile whose cache and session are thrown away."""
    with tempfile.TemporaryDirectory(
        ignore_cleanup_errors=True
    ) as folder:  # a pool of torch's may still write there
        return cold_compile(model, how, Path(folder), device=device, profile=profile)


def warm_up() -> None:
    """Build Inductor's precompiled header, once a machine (12 s), which would otherwise fall on the
    first run.
    """
    in_fresh_folder("mlp", "bare")


def summary(ratios: Sequence[float]) -> str:
    """``0.56 (0.54 to 0.58 in 3 rounds)``: the median and the range."""
    rounds = f"{len(ratios)} round{'s' * (len(ratios) > 1)}"
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f} in {rounds})"
