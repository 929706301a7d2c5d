"""These tests check the result of trials of dynamic shapes, from trials written by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from fx_explorer import cli
from fx_explorer.instruments.dynamic import command
from fx_explorer.instruments.dynamic.trial import (
    ALWAYS,
    COLUMNS,
    WAYS,
    DynamicTrial,
    Way,
    advice,
    cells,
    verdict,
)
from fx_explorer.model import Outcome
from tests.figures import figures

MISMATCH = "tensor 'x' size mismatch at index 0. expected 4, actual 8"
FIGURES = figures(compiled=1, graphs=2, guards=11, free_sizes=3, kernels=6, compile_s=0.44)
FITS = DynamicTrial("dynamic=True", Outcome("finished"), FIGURES, "used again", "", (("x", 0),))


def fits(way: Way, symbols: int = 3) -> DynamicTrial:
    return replace(FITS, way=way, figures=replace(FIGURES, free_sizes=symbols))


def refused(way: Way, reason: str = MISMATCH) -> DynamicTrial:
    return replace(
        FITS,
        way=way,
        figures=replace(FIGURES, free_sizes=0),
        others="recompiled",
        reason=reason,
        free_sizes=(),
    )


def raised(way: Way) -> DynamicTrial:
    return replace(
        refused(way),
        outcome=Outcome("raised", "ConstraintViolationError: x was marked", 1),
        others="",
        reason="",
    )


def test_marking_is_advised_when_it_serves_both_and_dynamic_true_frees_more() -> None:
    trials = [
        refused("dynamic=None"),
        fits("dynamic=True"),
        refused("dynamic=False"),
        fits("mark_dynamic", 1),
    ]
    assert advice(trials) == "torch._dynamo.mark_dynamic(x, 0)"
    told = verdict(trials)
    assert told.startswith(
        "With mark_dynamic, one compilation works for both; dynamic=True does too, with 3 dynamic "
        "sizes instead of 1."
    )
    assert "By default, torch recompiles once" in told


def test_every_marked_size_is_a_line_and_members_keep_their_names() -> None:
    marked = replace(fits("mark_dynamic"), free_sizes=(("batch['ids']", 0), ("y", 2)))
    assert advice([refused("dynamic=None"), marked]).splitlines() == [
        "torch._dynamo.mark_dynamic(batch['ids'], 0)",
        "torch._dynamo.mark_dynamic(y, 2)",
    ]


def test_nothing_is_advised_when_the_other_inputs_fit_anyway() -> None:
    trials = [fits(way) for way in WAYS]
    assert advice(trials) == ""
    assert verdict(trials) == (
        "The same compiled code works for the other inputs: no dimension has to be marked dynamic."
    )


def test_dynamic_true_is_advised_when_a_mark_fails() -> None:
    trials = [
        refused("dynamic=None"),
        fits("dynamic=True"),
        refused("dynamic=False"),
        raised("mark_dynamic"),
    ]
    assert advice(trials) == ALWAYS
    assert verdict(trials).startswith("With dynamic=True, one compilation works for both.")
    assert verdict(trials).endswith(
        "mark_dynamic did not finish: raised: ConstraintViolationError: x was marked."
    )


def test_what_no_way_serves_is_told_with_the_check() -> None:
    trials = [
        refused(way, "tensor 'x' dtype mismatch. expected Float, actual Double") for way in WAYS
    ]
    assert advice(trials) == ""
    assert verdict(trials) == (
        "With no setting does one compilation work for both: tensor 'x' dtype mismatch. expected "
        "Float, actual Double."
    )


def test_what_is_not_known_is_not_guessed() -> None:
    trials = [
        replace(refused(way), others="", reason="name 'unknown' is not defined") for way in WAYS
    ]
    assert (
        verdict(trials)
        == "Whether the other inputs recompile is not known: name 'unknown' is not defined."
    )
    assert verdict([replace(one, reason="It is a script.") for one in trials]).endswith(
        "not known: It is a script."
    )


def test_trials_that_were_stopped_are_told_by_what_was_found() -> None:
    assert verdict([refused("dynamic=None"), fits("dynamic=True")]).endswith(
        "2 of 4 settings were tried."
    )
    assert verdict([]) == "0 of 4 settings were tried."


def test_cells_stand_under_their_header() -> None:
    again = replace(FITS, figures=replace(FIGURES, recompiles=1, compiled=2))
    titles = [column.title for column in COLUMNS]
    assert dict(zip(titles, cells(again), strict=True)) == {
        "way": "dynamic=True",
        "compiled": "2 (1 again)",
        "graphs": "2",
        "guards": "11",
        "dynamic sizes": "3",
        "specialized sizes": "0",
        "kernels": "6",
        "compile s": "0.4",
        "other inputs": "used again",
    }
    assert cells(raised("mark_dynamic"))[-1] == "raised: ConstraintViolationError: x was marked"
    assert len(cells(raised("mark_dynamic"))) == len(COLUMNS)


def test_rows_that_are_printed_one_by_one_stand_in_the_same_columns_of_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def each(*_: object, **__: object) -> AsyncIterator[DynamicTrial]:
        for way in WAYS:
            yield (
                refused(way, "a size that the first inputs had and the others do not have")
                if way == "dynamic=None"
                else fits(way)
            )

    monkeypatch.setattr(command, "try_dynamic", each)
    monkeypatch.setattr(command, "width_for", lambda out: 80)
    cli.main(["dynamic", "model.py"])
    table = capsys.readouterr().out.partition("Not enough room for: ")[0].splitlines()
    assert max(map(len, table)) <= 80
    begins = table[0].index("other inputs")
    assert [line[begins:].split()[0] for line in table[1:] if line[0] != " "] == [
        "recompiled:",
        "used",
        "used",
        "used",
    ]
    below = [line[begins:] for line in table[1:] if line[0] == " "]
    assert below
    assert " ".join(" ".join(below).split()).endswith("the others do not have")
