"""These tests check the messages on screen before the app starts."""

from __future__ import annotations

import os

import pytest

from fx_explorer.tui.terminal.beginning import LOWER, RAISE, add_to_splash, splash


def test_the_first_words_are_shown_at_once_and_stay_for_the_app(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with splash("fx-explorer  mlp.py"):
        shown = capsys.readouterr().out
    assert shown.startswith(RAISE)
    assert "fx-explorer  mlp.py" in shown
    assert capsys.readouterr().out == ""


def test_a_failure_gives_the_screen_back_so_that_its_message_is_seen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(ValueError, match="no such file"), splash("fx-explorer"):
        raise ValueError("no such file")
    assert capsys.readouterr().out.endswith(LOWER)


def test_a_target_with_escape_sequences_is_shown_not_sent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with splash("\x1b]0;owned\x07.py"):
        pass
    assert "␛]0;owned␇.py" in capsys.readouterr().out


@pytest.mark.parametrize(("columns", "rows", "shown"), [(80, 24, 3), (20, 5, 2), (1, 1, 0)])
def test_further_words_fit_the_terminal(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
    rows: int,
    shown: int,
) -> None:
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((columns, rows)))
    add_to_splash(["42 MB, begins at 03:15:04", "a" * 300, "\x1b[2J\u202e"])
    lines = capsys.readouterr().out.split("\r\n")[2:]
    assert len(lines) == shown
    assert all(len(line) < columns for line in lines)
    assert "\x1b" not in "".join(lines)
    if columns == 80:
        assert lines[1].endswith("a…")
