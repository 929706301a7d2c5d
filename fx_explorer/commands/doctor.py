"""``fx-explorer doctor``: what works on this machine, one line each, with what to do about what
does not.
"""

from __future__ import annotations

import argparse
import sys

from fx_explorer.command_line.doctor.checks import DoctorCheck, machine_checks, torch_checks
from fx_explorer.highlight import printable
from fx_explorer.output.formats import json_text
from fx_explorer.output.terminal import Hanging, is_read_in_colour, width_for, wrapped

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
    from fx_explorer.command_line.doctor.gpus import gpu_checks
    from fx_explorer.gpus import find_gpu

    return gpu_checks(arguments.python, find_gpu(arguments.gpu))


def _list_gpus(form: str) -> int:
    from fx_explorer.command_line.doctor.gpus import gpus_as_json, gpus_in_words

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
