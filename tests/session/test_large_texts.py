"""These tests check that our reader reads whatever our writer writes: large texts that repeat
themselves, and many that are alike.
"""

from __future__ import annotations

import collections
import sqlite3
import zlib
from pathlib import Path

import pytest

from fx_explorer.errors import NotASessionError
from fx_explorer.model import Artifact
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.bounds import MAX_LINES
from fx_explorer.session.reader import MOST_READ_AT_ONCE


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


def test_very_many_texts_that_inflate_to_gigabytes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fx_explorer.session.reader.MOST_INFLATED_FREELY", 1 << 27)
    large = zlib.compress(b"a" * 16_000_000)
    with SessionWriter(tmp_path / "s.fxs") as writer:
        numbers = [writer.text(str(i)) for i in range(20)]
        writer.finish()
    with sqlite3.connect(tmp_path / "s.fxs") as database:
        database.execute("UPDATE text SET body=?, base=0", (large,))
    database.close()
    with (
        SessionReader(tmp_path / "s.fxs") as reader,
        pytest.raises(NotASessionError, match="texts that were read inflate to"),
    ):
        collections.deque(map(reader.text, numbers), maxlen=0)


def test_many_rows_that_name_one_large_text_are_read_to_a_bound(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        text = writer.text("a" * 16_000_000)
        writer.finish()
    row = Artifact(1, 1, "listing", "dynamo", "forward", "many", "json", text=text)
    with SessionReader(tmp_path / "s.fxs") as reader:
        read = sum(len(text) for _, text in reader.texts_of([row] * 3_000))
    assert 16_000_000 < read <= MOST_READ_AT_ONCE
