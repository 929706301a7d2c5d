"""These tests run ``fx-explorer fix`` from the outside: what it lists, what it prints, what it
writes.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fx_explorer.model import Compilation
from fx_explorer.session import SessionWriter
from tests.exhaustive import in_exhaustive_runs

FixCommand = Callable[..., subprocess.CompletedProcess[str]]

PROGRAM = """\
import torch


def f(x):
    y = x * x.sum().item()
    return y + 1


model = f
example_inputs = (torch.ones(3),)
"""


@pytest.fixture(scope="module")
def captured_program(
    tmp_path_factory: pytest.TempPathFactory, captured: Callable[..., Path]
) -> tuple[Path, Path]:
    """(file, session)."""
    file = tmp_path_factory.mktemp("program") / "program.py"
    file.write_text(PROGRAM)
    return file, captured(file, backend="eager")


@pytest.fixture
def fix(warm_python: str, fx_explorer: list[str]) -> FixCommand:
    """``fix("session.fxs", "--try", answer="y\\n")``: the command, as it ended."""

    def run(*arguments: object, answer: str = "") -> subprocess.CompletedProcess[str]:
        command = [*fx_explorer, "fix", *map(str, arguments), "--python", warm_python]
        return subprocess.run(
            command, input=answer, capture_output=True, text=True, timeout=300, check=False
        )

    return run


def test_each_break_is_listed_with_its_fixes(
    fix: FixCommand, captured_program: tuple[Path, Path]
) -> None:
    file, session = captured_program
    ended = fix(session)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[0] == f"{file}:5  y = x * x.sum().item()"
    assert [line.strip() for line in lines if line.strip()[:1].isdigit()] == [
        "1  keep the value in a tensor",
        "2  put the number into the graph",
    ]


def test_a_fix_is_printed_as_a_diff_or_as_lines_of_a_program(
    fix: FixCommand, captured_program: tuple[Path, Path]
) -> None:
    _, session = captured_program
    diff = fix(session, "--diff", 1).stdout
    assert "-    y = x * x.sum().item()\n+    y = x * x.sum().detach()\n" in diff
    assert fix(session, "--diff", 2).stdout.startswith(
        "torch._dynamo.config.capture_scalar_outputs = True\n"
    )


def test_a_number_that_is_not_in_the_list_is_a_message(
    fix: FixCommand, captured_program: tuple[Path, Path]
) -> None:
    ended = fix(captured_program[1], "--apply", 9)
    assert (ended.returncode, ended.stderr) == (
        2,
        "fx-explorer: there is no fix 9: the list has 2. See it with fx-explorer fix, without --apply\n",
    )


def test_what_cannot_be_written_is_told_before_a_trial_and_before_asking(
    fix: FixCommand, captured_program: tuple[Path, Path]
) -> None:
    file, session = captured_program
    mode = file.stat().st_mode
    file.chmod(0o444)
    try:
        refused = fix(session, "--apply", 1, answer="y\n")
    finally:
        file.chmod(mode)
    assert refused.returncode == 1
    assert f"not written: {file} is read-only" in refused.stdout
    assert "tried in" not in refused.stdout
    assert "[y/N]" not in refused.stdout


def test_it_is_written_when_the_user_agrees_and_not_before(
    fix: FixCommand, captured_program: tuple[Path, Path]
) -> None:
    file, session = captured_program
    refused = fix(session, "--apply", 1, answer="n\n")
    assert refused.returncode == 1
    assert "good: 1 break → 0; equal in 26 calls" in refused.stdout
    assert file.read_text() == PROGRAM
    agreed = fix(session, "--apply", 1, answer="y\n")
    assert agreed.returncode == 0, agreed.stdout + agreed.stderr
    assert file.read_text() == PROGRAM.replace(".item()", ".detach()")
    assert file.with_name("program.py.orig").read_text() == PROGRAM
    again = fix(session, "--apply", 1, answer="y\n")
    assert again.returncode == 1
    assert "has changed since it was captured, first in line 5" in again.stdout


@in_exhaustive_runs
def test_all_good_fixes_are_tried_together_and_written_in_one_go(
    fix: FixCommand, tmp_path: Path, captured: Callable[..., Path]
) -> None:
    file = tmp_path / "program.py"
    asked = "    torch._dynamo.graph_break()\n"
    file.write_text(PROGRAM.replace("    return", f"{asked}    return"))
    session = captured(file, backend="eager")
    listed = fix(session, "--try", "--all").stdout
    together = listed.partition("all good fixes together\n")[2]
    assert (
        "In one go: keep the value in a tensor (line 5); remove the line that asks for the break (line 6).\n"
        in together
    )
    assert "good: 2 breaks → 0; equal in 26 calls" in together
    ended = fix(session, "--apply", "all", answer="y\n")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert file.read_text() == PROGRAM.replace(".item()", ".detach()")


def test_a_word_that_is_no_number_is_a_message(
    fix: FixCommand, captured_program: tuple[Path, Path]
) -> None:
    ended = fix(captured_program[1], "--apply", "most")
    assert ended.returncode == 2
    assert "most" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_session_with_other_variants_is_not_what_a_trial_is_held_against(
    fix: FixCommand, captured_program: tuple[Path, Path], tmp_path: Path
) -> None:
    session = tmp_path / "variants.fxs"
    session.write_bytes(captured_program[1].read_bytes())
    with SessionWriter(session) as writer:
        writer.add(
            Compilation(0, "0/0~1", 0, 0, "f", "", 1, variant_of="0/0", variant_from="dynamo")
        )
    ended = fix(session, "--try")
    assert ended.returncode == 2
    assert "The session has other variants" in ended.stderr


def test_an_option_of_the_compiler_can_be_given_to_a_capture(
    fix: FixCommand, tmp_path: Path, captured: Callable[..., Path]
) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    session = captured(file, "--setting", "dynamo.capture_scalar_outputs=True", backend="eager")
    assert fix(session).stdout == "no graph breaks: nothing to fix\n"


def test_a_misspelt_option_of_the_compiler_is_a_message(fix: FixCommand, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    ended = fix(file, "--setting", "dynamo.capture_scalar_output=True")
    assert ended.returncode == 2
    assert "did you mean dynamo.capture_scalar_outputs" in ended.stderr


def test_of_a_program_that_fails_it_is_not_said_that_there_is_nothing_to_fix(
    fix: FixCommand, tmp_path: Path
) -> None:
    file = tmp_path / "program.py"
    file.write_text("def f(x:\n    return x\n")
    ended = fix(file)
    assert ended.returncode == 3
    assert ended.stdout.startswith(
        "no graph breaks up to where the program stopped: SyntaxError: '(' was never closed"
    )


def test_the_command_that_is_named_next_can_be_pasted(
    fix: FixCommand, captured_program: tuple[Path, Path], tmp_path: Path
) -> None:
    session = tmp_path / "my session.fxs"
    session.write_bytes(captured_program[1].read_bytes())
    assert f"fx-explorer fix '{session}' --try " in fix(session).stdout


def test_a_single_good_fix_is_all_there_is_to_apply(
    fix: FixCommand, tmp_path: Path, captured: Callable[..., Path]
) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    ended = fix(captured(file, backend="eager"), "--apply", "all", answer="y\n")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "one fix is good:\n---" in ended.stdout
    assert file.read_text() == PROGRAM.replace(".item()", ".detach()")
