"""Whatever our writer writes, our reader reads: large texts that repeat themselves, and many that are alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer.session import SessionReader, SessionWriter


@pytest.mark.parametrize(
    "text", ["a" * 16_000_000, "a" * 32_000_000, "é" * 16_000_000, "add\n" * 6_000_000]
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
