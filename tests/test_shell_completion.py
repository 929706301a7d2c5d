"""These tests check ``--print-completion`` and ``--print-man-page`` with the programs that read
them: bash, and groff.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fx_explorer import cli
from fx_explorer.command_line.shell_completion import SHELLS

pytest.importorskip("shtab", reason="shtab is not installed: pip install 'fx-explorer[completion]'")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(words) == 0
    return capsys.readouterr().out


COMPLETE = """\
source completion.bash
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
COMPREPLY=()
_shtab_fx_explorer fx-explorer "${COMP_WORDS[COMP_CWORD]}" ""
printf '%s\\n' "${COMPREPLY[@]}"
"""
"""Asks bash for the completions of the words that are given, as it does when tab is pressed."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the script for bash, and files to complete."""
    folder = tmp_path_factory.mktemp("completion")
    command = [sys.executable, "-m", "fx_explorer", "--print-completion", "bash"]
    with (folder / "completion.bash").open("w") as script:
        subprocess.run(command, stdout=script, timeout=120, check=True)
    (folder / "complete.bash").write_text(COMPLETE)
    for name in ("model.py", "model.fxs", "other.py"):
        (folder / name).touch()
    return folder


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not here")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("rep", {"report"}),
        ("mod", {"modules", "model.py", "model.fxs"}),
        ("report oth", {"other.py"}),
        ("report model.py --format c", {"chrome-trace", "collapsed"}),
        ("report model.py --sec", {"--section"}),
        ("report model.py -o oth", {"other.py"}),
        ("model.py --prof", {"--profile"}),
        ("diff model.py oth", {"other.py"}),
        ("memory model.fxs oth", {"other.py"}),
        ("keys --format j", {"json"}),
    ],
)
def test_bash_completes(folder: Path, words: str, expected: set[str]) -> None:
    ended = subprocess.run(
        ["bash", "complete.bash", "fx-explorer", *words.split()],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert set(ended.stdout.split()) == expected, ended.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_option_is_in_the_script_of_each_shell(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script = printed(capsys, "--print-completion", shell)
    for name, (_, parser) in cli._every_command().items():
        assert re.search(rf"\b{name}\b", script), name
        if shell == "tcsh":
            continue  # it has the options of all commands in one list
        for option in parser._option_string_actions:
            assert option in script, (name, option)


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--print-completion", "ksh"]) == 2
    assert "takes bash, zsh or tcsh, not 'ksh'" in capsys.readouterr().err
    assert cli.main(["--print-completion"]) == 2
    assert cli.main(["--print-completion=bash"]) == 0


def test_without_shtab_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert cli.main(["--print-completion", "bash"]) == 2
    assert "pip install 'fx-explorer[completion]'" in capsys.readouterr().err


def test_the_manual_page_has_what_every_help_has(capsys: pytest.CaptureFixture[str]) -> None:
    page = printed(capsys, "--print-man-page").replace("\\-", "-").replace("\\(aq", "'")
    page = re.sub(r"\\\[u([0-9A-F]+)\]", lambda match: chr(int(match[1], 16)), page)
    page = page.replace("\\e", "\\")
    for name, (text, parser) in cli._every_command().items():
        assert f".SH {name.upper()}\n" in page
        assert text in page
        for action in parser._actions:
            for option in action.option_strings:
                assert f"\\fB{option}\\fR" in page, (name, option)


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not here")
def test_groff_has_nothing_to_say_of_the_manual_page(capsys: pytest.CaptureFixture[str]) -> None:
    page = printed(capsys, "--print-man-page")
    ended = subprocess.run(
        ["groff", "-man", "-Tutf8", "-wall", "-z"],
        input=page,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stderr == ""
