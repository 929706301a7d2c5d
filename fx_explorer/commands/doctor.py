"""``fx-explorer doctor``: what works on this machine, one line each, with what to do about what
does not. With ``--gpus`` it lists the GPUs that code can be made for; with ``--gpu NAME`` it says
whether everything for one is there.

The latter is asked of the interpreter that would do it (worker/gpu_check.py), in a process of its
own.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import fx_explorer
from fx_explorer.client.asked_python import ask_python
from fx_explorer.command_line.doctor_checks import DoctorCheck, machine_checks, torch_checks
from fx_explorer.errors import WorkerError
from fx_explorer.gpus import find_gpu, known_gpus
from fx_explorer.highlight import printable
from fx_explorer.model import Gpu
from fx_explorer.model.gpu import NUMBERS
from fx_explorer.output.formats import json_text
from fx_explorer.output.table import Column, Table
from fx_explorer.output.terminal import (
    LEAST_PROSE,
    Hanging,
    heading,
    is_read_in_colour,
    width_for,
    wrapped,
)
from fx_explorer.output.text import text_lines

MARKS = {"ok": "✓", "warning": "!", "problem": "✗"}
COLOURS = {"ok": "32", "warning": "33", "problem": "31"}


EPILOG = """\
examples:
  fx-explorer doctor                                     torch, compilers, terminal, clipboard …
  fx-explorer doctor --gpu h100                          whether code for that GPU can be made here
  fx-explorer doctor --gpus                              the GPUs that --gpu knows
  fx-explorer doctor --python ../venv/bin/python         another interpreter's torch
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter that has torch (default: this one)"
    )
    parser.add_argument(
        "--gpus",
        action="store_true",
        help="list the GPUs that --gpu knows, each number with its source",
    )
    parser.add_argument(
        "--gpu",
        metavar="NAME",
        default=None,
        help="check that code can be made for this GPU, which is not there",
    )
    parser.add_argument("--format", choices=["text", "json"], default="text")


def run(arguments: argparse.Namespace) -> int:
    """Print the checks. Returns 1 when something is missing that fx-explorer cannot do without."""
    if arguments.gpus:
        return _list_gpus(arguments.format)
    checks = _checks(arguments)
    if arguments.format == "json":
        listed = [
            {"name": c.name, "state": c.state, "found": c.found, "advice": c.advice} for c in checks
        ]
        sys.stdout.write(json_text({"schema": "fx-explorer/doctor/1", "checks": listed}))
    else:
        for check in checks:
            print("\n".join(lines_of(check, width_for(sys.stdout))))
        print(closing_line(checks))
    return int(any(check.state == "problem" for check in checks))


def _checks(arguments: argparse.Namespace) -> list[DoctorCheck]:
    if arguments.gpu is None:
        return [*torch_checks(arguments.python), *machine_checks()]
    from fx_explorer.gpus import find_gpu

    return gpu_checks(arguments.python, find_gpu(arguments.gpu))


def _list_gpus(form: str) -> int:

    text = gpus_as_json() if form == "json" else "\n".join(gpus_in_words()) + "\n"
    sys.stdout.write(text)
    return 0


def lines_of(check: DoctorCheck, width: int | None) -> list[str]:
    """Return the line of a check, ``✓ torch ok 2.13.0 (CPU)``, and the advice on a line of its
    own, both in ``width`` cells.
    """
    mark = f"{MARKS[check.state]} {check.name:<12} {check.state:<8}"
    first, *rest = wrapped(Hanging(f"{mark} ", printable(check.found)), width)
    if is_read_in_colour(sys.stdout):
        # Colours are not measured: they come once the lines are known.
        shown = first[: len(mark)]
        first = f"\x1b[{COLOURS[check.state]}m{shown}\x1b[0m{first[len(mark) :]}"
    lines = [first, *rest]
    if check.advice:
        lines += wrapped(f"{'':<24}→ {printable(check.advice)}", width)
    return lines


def closing_line(checks: list[DoctorCheck]) -> str:
    problems = [check.name for check in checks if check.state == "problem"]
    warnings = [check.name for check in checks if check.state == "warning"]
    if problems:
        return f"\nNot ready: {', '.join(problems)}."
    if warnings:
        return f"\nReady. Worth a look: {', '.join(warnings)}."
    return "\nReady."


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
