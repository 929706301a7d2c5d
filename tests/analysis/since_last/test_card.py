"""These tests check the card "since the last capture": its figures are those of ``fx-explorer
diff`` of the same two sessions.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from fx_explorer import cli
from fx_explorer.analysis.facts import Fact
from fx_explorer.instruments.diff.differences import Differences, differences, extent_of
from fx_explorer.instruments.diff.rows_behind import rows_behind
from fx_explorer.instruments.diff.since_last import NOT_COMPILED_THEN, STILL_AHEAD, since
from fx_explorer.instruments.recompiles.causes import causes
from fx_explorer.model import Outcome
from fx_explorer.session import SessionReader, SessionWriter
from tests.exhaustive import in_exhaustive_runs, with_others
from tests.sessions import write_training_step

PRINTS = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        x = torch.sigmoid(self.first(x))
        print("between")
        return self.second(x).relu() * 3


model = Net()
example_inputs = (torch.randn(4, 8),)
"""

TAKES_A_NUMBER = """import torch


def clip(x):
    y = x.exp() + 1
    if y.sum().item() > 3:
        y = y * 2
    return torch.softmax(y, -1)


example_inputs = (torch.randn(4, 8),)
"""

FIXED = {
    "prints": (PRINTS, PRINTS.replace('        print("between")\n', "")),
    "number": (
        TAKES_A_NUMBER,
        TAKES_A_NUMBER.replace(
            "    if y.sum().item() > 3:\n        y = y * 2\n",
            "    y = torch.where(y.sum() > 3, y * 2, y)\n",
        ),
    ),
}
"""A program with one graph break, and without."""

BROKEN = {"prints": 'prints.py:12 print("between")', "number": "number.py:6 if y.sum().item() > 3:"}
TARGETS = {"prints": "", "number": ":clip"}


class Pair(NamedTuple):
    before: Path
    after: Path
    name: str = ""

    def card(self) -> list[Fact]:
        with SessionReader(self.before) as before, SessionReader(self.after) as after:
            return since(before, after)

    def differences(self) -> Differences:
        with SessionReader(self.before) as before, SessionReader(self.after) as after:
            return differences(before, after)

    def behind(self, aspect: str) -> list[tuple[str, str | None, str | None]]:
        found = self.differences()
        with SessionReader(self.before) as before, SessionReader(self.after) as after:
            rows = rows_behind(before, after, found, found.rows[found.first_of(aspect)])
        return [(row.sign, row.before, row.after) for row in rows]


