"""This module is ``fx-explorer doctor``: it checks what works on this machine, one line each, with
a remedy for each failure. With ``--gpus`` it lists the GPUs for which code can be made; with
``--gpu NAME`` it checks everything that one needs.

torch is asked in a process of its own, so that a broken one cannot break us. What concerns a GPU is
asked of the interpreter that would do it (worker/gpu_check.py).
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import fx_explorer
from fx_explorer.client.asked_python import ask_python
from fx_explorer.errors import UsageError, WorkerError
from fx_explorer.gpus import find_gpu, known_gpus
from fx_explorer.highlight import printable
from fx_explorer.model import Gpu
from fx_explorer.model.gpu import NUMBERS
from fx_explorer.output.formats import json_text, text_lines
from fx_explorer.output.table import Column, Table
from fx_explorer.output.terminal import (
    LEAST_PROSE,
    Hanging,
    heading,
    is_read_in_colour,
    width_for,
    wrapped,
)
from fx_explorer.overview.every_plugin import load_all_plugins
from fx_explorer.plugin_loading import faults, installed_plugins, telling_faults, why_off
from fx_explorer.tui.terminal.other_programs import editor_command, native_tool

State = Literal["ok", "warning", "problem"]

OLDEST_TORCH, NEWEST_TORCH = (2, 11), (2, 15)
OLDEST_PYTHON = (3, 10)
PROBE_TIMEOUT_S = 120
FREE_BYTES_WANTED = 500_000_000
SMALLEST_TERMINAL = (80, 24)

PROBE = """
import json, platform, sys
found = {"python": platform.python_version(), "version_info": sys.version_info[:2]}
try:
    import torch
    found["torch"] = torch.__version__
    found["torch_cuda"], found["torch_hip"] = torch.version.cuda, torch.version.hip
    found["gpu"] = torch.cuda.get_device_name() if torch.cuda.is_available() else None
except Exception as error:
    found["error"] = f"{type(error).__name__}: {error}"
else:
    try:
        from torch._inductor.runtime.cache_dir_utils import cache_dir
        found["cache_dir"] = cache_dir()
    except Exception as error:
        found["cache_error"] = f"{type(error).__name__}: {error}"
try:
    import triton  # its wheels come under several names
    found["triton"] = triton.__version__
except ImportError:
    found["triton"] = None
except Exception as error:
    found["triton"] = f"broken ({type(error).__name__}: {error})"
sys.__stdout__.write("\\n" + json.dumps(found) + "\\n")
"""
"""Runs in the user's interpreter; the last line it prints is the answer."""


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    name: str
    state: State
    found: str
    advice: str = ""
    """The remedy; empty if nothing needs to be done."""


# the interpreter with torch


def torch_checks(python: str) -> list[DoctorCheck]:
    """Return the checks of the interpreter that will run the user's program."""
    answers = probe(python)
    if isinstance(answers, str):
        return [_no_python(f"{python}: {answers}")]
    try:
        return list(judge_torch(python, answers))
    except (LookupError, TypeError, ValueError, AttributeError):
        return [_no_python(f"{python} does not answer like a Python interpreter")]


def _no_python(why: str) -> DoctorCheck:
    advice = "Choose a Python interpreter that has torch with --python."
    return DoctorCheck("python", "problem", why, advice)


def probe(python: str) -> dict[str, Any] | str:
    """Return the interpreter's answers about itself, or the reason why there are none."""
    try:
        ended = ask_python(python, "-c", PROBE, timeout_s=PROBE_TIMEOUT_S)
    except WorkerError as error:
        return str(error)
    answers = ended.objects()
    if not answers:
        why = f": {ended.last_error_line}" if ended.last_error_line else ""
        return f"ended with status {ended.status} and no answer{why}"
    return answers[-1]


