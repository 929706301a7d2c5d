"""These tests check gaps on a GPU, from calls that are written by hand: between which kernels they
are, and what the host does meanwhile.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fx_explorer.analysis.words import short_kernel_name
from fx_explorer.instruments.ledger.ledger_rows import gap_rows, place_of
from fx_explorer.instruments.ledger.measure.rounds import assigned
from fx_explorer.instruments.ledger.measure.timeline import (
    DeviceCall,
    DeviceWork,
    IdleGap,
    RawTick,
    gaps,
    signature,
)
from fx_explorer.instruments.ledger.report import FORMATS
from fx_explorer.instruments.ledger.verdict import verdict
from fx_explorer.model import LedgerGap
from tests.ledger.test_ledger_rows import CALL, US, entry, figures


def call(begin_us: float, *work: tuple[str, float, float]) -> DeviceCall:
    """A call of four steps of 10 µs on the host, and what the GPU does: name, begin and end after
    the call began.
    """
    kinds = ("forward", "enter", "begin", "end", "over")
    ticks: list[RawTick] = [((begin_us + 10 * at) * US, kind, 0) for at, kind in enumerate(kinds)]
    return DeviceCall(
        ticks,
        [
            DeviceWork(name, (begin_us + begin) * US, (begin_us + end) * US)
            for name, begin, end in work
        ],
    )


PATH = signature(call(0).ticks)

WORK = ("a", 12.0, 15.0), ("b", 22.0, 38.0)
"""Nothing for 12 µs, a; nothing for 7 µs, b; nothing for 2 µs."""


def in_us(one: IdleGap) -> tuple[str, str, int, dict[int, int]]:
    return (
        one.before,
        one.after,
        round(one.seconds / US),
        {at: round(took_s / US) for at, took_s in one.of_steps.items()},
    )


def test_each_gap_has_what_the_host_does_in_it() -> None:
    found = gaps([call(1000.0 * at, *WORK) for at in range(8)], PATH)
    assert list(map(in_us, found)) == [
        ("", "a", 12, {0: 10, 1: 2}),
        ("a", "b", 7, {1: 5, 2: 2}),
        ("b", "", 2, {3: 2}),
    ]


def test_gaps_and_work_add_up_to_the_call() -> None:
    found = gaps([call(1000.0 * at, *WORK) for at in range(8)], PATH)
    busy = sum(end - begin for _, begin, end in WORK)
    assert sum(one.seconds for one in found) / US + busy == pytest.approx(40)


def test_work_beside_other_work_leaves_no_gap() -> None:
    beside = ("a", 12.0, 30.0), ("copy", 14.0, 20.0), ("b", 25.0, 40.0)
    found = gaps([call(1000.0 * at, *beside) for at in range(8)], PATH)
    assert [(one.before, one.after) for one in found] == [("", "a")]


def test_a_gap_is_behind_what_ended_last() -> None:
    beside = ("long", 0.0, 30.0), ("short", 5.0, 8.0), ("next", 35.0, 40.0)
    found = gaps([call(1000.0 * at, *beside) for at in range(8)], PATH)
    assert list(map(in_us, found)) == [("long", "next", 5, {3: 5})]


def test_calls_that_ran_something_else_do_not_count() -> None:
    usual = [call(1000.0 * at, *WORK) for at in range(8)]
    other = [call(9000.0, ("other", 30.0, 39.0)), call(9900.0)]
    elsewhere = replace(
        call(9950.0, ("c", 1.0, 2.0)), ticks=[(0.0, "forward", 0), (1.0, "over", 0)]
    )
    assert gaps([*usual, *other, elsewhere], PATH) == gaps(usual, PATH)


def test_without_calls_there_are_no_gaps() -> None:
    assert gaps([], PATH) == []
    assert gaps([call(0.0)], PATH) == []


def test_work_belongs_to_the_call_that_it_begins_in() -> None:
    calls = [call(1000.0 * at, *WORK) for at in range(3)]
    between = DeviceWork("between", 500 * US, 501 * US)
    before = DeviceWork("before", -500 * US, -499 * US)
    whole = sorted(
        [before, between, *(one for own in calls for one in own.work)], key=lambda one: one.begin_s
    )
    assert assigned([list(one.ticks) for one in calls], whole) == calls


GAPS = (
    LedgerGap(0, 1, 0, "", "triton_poi_fused_0", 4 * US, (0,), (4 * US,)),
    LedgerGap(
        0,
        1,
        1,
        "triton_poi_fused_0",
        "void cutlass::Kernel2<int>(int)",
        30 * US,
        (1, 2),
        (5 * US, 25 * US),
    ),
)


def test_the_longest_gap_is_told_first_with_what_the_host_did_longest() -> None:
    steps = entry("entry", 20), entry("guards", 30), entry("python", 40), entry("kernel", 10)
    on_gpu = replace(figures(*steps, call=replace(CALL, busy_s=66 * US)), gaps=GAPS)
    assert gap_rows(on_gpu) == [
        (
            "between triton_poi_fused_0 and Kernel2",
            "30 µs",
            "30 %",
            "Python that was not compiled 25 µs and guards 5 µs",
        ),
        ("before triton_poi_fused_0", "4 µs", "4 %", "entering torch.compile 4 µs"),
    ]
    longest = (
        "It waits longest between triton_poi_fused_0 and Kernel2: 30 µs; meanwhile on the host: "
    )
    assert any(one.startswith(longest) for one in verdict(on_gpu))
    assert "the GPU waits" in FORMATS["text"](on_gpu, False)
    assert "between triton_poi_fused_0 and Kernel2" in FORMATS["markdown"](on_gpu, False)
    told = json.loads(FORMATS["json"](on_gpu, False))["gaps"]
    assert [one["seconds"] for one in told] == [30 * US, 4 * US]
    assert told[0]["meanwhile"][0] == {
        "step": 2,
        "name": "Python that was not compiled",
        "seconds": 25 * US,
    }


def test_a_ledger_of_a_cpu_has_no_gaps() -> None:
    assert "GPU" not in FORMATS["text"](figures(entry("kernel", 100)), False)


@pytest.mark.parametrize(
    ("kernel", "short"),
    [
        ("triton_per_fused_add_1", "triton_per_fused_add_1"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::F>(int)",
            "vectorized_elementwise_kernel",
        ),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD"),
        ("", ""),
    ],
)
def test_kernels_of_libraries_are_told_without_their_types(kernel: str, short: str) -> None:
    assert short_kernel_name(kernel) == short


def test_a_gap_at_the_end_is_behind_the_last_kernel() -> None:
    assert place_of(LedgerGap(0, 1, 0, "a", "", US, (), ())) == "after a"
