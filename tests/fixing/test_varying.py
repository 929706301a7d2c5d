"""These tests check lines of output whose numbers differ in each run, or are rounded."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from fx_explorer.instruments.fixes.measure.varying import RELATIVE, VaryingLines, that_differ
from tests.exhaustive import with_others
from tests.fixing.observed import without_what_varies


def test_only_the_numbers_that_vary_are_left_out() -> None:
    before = ["step 1 loss 2.5 took 0.1 s", "step 2 loss 2.4 took 0.2 s"]
    again = ["step 1 loss 2.5 took 0.3 s", "step 2 loss 2.4 took 0.2 s"]
    varying = VaryingLines.of(before, again)
    assert varying.masked(["step 1 loss 7 took 9 s", "another line of 3"]) == [
        "step 1 loss 7 took … s",
        "another line of 3",
    ]
    assert VaryingLines.of(before, before) == VaryingLines()


def test_a_number_is_not_taken_for_another_that_stands_alone_too() -> None:
    varying = VaryingLines.of(["0.53", "2.5"], ["0.61", "2.5"])
    assert varying.masked(["7.0", "3.5"]) == ["…", "3.5"], "the first is a time, the second a loss"


def test_names_of_temporary_files_and_of_runs_are_left_out() -> None:
    before = [
        "calls tempfile.mkdtemp(/tmp/tmp7tqnupu8)",
        "starting run-0a1c8bb7",
        "opens /tmp/tmp7tqnupu8/a.pt for writing",
    ]
    again = [
        "calls tempfile.mkdtemp(/tmp/tmp7zz9_u81)",
        "starting run-0bbb8b11",
        "opens /tmp/tmp7zz9_u81/a.pt for writing",
    ]
    varying = VaryingLines.of(before, again)
    assert varying.masked(["calls tempfile.mkdtemp(/tmp/tmpq1)"]) == [
        "calls tempfile.mkdtemp(/tmp/…)"
    ]
    assert varying.masked(["starting run-77"]) == ["starting run-…"]
    assert varying.masked(["opens /tmp/other/a.pt for writing"]) == [
        "opens /tmp/…/a.pt for writing"
    ]
    assert varying.masked(["opens /home/other/a.pt for writing"]) == [
        "opens /home/other/a.pt for writing"
    ]
    assert varying.describe()[2] == "'starting run-…', which differs from run to run"
    assert not VaryingLines.of(["a b"], ["c d"]).around, "another line"


def test_lines_of_which_there_are_more_in_one_run_are_left_out() -> None:
    varying = VaryingLines.of(["50% 1/2", "done"], ["25% 1/4", "50% 1/2", "done"])
    assert varying.masked(["10% 1/10", "20% 1/5", "done"]) == ["done"]
    assert varying.describe() == [
        ("the line '#% #/#', which is not written equally often in each run")
    ]


def test_a_progress_bar_may_be_written_more_often() -> None:
    before, again = (
        ["train: 50% 2/4 [9.1it/s]", "train: done"],
        ["train: 50% 2/4 [1.2s/it]", "train: done"],
    )
    assert (
        VaryingLines.of(before, again).masked(["train: 50% 2/4 [3s/it]"] * 2)
        == ["train: 50% 2/4 […]"] * 2
    )
    assert (
        VaryingLines.of(before, again, of_progress=True).masked(["train: 50% 2/4 [3s/it]"] * 2)
        == []
    )


def test_an_address_is_another_in_each_process() -> None:
    assert VaryingLines().masked(["at 0x7feed5c14cd0", "0x10"]) == ["at 0x…", "0x10"]


@pytest.mark.parametrize(
    ("line", "other", "is_near"),
    [
        ("final 5.737573146820068", "final 5.737579345703125", True),
        ("final 5.7375", "final 5.7395", False),
        ("loss 0.456", "loss 0.457", True),
        ("loss 0.1", "loss 0.2", False),
        ("step 3", "step 4", False),
        ("100 rows, 1.0", "101 rows, 1.0", False),
        ("loss 1e-3", "loss 2e-3", False),
        ("at -1.5", "at 1.5", False),
    ],
)
def test_a_printed_number_may_be_rounded(line: str, other: str, is_near: bool) -> None:
    assert that_differ(Counter([line]), Counter([other])) == ([line], [other])
    assert (that_differ(Counter([line]), Counter([other]), RELATIVE) == ([], [])) == is_near


STORES = """
import datetime, os, random, time, uuid
SEEN = {{}}
LAST = None
class State: kept = None
state = State()
class Net(torch.nn.Module): pass
net = Net()
def coin(): return bool(os.urandom(1)[0] % 2)
def f():
    global LAST
    y = torch.ones(4) * {factor}
    {line}
    return y