def judge_torch(python: str, answers: Mapping[str, Any]) -> Iterator[DoctorCheck]:
    """Yield the checks of an interpreter's answers: its Python, torch, GPU, triton and torch's
    cache.
    """
    version = f"{answers['python']} ({python})"
    if tuple(answers["version_info"]) < OLDEST_PYTHON:
        advice = f"Use Python {_dotted(OLDEST_PYTHON)} or newer with --python."
        yield DoctorCheck("python", "problem", version, advice)
    else:
        yield DoctorCheck("python", "ok", version, "")
    yield _torch_check(python, answers)
    if "error" in answers:
        return
    yield _gpu_check(answers)
    if answers["triton"]:
        yield DoctorCheck("triton", "ok", answers["triton"])
    else:
        yield DoctorCheck("triton", "ok", "not installed (only GPU kernels need it)")
    if "cache_dir" in answers:
        yield _writable(
            "torch cache",
            answers["cache_dir"],
            "Set TORCHINDUCTOR_CACHE_DIR to a directory you can write.",
        )
    else:
        yield DoctorCheck(
            "torch cache",
            "warning",
            f"torch does not report where it is: {answers.get('cache_error', '')}",
        )


def _torch_check(python: str, answers: Mapping[str, Any]) -> DoctorCheck:
    """Judge the torch that was found: whether it can be imported, and whether its release is
    supported.
    """
    supported = f"{_dotted(OLDEST_TORCH)} to {_dotted(NEWEST_TORCH)}"
    if "error" in answers:
        install = (
            f"Install it: {shlex.quote(python)} -m pip install torch (supported: "
            f"{supported}), or choose another --python."
        )
        return DoctorCheck("torch", "problem", f"cannot be imported: {answers['error']}", install)
    if answers["torch_cuda"]:
        built = f"CUDA {answers['torch_cuda']}"
    elif answers["torch_hip"]:
        built = f"ROCm {answers['torch_hip']}"
    else:
        built = "CPU"
    text = f"{answers['torch']} ({built} build)"
    version = tuple(int(part) for part in answers["torch"].split(".")[:2])
    if version < OLDEST_TORCH:
        return DoctorCheck(
            "torch",
            "problem",
            text,
            f"Supported are {supported}; older releases lack names that fx-explorer needs.",
        )
    if version > NEWEST_TORCH:
        return DoctorCheck(
            "torch",
            "warning",
            text,
            f"Tested with {supported}; with newer releases some views may stay empty, and say so.",
        )
    return DoctorCheck("torch", "ok", text)


def _gpu_check(answers: Mapping[str, Any]) -> DoctorCheck:
    if answers["gpu"]:
        return DoctorCheck("gpu", "ok", answers["gpu"])
    if answers["torch_cuda"] or answers["torch_hip"]:
        return DoctorCheck(
            "gpu", "ok", "none, although this torch is built for one; models compile for the CPU"
        )
    return DoctorCheck("gpu", "ok", "none (this torch is a CPU build); models compile for the CPU")


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


# the machine and the terminal


def machine_checks(environ: Mapping[str, str] = os.environ) -> list[DoctorCheck]:
    return [
        _compiler(environ),
        _sqlite(),
        _temporary_directory(),
        _terminal(environ),
        _colour(environ),
        _clipboard(environ),
        _editor(environ),
    ]


def _compiler(environ: Mapping[str, str]) -> DoctorCheck:
    wanted = environ.get("CXX")
    if wanted:
        compiler = shutil.which(wanted)
    else:
        compiler = shutil.which("g++") or shutil.which("clang++") or shutil.which("c++")
    if compiler:
        return DoctorCheck("c++ compiler", "ok", compiler)
    if wanted:
        missing = f"CXX is {wanted}, which does not exist"
    else:
        missing = "none found"
    return DoctorCheck(
        "c++ compiler",
        "warning",
        missing,
        "Inspecting needs none; --build does: install g++ or clang++, or set CXX.",
    )


