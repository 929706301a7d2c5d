"""These tests check the comparison of a program with itself without torch.compile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fx_explorer.findings.without_compile import ProgramRun, differing_lines
from tests.exhaustive import in_exhaustive_runs
from tests.findings.test_diagnose import diagnose

AVERAGED = """
import torch

model = torch.nn.Linear(2, 2)
kept = dict(model.named_parameters())
model = torch.compile(model, backend="eager")
print(model(torch.ones(1, 2)).shape)
print("known:", sum(name in kept for name, _ in model.named_parameters()))
"""


def test_names_that_the_wrapper_changes_are_found_and_the_module_compiled_in_place(
    tmp_path: Path, warm_python: str, capture_environment: dict[str, str]
) -> None:
    (tmp_path / "averaged.py").write_text(AVERAGED)
    run = diagnose(
        "averaged.py", "--try", "--json", "--budget", "60", python=warm_python,
        environment=capture_environment, folder=tmp_path,
    )  # fmt: skip
    content = json.loads(run.stdout)
    (finding,) = content["findings"]
    assert "With torch.compile it prints “known: 0”, without “known: 2”." in finding["evidence"]
    (remedy,) = finding["remedies"]
    assert remedy["result"] == "it then behaves as without torch.compile, and is compiled."
    assert "module.forward = torch.compile(module.forward)" in remedy["text"]


HOOKED = """
import torch

captured = {}

def keep(module, args, output):
    if torch.compiler.is_compiling():
        return
    captured["layer"] = output.detach()

model = torch.nn.Sequential(torch.nn.Linear(2, 2))
model[0].register_forward_hook(keep)
torch.compile(model, backend="eager")(torch.ones(1, 2))
print("captured", list(captured))
"""


@in_exhaustive_runs
def test_a_hook_that_returns_early_while_compiling_is_found(
    tmp_path: Path, warm_python: str, capture_environment: dict[str, str]
) -> None:
    (tmp_path / "hooked.py").write_text(HOOKED)
    run = diagnose(
        "hooked.py", "--try", "--json", "--budget", "60", python=warm_python,
        environment=capture_environment, folder=tmp_path,
    )  # fmt: skip
    found = json.loads(run.stdout)["findings"]
    (finding,) = [row for row in found if row["kind"] == "otherwise without"]
    assert "hooked.py:7 checks whether it is compiled." in " ".join(finding["evidence"])
    (remedy,) = finding["remedies"]
    assert remedy["result"].startswith("replaced by False, it behaves as without")


@pytest.mark.parametrize(
    ("with_compile", "first", "second", "differs"),
    [
        ("loss 0.5003", "loss 0.5", "loss 0.5", False),
        ("loss 0.7", "loss 0.5", "loss 0.5", True),
        ("loss 0.7", "loss 0.5", "loss 0.6", False),
        ("took 3 s", "took 1 s", "took 1 s", False),
        ("a", "b", "b", True),
    ],
)
def test_rounding_times_and_random_numbers_are_no_difference(
    with_compile: str, first: str, second: str, differs: bool
) -> None:
    runs = [ProgramRun("finished", (line,)) for line in (with_compile, first, second)]
    assert bool(list(differing_lines(*runs))) is differs