"""

BY_ITSELF = {
    "a clock, in a module": ("net.at = time.perf_counter_ns()", "net.at"),
    "a text of the time, in a plain object": (
        "state.at = str(datetime.datetime.now())",
        "state.at",
    ),
    "an identity, in an attribute of a class": (
        "State.kept = id(object.__new__(State)) + time.time_ns()",
        "kept",
    ),
    "an identity of its own, in a global": ("LAST = uuid.uuid4()", "global LAST"),
    "a number of chance": ("LAST = random.Random().random()", "global LAST"),
    "a tensor of chance": ("net.noise = torch.tensor(list(os.urandom(8)))", "net.noise"),
    "a key of a dict": ("SEEN[time.time_ns()] = {'step': 1}", "global SEEN"),
    "a list of no fixed length": (
        "LAST = [0] * (1 + os.urandom(1)[0])",
        "global LAST",
    ),
    "a value that is there by chance": ("state.kept = None if coin() else 'set'", "kept"),
    "a shape of chance": ("net.noise = torch.zeros(1 + os.urandom(1)[0])", "net.noise"),
    "a printed time": (
        "os.write(1, b'it took %d ns\\n' % time.time_ns())",
        "numbers in the line 'it took # ns'",
    ),
    "a variable of the environment": ("os.environ['RUN'] = uuid.uuid4().hex", "os.environ['RUN']"),
}


@pytest.mark.parametrize("kind", BY_ITSELF)
def test_what_varies_by_itself_is_named_and_refuses_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUN", "none")
    line, named = BY_ITSELF[kind]
    if "coin()" in line:  # a real one may fall on one side in all runs, and then nothing varies
        monkeypatch.setattr(os, "urandom", random.Random(0).randbytes)
    original = STORES.format(line=line, factor=2)
    same = without_what_varies(tmp_path, original, original)
    assert same.is_all_equal, same.differences
    assert any(named in what for what in same.not_compared), same.not_compared
    changed = without_what_varies(tmp_path, original, STORES.format(line=line, factor=3))
    assert any("the output" in told for told in changed.differences), "another factor is still seen"


@pytest.mark.parametrize("kind", with_others(["a key of a dict"], ["a list of no fixed length"]))
def test_a_container_may_grow_or_shrink_in_any_run(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, _ = BY_ITSELF[kind]
    original = STORES.format(line=line, factor=2)
    for seed in range(20):
        monkeypatch.setattr(os, "urandom", random.Random(seed).randbytes)
        same = without_what_varies(tmp_path, original, original)
        assert same.is_all_equal, (seed, same.differences[:3])


def test_what_is_no_longer_stored_is_a_difference_though_it_varies(tmp_path: Path) -> None:
    original = STORES.format(line="net.at = time.perf_counter()", factor=2)
    changed = without_what_varies(tmp_path, original, STORES.format(line="pass", factor=2))
    assert any("net.at" in told for told in changed.differences)


def test_an_exception_that_comes_by_chance_is_not_compared(tmp_path: Path) -> None:
    line = "if coin() and coin(): raise ValueError(time.time())"
    original = STORES.format(line=line, factor=2)
    for _ in range(3):
        same = without_what_varies(tmp_path, original, original)
        assert not [told for told in same.differences if "the output" in told]