def _sqlite() -> DoctorCheck:
    try:
        sqlite3.connect(":memory:").execute("SELECT count(*) FROM json_each('[1]')").fetchone()
    except sqlite3.Error as error:
        return DoctorCheck(
            "sqlite",
            "problem",
            f"{sqlite3.sqlite_version}: {error}",
            "Use a Python whose SQLite has the JSON functions.",
        )
    return DoctorCheck("sqlite", "ok", sqlite3.sqlite_version)


def _temporary_directory() -> DoctorCheck:
    """Check the temporary directory, where sessions are written while they are live."""
    try:
        directory = tempfile.gettempdir()
    except OSError as error:
        return DoctorCheck(
            "temporary", "problem", str(error), "Set TMPDIR to a directory you can write."
        )
    return _writable(
        "temporary", directory, "Set TMPDIR to a directory you can write, on a local disk."
    )


def _writable(name: str, directory: str, advice: str) -> DoctorCheck:
    """Check that ``directory`` is writable, or can be made, and that there is room."""
    existing = directory
    while not os.path.isdir(existing) and existing != os.path.dirname(existing):
        existing = os.path.dirname(existing)
    try:
        with tempfile.TemporaryFile(dir=existing) as file:
            file.write(b"x")
        free = shutil.disk_usage(existing).free
    except OSError as error:
        return DoctorCheck(name, "problem", f"{directory}: {error.strerror or error}", advice)
    text = f"{directory} ({free / 1e9:.1f} GB free)"
    if free < FREE_BYTES_WANTED:
        return DoctorCheck(
            name, "warning", text, "A large capture may not fit: free some space. " + advice
        )
    return DoctorCheck(name, "ok", text)


def _terminal(environ: Mapping[str, str]) -> DoctorCheck:
    if not sys.stdout.isatty():
        return DoctorCheck(
            "terminal", "ok", "output is not a terminal: TARGET prints the overview as text"
        )
    if environ.get("TERM", "dumb") == "dumb":
        return DoctorCheck(
            "terminal",
            "warning",
            f"TERM={environ.get('TERM', '')}",
            "Use a terminal that can move its cursor, or report.",
        )
    size = shutil.get_terminal_size()
    text = f"{size.columns}×{size.lines}, TERM={environ['TERM']}"
    if "TMUX" in environ:
        text += ", in tmux"
    if size.columns < SMALLEST_TERMINAL[0] or size.lines < SMALLEST_TERMINAL[1]:
        return DoctorCheck("terminal", "warning", text, "Make it at least 80×24.")
    return DoctorCheck("terminal", "ok", text)


def _colour(environ: Mapping[str, str]) -> DoctorCheck:
    if "NO_COLOR" in environ:
        return DoctorCheck("colour", "ok", "off (NO_COLOR is set); signs and words show states")
    if environ.get("COLORTERM") in ("truecolor", "24bit"):
        return DoctorCheck("colour", "ok", "16 million colours")
    if "256color" in environ.get("TERM", ""):
        return DoctorCheck(
            "colour", "ok", "256 colours (set COLORTERM=truecolor if your terminal has more)"
        )
    return DoctorCheck("colour", "ok", "16 colours")


def _clipboard(environ: Mapping[str, str]) -> DoctorCheck:
    """Check the clipboard. The choice is the same as the app makes when something is copied."""
    tool = native_tool(environ)
    if tool and not (environ.get("SSH_TTY") or environ.get("SSH_CONNECTION")):
        return DoctorCheck("clipboard", "ok", f"through {tool[0]}")
    text = "through the terminal (OSC 52), if it allows it; otherwise into a file"
    if "TMUX" in environ:
        return DoctorCheck(
            "clipboard",
            "warning",
            text,
            "tmux passes it through only with: tmux set -g set-clipboard on",
        )
    return DoctorCheck("clipboard", "ok", text)


