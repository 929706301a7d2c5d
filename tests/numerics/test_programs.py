"""These tests run ``fx-explorer numerics`` on programs that are right, random, not finite, that compile
nothing or end their process, and check the smallest program that it writes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.exhaustive import with_others
from tests.numerics.programs import LOWERING, OUT_OF_RANGE
from tests.numerics.test_located_faults import learned

pytestmark = pytest.mark.usefixtures("warm_workers")

Learned = tuple[int, dict[str, Any]]

DROPOUT = """import torch
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5))
example_inputs = (torch.randn(4, 8),)
"""

NOT_A_NUMBER = """import torch

def model(x):
    y = x - 1
    y = torch.log(y)
    return (y * 2).sum()

example_inputs = (torch.linspace(0, 4, 16),)
"""

ENDS_THE_PROCESS = """import os, torch

def model(x):
    if torch.compiler.is_compiling():
        os._exit(7)
    return x * 2

def _end(graph, inputs):
    os._exit(7)

example_inputs = (torch.ones(4),)
"""

RAISES = """import torch

def model(x):
    raise ValueError("never")

example_inputs = (torch.ones(4),)
"""

NOTHING = """import torch

def model(x):
    return x

example_inputs = (torch.ones(4),)
"""

ANOTHER_PATH = """import torch

def model(x):
    if torch.compiler.is_compiling():
        return x * 2 + 1
    return x * 2

example_inputs = (torch.ones(4),)
"""


def check_dropout(code: int, answer: dict[str, Any]) -> None:
    assert code == 0
    assert answer["finding"]["stage"] == "random"
    assert "draws random numbers" in answer["verdict"][1]


def check_nan(code: int, answer: dict[str, Any]) -> None:
    assert code == 0
    (birth,) = answer["finding"]["births"]
    assert (birth["what"], birth["operation"], birth["line"]) == ("NaN", "aten.log.default", 5)


def check_end(code: int, answer: dict[str, Any]) -> None:
    assert code == 1
    assert "exit status 7" in answer["verdict"][0]


def check_nothing(code: int, answer: dict[str, Any]) -> None:
    assert code == 2
    assert answer["verdict"] == ["Nothing was compiled, so there is nothing to compare."]


def check_path(code: int, answer: dict[str, Any]) -> None:
    assert code == 1
    assert "takes another branch while it is compiled" in answer["verdict"][0]


Check = Callable[[int, dict[str, Any]], None]

CASES: dict[str, tuple[str, tuple[str, ...], Check]] = {
    "NaN": (NOT_A_NUMBER, (), check_nan),
    "ends the process": (ENDS_THE_PROCESS, ("--backend", "{file}:_end"), check_end),
    "dropout": (DROPOUT, (), check_dropout),
    "nothing": (NOTHING, (), check_nothing),
    "another path": (ANOTHER_PATH, (), check_path),
}


@pytest.mark.parametrize("name", with_others(list(CASES)[:2], list(CASES)[2:]))
def test_what_is_no_fault_of_an_operator_is_said(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, options, check = CASES[name]
    file = str(tmp_path / "program.py")
    given = [option.replace("{file}", file) for option in options]
    check(*learned(tmp_path, capsys, text, *given))


def test_a_program_that_raises_in_eager_mode_ends_with_its_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from fx_explorer import cli

    (tmp_path / "program.py").write_text(RAISES)
    assert cli.main(["numerics", str(tmp_path / "program.py")]) == 3
    assert "ValueError: never" in capsys.readouterr().err


FAULTS = {"out of range": OUT_OF_RANGE, "lowering": LOWERING}


@pytest.mark.parametrize("name", with_others(["out of range"], ["lowering"]))
def test_the_smallest_program_still_differs(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = FAULTS[name]
    small = tmp_path / "small.py"
    code, answer = learned(tmp_path, capsys, fault.text, *fault.options, "--minify", str(small))
    assert code == 1
    assert "It still differs (tried)" in answer["smallest"], answer["verdict"]
    text = small.read_text()
    assert f"torch.ops.{fault.operation}" in text
    assert ("runpy.run_path" in text) == (name == "lowering")
    compile(text, "small.py", "exec")
