"""These tests check the line that says what is being compiled: which function, in which phase,
since when, and why again.
"""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from fx_explorer import model
from fx_explorer.command_line.narrated_capture import BeingCompiled, bar
from fx_explorer.model import Notice, Stage
from fx_explorer.session import SessionWriter
from tests.conftest import ROOT

CLOCK = [0.0]


def begun(stage: Stage, name: str = "0/0") -> Notice:
    return Notice("phase", stage=stage, state="begin", compilation=name)


def ended(stage: Stage, name: str = "0/0") -> Notice:
    return Notice("phase", stage=stage, state="end", compilation=name)


@pytest.fixture
def compiling(tmp_path: Path) -> BeingCompiled:
    CLOCK[0] = 0.0
    with SessionWriter(tmp_path / "s.fxs") as writer:
        for number in range(2):
            writer.add(
                model.Compilation(
                    0,
                    f"0/{number}",
                    0,
                    number,
                    "torch_dynamo_resume_in_step_at_4",
                    "/p/train.py",
                    31,
                )
            )
        reason = "tensor 'x' size mismatch at index 0. expected 3, actual 5"
        writer.add(model.Recompile(0, 2, "0/0", f"0/0: {reason}", reason, "", 0))
    compiling = BeingCompiled(tmp_path / "s.fxs", lambda: CLOCK[0])
    compiling.take_notice(Notice("worker", text="running train.py"))
    return compiling


def test_the_function_is_named_as_the_user_does_with_its_line_and_the_phase_counts_from_its_first_event(
    compiling: BeingCompiled,
) -> None:
    assert compiling.words() == "running train.py"
    compiling.take_notice(begun("schedule"))
    CLOCK[0] = 2.0
    for notice in (ended("schedule"), begun("schedule")):
        compiling.take_notice(notice)
    CLOCK[0] = 3.5
    assert (
        compiling.words()
        == f"{bar('schedule')} rest of step after line 4 of train.py · fusing for 3.5 s"
    )


def test_the_line_that_dynamo_is_at_is_named_until_the_phase_ends(
    compiling: BeingCompiled,
) -> None:
    compiling.take_notice(begun("dynamo"))
    compiling.take_notice(Notice("line", text="/p/train.py", line=7, operations=2))
    assert "· tracing with Dynamo at train.py:7 for" in compiling.words()
    compiling.take_notice(ended("dynamo"))
    compiling.take_notice(begun("joint"))
    assert "train.py:7" not in compiling.words()


def test_a_compilation_that_is_made_again_says_why(compiling: BeingCompiled) -> None:
    compiling.take_notice(begun("dynamo"))
    compiling.take_notice(begun("dynamo", "0/1"))
    told = compiling.words()
    assert told.endswith(" · 2 compilations so far · again: size 0 of x was 3 and now is 5")


def test_kernels_that_are_built_side_by_side_are_one_phase_until_the_last_is_built(
    compiling: BeingCompiled,
) -> None:
    """Threads that build them name no compilation."""
    for notice in (
        begun("kernel"),
        begun("kernel", ""),
        begun("kernel", ""),
        ended("kernel", ""),
        ended("kernel", ""),
    ):
        compiling.take_notice(notice)
    assert "step after line 4 of train.py · building kernels" in compiling.words()
    compiling.take_notice(ended("kernel"))
    CLOCK[0] += 1
    assert compiling.words() == "running train.py"


def test_whatever_the_last_phase_was_a_compilation_that_has_ended_leaves_the_line_to_the_program(
    compiling: BeingCompiled, tmp_path: Path
) -> None:
    """A backend other than Inductor builds no kernels, an inspection neither, and what fails ends
    anywhere.
    """
    for notice in (Notice("compilation", compilation="0/0"), begun("dynamo"), ended("dynamo")):
        compiling.take_notice(notice)
    CLOCK[0] = 60.0
    assert "rest of step after line 4 of train.py · compiling for 60.0 s" in compiling.words(), (
        "it has not ended"
    )
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.update(model.Compilation(1, "0/0", 0, 0, "step", "/p/train.py", 31, status="failed"))
    compiling.take_notice(Notice("compilation", compilation="0/0"))
    assert compiling.words() == "running train.py"


def test_a_session_that_cannot_be_read_yet_leaves_torchs_name(tmp_path: Path) -> None:
    compiling = BeingCompiled(tmp_path / "none.fxs")
    compiling.take_notice(begun("dynamo", "7/0"))
    assert "[7/0] · tracing with Dynamo" in compiling.words()


def test_every_stage_that_a_phase_can_have_has_words(compiling: BeingCompiled) -> None:
    from fx_explorer.torch_texts.torch_names import STAGE_OF_EVENT

    for stage in sorted(set(STAGE_OF_EVENT.values())):
        compiling.take_notice(begun(stage))
        assert re.fullmatch(r"=+\.* rest of step .* · .+ for .+", compiling.words())


PROGRAM = """\
import torch

@torch.compile(backend="aot_eager")
def work(x):
    return x.sin()

for n in (3, 5):
    work(torch.ones(n))
print("over")
"""


def test_a_script_on_a_real_terminal_shows_the_line_and_its_output_stays_whole(
    tmp_path: Path,
) -> None:
    (tmp_path / "work.py").write_text(PROGRAM)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "fx_explorer", "run", "work.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "200"}
    with (
        subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment,
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=theirs,
        ) as process,
        os.fdopen(ours, "rb", buffering=0) as terminal,
    ):
        os.close(theirs)
        shown = b"".join(chunks(terminal))
        assert process.stdout is not None
        assert process.stdout.read() == b"over\n"
    assert process.returncode == 0
    lines = re.split(rb"\r\x1b\[K|\r?\n", shown)
    assert any(b" work work.py:3 \xc2\xb7 tracing with Dynamo for " in line for line in lines)
    assert any(line.endswith(b"again: size 0 of x was 3 and now is 5") for line in lines)
    assert any(b"exit code 0" in line for line in lines)


def chunks(terminal: IO[bytes]) -> Iterator[bytes]:
    """Yield what is written to a terminal until nobody holds its other end, which Linux calls an
    error.
    """
    with contextlib.suppress(OSError):
        while chunk := terminal.read(65536):
            yield chunk
