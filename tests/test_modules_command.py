"""These tests check ``fx-explorer modules``: the tree of the app, for people and for programs."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from fx_explorer import cli
from fx_explorer.instruments.modules.report import module_list
from fx_explorer.instruments.modules.tree import module_tree
from fx_explorer.session import SessionReader
from tests.conftest import Captured
from tests.sessions import write_training_step

FIGURES = ("breaks", "operations", "calls", "saved_bytes")


@pytest.fixture
def session(captured: Captured) -> Path:
    return captured("transformer")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(["modules", *words]) == 0
    return capsys.readouterr().out


def test_repeated_layers_are_one_row_and_each_with_all(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folded = printed(capsys, str(session))
    assert "    0, 1 ×2 (Block)" in folded
    assert "attention" not in folded
    every = printed(capsys, str(session), "--all").splitlines()
    assert "×2" not in "".join(every[:-2])
    assert [line.split("  ")[2] for line in every if "(Block)" in line] == [
        "0 (Block)",
        "1 (Block)",
    ]
    assert sum("attention (Attention)" in line for line in every) == 2


def test_csv_has_every_module_with_figures_that_add_up_to_the_whole(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = list(
        csv.DictReader(io.StringIO(printed(capsys, str(session), "--all", "--format", "csv")))
    )
    with SessionReader(session) as reader:
        tree = module_tree(reader)
    assert len(rows) == sum(not row.is_fold for row in tree.rows)
    for name in FIGURES:
        assert sum(int(row[f"own_{name}"]) for row in rows) == getattr(tree.whole, name)


def test_json_says_what_the_tree_of_the_app_says(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(printed(capsys, str(session), "--format", "json"))
    with SessionReader(session) as reader:
        rows = module_list(reader).rows
    assert found["schema"] == "fx-explorer/modules/1"
    assert [one["name"] for one in found["modules"]] == [row.title for row in rows]
    assert [one["with_all_in_it"]["calls"] for one in found["modules"]] == [
        row.figures.calls for row in rows
    ]


def test_markdown_is_a_table_and_a_list(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, str(session), "--format", "markdown").splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len({line.count("|") for line in table}) == 1
    assert lines[0].startswith("- ")
    assert table[2].startswith("| Transformer |")


def test_depth_cuts_and_sort_orders_modules_beside_each_other(session: Path) -> None:
    with SessionReader(session) as reader:
        assert {row.depth for row in module_list(reader, every=True, depth=2).rows} == {0, 1}
        rows = module_list(reader, every=True, sort="saved").rows
        in_order = module_list(reader, every=True).rows
    inside = [
        row.figures.saved_bytes
        for row in rows
        if row.path[:1] == ("Transformer",) and len(row.path) == 2
    ]
    assert inside == sorted(inside, reverse=True)
    assert rows != in_order
    assert sorted(row.path for row in rows) == sorted(row.path for row in in_order)
    for at, row in enumerate(rows):
        assert len(row.path) < 2 or row.path[:-1] in [before.path for before in rows[:at]], (
            "a module stands below its own"
        )


def test_a_function_without_modules_is_told_in_a_sentence_and_fails(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "empty.fxs"
    from fx_explorer import model
    from fx_explorer.session import SessionWriter

    with SessionWriter(path) as writer:
        writer.add(model.Compilation(0, "0/0", 0, 0, "twice", "/p/f.py", 1, status="ok"))
        writer.set_meta("outcome", model.Outcome("finished").to_json())
    assert cli.main(["modules", str(path)]) == 1
    assert capsys.readouterr().out.startswith("The compiled code called no module")
    assert cli.main(["modules", str(path), "--format", "csv"]) == 1
    told = capsys.readouterr()
    assert told.out.count("\n") == 1
    assert told.err.startswith("The compiled code called no module")


def test_a_log_has_no_modules_and_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    log = Path(__file__).parent / "data" / "torch_trace" / "h200_recompiles.log.gz"
    assert cli.main(["modules", str(log)]) == 1
    assert capsys.readouterr().out.startswith("This log names no modules")


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_terminal_gets_a_table_with_bars_that_fits(tmp_path: Path, columns: int) -> None:
    """By hand: of the three operations two are of line 7, all of them in one module."""
    lines = on_a_terminal(
        ["modules", str(write_training_step(tmp_path / "s.fxs").path), "--sort", "operations"],
        columns,
    )
    assert max(map(len, lines)) <= columns
    (row,) = [line for line in lines if line.startswith("MLP")]
    assert "━" * 12 in row
    assert " 3 " in row


def on_a_terminal(words: list[str], columns: int) -> list[str]:
    """Return the command line's output on a terminal without colours."""
    ours, theirs = pty.openpty()
    environment = {
        **os.environ,
        "COLUMNS": str(columns),
        "LINES": "24",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }
    run = subprocess.Popen(
        [sys.executable, "-m", "fx_explorer", *words], stdout=theirs, env=environment
    )
    os.close(theirs)
    read = b""
    try:
        while part := os.read(ours, 65536):
            read += part
    except OSError:  # the other side closed the terminal: Linux says EIO
        pass
    os.close(ours)
    assert run.wait(timeout=60) == 0
    return read.decode().replace("\r", "").splitlines()
