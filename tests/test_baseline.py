"""These tests hold captures against a baseline: what gets worse fails at its line, and changes that
change nothing do not.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from fx_explorer.cli import main
from fx_explorer.model import Outcome
from fx_explorer.overview.baseline import (
    KINDS,
    Baseline,
    BaselineFigure,
    compare,
    measure,
)
from fx_explorer.overview.baseline_file import read_baseline
from fx_explorer.overview.checks import Check, CheckFinding
from fx_explorer.report.check_formats import CheckedTarget, sarif, summary
from fx_explorer.session import SessionReader
from tests.conftest import Captured

PROGRAM = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)

    def forward(self, x):
        hidden = torch.nn.functional.gelu(self.up(x))
        return x + self.down(hidden)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(2)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.sum()


model = Model()
example_inputs = (torch.randn(4, 16),)
"""

WORSE = {
    "graph_breaks": ("        return x.sum()", "        print(x.shape)\n        return x.sum()"),
    "fallbacks": ("x + self.down(hidden)", "x + self.down(hidden).cumprod(0)"),
    "saved_bytes": (
        "torch.nn.functional.gelu(self.up(x))",
        "torch.nn.functional.gelu(self.up(x) @ self.up.weight.softmax(0) @ self.down.weight)",
    ),
}
"""Figure → (what stands in the program, what makes it worse)."""

