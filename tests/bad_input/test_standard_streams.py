"""These tests use standard streams that are full or closed: lost output gives one line and exit
code 2, lost progress messages give nothing.
"""

from __future__ import annotations

import gc
import gzip
import importlib
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from fx_explorer import cli
from tests.conftest import ROOT
from tests.exhaustive import IS_EXHAUSTIVE
from tests.shared_files import locked

SESSION = ROOT / "tests" / "data" / "screens" / "whole.fxs.gz"
LOG = ROOT / "tests" / "data" / "torch_trace" / "h200_recompiles.log.gz"
PROFILE = ROOT / "tests" / "data" / "profiles" / "gpt2.fxs.gz"

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "tour": (),
    "run": ("script.py", "--timeout", "x"),
    "capture": ("nothing.py",),
    "bench": ("whole.fxs",),
    "ledger": ("whole.fxs",),
    "dynamic": ("nothing.py",),
    "check": ("whole.fxs", "--max-graph-breaks", "0"),
    "diff": ("whole.fxs", "whole.fxs"),
    "ranks": (str(LOG),),
    "profile": ("profile.fxs",),
    "backends": ("--python", "/nonexistent/python"),
    "doctor": ("--python", "/nonexistent/python"),
    "recover": (),
    "keys": (),
}
"""Arguments of each command, where these are more than the session. None of the commands imports
torch.
"""

LINES = [
    *([name, *ARGUMENTS.get(name, ("whole.fxs",))] for name in cli.COMMANDS),
    ["report", "whole.fxs", "--format", "text"],
    ["check", "whole.fxs", "--max-graph-breaks", "100"],
    ["check", "whole.fxs", "--max-graph-breaks", "0", "--github"],
    ["check", "whole.fxs"],
    ["whole.fxs"],
    ["nothing.fxs"],
    [str(LOG)],
    ["--help"],
    ["help"],
    ["help", "report"],
    ["report", "--help"],
    ["--version"],
    ["reprot", "whole.fxs"],
    [],
]

STREAMS = ["output", "narration", "all"]
WAYS = ("usable", *(f"{stream} {lost}" for stream in STREAMS for lost in ("full", "closed")))


def ways_of(line: list[str]) -> tuple[str, ...]:
    """Return the ways in which a line is run: a verdict in all, and of the others every second with
    streams that are full. All streams at once are lost for one line in three.
    """
    if line[:1] == ["check"]:
        return WAYS
    position = LINES.index(line)
    lost = "full" if position % 2 else "closed"
    streams = ["output", "narration"] if position % 3 and not IS_EXHAUSTIVE else STREAMS
    return ("usable", *(f"{stream} {lost}" for stream in streams))


def broken(way: str) -> None:
    """Put this process into the state that the shell would have started it in."""
    full = os.open("/dev/full", os.O_WRONLY)
    for descriptor, name in ((0, "input"), (1, "output"), (2, "narration")):
        if way in (f"{name} full", "all full") and descriptor:
            os.dup2(full, descriptor)
        if way in (f"{name} closed", "all closed"):
            os.close(descriptor)
            attribute = ("stdin", "stdout", "stderr")[descriptor]
            setattr(sys, attribute, None)
            setattr(sys, f"__{attribute}__", None)
    os.close(full)


IMPORTED = "imported"
"""The file with the modules that the child has imported."""


def ended(line: list[str], way: str) -> int:
    """Run a command line in a child process, as the entry point does. Returns its exit code."""
    child = os.fork()
    if not child:
        code = 1
        try:
            broken(way)
            sys.argv[:] = ["fx-explorer", *line]
            code = cli.main()
        except SystemExit as left:
            code = int(left.code or 0)
        except BaseException:  # noqa: BLE001 - the interpreter prints it, and ends with 1
            traceback.print_exc()
        try:
            sys.stdout.flush()
        except (OSError, ValueError):
            code = 120
        Path(IMPORTED).write_text("\n".join(sys.modules))
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def import_as_well(names: list[str]) -> None:
    """Import the modules that a child has imported, so that each further child need not: two thirds
    of their time.
    """
    for name in names:
        if name.startswith("fx_explorer.") and name not in sys.modules:
            importlib.import_module(name)


