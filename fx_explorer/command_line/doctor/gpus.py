"""``doctor --gpus``: the GPUs that code can be made for. ``doctor --gpu NAME``: whether everything
for one is there.

The second is asked of the interpreter that would do it (worker/gpu_check.py), in a process of its
own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import fx_explorer
from fx_explorer.client.asked_python import ask_python
from fx_explorer.command_line.doctor.checks import DoctorCheck
from fx_explorer.errors import WorkerError
from fx_explorer.gpus import find_gpu, known_gpus
from fx_explorer.model import Gpu
from fx_explorer.model.gpu import NUMBERS
from fx_explorer.output.formats import json_text
from fx_explorer.output.table import Column, Table
from fx_explorer.output.terminal import LEAST_PROSE, heading, width_for
from fx_explorer.output.text import text_lines

CHECK = Path(fx_explorer.__file__).parent / "worker" / "gpu_check.py"
TIMEOUT_S = 300
ADVICE = "Nothing that comes after this was tried; without it --gpu cannot be used."
LAST = "machine code"
"""The check that comes last: before it, the process ended too early."""


COLUMNS = (
    Column("number"),
    Column("value"),
    Column("source", narrowing="wrapped", least=LEAST_PROSE),
)


def gpus_in_words() -> Iterator[str]:
    """Yield every number of every GPU, with its source."""
    for name in known_gpus():
        gpu = find_gpu(name)
        yield heading(f"{name}: {gpu.title}, {gpu.arch}", sys.stdout)
        rows = [
            (f"{what:<28}", f"{value:>22,}", gpu.sources[what]) for what, value in _numbers(gpu)
        ]
        table = Table(COLUMNS, rows, indent=4, has_titles=False)
        yield from text_lines([table], width_for(sys.stdout))
        yield ""
    yield "Any other one: --gpu FILE.toml, with the same numbers."


def _numbers(gpu: Gpu) -> Iterator[tuple[str, int | float]]:
    for number in NUMBERS:
        yield number, getattr(gpu, number)
    for kind, flops in gpu.peak_flops.items():
        yield f"peak_flops.{kind}", flops


def gpus_as_json() -> str:
    listed = [find_gpu(name).to_json() for name in known_gpus()]
    return json_text({"schema": "fx-explorer/gpus/1", "gpus": listed})


def gpu_checks(python: str, gpu: Gpu) -> list[DoctorCheck]:
    """Return what this interpreter can do for ``gpu``; a check that did not pass is the last
    one.
    """
    try:
        ended = ask_python(python, str(CHECK), json.dumps(gpu.to_json()), timeout_s=TIMEOUT_S)
        checks = [_check(told) for told in ended.objects()]
    except WorkerError as error:
        return [DoctorCheck("python", "problem", f"{python} {error}", "Choose another --python.")]
    except (LookupError, TypeError):
        found = f"{python} answers as no Python does"
        return [DoctorCheck("python", "problem", found, "Choose another --python.")]
    if not checks or (checks[-1].state == "ok" and checks[-1].name != LAST):
        checks.append(
            DoctorCheck(
                "python",
                "problem",
                f"{python} ended with status {ended.status}: {ended.last_words}",
                ADVICE,
            )
        )
    return checks


def _check(told: dict[str, object]) -> DoctorCheck:
    if not told["passed"]:
        return DoctorCheck(str(told["name"]), "problem", str(told["found"]), ADVICE)
    advice = str(told["advice"])
    return DoctorCheck(str(told["name"]), "warning" if advice else "ok", str(told["found"]), advice)
