"""These tests check files under a wrong name: the content decides what a file is, for every
command, and nobody sees a traceback.
"""

from __future__ import annotations

import io
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fx_explorer import model
from fx_explorer.cli import main
from fx_explorer.command_line.given_files import SHOW_LOGS
from fx_explorer.session import SessionReader
from tests.sessions import write_training_step

ASK_A_SESSION = {
    "explore": [],
    "graph": [],
    "report": [],
    "check": ["--max-guards", "9"],
    "fix": [],
    "kernel": [],
    "options": [],
    "memory": [],
    "support": [],
    "ledger": [],
    "bench": [],
    "numerics": [],
}
TAKE_A_TARGET = {"capture": ["-o", "out.fxs"], "run": ["-o", "out.fxs"], "dynamic": []}
COMMANDS = {**ASK_A_SESSION, **TAKE_A_TARGET}

NAMES = ["x.pt2", "X.PT2", "x.fxs", "x.bin", "x.zip", "x", "x.py"]


def of_zip(members: dict[str, str]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return content.getvalue()


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """One file of each kind, made by whoever makes such files."""
    folder = tmp_path_factory.mktemp("kinds")
    write_training_step(folder / "s.fxs")
    with sqlite3.connect(folder / "other.db") as db:
        db.execute("CREATE TABLE t (x)")
    db.close()
    torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.ones(2, 2),)), folder / "p.pt2")
    torch.save({"weight": torch.ones(2)}, folder / "w.pt")
    session, program = (folder / "s.fxs").read_bytes(), (folder / "p.pt2").read_bytes()
    return {
        "session": session,
        "cut session": session[:3000],
        "other database": (folder / "other.db").read_bytes(),
        "program": program,
        "cut program": program[:-200],
        "package": of_zip(
            {"m/archive_format": "pt2", "m/data/aotinductor/model/a.wrapper.cpp": "int main() {}\n"}
        ),
        "checkpoint": (folder / "w.pt").read_bytes(),
        "zip": of_zip({"readme.txt": "hello"}),
        "empty": b"",
        "text": b"print('hello')\n",
        "binary": b"\1\2\0\3" * 100,
    }


Told = Callable[[str, str], tuple[int, str]]


