"""These tests plant faults in the compiler and check that ``fx-explorer numerics`` names the operator,
the line and the reason.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fx_explorer import cli
from tests.exhaustive import with_others
from tests.numerics.programs import FAULTS, QUICKEST, Fault

pytestmark = pytest.mark.usefixtures("warm_workers")

NAMES = list(FAULTS)


def learned(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, *options: str
) -> tuple[int, dict[str, Any]]:
    """Return the exit code of the command on a program, and its JSON."""
    program = folder / "program.py"
    program.write_text(text)
    code = cli.main(["numerics", str(program), "--format", "json", "--no-bisect", *options])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", with_others(NAMES[:QUICKEST], NAMES[QUICKEST:]))
def test_a_fault_is_located_to_its_operator_and_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fault: Fault = FAULTS[name]
    code, answer = learned(tmp_path, capsys, fault.text, *fault.options)
    finding = answer["finding"]
    assert code == 1
    assert answer["differs"]
    assert finding["stage"] == fault.stage
    assert finding["operation"] == fault.operation
    assert Path(finding["file"]).name == "program.py"
    assert finding["line"] == fault.line
    assert finding["code"] == fault.code
    assert any(fault.sentence in sentence for sentence in answer["verdict"]), answer["verdict"]
    if fault.stage == "code":
        assert finding["kernel"].startswith("cpp_fused_")
        assert finding["kernel_code"]
        assert fault.kernel_code in finding["kernel_code"]
