"""These tests check rounds in which the threads took longer to share an operation: they are left
out where there are others, and this is reported.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fx_explorer.instruments.bench import bench_run
from fx_explorer.instruments.bench.cells import BenchFigures, bench_figures
from fx_explorer.instruments.bench.machine import FORGOTTEN_AFTER_S, LeastSharing
from fx_explorer.instruments.bench.measure import call_timing
from fx_explorer.instruments.bench.verdict import verdict
from fx_explorer.model import BenchCell, BenchRound
from fx_explorer.session import SessionReader, SessionWriter

UNCOMPILED = BenchCell(
    0,
    "uncompiled",
    "",
    {},
    is_compiled=False,
    state="measured",
    device="cpu",
    inputs="(float32[4])",
)
COMPILED = replace(UNCOMPILED, contender="inductor", is_compiled=True, graphs=1, agreement="equal")
QUIET, SLOW = 5.2e-6, 7.4e-6
"""Seconds of an operation that all threads share, as measured in both states of a virtual machine.
"""

Measured = tuple[float, float]


def figures(
    tmp_path: Path,
    uncompiled: Sequence[Measured],
    compiled: Sequence[Measured],
    known_s: object = 0.0,
) -> BenchFigures:
    with SessionWriter(tmp_path / "a.fxs") as writer:
        writer.set_meta("bench", {"state": "finished", "least_sharing_s": known_s})
        for cell, rounds in ((UNCOMPILED, uncompiled), (COMPILED, compiled)):
            number = writer.add(cell)
            writer.add_all(
                BenchRound(0, number, i, took_s, 10, how) for i, (took_s, how) in enumerate(rounds)
            )
    with SessionReader(tmp_path / "a.fxs") as reader:
        found = bench_figures(reader)
    assert found is not None
    return found


def test_times_are_those_of_the_rounds_that_were_not_disturbed(tmp_path: Path) -> None:
    mixed = [(2e-3, QUIET)] * 8 + [(3e-3, SLOW)] * 9
    found = figures(tmp_path, mixed, [(took_s / 2, how) for took_s, how in mixed])
    uncompiled, compiled = found.cells
    assert (uncompiled.call_s, compiled.call_s) == (2e-3, 1e-3)
    assert (uncompiled.rounds, uncompiled.left_out, uncompiled.disturbed) == (8, 9, 0)
    assert "18 of 34 rounds are ignored" in " ".join(verdict(found))


def test_where_nearly_all_were_disturbed_all_count_and_it_is_said(tmp_path: Path) -> None:
    found = figures(tmp_path, [(2e-3, QUIET)] * 9, [(1e-3, QUIET)] * 2 + [(1.5e-3, SLOW)] * 7)
    assert found.cells[1].rounds == 9
    assert found.cells[1].disturbed == 7
    assert "Nearly all rounds of inductor were disturbed" in " ".join(verdict(found))
    assert "rounds of uncompiled" not in " ".join(verdict(found))


def test_a_speed_up_is_told_where_the_quiet_rounds_of_two_cells_are_not_the_same_ones(
    tmp_path: Path,
) -> None:
    first, last = [QUIET] * 6 + [SLOW] * 6, [SLOW] * 6 + [QUIET] * 6
    found = figures(tmp_path, [(2e-3, how) for how in first], [(1e-3, how) for how in last])
    assert found.cells[1].speed_up is not None
    assert found.cells[1].speed_up.middle == pytest.approx(2.0)


def test_the_intervals_of_disturbed_rounds_reach_down_to_what_a_call_may_take_without_the_disturbance(
    tmp_path: Path,
) -> None:
    found = figures(tmp_path, [(2e-3, SLOW)] * 8, [(1e-3, SLOW)] * 8, QUIET)
    uncompiled, compiled = found.cells
    assert (uncompiled.disturbed, compiled.disturbed) == (8, 8)
    assert uncompiled.interval
    assert uncompiled.interval.low == pytest.approx(2e-3 * 0.98 * QUIET / SLOW)
    assert uncompiled.interval.high == pytest.approx(2e-3 * 1.02)
    assert compiled.speed_up
    assert compiled.speed_up.low == pytest.approx(2 * 0.96 * QUIET / SLOW)
    assert compiled.speed_up.high == pytest.approx(2 * 1.04 * SLOW / QUIET)
    assert "may take only 70% of this time" in " ".join(verdict(found))


def test_a_speed_up_reaches_as_far_where_the_uncompiled_rounds_alone_were_disturbed(
    tmp_path: Path,
) -> None:
    """Uncompiled 51 ms and compiled 0.5 ms, where 0.05 ms are usual: nothing is known of either."""
    found = figures(tmp_path, [(51e-3, 100 * QUIET)] * 8, [(0.5e-3, QUIET)] * 8)
    compiled = found.cells[1]
    assert compiled.speed_up
    assert compiled.speed_up.low == pytest.approx(102 * 0.96 / 100)
    assert not compiled.is_faster


def test_few_rounds_that_were_disturbed_show_nothing(tmp_path: Path) -> None:
    found = figures(tmp_path, [(51e-3, 200 * QUIET)] * 3, [(0.5e-3, QUIET)] * 3)
    assert verdict(found)[0].startswith("inductor: no measurable difference, between 0.49 and ")


@pytest.mark.parametrize("known_s", [0.0, "fast", None, -1.0])
def test_a_bench_of_which_nothing_else_is_known_reaches_no_further_than_it_measured(
    tmp_path: Path, known_s: object
) -> None:
    found = figures(tmp_path, [(2e-3, SLOW)] * 8, [(1e-3, SLOW)] * 8, known_s)
    assert [one.undisturbed_part for one in found.cells] == [1.0, 1.0]
    assert found.cells[0].interval
    assert found.cells[0].interval.low == pytest.approx(2e-3 * 0.98)


def test_what_a_machine_can_do_is_kept_for_the_next_bench_and_forgotten_after_a_week(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state" / "sharing.json"

    def known(processor: str = "a processor", threads: int = 2) -> float:
        sharing = LeastSharing(processor, path)
        sharing.begin(replace(UNCOMPILED, threads=threads, torch="2.13.0"))
        return sharing.least_s

    for seconds in (SLOW, QUIET, SLOW):
        sharing = LeastSharing("a processor", path)
        sharing.begin(replace(UNCOMPILED, threads=2, torch="2.13.0"))
        sharing.take_sharing(0.0)
        sharing.take_sharing(seconds)
        sharing.keep()
    assert known() == QUIET
    assert known("another processor") == known(threads=4) == 0
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + FORGOTTEN_AFTER_S + 1)
    assert known() == 0


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"a": 1}', '{"a processor, 2 threads, torch 2.13.0": [-1, 9e99]}', "\xff"],
)
def test_what_was_kept_and_is_damaged_is_not_known(tmp_path: Path, text: str) -> None:
    path = tmp_path / "sharing.json"
    path.write_bytes(text.encode("latin-1"))
    sharing = LeastSharing("a processor", path)
    sharing.begin(replace(UNCOMPILED, threads=2, torch="2.13.0"))
    assert sharing.least_s == 0
    sharing.take_sharing(QUIET)
    sharing.keep()
    again = LeastSharing("a processor", path)
    again.begin(replace(UNCOMPILED, threads=2, torch="2.13.0"))
    assert again.least_s == QUIET


def test_a_bench_is_measured_where_nothing_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    sharing = LeastSharing("a processor", tmp_path / "file" / "sharing.json")
    sharing.take_sharing(QUIET)
    sharing.keep()
    assert (tmp_path / "file").read_text() == ""


def test_a_bench_that_was_alike_from_beginning_to_end_leaves_nothing_out(tmp_path: Path) -> None:
    found = figures(tmp_path, [(2e-3, SLOW)] * 8, [(1e-3, SLOW)] * 8)
    assert [one.left_out + one.disturbed for one in found.cells] == [0, 0]


def test_what_was_measured_on_a_gpu_or_by_an_older_release_is_never_disturbed(
    tmp_path: Path,
) -> None:
    found = figures(tmp_path, [(2e-3, 0.0)] * 8, [(1e-3, 0.0)] * 8)
    assert [one.left_out + one.disturbed for one in found.cells] == [0, 0]
    assert "share" not in " ".join(verdict(found))


def test_rounds_go_on_until_enough_were_not_disturbed() -> None:
    def cell(rounds: int, how: float) -> Any:
        started = bench_run._StartedCell(UNCOMPILED, None)  # type: ignore[arg-type]
        started.rounds = [BenchRound(0, 0, i, 1e-3, 10, QUIET) for i in range(5)]
        started.rounds += [BenchRound(0, 0, i, 1e-3, 10, how) for i in range(5, rounds)]
        return started

    assert not bench_run._is_steady([cell(20, SLOW)])
    assert bench_run._is_steady([cell(6, QUIET)])


@pytest.fixture
def threads() -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield 2
    torch.set_num_threads(before)


def test_what_is_timed_is_an_operation_that_all_threads_share(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    original = torch.add

    def counting(values: torch.Tensor, *rest: Any, **keywords: Any) -> torch.Tensor:
        asked.append(values.numel())
        return original(values, *rest, **keywords)

    monkeypatch.setattr(torch, "add", counting)
    assert call_timing.sharing_s() > 0
    assert set(asked) == {threads * call_timing.PIECE}
    torch.set_num_threads(1)
    assert call_timing.sharing_s() == 0
