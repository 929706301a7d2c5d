"""These tests run ``fx-explorer diagnose``: what it prints, its exit code, and what its trials show,
counted again in a bare process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fx_explorer.findings.every_kind import FindingSearch
from fx_explorer.findings.finding import Finding, Remedy
from tests.exhaustive import with_others
from tests.shared_files import CASES, ROOT

BLOCKS = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, index):
        super().__init__()
        self.index = index

    def forward(self, x, kept):
        kept[self.index] = x
        return x * 2


torch._dynamo.config.recompile_limit = 2
blocks = [Block(i) for i in range(4)]
kept = [None] * 4
for block in blocks:
    block.compile(backend="eager")
for block in blocks:
    block(torch.ones(2), kept)
"""


def diagnose(
    *arguments: str | Path, python: str, environment: dict[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fx_explorer", "diagnose", *map(str, arguments)]
    return subprocess.run(
        [*command, "--python", python],
        cwd=folder,
        env={**os.environ, **environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def test_remedies_are_tried_and_their_results_counted(
    tmp_path: Path, warm_python: str, capture_environment: dict[str, str]
) -> None:
    (tmp_path / "blocks.py").write_text(BLOCKS)
    ended = diagnose(
        "blocks.py", "--try", "--json", "-o", "blocks.fxs",
        python=warm_python, environment=capture_environment, folder=tmp_path,
    )  # fmt: skip
    assert ended.returncode == 1, ended.stderr
    (finding,) = json.loads(ended.stdout)["findings"]
    assert finding["kind"] == "recompile limit"
    states = {row["text"]: (row["state"], row["result"]) for row in finding["remedies"]}
    (raised,) = [state for text, state in states.items() if "recompile_limit" in text]
    # The program would set the limit again, after a trial did.
    assert raised[0] == "cannot be tried"
    assert "itself sets this option" in raised[1]
    (apart,) = [state for text, state in states.items() if "isolate_recompiles" in text]
    assert apart[0] == "tried"
    # What was tried is in the session, and shown by whoever opens it.
    again = diagnose(
        "blocks.fxs", python=warm_python, environment=capture_environment, folder=tmp_path
    )
    assert "(cannot be tried: your program itself sets this option" in again.stdout
    assert "Tried: none is refused" in again.stdout


def test_the_summary_of_a_search_counts_its_kinds() -> None:
    search = FindingSearch(("graph breaks", "recompiles"), ("slow kernels",))
    assert search.summary == "Checked for 2 kinds of problems, not for 1 other"
    assert search.after_trials(["slow kernels"]).summary == "Checked for 3 kinds of problems"


def test_what_the_budget_did_not_suffice_for_is_told_apart() -> None:
    of_runs = "faults of compile caches"
    search = FindingSearch(("graph breaks",), (of_runs, "slow kernels"))
    given_up = search.after_trials([], "the 40 s of --budget are used up")
    assert given_up.description == (
        "Checked: graph breaks. Not checked, because the 40 s of --budget are used up: "
        f"{of_runs}. Not checked: slow kernels."
    )
    in_time = search.after_trials(["compile caches"], "the 40 s of --budget are used up")
    assert "since" not in in_time.description


def test_nothing_is_found_in_a_healthy_program(
    tmp_path: Path, warm_python: str, capture_environment: dict[str, str], captured
) -> None:
    ended = diagnose(
        captured("mlp"), python=warm_python, environment=capture_environment, folder=tmp_path
    )
    assert ended.returncode == 0, ended.stdout
    assert "No problem was found. Checked: " in ended.stdout
    assert (
        "Not checked: wrong results, faults of compile caches, what differs without "
        "torch.compile, compiled modules that also run in eager mode, slow kernels, a GPU that waits."
        in ended.stdout
    )


@pytest.mark.parametrize("budget", with_others(["0", "-1"], ["nan", "inf", "ten"]))
def test_a_budget_that_is_no_time_is_refused(
    budget: str, tmp_path: Path, warm_python: str, capture_environment: dict[str, str]
) -> None:
    ended = diagnose(
        CASES / "26_cumprod.py", "--try", "--budget", budget,
        python=warm_python, environment=capture_environment, folder=tmp_path,
    )  # fmt: skip
    assert ended.returncode == 2
    assert "is not a number of seconds" in ended.stderr


SET = Remedy("Set the option.", changes={"settings": {"dynamo.option": True}})

HELPED = replace(SET, state="tried", result="no graph break.")

REFUSED = replace(SET, state="tried", result="the program then stops.", has_helped=False)

EDIT = Remedy("Edit the line.")
REPORT = Remedy("Report it to PyTorch.")
LOOK = Remedy("See fx-explorer memory TARGET.")
INSTALL = Remedy("Install a C++ compiler.")
BACKEND = Remedy('Use torch.compile(…, backend="aot_eager").')


@pytest.mark.parametrize(
    ("remedies", "lines"),
    [
        (
            (SET,),
            [
                "Suggestion: Set the option.",
                "Not tried yet: x r in the app, fx-explorer diagnose --try.",
            ],
        ),
        ((EDIT,), ["Suggestion: Edit the line.", "Not tried: it is a change of your code."]),
        ((REPORT,), ["Suggestion: Report it to PyTorch."]),
        ((LOOK,), ["Suggestion: See fx-explorer memory TARGET."]),
        (
            (INSTALL, BACKEND, EDIT),
            [
                "Suggestions, one of these:",
                "- Install a C++ compiler.",
                '- Use torch.compile(…, backend="aot_eager").',
                "- Edit the line.",
                "Not tried: it is a change of this machine, a setting or a change of your code.",
            ],
        ),
        ((HELPED,), ["What to do: Set the option. Tried: no graph break."]),
        ((REFUSED,), ["No remedy here: Set the option. Tried: the program then stops."]),
        (
            (REFUSED, EDIT),
            [
                "Suggestion: Edit the line.",
                "Not tried: it is a change of your code.",
                "No remedy here: Set the option. Tried: the program then stops.",
            ],
        ),
        (
            (HELPED, EDIT),
            [
                "What to do, one of these:",
                "- Set the option. Tried: no graph break.",
                "- Edit the line. Not tried.",
            ],
        ),
    ],
)
def test_what_was_not_tried_is_a_suggestion_and_what_was_refused_no_remedy(
    remedies: tuple[Remedy, ...], lines: list[str]
) -> None:
    finding = Finding("graph break", "A line breaks the graph.", "slow", remedies=remedies)
    assert finding.detail.splitlines() == lines
