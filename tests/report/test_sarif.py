"""These tests hold SARIF of a check against the schema of the OASIS committee that keeps the
format (tests/data/sarif).
"""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from fx_explorer.cli import main
from fx_explorer.overview.checks import Check, CheckFinding
from fx_explorer.report.check_formats import sarif
from tests.conftest import Captured

FILE = Path(__file__).parents[1] / "data" / "sarif" / "sarif-schema-2.1.0.json"

SCHEMA = jsonschema.Draft4Validator(
    json.loads(FILE.read_text()), format_checker=jsonschema.FormatChecker()
)


def check_format(text: str) -> None:
    errors = [error.message for error in SCHEMA.iter_errors(json.loads(text))]
    assert errors == []


def test_the_schema_refuses_what_is_none() -> None:
    assert not SCHEMA.is_valid({"version": "2.1.0", "runs": [{"results": []}]})
    assert not SCHEMA.is_valid(json.loads(sarif([])) | {"version": "2.2"})


def test_a_check_of_a_real_session_fits_the_schema(
    captured: Captured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "check.sarif"
    words = ["--max-graph-breaks", "0", "--max-guards", "0", "--max-kernels", "0"]
    words += ["--max-findings", "0", "--expect-graphs", "99", "--sarif", str(file)]
    assert main(["check", str(captured("graph_breaks")), *words]) == 1
    capsys.readouterr()
    check_format(file.read_text())
    run = json.loads(file.read_text())["runs"][0]
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {result["ruleId"] for result in run["results"]} == rules
    assert len(run["results"]) > 3


@pytest.mark.parametrize(
    "finding",
    [
        CheckFinding("", 0, ""),
        CheckFinding("a b/ü#1%20?.py", 3, "x"),
        CheckFinding("/absolute/model.py", 0, "x"),
        CheckFinding("not-utf-8-\udc80.py", 3, "not UTF-8: \udc80"),
        CheckFinding("C:\\nets\\model.py", 3, "x"),
        CheckFinding("m.py", 3, "\x1b[31m\x00\r\n" + "long " * 10_000),
        CheckFinding("m.py", 3, "x", "GB0059"),
    ],
)
def test_whatever_a_finding_says_fits_the_schema(finding: CheckFinding) -> None:
    check = Check("max-graph-breaks", 0, "1 hit", (finding,), is_met=False)
    text = sarif([check, check])
    text.encode("utf-8")
    check_format(text)
    assert len(json.loads(text)["runs"][0]["results"]) == 2
