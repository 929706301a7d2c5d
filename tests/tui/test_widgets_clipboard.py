"""These tests check copying and opening an editor: which program is used, and what the user is
shown.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path

import pytest

from fx_explorer.errors import UsageError
from fx_explorer.tui.terminal import other_programs
from fx_explorer.tui.terminal.other_programs import (
    OSC52_LIMIT_BYTES,
    copy,
    editor_command,
    native_tool,
    needs_terminal,
    osc52,
)


def installed(*names: str) -> object:
    return lambda name: f"/usr/bin/{name}" if name in names else None


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clipboard tool that writes what it is given to a file; returns that file."""
    received = tmp_path / "clipboard"
    script = tmp_path / "copier"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nopen({str(received)!r}, 'w').write(sys.stdin.read())\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr(other_programs, "native_tool", lambda environ: (str(script),))
    return received


def test_the_native_tool_comes_first(tool: Path) -> None:
    sent: list[str] = []
    copied = copy("漢字 erf", sent.append, environ={})
    assert copied.way == "tool"
    assert tool.read_text() == "漢字 erf"
    assert not sent


def test_over_ssh_the_terminal_comes_first(tool: Path) -> None:
    sent: list[str] = []
    copied = copy("erf", sent.append, environ={"SSH_TTY": "/dev/pts/1"})
    assert copied.way == "terminal"
    assert "OSC 52" in str(copied)
    assert base64.b64decode(sent[0].removeprefix("\x1b]52;c;").removesuffix("\x07")) == b"erf"
    assert not tool.exists()


def test_a_tool_that_fails_is_reported_and_the_terminal_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        other_programs, "native_tool", lambda environ: (sys.executable, "-c", "raise SystemExit(3)")
    )
    sent: list[str] = []
    copied = copy("erf", sent.append, environ={})
    assert copied.way == "terminal"
    assert "failed" in copied.problem
    assert sent


def test_a_text_too_long_for_the_terminal_goes_to_a_file_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_programs.tempfile, "tempdir", str(tmp_path))
    text = "x" * (OSC52_LIMIT_BYTES + 1)
    sent: list[str] = []
    copied = copy(text, sent.append, environ={"SSH_TTY": "1"})
    assert not sent
    assert copied.where in str(copied)
    assert Path(copied.where).read_text() == text
    assert Path(copied.where).stat().st_mode & 0o077 == 0


def test_inside_tmux_the_sequence_is_also_passed_through() -> None:
    assert "\x1bPtmux;\x1b\x1b]52;c;" in osc52("a", in_tmux=True)
    assert osc52("a", in_tmux=True).startswith(osc52("a"))


@pytest.mark.parametrize(
    ("environ", "tools", "expected"),
    [
        ({"WAYLAND_DISPLAY": "w", "DISPLAY": ":0"}, ("wl-copy", "xclip"), "wl-copy"),
        ({"DISPLAY": ":0"}, ("wl-copy", "xclip"), "xclip"),
        ({"DISPLAY": ":0"}, ("xsel",), "xsel"),
        ({}, ("clip.exe",), "clip.exe"),
    ],
)
def test_the_tool_is_the_one_of_the_display(
    environ: dict[str, str], tools: tuple[str, ...], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_programs.sys, "platform", "linux")
    assert native_tool(environ, installed(*tools))[0] == expected  # type: ignore[arg-type]


def test_without_a_display_there_is_no_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_programs.sys, "platform", "linux")
    assert not native_tool({}, installed("xclip", "wl-copy"))  # type: ignore[arg-type]


# editor


@pytest.mark.parametrize(
    ("editor", "expected"),
    [
        ("vim", ["vim", "+12", "/src/m.py"]),
        ("nano", ["nano", "+12", "/src/m.py"]),
        ("emacs -nw", ["emacs", "-nw", "+12", "/src/m.py"]),
        ("code", ["code", "--goto", "/src/m.py:12"]),
        ("code --wait", ["code", "--wait", "--goto", "/src/m.py:12"]),
        ("/opt/bin/hx", ["/opt/bin/hx", "/src/m.py:12"]),
        ("subl -n", ["subl", "-n", "/src/m.py:12"]),
        ("pycharm", ["pycharm", "--line", "12", "/src/m.py"]),
        ("'my editor' -x", ["my editor", "-x", "+12", "/src/m.py"]),
    ],
)
def test_each_editor_is_told_the_line_in_its_own_way(editor: str, expected: list[str]) -> None:
    assert editor_command("/src/m.py", 12, {"EDITOR": editor}, lambda name: name) == expected


def test_visual_wins_over_editor() -> None:
    assert (
        editor_command("/m.py", 1, {"VISUAL": "vim", "EDITOR": "nano"}, lambda name: name)[0]
        == "vim"
    )


def test_without_editor_one_that_is_there_is_taken() -> None:
    assert editor_command("/m.py", 3, {}, installed("nano")) == ["nano", "+3", "/m.py"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "set EDITOR"),
        ({"EDITOR": "ghost"}, "ghost"),
        ({"EDITOR": "'open"}, "cannot be parsed"),
    ],
)
def test_an_editor_that_cannot_be_started_is_explained(environ: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        editor_command("/m.py", 1, environ, lambda name: None)


def test_a_file_that_looks_like_an_option_is_not_taken_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = editor_command("--cmd=evil", 1, {"EDITOR": "vim"}, lambda name: name)
    assert command[-1] == str(tmp_path / "--cmd=evil")


def test_windowed_editors_do_not_take_the_terminal() -> None:
    assert not needs_terminal(["code", "--goto", "a:1"])
    assert not needs_terminal(["emacsclient", "-c", "+1", "a"])
    assert needs_terminal(["/usr/bin/vim", "+1", "a"])
