"""These tests check steps of hand-written ticks: what each interval is, and that no time is lost
between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from fx_explorer.instruments.ledger.measure.timeline import (
    CallStep,
    RawTick,
    account,
    middle_mean,
    steps,
)


@dataclass
class Frame:
    compilation: str = "0/0"
    is_cut: bool = False
    has_graph: bool = True


@dataclass
class Part:
    kind: str


PARTS = [Part("buffers"), Part("checks"), Part("call"), Part("buffers")]

GRAPH = ("begin 0", "wrapper 0", "part 1", "part 2", "part 3", "wrapper_end 3", "end 0")


def ticks(*told: str) -> list[RawTick]:
    """One tick a second: ``enter 0``; a mark has no number."""
    return [(float(i), one.split()[0], int(([*one.split(), "0"])[1])) for i, one in enumerate(told)]


def kinds(found: list[CallStep]) -> list[str]:
    return [step.kind for step in found]


def test_a_plain_call_is_entry_bytecode_wrapper_and_the_parts_of_its_graph() -> None:
    call = ticks("forward", "enter 0", *GRAPH, "leave 0", "release", "over")
    found = steps(call, [Frame()], PARTS)
    expected = [
        "entry",
        "bytecode",
        "wrapper",
        "buffers",
        "checks",
        "library",
        "buffers",
        "wrapper",
        "bytecode",
        "entry",
        "buffers",
    ]
    assert kinds(found) == expected
    assert [step.has_lookup for step in found].count(True) == 1
    assert found[0].has_lookup
    assert found[5].part == 2
    assert found[5].frame == 0


def test_what_runs_between_a_cut_graph_and_its_rest_is_the_break() -> None:
    rest = [one.replace(" 0", " 1") if one.split()[0] in ("begin", "end") else one for one in GRAPH]
    call = ticks(
        "forward", "enter 0", *GRAPH, "resume 0", "enter 1", *rest, "leave 1", "leave 0", "over"
    )
    found = steps(call, [Frame(is_cut=True), Frame("1/0")], PARTS)
    at_break = [i for i, step in enumerate(found) if step.kind == "break"]
    assert [found[i].frame for i in at_break] == [0]
    assert call[at_break[0]][1] == "end"
    resumed = next(i for i, tick in enumerate(call) if tick[1] == "resume")
    assert found[resumed].kind == "entry"
    assert found[resumed].has_lookup


def test_a_function_called_at_a_break_has_its_own_steps_and_the_rest_stays_the_breaks() -> None:
    call = ticks(
        "forward",
        "enter 0",
        "begin 0",
        "end 0",
        "enter 1",
        "begin 1",
        "end 1",
        "leave 1",
        "resume 0",
        "leave 0",
        "over",
    )
    found = steps(call, [Frame(is_cut=True), Frame("1/0")], [])
    assert kinds(found) == [
        "entry",
        "bytecode",
        "graph",
        "break",
        "bytecode",
        "graph",
        "bytecode",
        "break",
        "python",
        "entry",
    ]
    assert found[3].has_lookup, "the function's guards are evaluated while the break is open"
    assert [step.frame for step in found if step.kind == "break"] == [0, 0]


def test_a_break_before_any_graph_is_a_break() -> None:
    found = steps(
        ticks("forward", "enter 0", "resume 0", "leave 0", "over"),
        [Frame(is_cut=True, has_graph=False)],
        [],
    )
    assert kinds(found) == ["entry", "break", "python", "entry"]


def test_a_training_step_has_a_loss_and_autograd_around_the_backward_graph() -> None:
    call = ticks(
        "clear",
        "forward",
        "enter 0",
        *GRAPH,
        "leave 0",
        "loss",
        "backward",
        *GRAPH[1:-1],
        "release",
        "over",
    )
    found = steps(call, [Frame()], PARTS)
    backward = [step.kind for step in found if step.is_backward]
    assert backward == ["autograd", "buffers", "checks", "library", "buffers", "autograd"]
    assert kinds(found)[0] == "gradients"
    assert "loss" in kinds(found)


def test_python_between_two_compiled_functions_is_no_part_of_entering_them() -> None:
    call = ticks("forward", "enter 0", "leave 0", "enter 1", "leave 1", "over")
    assert kinds(steps(call, [Frame(has_graph=False), Frame(has_graph=False)], [])) == [
        "entry",
        "bytecode",
        "python",
        "bytecode",
        "entry",
    ]


def test_a_frame_that_an_exception_ended_does_not_own_what_follows() -> None:
    call = ticks("forward", "enter 0", "enter 1", "leave 0", "over")
    found = steps(call, [Frame(has_graph=False), Frame("1/0")], [])
    assert found[-1].kind == "entry"
    assert found[-1].frame == -1


def test_steps_are_as_many_as_intervals_so_they_add_up() -> None:
    call = ticks("forward", "enter 0", *GRAPH, "leave 0", "over")
    assert len(steps(call, [Frame()], PARTS)) == len(list(pairwise(call)))


# means


def calls_of(*took_s: float) -> list[list[RawTick]]:
    """Calls of two intervals, the second three times as long as the first."""
    return [[(0.0, "forward", 0), (whole / 4, "enter", 0), (whole, "over", 0)] for whole in took_s]


def test_what_the_clock_takes_is_shared_among_ticks_and_the_rest_is_the_plain_call() -> None:
    cost_s = {"forward": 1.0, "enter": 1.0, "over": 1.0}
    found = account(calls_of(*[42.0] * 20), cost_s, plain_s=40.0)
    assert sum(found.means_s) == 40.0
    assert found.clock_s == 2.0
    assert found.means_s == [9.5, 30.5]


def test_a_clock_is_not_blamed_for_more_than_it_may_cost() -> None:
    cost_s = {"forward": 1.0, "enter": 1.0, "over": 1.0}
    found = account(calls_of(*[100.0] * 20), cost_s, plain_s=40.0)
    assert found.clock_s == 8.0, (
        "four times what two ticks cost in a loop; the rest stays to be told"
    )


def test_outliers_and_calls_of_another_path_are_not_in_the_mean() -> None:
    usual = calls_of(*[8.0] * 12, 1000.0, 0.001)
    other = [[(0.0, "forward", 0), (5.0, "over", 0)]] * 3
    found = account([*usual, *other], {}, plain_s=8.0)
    assert found.means_s == [2.0, 6.0]
    assert (found.calls, found.other_calls) == (14, 3)


def test_the_mean_of_the_middle_half_leaves_out_both_ends() -> None:
    assert middle_mean([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 1e9]) == 3.5


def test_a_backward_without_generated_code_is_work_and_not_around_some() -> None:
    found = steps(
        ticks(
            "forward",
            "enter 0",
            "begin 0",
            "end 0",
            "leave 0",
            "loss",
            "backward",
            "release",
            "over",
        ),
        [Frame()],
        [],
    )
    assert [step.kind for step in found if step.is_backward] == ["graph"]


def test_what_calls_the_wrapper_of_a_branch_is_around_it_and_no_call_of_a_library() -> None:
    call = ticks(
        "forward",
        "enter 0",
        "begin 0",
        "wrapper 0",
        "part 2",
        "wrapper 3",
        "part 2",
        "wrapper_end 3",
    )
    call += [
        (len(call) + at, kind, number)
        for at, (kind, number) in enumerate([("part", 3), ("wrapper_end", 3), ("end", 0)])
    ]
    call += [(len(call) + at, kind, 0) for at, kind in enumerate(("leave", "release", "over"))]
    found = [(step.kind, step.part) for step in steps(call, [Frame()], PARTS) if step.part >= 0]
    assert found == [
        ("buffers", 0),
        ("wrapper", 2),
        ("buffers", 3),
        ("library", 2),
        ("wrapper", 2),
        ("buffers", 3),
    ]


def test_a_frame_that_an_exception_ended_does_not_hold_what_runs_behind_it() -> None:
    """``try: f(x)`` with an exception in the graph, ``except: g(x)``: neither f nor g breaks."""
    call = ticks(
        "forward",
        "enter 0",
        "begin 0",
        "end 0",
        "enter 1",
        "begin 1",
        "end 1",
        "leave 1",
        "release",
        "over",
    )
    found = steps(call, [Frame(), Frame("1/0")], PARTS)
    assert kinds(found) == [
        "entry",
        "bytecode",
        "graph",
        "python",
        "bytecode",
        "graph",
        "bytecode",
        "entry",
        "buffers",
    ]
    assert [step.frame for step in found] == [-1, 0, 0, -1, 1, 1, 1, -1, -1]
    assert found[3].has_lookup


def test_what_comes_behind_an_exception_that_nothing_compiled_follows_is_python() -> None:
    call = ticks("forward", "enter 0", "begin 0", "end 0", "release", "over")
    assert kinds(steps(call, [Frame()], PARTS)) == [
        "entry",
        "bytecode",
        "graph",
        "python",
        "buffers",
    ]


def test_a_frame_that_a_break_cuts_calls_others_and_is_still_running() -> None:
    call = ticks("forward", "enter 0", "begin 0", "end 0", "enter 1", "leave 1", "leave 0", "over")
    found = steps(call, [Frame(is_cut=True), Frame("1/0")], PARTS)
    assert [step.frame for step in found] == [-1, 0, 0, 0, 1, 0, -1]
    assert found[3].kind == "break"


def test_a_frame_that_is_entered_from_within_a_graph_lies_in_it() -> None:
    """An operator of the program's own that calls compiled code."""
    call = ticks("forward", "enter 0", "begin 0", "enter 1", "leave 1", "end 0", "leave 0", "over")
    assert [step.frame for step in steps(call, [Frame(), Frame("1/0")], PARTS)] == [
        -1,
        0,
        0,
        1,
        0,
        0,
        -1,
    ]


def test_a_wrapper_that_an_exception_ended_does_not_hold_the_next_one() -> None:
    graph = ("begin 1", "wrapper 0", "part 2", "wrapper_end 2", "end 1")
    call = ticks(
        "forward",
        "enter 0",
        "begin 0",
        "wrapper 0",
        "part 2",
        "end 0",
        "enter 1",
        *graph,
        "leave 1",
        "release",
        "over",
    )
    found = steps(call, [Frame(), Frame("1/0")], PARTS)
    assert kinds(found)[4:] == [
        "library",
        "python",
        "bytecode",
        "wrapper",
        "buffers",
        "library",
        "wrapper",
        "bytecode",
        "entry",
        "buffers",
    ]
