"""These tests check that all breaks of a class inside a compiled function are one finding."""

from __future__ import annotations

from pathlib import Path

from fx_explorer.findings.every_kind import findings

LOCAL = """
from dataclasses import dataclass
import torch

@torch.compile(backend="eager")
def classify(x):
    @dataclass
    class Result:
        logits: torch.Tensor

    return Result(x @ x.T).logits.sum()

classify(torch.ones(4, 4))
"""

ABOVE = """
from dataclasses import dataclass
import torch

@dataclass
class Result:
    logits: torch.Tensor

@torch.compile(backend="eager")
def classify(x):
    print("half way")
    return Result(x @ x.T).logits.sum()

classify(torch.ones(4, 4))
"""


def test_a_class_its_body_and_its_decorator_are_one_finding(
    tmp_path: Path, captured, reader
) -> None:
    file = tmp_path / "local.py"
    file.write_text(LOCAL)
    (finding,) = findings(reader(captured(file, "--allow-nothing")))
    assert finding.kind == "graph break"
    assert finding.place is not None
    assert finding.place.line + 1 == 8
    assert "a class is defined inside the compiled code" in finding.text
    assert [remedy.text for remedy in finding.remedies] == [
        "Define the class outside of the function, at the top level of the module."
    ]


def test_a_class_at_the_top_level_has_no_part_in_a_break(tmp_path: Path, captured, reader) -> None:
    file = tmp_path / "above.py"
    file.write_text(ABOVE)
    (finding,) = findings(reader(captured(file)))
    assert "a class is defined" not in finding.text
