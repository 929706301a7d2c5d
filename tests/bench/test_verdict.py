"""These tests check what a bench says of given figures: which is faster, from which size on, and
what is unknown.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from fx_explorer.analysis.measured_times import Interval, median_interval
from fx_explorer.errors import UsageError
from fx_explorer.instruments.bench.cells import BenchFigures, bench_figures
from fx_explorer.instruments.bench.report import FORMATS, bench_text, row_of
from fx_explorer.instruments.bench.verdict import problems, verdict, without_figures
from fx_explorer.instruments.bench.view import bench_plot, bench_svg
from fx_explorer.instruments.diff.two_sessions import figures_of_both
from fx_explorer.model import BenchCell, BenchRound
from fx_explorer.report.json_report import json_report
from fx_explorer.session import SessionReader, SessionWriter

MEASURED = BenchCell(
    0,
    "",
    "",
    {},
    is_compiled=True,
    state="measured",
    device="cpu",
    inputs="(float32[4])",
    agreement="equal",
)
UNCOMPILED = replace(
    MEASURED,
    contender="uncompiled",
    is_compiled=False,
    agreement="",
    warm_up_calls=3,
    warm_up_s=0.003,
)
INDUCTOR = replace(
    MEASURED, contender="inductor", graphs=1, first_call_s=9.0, warm_up_calls=3, warm_up_s=9.001
)

Times = Sequence[float]


def figures(
    tmp_path: Path,
    *cells: tuple[BenchCell, Times],
    budget_s: float | None = None,
    state: str = "finished",
) -> BenchFigures:
    """The figures of a session with these cells, with the seconds per call of each round."""
    path = tmp_path / f"{len(list(tmp_path.glob('*.fxs')))}.fxs"
    with SessionWriter(path) as writer:
        writer.set_meta(
            "bench",
            {
                "machine": {"processor": "a processor", "processors": 2},
                "budget_s": budget_s,
                "state": state,
                "preparing_s": 52.0,
                "measuring_s": 6.0,
            },
        )
        writer.set_meta("target", {"name": "net.py", "kind": "bench"})
        for cell, times in cells:
            number = writer.add(cell)
            writer.add_all(
                BenchRound(0, number, i, took_s, 10) for i, took_s in enumerate(times, start=1)
            )
    with SessionReader(path) as reader:
        found = bench_figures(reader)
    assert found is not None
    return found


def about(middle_s: float, rounds: int = 12) -> list[float]:
    """Rounds that differ by up to 2 %, never in the same way."""
    return [middle_s * (1 + 0.02 * math.sin(7 * i + 1e4 * middle_s)) for i in range(rounds)]


def at(cell: BenchCell, batch: int) -> BenchCell:
    return replace(cell, size=f"batch {batch}", sizes={"batch": batch})


# intervals


def test_the_interval_holds_the_true_median_in_95_of_100_draws() -> None:
    """The second source is chance: a skewed distribution whose median is known."""
    draws = random.Random(0)
    held = 0
    for _ in range(2000):
        found = median_interval([draws.lognormvariate(0, 1) for _ in range(15)])
        assert found is not None
        held += found.low <= 1 <= found.high
    assert 0.94 <= held / 2000 <= 0.98


@pytest.mark.parametrize(("count", "has_one"), [(0, False), (5, False), (6, True)])
def test_too_few_rounds_have_no_interval(count: int, has_one: bool) -> None:
    assert (median_interval([1.0] * count) is not None) == has_one


def test_the_ends_of_the_interval_are_those_of_the_tables() -> None:
    """Of 10 values, the 2nd and the 9th: 97.9 % (Conover, table A3: n = 10, p = 0.5, at most 1
    below).
    """
    assert median_interval([float(i) for i in range(1, 11)]) == Interval(5.5, 2.0, 9.0)


# verdicts


def test_what_is_faster_says_when_it_has_paid(tmp_path: Path) -> None:
    """Second source, by hand: 9 s are lost, and a call gains 0.5 ms."""
    found = figures(tmp_path, (UNCOMPILED, [0.001] * 10), (INDUCTOR, [0.0005] * 10))
    first = verdict(found)[0]
    assert first.startswith(
        "Compiling pays: with inductor, a call is 2.00 × (1.92 to 2.08) as fast as in eager mode: 500 µs instead of 1 ms."
    )
    assert found.cells[1].pays_after == pytest.approx(9.0 / 0.0005, rel=0.001)


def test_where_intervals_overlap_there_is_no_winner(tmp_path: Path) -> None:
    noise = [1.0, 1.1, 0.9, 1.05, 0.95, 1.02, 0.98, 1.0]
    found = figures(
        tmp_path,
        (UNCOMPILED, [0.001 * one for one in noise]),
        (INDUCTOR, [0.001 * one for one in reversed(noise)]),
    )
    told = " ".join(verdict(found))
    assert told.startswith("Whether compiling pays is unclear")
    assert "inductor: no measurable difference, between 0." in told
    assert found.cells[1].pays_after is None


def test_two_contenders_that_cannot_be_told_apart_are_both_named(tmp_path: Path) -> None:
    other = replace(INDUCTOR, contender="inductor max-autotune")
    found = figures(
        tmp_path, (UNCOMPILED, about(0.002)), (INDUCTOR, about(0.001)), (other, about(0.00100001))
    )
    assert "cannot be distinguished from it" in " ".join(verdict(found))


def test_it_pays_from_the_batch_on_from_which_it_is_faster(tmp_path: Path) -> None:
    times = {1: (1.0, 1.3), 8: (2.0, 2.0), 32: (4.0, 2.0), 128: (16.0, 4.0)}
    cells = [
        (at(cell, batch), about(0.001 * both[i]))
        for batch, both in times.items()
        for i, cell in enumerate((UNCOMPILED, INDUCTOR))
    ]
    told = verdict(figures(tmp_path, *cells))[0]
    assert told.startswith("inductor pays from batch 32 on:")
    assert "Below: batch 1, 0.7" in told
    assert "batch 8, no measurable difference" in told


def test_sizes_that_do_not_grow_have_no_point_from_which_it_pays(tmp_path: Path) -> None:
    cells = [
        (at(UNCOMPILED, 8), about(0.001)),
        (at(INDUCTOR, 8), about(0.0005)),
        (at(UNCOMPILED, 16), about(0.001)),
        (at(INDUCTOR, 16), about(0.002)),
    ]
    assert verdict(figures(tmp_path, *cells))[0].startswith("inductor pays at batch 8:")


def test_a_budget_that_is_too_small_tells_what_was_seen_and_what_a_larger_one_settles(
    tmp_path: Path,
) -> None:
    found = figures(
        tmp_path, (UNCOMPILED, about(0.002, 3)), (INDUCTOR, about(0.001, 3)), budget_s=50.0
    )
    first, second = verdict(found)[:2]
    assert first.startswith("inductor: about ")
    # Of 8 ways in which 3 rounds may lie, in 2 all are on one side of the median.
    assert first.endswith("in 3 rounds, whose range contains it with 75 %; 6 are needed for 95 %.")
    assert (
        "imports and compiling, which are needed once, took 52.0 s, and rounds of calls 6.00 s"
        in second
    )
    assert second.endswith("about --budget 70 would be enough for inductor.")  # 52 + 6 * 8 / 3
    (row,) = (row_of(one) for one in found.cells if one.cell.is_compiled)
    assert "3 rounds" in row[3]
    assert without_figures(found) == []


def test_one_round_does_not_show_which_is_faster(tmp_path: Path) -> None:
    found = figures(tmp_path, (UNCOMPILED, [0.1]), (INDUCTOR, [0.001]), budget_s=50.0)
    first, second = verdict(found)[:2]
    assert first == "inductor: 1 ms in one round, which is too few to compare speeds."
    assert "would be enough for inductor" in second
    assert not any("as fast" in sentence for sentence in verdict(found))
    (row,) = (row_of(one) for one in found.cells if one.cell.is_compiled)
    assert row[3] == "one timing each"


def test_few_rounds_of_which_one_is_slower_show_no_difference(tmp_path: Path) -> None:
    found = figures(tmp_path, (UNCOMPILED, [0.001, 0.001]), (INDUCTOR, [0.0005, 0.002]))
    assert verdict(found)[0].startswith(
        "inductor: no measurable difference, between 0.48 and 2.08 ×"
    )
    assert not any("pays" in sentence for sentence in verdict(found))


def test_a_larger_budget_is_advised_only_where_it_can_settle_something(tmp_path: Path) -> None:
    def told(middle_s: float, spread: float) -> str:
        times = [middle_s * (1 + spread * (-1) ** i) for i in range(12)]
        found = figures(tmp_path, (UNCOMPILED, [0.001] * 12), (INDUCTOR, times), budget_s=50.0)
        return " ".join(verdict(found))

    assert "about --budget" in told(0.0009, 0.1)  # a tenth faster, in rounds a tenth apart
    assert "more rounds would not make it certain" in told(0.001, 0.05)
    assert "even 30 rounds" in told(0.00095, 0.2)
    assert "--budget" not in told(0.0005, 0.1)  # it is clear already


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("running", "Still measuring."),
        ("stopped", "The bench was stopped: these are the figures so far."),
    ],
)
def test_a_bench_that_runs_or_was_stopped_does_not_blame_the_budget(
    tmp_path: Path, state: str, words: str
) -> None:
    found = figures(
        tmp_path, (UNCOMPILED, about(0.001, 3)), (INDUCTOR, []), budget_s=180.0, state=state
    )
    assert verdict(found)[0] == words
    assert not any("budget" in sentence for sentence in verdict(found))


def test_where_all_failed_the_budget_is_not_blamed(tmp_path: Path) -> None:
    failed = replace(INDUCTOR, state="failed", message="RuntimeError: no.")
    found = figures(tmp_path, (UNCOMPILED, about(0.001)), (failed, []), budget_s=20.0)
    assert verdict(found) == [
        "The speeds are not known: no contender could be measured.",
        "inductor failed: RuntimeError: no.",
    ]


@pytest.mark.parametrize("batches", [(1,), (1, 8)])
def test_who_gives_wrong_results_never_pays_and_comes_first(
    tmp_path: Path, batches: tuple[int, ...]
) -> None:
    wrong = replace(INDUCTOR, agreement="differs", largest_difference=0.5, where="output 0")
    cells = [
        (at(cell, batch), about(took_s))
        for batch in batches
        for cell, took_s in ((UNCOMPILED, 0.001), (wrong, 0.00001))
    ]
    told = verdict(figures(tmp_path, *cells))
    assert told[0].startswith(
        "inductor gives other results at batch 1: output 0 differs by up to 0.5"
    )
    assert not any("pays" in sentence or "as fast" in sentence for sentence in told)
    found = figures(tmp_path, *cells)
    assert FORMATS["text"](found).count("results differ") == len(batches)
    assert all(one.pays_after is None for one in found.cells)
    with pytest.raises(UsageError, match="nothing to draw"):
        bench_svg(found)


def test_who_compiled_nothing_and_who_compiled_often_is_told(tmp_path: Path) -> None:
    nothing, often = replace(INDUCTOR, graphs=0), replace(INDUCTOR, contender="eager", recompiles=8)
    told = " ".join(
        verdict(
            figures(
                tmp_path, (UNCOMPILED, about(0.001)), (nothing, about(0.001)), (often, about(0.001))
            )
        )
    )
    assert "inductor compiled nothing: the figures are for the program in eager mode." in told
    assert "eager: 8 recompiles before measuring" in told


def test_an_interval_that_ends_at_almost_1_is_not_told_as_1(tmp_path: Path) -> None:
    found = figures(tmp_path, (UNCOMPILED, [0.001] * 10), (INDUCTOR, [0.001045] * 10))
    assert "0.96 × (0.92 to 0.995)" in " ".join(verdict(found))


def test_a_difference_that_another_process_may_not_show_is_none(tmp_path: Path) -> None:
    """A network compiled in two processes took 2,603 and 2,632 µs, and each process's rounds hardly
    differ.
    """
    once = [0.0026, 0.002601, 0.002602, 0.002603, 0.002604, 0.002605, 0.002606, 0.002607]
    again = [value + 0.00003 for value in once]
    found = figures(tmp_path, (UNCOMPILED, again), (INDUCTOR, once))
    assert not any(one.is_faster or one.is_slower for one in found.cells)
    uncompiled, compiled = (one.interval for one in found.cells)
    assert uncompiled is not None
    assert compiled is not None
    assert uncompiled.low < compiled.high


def test_times_that_are_none_are_left_out(tmp_path: Path) -> None:
    (cell,) = figures(tmp_path, (UNCOMPILED, [-1.0, 0.0, 0.002])).cells
    assert cell.call_s == 0.002


def test_wrong_results_are_told_and_rounding_is_no_problem(tmp_path: Path) -> None:
    wrong = replace(
        INDUCTOR,
        agreement="differs",
        largest_difference=0.5,
        where="output 0",
        error=0.3,
        reference_error=1e-6,
    )
    found = figures(tmp_path, (UNCOMPILED, about(0.001)), (wrong, about(0.0005)))
    (sentence,) = problems(found)
    assert sentence == (
        "inductor gives other results: output 0 differs by up to 0.5; its error against a more exact run "
        "is 3.0e-01; eager mode's is 1.0e-06 (RMS)."
    )
    assert sentence in verdict(found)
    rounded = figures(
        tmp_path,
        (UNCOMPILED, about(0.001)),
        (replace(wrong, agreement="within_error"), about(0.0005)),
    )
    assert not problems(rounded)
    assert "results of inductor are equal within the uncertainty of eager mode itself" in " ".join(
        verdict(rounded)
    )


def test_what_could_not_be_measured_is_named_once_for_each_reason(tmp_path: Path) -> None:
    failed = [
        replace(
            at(INDUCTOR, batch), state="timed_out", message="it took longer than 5 s (--timeout)"
        )
        for batch in (1, 8)
    ]
    found = figures(
        tmp_path,
        (at(UNCOMPILED, 1), about(0.001)),
        (failed[0], []),
        (at(UNCOMPILED, 8), about(0.001)),
        (failed[1], []),
    )
    assert problems(found) == [
        "inductor at batch 1 and inductor at batch 8 failed: it took longer than 5 s (--timeout)."
    ]


def test_only_the_last_bench_of_a_session_counts(tmp_path: Path) -> None:
    cells = [(UNCOMPILED, about(0.001)), (replace(UNCOMPILED, bench=2), about(0.003))]
    (cell,) = figures(tmp_path, *cells).cells
    assert cell.call_s == pytest.approx(0.003, rel=0.02)


# reports


def test_every_format_has_each_cell_and_json_has_the_verdict(tmp_path: Path) -> None:
    found = figures(tmp_path, (at(UNCOMPILED, 1), about(0.001)), (at(INDUCTOR, 1), about(0.0005)))
    told = json.loads(FORMATS["json"](found))
    assert told["verdict"] == verdict(found)
    assert [cell["contender"] for cell in told["cells"]] == ["uncompiled", "inductor"]
    assert (
        told["cells"][1]["speed_up"]["low"]
        <= told["cells"][1]["speed_up"]["middle"]
        <= told["cells"][1]["speed_up"]["high"]
    )
    header, *rows = FORMATS["csv"](found).splitlines()
    assert header.startswith("contender,batch,state,call_s")
    assert [row.split(",")[0] for row in rows] == ["uncompiled", "inductor"]
    assert FORMATS["markdown"](found).count("| batch 1 |") == 2
    assert FORMATS["text"](found).splitlines()[0] == verdict(found)[0]


def test_on_a_narrow_terminal_the_table_keeps_the_speed_up_and_both_ends_of_a_contender(
    tmp_path: Path,
) -> None:
    tuned = replace(
        INDUCTOR,
        contender="inductor max-autotune-no-cudagraphs dynamic",
        graph_breaks=3,
        recompiles=2,
    )
    found = figures(tmp_path, (UNCOMPILED, about(0.001)), (tuned, about(0.00099)))
    wide, narrow = bench_text(found), bench_text(found, 80)
    assert tuned.contender in wide
    table = narrow.partition("\ncontender  ")[2].partition("\nNot enough room")[0].splitlines()
    assert max(map(len, table)) <= 80
    row = next(line for line in table if line.startswith("inductor"))
    assert row.split("  ")[0].endswith("dynamic")
    assert "speed-up" in table[0]


def test_text_from_outside_neither_moves_the_cursor_nor_makes_a_column(tmp_path: Path) -> None:
    odd = replace(INDUCTOR, contender="a|b\x1b[2J<script>")
    found = figures(tmp_path, (UNCOMPILED, about(0.001)), (odd, about(0.0005)))
    assert "\x1b" not in FORMATS["text"](found)
    assert "<script>" not in FORMATS["markdown"](found)
    assert "a\\|b" in FORMATS["markdown"](found)
    assert "<script>" not in bench_svg(found)


def test_a_picture_has_a_line_for_each_contender_and_one_for_break_even(tmp_path: Path) -> None:
    cells = [
        (at(cell, batch), about(0.001 / (i + 1)))
        for batch in (1, 8)
        for i, cell in enumerate((UNCOMPILED, INDUCTOR))
    ]
    found = figures(tmp_path, *cells)
    svg = bench_svg(found)
    assert svg.startswith("<?xml")
    for words in ("batch 1", "batch 8", "inductor", "as fast as in eager mode", "net.py"):
        assert words in svg
    assert svg == bench_svg(found)
    plot = bench_plot(found, 72, 14, colours=False)
    assert "inductor" in plot
    assert max(map(len, plot.splitlines())) <= 72
    assert "\x1b" not in plot


def test_nothing_measured_is_no_picture(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to draw"):
        bench_svg(figures(tmp_path, (UNCOMPILED, about(0.001))))


# two benches


def test_two_benches_are_compared_cell_by_cell(tmp_path: Path) -> None:
    cells = [(at(UNCOMPILED, 1), about(0.001)), (at(INDUCTOR, 1), about(0.0005))]
    faster = [(at(UNCOMPILED, 1), about(0.00101)), (at(INDUCTOR, 1), about(0.0002))]
    figures(tmp_path, *cells)
    figures(tmp_path, *faster)
    with SessionReader(tmp_path / "0.fxs") as left, SessionReader(tmp_path / "1.fxs") as right:
        found = {one.what: (one.left, one.right) for one in figures_of_both(left, right)}
    assert found["a call, inductor at batch 1"] == ("499 µs", "201 µs")
    assert "a call, uncompiled at batch 1, no measurable difference" in found


def test_the_report_has_the_bench_as_its_schema_says(tmp_path: Path) -> None:
    figures(tmp_path, (at(UNCOMPILED, 1), about(0.001)), (at(INDUCTOR, 1), about(0.0005)))
    with SessionReader(tmp_path / "0.fxs") as reader:
        told = json_report(reader)
    schema = json.loads(
        (Path(__file__).parents[2] / "docs" / "reference" / "report-schema.json").read_text()
    )
    jsonschema.validate(told["bench"], schema["properties"]["bench"])
    assert isinstance(told["bench"], dict)
    assert told["bench"]["verdict"][0].startswith("Compiling pays: with inductor")


def test_what_a_call_costs_beside_its_kernels_is_told_of_a_contender_that_is_not_faster(
    tmp_path: Path,
) -> None:
    def told(uncompiled_s: float, work_s: float) -> list[str]:
        cells = (UNCOMPILED, about(uncompiled_s)), (replace(INDUCTOR, work_s=work_s), about(85e-6))
        return [one for one in verdict(figures(tmp_path, *cells)) if "a call costs" in one]

    (sentence,) = told(60e-6, 24e-6)
    assert sentence.startswith("inductor: a call costs 61")  # of 85 µs, within 2 %
    assert "of guards, wrappers and launches for 24 µs of work" in sentence
    assert told(90e-6, 24e-6) == []  # it is faster
    assert told(60e-6, 80e-6) == []  # its kernels are what takes long


def test_a_contender_is_without_figures_where_nothing_of_it_was_measured_at_any_size(
    tmp_path: Path,
) -> None:
    late = replace(INDUCTOR, state="not_measured", message="the budget was used up")
    told = figures(
        tmp_path,
        (UNCOMPILED, about(0.02)),
        (INDUCTOR, about(0.01)),
        (replace(late, contender="late"), []),
        budget_s=5,
    )
    assert without_figures(told) == ["late"]
    assert "late not measured: the budget was used up." in verdict(told)
    at_one_size = [
        (at(UNCOMPILED, 1), about(0.02)),
        (at(INDUCTOR, 1), about(0.01)),
        (at(late, 8), []),
    ]
    assert without_figures(figures(tmp_path, *at_one_size, budget_s=5)) == []
    nothing = figures(
        tmp_path, (replace(UNCOMPILED, state="not_measured"), []), (late, []), budget_s=1
    )
    assert len(without_figures(nothing)) == 2
    stopped = figures(tmp_path, (UNCOMPILED, about(0.02)), (late, []), state="stopped")
    assert without_figures(stopped) == []
    assert problems(told) == []  # nothing went wrong with it