HARMLESS = {
    "another name": ("hidden", "activated"),
    "a comment": ("class Model(", "# The whole model.\n\n\nclass Model("),
    "another layout": ("        return x + self.down(hidden)", "        y = self.down(hidden)\n"
                       "        return x + y"),
    "another batch": ("torch.randn(4, 16)", "torch.randn(12, 16)"),
}  # fmt: skip
"""Name of a change that makes nothing worse → (what stands in the program, what takes its place)."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("accepted") / "net.py"
    file.write_text(PROGRAM)
    return file


@pytest.fixture(scope="module")
def accepted(program: Path, captured: Captured) -> Baseline:
    with SessionReader(captured(program)) as reader:
        return measure(reader, program.parent)


def changed(captured: Captured, folder: Path, change: tuple[str, str]) -> tuple[Path, Baseline]:
    file = folder / "net.py"
    assert change[0] in PROGRAM
    file.write_text(PROGRAM.replace(*change))
    with SessionReader(captured(file)) as reader:
        return file, measure(reader, folder)


@pytest.mark.parametrize("figure", WORSE)
def test_what_gets_worse_fails_at_its_line(
    figure: str, accepted: Baseline, captured: Captured, tmp_path: Path
) -> None:
    file, now = changed(captured, tmp_path, WORSE[figure])
    failed = {row.kind.name: row for row in compare(accepted, now) if row.verdict == "FAIL"}
    assert figure in failed
    added = WORSE[figure][1].strip().splitlines()[0]
    lines = file.read_text().splitlines()
    assert any(added in lines[part.line - 1] for part in failed[figure].parts if part.line)


@pytest.mark.parametrize("change", HARMLESS)
def test_what_changes_nothing_does_not_fail(
    change: str, accepted: Baseline, captured: Captured, tmp_path: Path
) -> None:
    _, now = changed(captured, tmp_path, HARMLESS[change])
    differences = compare(accepted, now)
    assert [row.description for row in differences if row.verdict == "FAIL"] == []
    not_compared = [row.kind.name for row in differences if row.verdict == "NOT COMPARED"]
    if change == "another batch":
        assert "saved_bytes" in not_compared
        assert "graph_breaks" not in not_compared
    else:
        assert "saved_bytes" not in not_compared


def test_a_baseline_is_read_as_it_was_written(accepted: Baseline, tmp_path: Path) -> None:
    file = tmp_path / "b.json"
    file.write_text(accepted.to_json())
    again = read_baseline(file)
    assert again.sizes == accepted.sizes == ("f32[4, 16]",)
    assert {row.verdict for row in compare(again, accepted)} <= {"PASS", "NOT COMPARED"}
    assert len(file.read_text().splitlines()) < 100


def test_the_command_writes_and_judges(
    captured: Captured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "src"
    folder.mkdir()
    file, _ = changed(captured, folder, WORSE["graph_breaks"])
    session = tmp_path / "net.fxs"
    shutil.copy(captured(file), session)
    baseline = tmp_path / "net.json"
    assert main(["check", str(session), "--baseline", str(baseline), "--update"]) == 0
    assert main(["check", str(session), "--baseline", str(baseline)]) == 0
    stored = json.loads(baseline.read_text())
    stored["figures"]["graph_breaks"] = {"value": 0, "parts": []}
    baseline.write_text(json.dumps(stored))
    capsys.readouterr()
    written = tmp_path / "check.sarif"
    shown = tmp_path / "summary.md"
    others = ["--sarif", str(written), "--summary", str(shown), "--github"]
    assert main(["check", str(session), "--baseline", str(baseline), *others]) == 1
    out = capsys.readouterr().out
    assert "FAIL: graph breaks: 0 in the baseline, 1 now (--baseline; --update accepts it)" in out
    assert "::error file=" in out
    (result,) = json.loads(written.read_text())["runs"][0]["results"]
    assert result["ruleId"].startswith("GB")
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] > 1
    assert "1 of " in shown.read_text()
    # A session is a baseline, too.
    assert main(["check", str(session), "--baseline", str(session)]) == 0


def test_own_code_alone_counts(
    captured: Captured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, _ = changed(captured, tmp_path, WORSE["graph_breaks"])
    session = str(captured(file))
    other = tmp_path / "other"
    other.mkdir()
    assert main(["check", session, "--max-graph-breaks", "0", "--own", str(tmp_path)]) == 1
    assert main(["check", session, "--max-graph-breaks", "0", "--own", str(other)]) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--max-kernels", "0"), 1, "kernels, 0 allowed"),
        (("--max-kernels", "100"), 0, ""),
        (("--max-saved-bytes", "1kB"), 1, "saved for the backward, 1.0 kB allowed"),
        (("--max-saved-bytes", "10MB"), 0, ""),
        (("--max-peak", "1kB"), 1, "predicted peak memory"),
        (("--max-compile-seconds", "3000"), 0, ""),
        (("--no-fallbacks",), 0, ""),
        (
            ("--expect-fused", "gelu", "sort"),
            1,
            "sort in no generated kernel (--expect-fused gelu sort)",
        ),
        (("--close-to-eager",), 1, "results were not compared with eager mode"),
    ],
)
def test_conditions_on_kernels_and_memory(
    options: tuple[str, ...],
    code: int,
    said: str,
    program: Path,
    captured: Captured,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", str(captured(program)), *options]) == code
    assert said in capsys.readouterr().out


def test_figures_of_another_torch_are_not_compared() -> None:
    figures = {kind.name: BaselineFigure(10.0) for kind in KINDS}
    before = Baseline("m.py", "2.12.0", "cpu", (), figures)
    now = Baseline("m.py", "2.13.0", "cpu", (), {name: BaselineFigure(99.0) for name in figures})
    verdicts = {row.kind.name: row for row in compare(before, now)}
    assert verdicts["graph_breaks"].verdict == "FAIL"
    assert verdicts["kernels"].verdict == "NOT COMPARED"
    assert verdicts["kernels"].why == "the baseline is of torch 2.12.0, this is 2.13.0"


def test_less_is_improved() -> None:
    before = Baseline("m.py", "2", "cpu", (), {"graph_breaks": BaselineFigure(3.0)})
    now = Baseline("m.py", "2", "cpu", (), {"graph_breaks": BaselineFigure(1.0)})
    assert compare(before, now)[0].description == (
        "IMPROVED: graph breaks: 3 in the baseline, 1 now"
    )


def test_what_is_new_is_named() -> None:
    old = BaselineFigure(1.0, (CheckFinding("", 0, "m.py: print"),))
    new = BaselineFigure(2.0, (CheckFinding("m.py", 9, "print"), CheckFinding("m.py", 20, "item")))
    before = Baseline("m.py", "2", "cpu", (), {"graph_breaks": old})
    now = Baseline("m.py", "2", "cpu", (), {"graph_breaks": new})
    assert compare(before, now)[0].parts == (CheckFinding("m.py", 20, "item"),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a baseline"),
        ("[]", "is not a baseline"),
        ("{}", "is no baseline"),
        ('{"fx-explorer baseline": 99}', "is of version 99"),
        ('{"fx-explorer baseline": 1, "target": "x"}', "is damaged"),
        ("[" * 100_000, "is not a baseline"),
    ],
)
def test_what_is_no_baseline_is_refused(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "b.json").write_text(text)
    assert main(["check", "model.py", "--baseline", str(tmp_path / "b.json")]) == 2
    assert said in capsys.readouterr().err


def test_a_missing_baseline_names_the_option_that_writes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "model.py", "--baseline", str(tmp_path / "no.json")]) == 2
    assert "--update writes one" in capsys.readouterr().err


def test_fingerprints_stay_when_lines_move() -> None:
    def prints(line: int) -> list[object]:
        finding = CheckFinding("m.py", line, "breaks 2 times", "GB1")
        check = Check("max-graph-breaks", 0, "2 hits", (finding, finding), is_met=False)
        results = json.loads(sarif([check]))["runs"][0]["results"]
        return [result["partialFingerprints"]["fxExplorer/v1"] for result in results]

    assert prints(3) == prints(30)
    assert len(set(prints(3))) == 2


def test_a_summary_mentions_nobody() -> None:
    finding = CheckFinding("m|x.py", 3, "@octocat <b>")
    check = Check("max-graph-breaks", 0, "1 hit", (finding,), is_met=False)
    text = summary([CheckedTarget("t`.py", (check,), Outcome("finished"))])
    assert "@octocat" not in text
    assert "<b>" not in text
    assert "m\\|x.py" in text
