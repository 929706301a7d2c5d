"""These tests read traces with the marks of other releases of torch, and of shapes that no program
has.

The recorded traces are those of an H100 with torch 2.11; what is changed in them are the names of
the marks, which releases since 2.0 have had otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fx_explorer.instruments.profile.figures import ProfileFigures, profile_figures
from fx_explorer.instruments.profile.join import add_profile, join, joined_profile
from fx_explorer.instruments.profile.verdict import verdict
from fx_explorer.readers.kineto_reading import read_trace
from fx_explorer.readers.kineto_trace import CpuThread
from fx_explorer.session import SessionReader
from tests.profiles import events, graph_seconds, recorded_session

Event = dict[str, Any]


def without_calls(event: Event) -> Event | None:
    """Change an event to the form of torch 2.5: regions with a name, AOTAutograd's functions, and
    no mark of a call.
    """
    return None if "Call CompiledFxGraph" in event["name"] else event


def without_names(event: Event) -> Event | None:
    """Change an event to the form of torch 2.4: regions without a name."""
    if event["name"].startswith("Torch-Compiled Region"):
        event["name"] = "Torch-Compiled Region"
    return without_calls(event)


def functions_only(event: Event) -> Event | None:
    """Change an event to the form of torch 2.0: AOTAutograd's functions only."""
    return None if event["name"].startswith("Torch-Compiled Region") else without_calls(event)


def wrapper_calls(event: Event) -> Event | None:
    """Change an event to the form of ``profiler_mark_wrapper_call``."""
    if "Call CompiledFxGraph" in event["name"]:
        event["name"] = "graph_0_inductor_wrapper_call"
    return event


def figures_with(
    change: Callable[[Event], Event | None], folder: Path, name: str = "gpt2"
) -> ProfileFigures:
    session = recorded_session(name, folder)
    changed = [one for event in events(f"{name}.json.gz") if (one := change(event))]
    (folder / "changed.json").write_text(json.dumps({"traceEvents": changed}))
    add_profile(session, joined_profile(session, folder / "changed.json"))
    with SessionReader(session) as reader:
        figures = profile_figures(reader)
    assert figures is not None
    return figures


@pytest.mark.parametrize("change", [without_calls, without_names, functions_only, wrapper_calls])
def test_the_marks_of_every_release_count_as_compiled(
    change: Callable[[Event], Event | None], tmp_path: Path
) -> None:
    figures = figures_with(change, tmp_path)
    in_graphs = graph_seconds(events("gpt2.json.gz"))
    assert figures.profile.compiled_s >= in_graphs * (1 - 1e-9)
    assert figures.profile.joined_s >= 0.95 * in_graphs
    told = " ".join(verdict(figures))
    if change is not wrapper_calls:  # only then it is known what ran beside a call
        assert "around compiled graphs" not in told
    assert "no compiled code ran" not in told


def test_generated_kernels_without_any_mark_are_compiled_code(tmp_path: Path) -> None:
    figures = figures_with(
        lambda event: (
            event
            if event.get("cat") != "user_annotation" and "Compiled" not in event["name"]
            else None
        ),
        tmp_path,
    )
    triton = sum(
        one["dur"]
        for one in events("gpt2.json.gz")
        if one.get("cat") == "kernel" and one["name"].startswith("triton_")
    )
    assert figures.profile.compiled_s == pytest.approx(triton * 1e-6)
    told = " ".join(verdict(figures))
    assert "recognized by their names" in told
    assert "other code that was not compiled" not in told


MANY = 60_000


def operator(start: float, took: float, name: str = "aten::add") -> Event:
    where = {"pid": 1, "tid": 1, "ts": start, "dur": took}
    return {"ph": "X", "cat": "cpu_op", "name": name, **where, "args": {}}


@pytest.mark.parametrize(
    "took",
    [lambda at: 4 * MANY - 2 * at, lambda at: MANY, lambda at: 1 + at % 7 * 1000],
    ids=["nested", "overlapping", "both"],
)
def test_any_number_of_nested_and_overlapping_events_is_read(
    took: Callable[[int], float], tmp_path: Path
) -> None:
    given = [operator(at, took(at)) for at in range(MANY)]
    given.append(operator(-0.0, 9 * MANY, "Torch-Compiled Region: 0/0"))
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": given}))
    joined = join(read_trace(tmp_path / "t.json"), [], "t")
    assert joined.profile.graph_calls == 1


@pytest.mark.parametrize("seed", range(20))
def test_the_event_around_one_is_the_innermost_that_is_long_enough(seed: int) -> None:
    thread = CpuThread()
    intervals = sorted(
        {((at * 7919 + seed * 31) % 97, 1 + (at * 104729 + seed) % 53) for at in range(60)},
        key=lambda one: (one[0], -one[1]),
    )
    for start, took in intervals:
        thread.add(start, took, 0, -1, -1, False)
    thread.nest()
    for at, (start, took) in enumerate(intervals):
        outer = [
            one
            for one in range(at)
            if intervals[one][0] + intervals[one][1] >= start + took
            and intervals[one][0] + intervals[one][1] > start
        ]
        assert thread.parents[at] == max(outer, default=-1)
    for time in range(150):
        expected = max((at for at, (start, _) in enumerate(intervals) if start <= time), default=-1)
        while expected != -1 and sum(intervals[expected]) < time:
            expected = thread.parents[expected]
        assert thread.at(time) == expected
