"""These tests check recompiles in the JSON report: the changes in parts, checked against the schema
and against what the programs do.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Report = Callable[[Path], dict[str, Any]]
Captured = Callable[..., Path]

LIMITED = """
import torch

torch._dynamo.config.recompile_limit = 2

@torch.compile(backend="eager")
def shifted(x, way):
    return x + 1 if way == "up" else x - 1

for way in ("up", "down", "left", "right"):
    shifted(torch.ones(3), way)
"""


def test_each_recompile_of_the_sample_has_one_cause(captured: Captured, report: Report) -> None:
    made = report(captured("recompiles"))
    causes = [one for one in made["recompiles"] if one["is_cause"]]
    assert [one["compilation"] for one in causes] == [
        f"0/{i}" for i in range(1, made["totals"]["recompiles"] + 1)
    ]
    first = causes[0]
    assert first["change"] == {
        "kind": "size",
        "name": "x",
        "where": "input",
        "index": 0,
        "old": "8",
        "new": "12",
    }
    source = (
        (Path(__file__).parents[2] / "sample_models" / "recompiles.py").read_text().splitlines()
    )
    assert "torch.randn(12, 16)" in source[first["called_from"]["line"] - 1]
    assert "x.abs()" in source[first["line"] - 1]
    assert "mark_dynamic(x, 0)" in first["remedy"]
    assert made["recompile_limits"] == []


def test_a_function_that_reached_the_limit_is_reported(
    captured: Captured, report: Report, tmp_path: Path
) -> None:
    path = tmp_path / "limited.py"
    path.write_text(LIMITED)
    made = report(captured(path))
    (limit,) = made["recompile_limits"]
    assert (limit["function"], limit["limit"], limit["compiled"], limit["raises"]) == (
        "shifted",
        2,
        2,
        False,
    )
    assert (limit["file"], limit["option"]) == (str(path), "recompile_limit")
    assert made["compilations"][2]["function"] == "shifted"
    assert made["compilations"][2]["status"] == "skipped"