@pytest.fixture(scope="module", params=with_others(["prints"], ["number"]))
def pair(
    request: pytest.FixtureRequest,
    captured: Callable[..., Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Pair:
    """One file, captured, changed and captured again. The time that is allowed tells the captures
    apart.
    """
    file = tmp_path_factory.mktemp(request.param) / f"{request.param}.py"
    sessions = []
    for timeout, source in zip((1001, 1002), FIXED[request.param], strict=True):
        file.write_text(source)
        sessions.append(captured(f"{file}{TARGETS[request.param]}", timeout=timeout))
    return Pair(*sessions, request.param)


def told(facts: Iterable[Fact], difference: str) -> Fact:
    (fact,) = (fact for fact in facts if fact.difference == difference)
    return fact


def sides(text: str) -> tuple[str, str]:
    """``Graphs: 5 → 3.`` → 5, 3"""
    found = re.search(r"(\S+(?: [kM]?B| m?s)?) → (\S+(?: [kM]?B| m?s)??)(?: \(|\.$)", text)
    assert found, text
    return found[1], found[2]


def test_its_figures_are_those_of_diff(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["diff", str(pair.before), str(pair.after), "--format", "json"]) == 0
    of_diff = json.loads(capsys.readouterr().out)
    figures = {one["what"]: (one["left"], one["right"]) for one in of_diff["figures"]}
    card = pair.card()
    names = {
        "breaks": "graph breaks",
        "graphs": "graphs",
        "kernels": "kernels",
        "memory": "saved for the backward",
    }
    shown = {one.difference: sides(one.text) for one in card if one.difference in names}
    assert shown == {aspect: figures[names[aspect]] for aspect in shown}
    assert {"breaks", "graphs", "kernels"} <= {*shown}
    assert ("memory" in shown) == (
        figures["saved for the backward"][0] != figures["saved for the backward"][1]
    )
    assert (
        sides(told(card, "time").text.replace("Compiling took", "Compiling took:"))
        == figures["compiling took"]
    )
    counts = Counter(one["difference"] for one in of_diff["kernels"])
    assert (f"+{counts['only right']}" in told(card, "kernels").text) == bool(counts["only right"])
    assert (f"−{counts['only left']}" in told(card, "kernels").text) == bool(counts["only left"])


def test_the_break_is_gone_and_named(pair: Pair) -> None:
    fact = told(pair.card(), "breaks")
    assert (fact.severity, fact.text) == ("good", "Graph breaks: 1 → 0.")
    assert fact.detail == f"gone: {BROKEN[pair.name]}"


def test_behind_each_line_is_the_list_that_it_counts(pair: Pair) -> None:
    breaks = pair.behind("breaks")
    assert [sign for sign, _, _ in breaks] == ["-"]
    graphs = pair.behind("graphs")
    card = pair.card()
    before, after = map(int, sides(told(card, "graphs").text))
    assert (
        sum(one is not None for _, one, _ in graphs),
        sum(one is not None for _, _, one in graphs),
    ) == (before, after)
    before, after = map(int, sides(told(card, "kernels").text))
    kernels = pair.behind("kernels")
    assert (
        sum(one is not None for _, one, _ in kernels),
        sum(one is not None for _, _, one in kernels),
    ) == (before, after)
    assert {sign for sign, _, _ in pair.behind("source")} > {" "}


def test_the_heading_says_what_the_user_changed(pair: Pair) -> None:
    heading = pair.card()[0]
    assert heading.text.startswith(f"Since the last capture you changed {pair.name}.py (")
    assert heading.difference == "source"


def test_two_captures_of_one_program_differ_in_nothing(pair: Pair) -> None:
    (fact,) = Pair(pair.after, pair.after).card()
    assert fact.severity == "good"
    assert fact.text.startswith("Nothing changed since the last capture")


def test_a_fix_that_is_undone_is_a_problem(pair: Pair) -> None:
    fact = told(Pair(pair.after, pair.before).card(), "breaks")
    assert (fact.severity, fact.text) == ("problem", "Graph breaks: 0 → 1.")
    assert fact.detail.startswith("new: ")


def step_of(folder: Path, name: str, outcome: str) -> Path:
    path = folder / f"{name}.fxs"
    write_training_step(path, finished=False)
    with SessionWriter(path) as writer:
        writer.set_meta("outcome", Outcome(outcome).to_json() if outcome else None)  # type: ignore[arg-type]
    return path


@pytest.mark.parametrize(
    ("outcomes", "through", "detail"),
    [
        (("finished", ""), (False, True), STILL_AHEAD),
        (("cancelled", "finished"), (True, True), NOT_COMPILED_THEN),
    ],
)
def test_what_one_of_them_never_came_to_is_not_compared(
    tmp_path: Path, outcomes: tuple[str, str], through: tuple[bool, bool], detail: str
) -> None:
    before, after = (step_of(tmp_path, str(i), one) for i, one in enumerate(outcomes))
    with SessionReader(before) as one, SessionReader(after) as other:
        (fact,) = since(one, other, was_through=through[0], is_through=through[1])
        assert fact.detail == detail
        assert "kernels" not in fact.text
        rows = differences(one, other, "graphs").rows
    assert {row.figure.what for row in rows} == {
        "backend",
        "compilations",
        "graphs",
        "graph breaks",
        "recompiles",
    }


@pytest.mark.parametrize("outcome", ["cancelled", "killed", "timed_out"])
def test_nothing_is_said_of_a_capture_that_was_stopped(tmp_path: Path, outcome: str) -> None:
    before, after = step_of(tmp_path, "before", "finished"), step_of(tmp_path, "after", outcome)
    with SessionReader(before) as one, SessionReader(after) as other:
        assert extent_of(other, is_through=False) == "nothing"
        (fact,) = since(one, other)
    assert fact.text.startswith("What changed since the last capture is unknown: this capture ")
    assert fact.difference == ""


RECOMPILED = """import torch
{above}

@torch.compile(backend="eager")
def f(x):
    v = x.sum().item()
    return x * v


for n in (1, 2):
    f(torch.full((4,), n * {value}))
"""


@pytest.fixture(scope="module")
def moved(captured: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A script that recompiles because of a computed value: another value in the second capture, on
    a line further down.
    """
    file = tmp_path_factory.mktemp("moved") / "moved.py"
    sessions = []
    for timeout, text in (
        (1003, RECOMPILED.format(above="", value=0.5)),
        (1004, RECOMPILED.format(above="\n\n", value=0.75)),
    ):
        file.write_text(text)
        sessions.append(captured(file, timeout=timeout))
    return Pair(*sessions)


@in_exhaustive_runs
def test_a_recompile_is_the_same_where_its_line_has_moved_and_the_value_is_another(
    moved: Pair,
) -> None:
    assert not [fact for fact in moved.card() if fact.difference == "recompiles"]
    with SessionReader(moved.before) as before, SessionReader(moved.after) as after:
        assert [len(causes(one)) for one in (before, after)] == [1, 1]
        words = [causes(one)[0].description for one in (before, after)]
    assert words[0] != words[1], "there is nothing to be told apart"


def test_of_a_recompile_that_is_the_same_the_words_of_both_are_shown(moved: Pair) -> None:
    ((sign, before, after),) = moved.behind("recompiles")
    assert (sign, before != after) == (" ", True)
