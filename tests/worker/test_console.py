"""These tests check lines of the console, from whatever bytes a program writes."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from fx_explorer.client.console import MAX_LINE, Console, LineSplitter
from fx_explorer.command_line.narration import CaptureNarration
from fx_explorer.model import ConsoleLine, Notice
from fx_explorer.session import SessionReader, SessionWriter


def split(*chunks: bytes) -> list[str]:
    splitter = LineSplitter()
    return [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.end()


def test_a_line_may_come_in_pieces_and_the_last_one_without_an_end() -> None:
    assert split(b"one\ntw", b"o\n", b"\nlast") == ["one", "two", "", "last"]


def test_a_character_cut_in_two_is_put_together() -> None:
    euro = "€".encode()
    assert split(euro[:1], euro[1:] + b"\n") == ["€"]


def test_bytes_that_are_not_utf8_are_shown_as_escapes() -> None:
    assert split(b"caf\xe9\n\xff") == ["caf\\xe9", "\\xff"]


def test_a_progress_bar_leaves_its_last_state() -> None:
    assert split(b"\r10%", b"\r50%", b"\r100%\n", b"windows\r\n") == ["100%", "windows"]


def test_a_progress_bar_that_never_ends_its_line_stays_small() -> None:
    splitter = LineSplitter()
    for percent in range(10_000):
        assert splitter.feed(f"\r{percent:05}".encode()) == []
    assert splitter.end() == ["09999"]


def test_a_huge_line_goes_on_in_further_rows() -> None:
    lines = split(b"x" * (2 * MAX_LINE + 5) + b"\n", b"after\n")
    assert [len(line) for line in lines] == [MAX_LINE, MAX_LINE, 5, 5]
    assert lines[-1] == "after"


async def test_more_lines_than_are_kept_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fx_explorer.client.console.MAX_LINES", 3)
    monkeypatch.setattr("fx_explorer.client.console.MAX_LAST_LINES", 2)
    with SessionWriter(tmp_path / "s.fxs") as writer:
        console = Console(writer)
        console.add("stdout", ["a", "b"])
        console.add("stderr", ["c", "d", "e", "f"])
        console.add("stdout", ["g"])
        console.finish(writer)
        console.finish(writer)
    with SessionReader(tmp_path / "s.fxs") as reader:
        rows = [(row.stream, row.text) for row in reader.rows(ConsoleLine)]
    told = "2 printed lines in between are not kept: the session keeps the beginning and the end"
    kept = [
        ("stdout", "a"),
        ("stdout", "b"),
        ("stderr", "c"),
        ("", told),
        ("stderr", "f"),
        ("stdout", "g"),
    ]
    assert rows == kept, "the end is what one looks for first"


async def test_long_lines_are_kept_to_a_limit_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fx_explorer.client.console.MAX_CHARACTERS", 100)
    monkeypatch.setattr("fx_explorer.client.console.MAX_LAST_LINES", 1)
    with SessionWriter(tmp_path / "s.fxs") as writer:
        console = Console(writer)
        console.add("stdout", ["x" * 60] * 9)
        console.finish(writer)
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert [row.text[:1] for row in reader.rows(ConsoleLine)] == ["x", "x", "6", "x"]


def test_a_line_without_an_end_is_shown_while_it_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What is held back is one piece of it: 200 MB on one line were joined anew with every 64 KB."""
    out = io.StringIO()
    progress = CaptureNarration(out, pass_through=False)
    for _ in range(10):
        progress.program_output("stdout", b"x" * MAX_LINE)
    assert out.getvalue().count("x") >= 9 * MAX_LINE
    progress.program_output("stderr", b"another stream\n")
    progress.end()
    assert out.getvalue().count("x") == 10 * MAX_LINE
    assert "  | another stream\n" in out.getvalue()


def test_a_note_is_told_once_however_often_it_comes() -> None:
    out = io.StringIO()
    narration = CaptureNarration(out, pass_through=True)
    for text in (
        "graph break at a.py:3: print",
        "graph break at a.py:9: item",
        "graph break at a.py:3: print",
    ):
        narration.show(Notice("note", text))
    assert out.getvalue().splitlines() == [
        "fx-explorer: note: graph break at a.py:3: print",
        "fx-explorer: note: graph break at a.py:9: item",
    ]
