"""The smallest graph that still shows a fault, made by torch's own minifier (torch/_dynamo/repro,
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_troubleshooting.html).

torch writes a launcher when a compiled graph fails or gives other results; the launcher takes nodes
out of the graph as long as the fault stays. Whether the fault is still there is tried once more at
the end, in a process of its own.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import os
import re
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.analysis.words import counted, first_line, listed
from fx_explorer.model import CaptureRequest
from fx_explorer.report.issue_ablation import Ablation
from fx_explorer.report.issue_variations import DYNAMO, INDUCTOR
from fx_explorer.session import SessionReader
from fx_explorer.trials import Told, TrialWorker, recapture, straight_through

LAUNCHER = "minifier_launcher.py"

REPRO = "repro.py"

_IN_DYNAMO = "torch's minifier makes graphs smaller, but Dynamo fails before there is a graph"

_IN_THE_WAY = (
    "torch's minifier writes {names} into the current folder, which already has one: start it in "
    "another folder"
)

WRITTEN_HERE = ("repro.py", "checkpoints")
"""What torch writes into the current folder of the program, whatever its options say."""

_NO_LAUNCHER = "torch's minifier found no graph that fails or gives other results"

TRACING_MODES = ("real", "symbolic")
"""Ways in which the minifier traces a graph. "real", torch's default, makes all sizes constants."""


@dataclass(frozen=True, slots=True)
class Minified:
    """What torch's minifier made."""

    program: str = ""
    """A program of its own with the smallest graph; empty where there is none."""
    operations: int = 0
    operations_before: int = 0
    why: str = ""
    """Why there is no program."""

    @property
    def sentence(self) -> str:
        if not self.program:
            return f"There is no smaller graph: {self.why}."
        return (
            f"torch's minifier left {counted(self.operations, 'operation')} of "
            f"{self.operations_before}; `python minified.py` shows the fault."
        )


async def minify(
    request: CaptureRequest,
    worker: TrialWorker,
    ablation: Ablation,
    folder: Path,
    budget_s: float,
    tell: Told,
) -> Minified:
    """Make the failing graph of a program smaller within ``budget_s`` seconds. ``folder`` is an
    empty one for torch's files.
    """
    ends_at = time.monotonic() + budget_s
    if not ablation.is_reproduced:
        return Minified(why="the program does the same with and without torch.compile")
    if ablation.component == DYNAMO:
        return Minified(why=_IN_DYNAMO)
    there = [name for name in WRITTEN_HERE if Path(name).exists()]
    if there:
        return Minified(why=_IN_THE_WAY.format(names=listed(there)))
    tell("running the program with torch's minifier")
    environment = {
        "TORCHDYNAMO_REPRO_AFTER": "aot" if ablation.component == INDUCTOR else "dynamo",
        "TORCHDYNAMO_REPRO_LEVEL": "4" if _is_about_results(ablation) else "2",
        "TORCH_COMPILE_DEBUG_DIR": str(folder),
    }
    built = straight_through(request, build=True)
    try:
        await recapture(built, worker, _look_at_nothing, environment=environment)
    finally:
        _remove_what_torch_wrote()
    launchers = sorted(folder.rglob(LAUNCHER))
    if not launchers:
        return Minified(why=_NO_LAUNCHER)
    launcher = launchers[0].read_text(encoding="utf-8")
    last_line = ""
    for mode in TRACING_MODES:
        tell("torch's minifier makes the graph smaller")
        command = [str(launchers[0]), "minify", "--tracing-mode", mode]
        _, last_line = await _run(worker.python, command, folder, ends_at)
        repro = folder / REPRO
        if not repro.is_file():
            continue
        program = without_folders(repro.read_text(encoding="utf-8"), mode)
        repro.write_text(program, encoding="utf-8")
        status, last_line = await _run(worker.python, [REPRO], folder, ends_at)
        if status > 0:
            return Minified(program, operations_of(program), operations_of(launcher))
        repro.unlink()
    return Minified(why=last_line or "--budget is used up")


def _is_about_results(ablation: Ablation) -> bool:
    return ablation.gives_other_results


def _remove_what_torch_wrote() -> None:
    """Remove torch's convenience copies, none of which was there before."""
    for name in WRITTEN_HERE:
        path = Path(name)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _look_at_nothing(reader: SessionReader) -> None:
    """Return nothing: what counts are torch's files."""


_SAVE_DIR = re.compile(r"save_dir='[^'\n]*'")

_ENVIRONMENT = re.compile(
    r"^os\.environ\['(TORCH_COMPILE_DEBUG_DIR|TORCHINDUCTOR_CACHE_DIR)'\].*\n", re.M
)


def without_folders(program: str, mode: str) -> str:
    """Return a program of the minifier's without the folders of this machine, so that it makes up
    its inputs, and with the mode in which the graph was made smaller: torch writes its default.
    """
    program = _SAVE_DIR.sub("save_dir=None", _ENVIRONMENT.sub("", program))
    return program.replace("tracing_mode='real'", f"tracing_mode='{mode}'")


def operations_of(program: str) -> int:
    """Return the number of operations in the graph of a program of the minifier's: assignments in
    ``Repro.forward``, but for those that only free a value.
    """
    count = 0
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.FunctionDef) and node.name == "forward":
            count += sum(_is_operation(statement) for statement in node.body)
    return count


def _is_operation(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Assign):
        return False
    return not (isinstance(statement.value, ast.Constant) and statement.value.value is None)


async def _run(python: str, command: list[str], folder: Path, ends_at: float) -> tuple[int, str]:
    """Run Python and return its exit status with the last line that it printed; -1 where it was
    ended because time was up.
    """
    process = await asyncio.create_subprocess_exec(
        python or sys.executable,
        *command,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        left_s = max(0.0, ends_at - time.monotonic())
        printed, _ = await asyncio.wait_for(process.communicate(), left_s)
    except asyncio.TimeoutError:
        return -1, "--budget is used up"
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    lines = printed.decode(errors="replace").strip().splitlines()
    return process.returncode or 0, first_line(lines[-1]) if lines else ""
