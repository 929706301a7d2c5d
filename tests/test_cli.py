"""These tests check the command line: which command is chosen, how long it takes to start, and how
errors end.
"""

from __future__ import annotations

import importlib
import os
import re
import signal
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

import pytest

from fx_explorer import __version__, cli
from fx_explorer.errors import (
    FxExplorerError,
    NewerSessionError,
    NotASessionError,
    OlderSessionError,
    ProgramError,
    SessionError,
    SessionWriteError,
    TargetError,
    UsageError,
    WorkerError,
)


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    for name, help_line in cli.COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(help_line)}$", text, re.MULTILINE)


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_command_has_help_and_the_two_functions(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module(cli.module_of(name))
    assert callable(module.run)
    module.add_arguments(ArgumentParser())
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])
    assert ended.value.code == 0
    assert "usage: fx-explorer" in capsys.readouterr().out


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_what_may_be_left_out_of_a_command_line_was_not_given(name: str) -> None:
    parser = ArgumentParser()
    importlib.import_module(cli.module_of(name)).add_arguments(parser)
    required = [
        action.dest
        for action in parser._actions
        if not action.option_strings and action.nargs not in ("?", "*")
    ]
    assert cli._given_options(parser, ["1"] * len(required)) == frozenset(required)


def test_a_module_with_a_run_function_is_a_command_or_a_helper_of_one() -> None:
    """A command that is not in the table could not be reached."""
    package = Path(cli.__file__).parent
    defining = {
        ".".join(("fx_explorer", *path.relative_to(package).with_suffix("").parts))
        for folder in ("commands", "instruments")
        for path in (package / folder).rglob("*.py")
        if re.search(r"^def add_arguments\(", path.read_text(), re.MULTILINE)
    }
    assert defining == {cli.module_of(name) for name in cli.COMMANDS}


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"fx-explorer {__version__}\n"


def test_nothing_to_do_shows_the_help_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "usage: fx-explorer" in captured.err


def chosen(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> tuple[str, list[str]]:
    calls: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(cli, "_run", lambda name, rest: calls.append((name, rest)) or 0)
    assert cli.main(words) == 0
    return calls[0]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["model.py"], ("explore", ["model.py"])),
        (["model.py", "--train"], ("explore", ["model.py", "--train"])),
        (["--no-train", "model.py:f"], ("explore", ["--no-train", "model.py:f"])),
        (["explore", "model.py"], ("explore", ["model.py"])),
        (["./report"], ("explore", ["./report"])),
        (["report", "s.fxs"], ("report", ["s.fxs"])),
        (["run", "train.py", "--", "--help"], ("run", ["train.py", "--", "--help"])),
        (["package.module:thing"], ("explore", ["package.module:thing"])),
    ],
)
def test_the_first_word_chooses_the_command(
    monkeypatch: pytest.MonkeyPatch, words: list[str], expected: tuple[str, list[str]]
) -> None:
    assert chosen(monkeypatch, words) == expected


def test_a_misspelt_command_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["reprot", "s.fxs"]) == 2
    assert "did you mean: fx-explorer report" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "named"),
    [("breaks", "report TARGET"), ("breaks", "fix TARGET"), ("graphs", "graph TARGET")],
)
def test_a_word_that_is_no_command_is_answered_with_the_one_that_shows_it(
    word: str,
    named: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main([word, "s.fxs"]) == 2
    told = capsys.readouterr().err
    assert f"fx-explorer {named}" in told
    assert "did you mean" not in told


def test_every_word_is_answered_with_commands_that_there_are() -> None:
    for told in cli.SHOWN_BY.values():
        named = [words.split()[0] for words in told.split("fx-explorer ")[1:]]
        assert named
        assert set(named) <= {*cli.COMMANDS, "TARGET"}


@pytest.mark.parametrize("word", ["breaks", "tanks"])
def test_only_a_word_that_can_have_been_meant_for_a_command_is_suggested(
    word: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main([word, "s.fxs"]) == 2
    told = capsys.readouterr().err
    assert word == "tanks" or "ranks" not in told


def test_a_file_called_nearly_like_a_command_is_a_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reports").write_text("")
    assert chosen(monkeypatch, ["reports"]) == ("explore", ["reports"])


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (FxExplorerError, 1),
        (UsageError, 2),
        (TargetError, 2),
        (ProgramError, 3),
        (WorkerError, 4),
        (SessionWriteError, 4),
        (SessionError, 5),
        (NotASessionError, 5),
        (NewerSessionError, 5),
        (OlderSessionError, 5),
    ],
)
def test_an_error_is_a_message_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: type[FxExplorerError],
    exit_code: int,
) -> None:
    def fail(name: str, words: list[str]) -> int:
        raise error("what happened\nwhat to do \x1b[31m")

    monkeypatch.setattr(cli, "_run", fail)
    assert cli.main(["x.py"]) == exit_code
    captured = capsys.readouterr()
    assert captured.err == "fx-explorer: what happened\nwhat to do ␛[31m\n"
    assert captured.out == ""


def test_ctrl_c_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str, words: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", interrupted)
    assert cli.main(["x.py"]) == 128 + signal.SIGINT


def test_a_reader_that_left_is_no_error() -> None:
    """``fx-explorer … | head``: quiet, whatever was still to be said."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    ended = subprocess.run(
        [sys.executable, "-m", "fx_explorer", "--version"],
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(write_end)
    assert ended.stderr == ""
    assert ended.returncode == 128 + signal.SIGPIPE


def test_help_imports_no_command_and_nothing_heavy() -> None:
    program = "import sys; from fx_explorer import cli; cli.main(['--help']); print(*sys.modules, file=sys.stderr)"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(ended.stderr.split())
    heavy = {
        "torch",
        "textual",
        "rich",
        "asyncio",
        "importlib.metadata",
        "sqlite3",
        "json",
        "dataclasses",
        "pygments",
    }
    assert not loaded & heavy
    assert [name for name in loaded if name.startswith("fx_explorer.commands")] == []


def test_output_the_terminal_cannot_show_is_escaped() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(
        [sys.executable, "-m", "fx_explorer", "report", "nö.fxs"],
        capture_output=True,
        env=environment,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 5
    assert b"no session file at n\\xf6.fxs" in ended.stderr


def test_options_of_ours_may_stand_between_the_script_and_its_own_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from fx_explorer.commands import run

    seen: list[object] = []
    monkeypatch.setattr(run, "run", lambda arguments: seen.append(arguments) or 0)
    assert cli.main(["run", "train.py", "-o", "s.fxs", "--", "--lr", "0.1", "--", "x"]) == 0
    assert [(a.target, str(a.output), a.arguments) for a in seen] == [
        ("train.py", "s.fxs", ["--lr", "0.1", "--", "x"])
    ]


@pytest.mark.parametrize("command", ["capture", "report", "run"])
def test_a_file_whose_name_begins_with_a_dash_stands_after_two(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Namespace] = []
    monkeypatch.setattr(
        f"{cli.module_of(command)}.run", lambda arguments: seen.append(arguments) or 0
    )
    assert cli.main([command, "-o", "s.fxs", "--", "-x.py"]) == 0
    assert (seen[0].target, str(seen[0].output)) == ("-x.py", "s.fxs")
    if command == "run":
        assert cli.main([command, "--", "-x.py", "--lr", "0.1"]) == 0
        assert (seen[1].target, seen[1].arguments) == ("-x.py", ["--lr", "0.1"])


def test_arguments_for_a_script_are_refused_by_commands_that_run_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["capture", "mlp.py", "--", "--steps"])
    assert "only fx-explorer run takes arguments" in capsys.readouterr().err
