"""These tests check the overview without a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer import cli, model
from fx_explorer.report.overview_text import overview_text
from fx_explorer.session import SessionReader, SessionWriter
from tests.sessions import write_training_step


def test_the_overview_says_the_same_facts_as_the_app(tmp_path: Path) -> None:
    hand = write_training_step(tmp_path / "s.fxs")
    with SessionReader(hand.path) as reader:
        text = overview_text(reader)
    assert text.startswith("✓ mlp.py:MLP ran to its end.\n")
    assert "\n✓ Everything became one graph: 3 operations.\n" in text
    assert max(map(len, text.splitlines())) <= 130


@pytest.mark.parametrize("columns", [30, 50, 80])
def test_a_terminal_gets_whole_words_in_lines_that_fit(tmp_path: Path, columns: int) -> None:
    hand = write_training_step(tmp_path / "s.fxs")
    with SessionReader(hand.path) as reader:
        text, whole = overview_text(reader, columns), overview_text(reader)
    assert text.split() == whole.split()
    assert max(map(len, text.splitlines())) <= columns


def test_escape_sequences_from_outside_are_shown(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.set_meta("target", {"name": "m\x1b[31m.py"})
        writer.set_meta(
            "outcome", model.Outcome("raised", "ValueError: \x1b]0;title\x07").to_json()
        )
    with SessionReader(tmp_path / "s.fxs") as reader:
        text = overview_text(reader)
    assert "m␛[31m.py stopped with an error." in text
    assert "ValueError: ␛]0;title␇" in text


def test_a_session_is_told_when_there_is_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hand = write_training_step(tmp_path / "s.fxs")
    assert cli.main([str(hand.path)]) == 0
    with SessionReader(hand.path) as reader:
        assert capsys.readouterr().out == overview_text(reader)
