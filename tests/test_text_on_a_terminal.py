"""These tests check text output on a terminal of 80 columns: no line is longer, and output for
programs is not fitted.
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from fx_explorer import cli
from fx_explorer.client.session_files import Leftover
from fx_explorer.command_line.narration import CaptureNarration
from fx_explorer.commands import recover
from fx_explorer.model import Notice
from tests.profiles import profiled_session

COLUMNS = 80


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return profiled_session("gpt2", tmp_path_factory.mktemp("terminal"))


def on_terminal(monkeypatch: pytest.MonkeyPatch, *words: str | Path) -> tuple[str, str]:
    """Return the output of a command on stdout and on stderr, both terminals."""
    out, err = Terminal(), Terminal()
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    cli.main([str(word) for word in words])
    return out.getvalue(), err.getvalue()


def widest(text: str) -> int:
    """Return the cells of the longest line. A line that is a single word, such as a path, is never
    broken.
    """
    lines = re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()
    return max((cell_len(line) for line in lines if len(line.split()) > 1), default=0)


TOLD = {
    "profile": ["profile", "{session}"],
    "every row of a profile": ["profile", "{session}", "--all"],
    "list of graphs": ["graph", "{session}"],
    "graph": ["graph", "{session}", "1", "--format", "table"],
    "modules": ["modules", "{session}"],
    "memory": ["memory", "{session}"],
    "known options": ["options"],
    "one option": ["options", "--name", "compile.mode"],
    "unmet condition": ["check", "{session}", "--max-guards", "1", "--max-graph-breaks", "0"],
    "report": ["report", "{session}", "--format", "text"],
}


@pytest.mark.parametrize("words", TOLD.values(), ids=TOLD)
def test_no_line_is_longer_than_the_terminal(
    words: list[str], session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, _ = on_terminal(monkeypatch, *(word.format(session=session) for word in words))
    assert len(out.splitlines()) > 1
    assert widest(out) <= COLUMNS


WHOLE = {name: TOLD[name] for name in ("profile", "graph", "unmet condition", "known options")}


@pytest.mark.parametrize("words", WHOLE.values(), ids=WHOLE)
def test_a_program_reads_it_whole(
    words: list[str], session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main([word.format(session=session) for word in words])
    piped = capsys.readouterr().out
    assert widest(piped) > COLUMNS
    assert "Not enough room for" not in piped


def test_a_table_says_which_columns_had_no_room(
    session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, _ = on_terminal(monkeypatch, "profile", session)
    heading = next(line for line in out.splitlines() if line.startswith("  kernel "))
    assert "runs" not in heading
    assert "Not enough room for: “frame”, “direction” and “runs”." in " ".join(out.split())


def test_code_is_printed_as_it_is(
    session: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["graph", str(session), "1"])
    piped = capsys.readouterr().out
    assert on_terminal(monkeypatch, "graph", session, "1")[0] == piped
    assert widest(piped) > COLUMNS


def test_an_error_goes_on_below(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, err = on_terminal(monkeypatch, "check", session)
    assert err.startswith("fx-explorer: check needs a condition")
    assert len(err.splitlines()) > 1
    assert widest(err) <= COLUMNS


def test_what_was_left_behind_goes_on_under_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = Leftover(
        tmp_path, "a target with a name of several words " * 3, "2026-11-26 12:58", 2, 400_000
    )
    monkeypatch.setattr(recover, "leftovers", lambda: [left])
    monkeypatch.setattr(recover, "note_reported", lambda directory: None)
    out, _ = on_terminal(monkeypatch, "recover")
    listed = out.split("\n\n")[0].splitlines()
    assert listed[0].startswith("  1  a target")
    assert all(line.startswith("     ") for line in listed[1:])
    assert " ".join(" ".join(listed).split()).endswith(str(left.session))


def test_a_note_is_fitted_and_what_the_program_prints_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    narration = CaptureNarration(out := Terminal(), pass_through=False)
    narration.show(
        Notice(kind="note", text="graph break at model.py:22: " + "a sentence of torch's " * 6)
    )
    narration.program_output("stdout", b"x" * 100 + b"\n")
    narration.end()
    *note, printed = out.getvalue().splitlines()
    assert len(note) > 1
    assert max(map(len, note)) <= COLUMNS
    assert printed == "  | " + "x" * 100