def main() -> None:
    """Run every line in all its ways in the working directory, and print the results."""
    for name in cli.COMMANDS:
        importlib.import_module(cli.module_of(name))
    told, said = os.dup(1), os.dup(2)
    found = []
    gc.disable()  # a collection would copy the memory of this process into every child
    for line in LINES:
        for way in ways_of(line):
            for descriptor, name in ((1, "out"), (2, "err")):
                opened = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(opened, descriptor)
                os.close(opened)
            code = ended(line, way)
            if way == "usable":
                import_as_well(Path(IMPORTED).read_text().split("\n"))
            out, err = (Path(name).read_text(errors="replace") for name in ("out", "err"))
            found.append([line, way, code, out, err])
    os.dup2(told, 1)
    os.dup2(said, 2)
    print(json.dumps(found))


Answer = tuple[int, str, str]
"""Exit code, output, and narration."""


@pytest.fixture(scope="module")
def answers(shared_folder: Path) -> dict[tuple[str, str], Answer]:
    """Made once for the whole run of the tests."""
    kept = shared_folder / "streams.json"
    with locked(kept.with_suffix(".lock")):
        if not kept.exists():
            kept.write_text(run_all(shared_folder / "streams"))
    return {
        (" ".join(line), way): (code, out, err)
        for line, way, code, out, err in json.loads(kept.read_text())
    }


def run_all(folder: Path) -> str:
    """Run every line in a process of its own, and return what it printed."""
    folder.mkdir()
    for name, packed in (("whole", SESSION), ("profile", PROFILE)):
        (folder / f"{name}.fxs").write_bytes(gzip.decompress(packed.read_bytes()))
    (folder / "script.py").write_text("print('hello')\n")
    ran = subprocess.run(
        [sys.executable, "-m", "tests.bad_input.test_standard_streams"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb", "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    return ran.stdout


EVERY_LINE = pytest.mark.parametrize("line", [" ".join(line) for line in LINES], ids=lambda line: line or "none")  # fmt: skip


@EVERY_LINE
def test_output_that_is_lost_is_one_line_and_exit_code_2(
    line: str, answers: dict[tuple[str, str], Answer]
) -> None:
    usable = answers[line, "usable"]
    for way in ("output full", "output closed"):
        if (line, way) not in answers:
            continue
        code, _, narration = answers[line, way]
        assert "Traceback" not in narration
        if not usable[1]:
            assert (code, narration) == (usable[0], usable[2])
            continue
        assert narration.count("standard output cannot be written: ") == 1
        is_verdict = line.startswith("check")
        assert code == (usable[0] if is_verdict else max(2, usable[0])), narration
        all_lost = answers.get((line, way.replace("output", "all")))
        assert all_lost is None or all_lost[0] == code


@EVERY_LINE
def test_narration_that_is_lost_changes_nothing(
    line: str, answers: dict[tuple[str, str], Answer]
) -> None:
    usable = answers[line, "usable"]
    for way in ("narration full", "narration closed"):
        if (line, way) not in answers:
            continue
        assert answers[line, way][:2] == usable[:2], way


def test_every_line_meets_output_and_narration_that_are_lost(
    answers: dict[tuple[str, str], Answer],
) -> None:
    for line in LINES:
        assert len([way for way in WAYS if (" ".join(line), way) in answers]) >= 3


def test_a_check_that_nobody_hears_keeps_its_verdict(
    answers: dict[tuple[str, str], Answer],
) -> None:
    for way in WAYS:
        assert answers["check whole.fxs --max-graph-breaks 0", way][0] == 1
        assert answers["check whole.fxs --max-graph-breaks 100", way][0] == 0


if __name__ == "__main__":
    main()