def _editor(environ: Mapping[str, str]) -> DoctorCheck:
    try:
        command = editor_command("model.py", 1, environ)
    except UsageError as error:
        return DoctorCheck(
            "editor", "warning", str(error), "The key e opens your lines in this editor."
        )
    return DoctorCheck("editor", "ok", command[0])


# plug-ins


def plugin_checks() -> Iterator[DoctorCheck]:
    """Yield a check for each plug-in that is installed, which is loaded for it; one check if none
    is used.
    """
    if reason := why_off():
        yield DoctorCheck("plug-ins", "ok", f"not used: {reason}")
        return
    load_all_plugins()
    failed = {fault.plugin: fault for fault in faults()}
    for plugin in installed_plugins():
        fault = failed.get(plugin)
        if fault is None:
            yield DoctorCheck("plug-in", "ok", plugin.title)
        else:
            advice = f"Update {plugin.package}, or uninstall it: pip uninstall {plugin.package}"
            yield DoctorCheck("plug-in", "warning", f"{plugin.title}: {fault.reason}", advice)


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
        help="check that code can be generated for this GPU, without having it",
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
        with telling_faults(lambda fault: None):  # a line of their own says it
            plugins = list(plugin_checks())
        return [*torch_checks(arguments.python), *machine_checks(), *plugins]
    from fx_explorer.gpus import find_gpu

    return gpu_checks(arguments.python, find_gpu(arguments.gpu))


def _list_gpus(form: str) -> int:

    if form == "json":
        text = gpus_as_json()
    else:
        text = "\n".join(describe_gpus()) + "\n"
    sys.stdout.write(text)
    return 0


def lines_of(check: DoctorCheck, width: int | None) -> list[str]:
    """Return the line of a check, ``✓ torch ok 2.13.0 (CPU)``, and the remedy on a line of its own,
    both in ``width`` cells.
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
ADVICE = "This check failed, so the following ones were not made; --gpu cannot be used here."
LAST = "machine code"
"""Name of the check that comes last; without it, the process ended too early."""


COLUMNS = (
    Column("number"),
    Column("value"),
    Column("source", narrowing="wrapped", least=LEAST_PROSE),
)


def describe_gpus() -> Iterator[str]:
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
    yield "For another GPU: --gpu FILE.toml, with the same numbers."


def _numbers(gpu: Gpu) -> Iterator[tuple[str, int | float]]:
    for number in NUMBERS:
        yield number, getattr(gpu, number)
    for kind, flops in gpu.peak_flops.items():
        yield f"peak_flops.{kind}", flops


def gpus_as_json() -> str:
    listed = [find_gpu(name).to_json() for name in known_gpus()]
    return json_text({"schema": "fx-explorer/gpus/1", "gpus": listed})


def gpu_checks(python: str, gpu: Gpu) -> list[DoctorCheck]:
    """Return the checks of this interpreter for ``gpu``; the first that fails is the last one."""
    try:
        ended = ask_python(python, str(CHECK), json.dumps(gpu.to_json()), timeout_s=TIMEOUT_S)
        checks = [_check(answer) for answer in ended.objects()]
    except WorkerError as error:
        return [DoctorCheck("python", "problem", f"{python} {error}", "Choose another --python.")]
    except (LookupError, TypeError):
        message = f"{python} does not answer like a Python interpreter"
        return [DoctorCheck("python", "problem", message, "Choose another --python.")]
    if not checks or (checks[-1].state == "ok" and checks[-1].name != LAST):
        checks.append(
            DoctorCheck(
                "python",
                "problem",
                f"{python} ended with status {ended.status}: {ended.last_error_line}",
                ADVICE,
            )
        )
    return checks


def _check(answer: dict[str, object]) -> DoctorCheck:
    name, result, advice = str(answer["name"]), str(answer["found"]), str(answer["advice"])
    if not answer["passed"]:
        return DoctorCheck(name, "problem", result, ADVICE)
    if advice:
        return DoctorCheck(name, "warning", result, advice)
    return DoctorCheck(name, "ok", result, "")
