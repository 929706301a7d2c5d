"""Whatever our writer writes, our reader reads: large texts that repeat themselves, and many that are alike."""

from __future__ import annotations

import sqlite3
import zlib
from pathlib import Path

import pytest

from fx_explorer.errors import NotASessionError
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.bounds import MAX_LINES


@pytest.mark.parametrize(
    "text", ["a" * 16_000_000, "a" * 32_000_000, "é" * 16_000_000, "add mul\n" * 900_000]
)
def test_a_large_text_that_repeats_itself_is_read_as_it_was_written(
    text: str, tmp_path: Path
) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        number = writer.text(text)
        writer.finish()
    assert (tmp_path / "s.fxs").stat().st_size < len(text.encode()) // 3
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert reader.text(number) == text


def test_two_thousand_texts_that_are_alike_are_read_as_they_were_written(tmp_path: Path) -> None:
    texts = ["a" * 30_000 + str(i) for i in range(2_000)]
    with SessionWriter(tmp_path / "s.fxs") as writer:
        with writer.transaction():
            numbers = [writer.text(text, like="program") for text in texts]
        writer.finish()
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert [reader.text(number) for number in numbers] == texts


def test_a_text_of_very_many_lines_is_cut_when_written_and_refused_when_read(
    tmp_path: Path,
) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        number = writer.text("first" + "\n" * 8_000_000 + "last")
        writer.finish()
    with SessionReader(tmp_path / "s.fxs") as reader:
        lines = reader.text(number).split("\n")
    assert MAX_LINES <= len(lines) <= MAX_LINES + 1
    assert (lines[0], lines[-1]) == ("first", "last")
    assert any("lines are left out here" in line for line in lines)
    with sqlite3.connect(tmp_path / "s.fxs") as database:
        database.execute("UPDATE text SET body=?", (zlib.compress(b"\n" * 8_000_000),))
    database.close()
    with (
        SessionReader(tmp_path / "s.fxs") as reader,
        pytest.raises(NotASessionError, match="more than 1,000,000 lines"),
    ):
        reader.text(number)
