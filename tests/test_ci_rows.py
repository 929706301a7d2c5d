"""These tests write and read the CSV files of PyTorch's own CI, and take JSON reports as
baselines. The rules of its scripts are the second source.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from fx_explorer.cli import main
from fx_explorer.overview.ci_rows import COLUMNS, LESS_IS_BETTER
from tests.conftest import Captured


def written(session: Path, folder: Path) -> dict[str, str]:
    file = folder / "actual.csv"
    assert main(["check", str(session), "--max-graph-breaks", "99", "--csv", str(file)]) == 0
    with file.open() as opened:
        (row,) = csv.DictReader(opened)
    return row


def expect(folder: Path, row: dict[str, str], **changes: str) -> Path:
    file = folder / "expected.csv"
    with file.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, [*row])
        writer.writeheader()
        writer.writerow({**row, **changes})
    return file


def test_a_row_has_the_figures_of_the_report(
    captured: Captured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = captured("graph_breaks")
    row = written(session, tmp_path)
    capsys.readouterr()
    assert main(["report", str(session)]) == 0
    totals = json.loads(capsys.readouterr().out)["totals"]
    assert tuple(row) == COLUMNS
    assert int(row["graph_breaks"]) == totals["graph_break_hits"] > 0
    assert int(row["unique_graph_breaks"]) == totals["graph_breaks"]
    assert int(row["unique_graphs"]) == totals["graphs"]
    assert float(row["compilation_latency"]) == pytest.approx(totals["compile_s"], abs=0.01)
    assert row["accuracy"] == ""
    assert "graph_breaks" in row["name"]


@pytest.mark.parametrize("column", LESS_IS_BETTER)
def test_what_is_worse_fails_as_in_the_ci_of_pytorch(
    column: str, captured: Captured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = captured("graph_breaks")
    row = written(session, tmp_path)
    now = int(row[column])
    worse, better = (now - 1, now + 1) if LESS_IS_BETTER[column] else (now + 1, now - 1)
    assert main(["check", str(session), "--expected", str(expect(tmp_path, row))]) == 0
    assert f"PASS: {column}" in capsys.readouterr().err
    file = expect(tmp_path, row, **{column: str(better)})
    assert main(["check", str(session), "--expected", str(file)]) == 0
    assert f"IMPROVED: {column}" in capsys.readouterr().err
    file = expect(tmp_path, row, **{column: str(worse)})
    assert main(["check", str(session), "--expected", str(file)]) == 1
    out = capsys.readouterr().out
    assert f"FAIL: {column}: {worse} expected, {now} now (--expected)" in out
    if column == "graph_breaks":
        assert "graph_breaks.py:" in out


def test_an_accuracy_that_is_not_known_is_not_compared(
    captured: Captured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = written(captured("mlp"), tmp_path)
    file = expect(tmp_path, row, accuracy="pass")
    assert main(["check", str(captured("mlp")), "--expected", str(file)]) == 0
    assert "NOT COMPARED: accuracy" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "exit_code", "said"),
    [
        ("", 2, "is not a CSV file with a column name"),
        ("model,graph_breaks\nx,1\n", 2, "is not a CSV file with a column name"),
        ("name,graph_breaks\nother,1\n", 1, "has no row called"),
        ("name,speedup\nmlp,1\n", 1, "has no column that can be compared"),
        ("name,graph_breaks\nmlp,many\n", 0, "NOT COMPARED: graph_breaks"),
        ("name,graph_breaks\nmlp\n", 0, "NOT COMPARED: graph_breaks"),
        ("name,graph_breaks\nmlp,0\n", 0, "PASS: graph_breaks"),
    ],
)
def test_what_is_no_expectation_is_told(
    text: str,
    exit_code: int,
    said: str,
    captured: Captured,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    session = tmp_path / "mlp.fxs"
    session.write_bytes(captured("mlp").read_bytes())
    (tmp_path / "e.csv").write_text(text)
    words = ["check", str(session), "--expected", str(tmp_path / "e.csv")]
    assert main(words) == exit_code
    printed = capsys.readouterr()
    assert said in printed.out + printed.err


def test_a_missing_expectation_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "m.py", "--expected", str(tmp_path / "no.csv")]) == 2
    assert "no.csv: No such file" in capsys.readouterr().err


# A report as a baseline.


def test_a_report_is_a_baseline(
    captured: Captured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = str(captured("graph_breaks"))
    report = tmp_path / "report.json"
    assert main(["report", session, "-o", str(report)]) == 0
    baseline = tmp_path / "baseline.json"
    assert main(["check", session, "--baseline", str(baseline), "--update"]) == 0
    capsys.readouterr()
    assert main(["check", session, "--baseline", str(report)]) == 0
    err = capsys.readouterr().err
    assert "the sizes of inputs" in err
    figures = json.loads(baseline.read_text())["figures"]
    for noun, name in (
        ("graph breaks", "graph_breaks"),
        ("kernels", "kernels"),
        ("guards", "guards"),
    ):
        value = f"{figures[name]['value']:,.0f}"
        assert f"PASS: {noun}: {value} in the baseline, {value} now" in err
    assert "PASS: bytes saved for the backward" in err
    stored = json.loads(report.read_text())
    gone = stored["graph_breaks"].pop()
    report.write_text(json.dumps(stored))
    assert main(["check", session, "--baseline", str(report)]) == 1
    out = capsys.readouterr().out
    assert "FAIL: graph breaks" in out
    assert f":{gone['line']}: FAIL" in out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"schema": "fx-explorer/report/9"}', "is a report of version fx-explorer/report/9"),
        ('{"schema": "fx-explorer/report/1"}', "is a damaged or partial report"),
        ('{"schema": "fx-explorer/report/1", "totals": 3, "environment": {}, "memory": {}}',
         "is a damaged or partial report"),
    ],
)  # fmt: skip
def test_a_report_that_is_none_is_refused(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "r.json").write_text(text)
    assert main(["check", "m.py", "--baseline", str(tmp_path / "r.json")]) == 2
    assert said in capsys.readouterr().err
