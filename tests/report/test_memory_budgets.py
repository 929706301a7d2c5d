"""These tests check ``fx-explorer memory --budgets --measure``: the table, the picture, refused
options, and a real trial compared with torch.
"""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from fx_explorer import cli
from fx_explorer.errors import UsageError
from fx_explorer.instruments.memory.tried_budgets import (
    BudgetPoint,
    BudgetTrial,
    BudgetTrials,
    MeasuredStep,
    budgets_svg,
    trials_json,
    trials_text,
)
from fx_explorer.model import HeldLine


def trial(budget: float, peak: int, step: MeasuredStep | None = None) -> BudgetTrial:
    return BudgetTrial(
        budget, {"is_known": True, "peak_bytes": peak, "begin_bytes": 1000, "saved_bytes": 10}, step
    )


FOUND = BudgetTrials(
    [
        trial(1.0, 5000, MeasuredStep("budget 1", 4100, (0.002, 0.004, 0.003))),
        trial(0.5, 3000, MeasuredStep("budget 0.5", 2100, (0.006,))),
        trial(0.0, 2000, MeasuredStep("budget 0", message="RuntimeError: no")),
    ],
    MeasuredStep("uncompiled", 6000, (0.009,)),
)


def test_the_table_has_predicted_beside_measured_and_says_what_failed() -> None:
    lines = trials_text(FOUND).splitlines()
    assert lines[0] == "A step needs 5.0 kB at its peak (budget 1), 4.0 kB above its start."
    assert lines[1] == "Measured above its start: 4.1 kB compiled, 6.0 kB in eager mode."
    assert lines[2] == "Budget 0.5: the peak is 3.0 kB, and a step takes 2.00 times as long."
    assert lines[3] == "Budget 0: the peak is 2.0 kB."
    rows = {line.split("  ")[0].strip(): line.split() for line in lines[5:10]}
    assert rows["budget 1"][-2:] == ["3", "ms"]
    assert rows["budget 0"][-2:] == ["none", "none"]
    assert rows["eager"] == ["eager", "6.0", "kB", "9", "ms"]
    assert lines[-1] == "budget 0: RuntimeError: no"


def test_lines_stand_beside_each_other_biggest_first_and_the_rest_in_one_row() -> None:
    plain = (
        *(HeldLine("net.py", line, line * 1000) for line in range(1, 16)),
        HeldLine("", 0, 500),
    )
    compiled = replace(
        trial(1.0, 5000), held=[HeldLine("net.py", 3, 99_000), HeldLine("other.py", 1, 10)]
    )
    uncompiled = MeasuredStep("uncompiled", 6000, (0.009,), held=plain)
    lines = trials_text(BudgetTrials([compiled], uncompiled)).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("Memory at the peak"))
    rows = [line.split() for line in lines[at + 1 : lines.index("", at)]]
    assert rows[0] == ["net.py:3", "3.0", "kB", "99.0", "kB"]
    assert [row[0] for row in rows[1:-1]] == [f"net.py:{line}" for line in range(15, 4, -1)]
    assert rows[-1] == [
        "5",
        "more",
        "lines",
        "7.5",
        "kB",
        "10",
        "B",
    ]  # they are more than the peak: nothing is beyond them
    assert all(len(line) <= 80 for line in lines[at : lines.index("", at)])


def test_files_of_one_name_are_told_apart_by_their_folders() -> None:
    plain = tuple(
        HeldLine(f"/home/me/{folder}/net.py", 3, 1000) for folder in ("a/x", "b/x", "b/y")
    )
    plain = (*plain, HeldLine("/home/me/other.py", 3, 1000))
    told = trials_text(
        BudgetTrials([trial(1.0, 5000)], MeasuredStep("uncompiled", 4000, (0.009,), held=plain))
    )
    names = {line.split()[0] for line in told.splitlines() if ".py:3" in line}
    assert names == {"a/x/net.py:3", "b/x/net.py:3", "y/net.py:3", "other.py:3"}


def test_what_is_held_beyond_the_lines_is_told() -> None:
    uncompiled = MeasuredStep(
        "uncompiled", 12_800_000, (0.009,), held=(HeldLine("net.py", 3, 400_000),)
    )
    lines = trials_text(BudgetTrials([trial(1.0, 5000)], uncompiled)).splitlines()
    (told,) = [line for line in lines if line.strip().startswith("beyond these, eager")]
    assert "12.4 MB" in told
    assert len(told) <= 80


def test_a_trial_of_which_nothing_is_known_claims_nothing() -> None:
    unknown = BudgetTrial(
        0.5, {"is_known": False, "verdict": [("The memory of a step is not known.")]}
    )
    assert "not known" in trials_text(BudgetTrials([trial(1.0, 5000), unknown]))
    assert trials_text(BudgetTrials([unknown])).startswith("The memory of a step is not known.")


def test_json_has_each_time() -> None:
    told = json.loads(trials_json(FOUND))
    assert [one["budget"] for one in told["trials"]] == [1.0, 0.5, 0.0]
    assert told["trials"][0]["measured"]["call_s"] == 0.003
    assert told["uncompiled"]["peak_bytes"] == 6000
    assert told["uncompiled"]["held"] == told["trials"][0]["predicted"]["held_by_line"] == []


def test_the_picture_names_each_point() -> None:
    pytest.importorskip("matplotlib")
    drawn = budgets_svg(
        [BudgetPoint("budget 1", 4_000_000, 0.003), BudgetPoint("uncompiled", 6_000_000, 0.009)],
        "m.py",
    )
    texts = {element.text for element in ElementTree.fromstring(drawn).iter() if element.text}
    assert {"budget 1: 4.0 MB", "uncompiled: 6.0 MB", "m.py"} <= texts
    with pytest.raises(UsageError, match="nothing to draw"):
        budgets_svg([], "m.py")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["x.fxs", "--measure"], "work on targets"),
        (["m.py", "--measure", "--format", "csv"], "not as csv"),
        (["m.py", "--budgets", "1,0", "--svg", "a.svg"], "needs --budgets and --measure"),
        (["m.py", "--measure", "--gpu", "h100"], "a virtual GPU"),
    ],
)
def test_what_cannot_be_tried_is_refused_before_anything_runs(
    options: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["memory", *options]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("given", ["2", "-1", "a", "1,,x", ""])
def test_a_budget_is_a_number_from_0_to_1(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["memory", "m.py", "--budgets", given])
    assert ended.value.code == 2
    assert "--budgets" in capsys.readouterr().err