@pytest.fixture
def told(
    tmp_path: Path,
    contents: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Told:
    """Runs a command on a file of a kind under a name; gives the exit code and all that was
    printed.
    """

    async def never(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("asyncio.create_subprocess_exec", never)

    def run(command: str, name: str) -> tuple[int, str]:
        code = main([command, name, *COMMANDS[command]])
        printed = capsys.readouterr()
        (tmp_path / "out.fxs").unlink(missing_ok=True)
        for never_shown in ("Traceback", "SyntaxError", "null bytes", "/tmp/fx-explorer-"):
            assert never_shown not in printed.out + printed.err, (command, name)
        return code, printed.out + printed.err

    return run


def placed(name: str, content: bytes) -> str:
    Path(name).write_bytes(content)
    return name


@pytest.mark.parametrize("name", NAMES)
def test_a_session_is_opened_whatever_it_is_called(
    name: str, contents: dict[str, bytes], told: Told
) -> None:
    """The second source is the same session under its own name."""
    placed("s.fxs", contents["session"])
    placed(name, contents["session"])
    for command in ASK_A_SESSION:
        expected, words = told(command, "s.fxs")
        assert told(command, name) == (expected, words.replace("s.fxs", name)), command
    for command in TAKE_A_TARGET:
        code, words = told(command, name)
        assert (code, words.count("\n")) == (2, 1)
        assert f"fx-explorer {command} works on targets: {name} is already a capture" in words


@pytest.mark.parametrize("name", NAMES)
def test_an_exported_program_is_asked_about_whatever_it_is_called(
    name: str, contents: dict[str, bytes], told: Told
) -> None:
    placed(name, contents["program"])
    for command in COMMANDS:
        code, words = told(command, name)
        assert (code, words.count("\n")) == (2, 1), command
        assert ("If you trust whoever made it, add --trust" in words) != (command == "run")
        assert "is an ExportedProgram" in words


@pytest.mark.parametrize("name", NAMES)
def test_a_package_is_shown_whatever_it_is_called(
    name: str, contents: dict[str, bytes], told: Told
) -> None:
    placed(name, contents["package"])
    for command in COMMANDS:
        code, words = told(command, name)
        if command in ("explore", "report", "graph", "capture"):
            assert code == 0, command
            assert "Wrapper · a.wrapper.cpp" in words or command in ("report", "capture")
        else:
            assert (code, words.count("\n")) == (2, 1), command
            assert "is an AOTInductor package" in words


UNREADABLE = {
    "cut session": "SQLite database that is damaged or cut off",
    "other database": "some other SQLite database",
    "cut program": "zip archive",
    "checkpoint": "a model checkpoint",
    "zip": "a zip archive",
    "empty": "an empty file",
    "text": "text",
    "binary": "binary data",
}

BROKEN = ("cut session", "other database", "cut program")
"""Kinds of files that cannot be read under any name."""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", UNREADABLE)
def test_what_is_none_of_them_is_named_in_one_sentence(
    kind: str, name: str, contents: dict[str, bytes], told: Told
) -> None:
    """Exit code 5 where the file is broken, or is not what it is called; 2 where it is only no
    target.
    """
    if name == "x.py" and kind in ("empty", "text"):
        pytest.skip("this is Python")
    placed(name, contents[kind])
    is_called_ours = name.lower().endswith((".fxs", ".pt2"))
    for command in COMMANDS:
        code, words = told(command, name)
        is_script_wanted = command == "run" and not name.endswith(".fxs")
        assert code == (5 if kind in BROKEN or (is_called_ours and not is_script_wanted) else 2), (
            command,
            words,
        )
        assert words.count("\n") == 1, words
        assert UNREADABLE[kind] in words
        assert name in words


@pytest.mark.parametrize("name", ["x.pt2", "x.fxs"])
def test_a_directory_called_so_is_named(name: str, told: Told) -> None:
    Path(name).mkdir()
    for command in COMMANDS:
        code, words = told(command, name)
        assert (code, words.count("\n")) == (2 if command == "run" and name == "x.pt2" else 5, 1), (
            command,
            words,
        )
        assert "a directory" in words


def test_diff_takes_them_under_any_name(
    contents: dict[str, bytes], told: Told, capsys: pytest.CaptureFixture[str]
) -> None:
    placed("a.bin", contents["session"])
    placed("b.zip", contents["package"])
    assert main(["diff", "a.bin", "b.zip"]) == 0
    shown = capsys.readouterr().out.splitlines()[0].split()
    assert shown == ["a.bin", "b.zip"]
    placed("c.pt2", contents["cut program"])
    assert main(["diff", "a.bin", "c.pt2"]) == 5
    placed("d.bin", contents["program"])
    assert main(["diff", "d.bin", "a.bin"]) == 2
    assert "d.bin is an ExportedProgram" in capsys.readouterr().err


def test_naming_an_object_does_not_get_around_the_question(
    contents: dict[str, bytes], told: Told
) -> None:
    placed("x.pt2", contents["program"])
    for command in ("report", "capture"):
        code, words = told(command, "x.pt2:model")
        assert code == 2
        assert "contains no model: leave out :model" in words


def test_a_package_is_not_written_over(
    contents: dict[str, bytes], told: Told, capsys: pytest.CaptureFixture[str]
) -> None:
    placed("x.fxs", contents["package"])
    for command in (["capture", "x.fxs", "--force"], ["report", "x.fxs", "-o", "x.fxs", "--force"]):
        assert main(command) == 2
        assert "so it is not overwritten" in capsys.readouterr().err
    assert Path("x.fxs").read_bytes() == contents["package"]


@pytest.mark.usefixtures("warm_workers")
@pytest.mark.parametrize("name", ["x.fxs", "x"])
def test_an_exported_program_is_captured_whatever_it_is_called(
    name: str, contents: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    placed(name, contents["program"])
    assert main(["capture", name, "--trust", "-o", "out.fxs", "--backend", "eager"]) == 0
    with SessionReader("out.fxs") as reader:
        (graph,) = reader.rows(model.Graph, stage="dynamo", parent=0)
        assert [node.target for node in reader.nodes(graph) if node.op == "call_function"] == [
            "aten.relu.default"
        ]


NO_RECORD = "the standard input has no torch records"


def from_closed_input(command: str) -> tuple[int, str]:
    """Return the exit code of a command whose standard input is closed, and its single line of
    output.
    """
    shell = f"{sys.executable} -m fx_explorer {command} <&-"
    ended = subprocess.run(
        ["/bin/sh", "-c", shell], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    return ended.returncode, line


@pytest.mark.parametrize("command", [*SHOW_LOGS, ""])
def test_a_log_that_is_to_come_from_a_closed_standard_input_is_refused_in_one_line(
    command: str,
) -> None:
    other = " model.py" if command == "diff" else ""
    code, line = from_closed_input(f"{command} -{other}")
    assert code == 5
    assert NO_RECORD in line


@pytest.mark.parametrize("command", ["capture", "run", "bench", "memory"])
def test_a_command_that_needs_the_program_does_not_look_at_the_standard_input(command: str) -> None:
    code, line = from_closed_input(f"{command} -")
    assert code == 2
    assert f"but fx-explorer {command} needs the program" in line


def test_ranks_of_the_standard_input_are_refused_in_one_line() -> None:
    code, line = from_closed_input("ranks -")
    assert code == 2
    assert "Give a directory with the logs of a job's ranks, or the logs" in line
