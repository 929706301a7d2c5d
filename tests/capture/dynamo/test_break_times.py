"""These tests check times at graph breaks from ticks written by hand, and compare the clock in
compiled code with torch's own counting.
"""

from __future__ import annotations

import torch

from fx_explorer.capture.dynamo.frame_clock import FrameClock, Tick, TickKind, TimedFrame, spent
from fx_explorer.capture.recorder import recording
from fx_explorer.model import CaptureRequest
from fx_explorer.session.writer import IN_MEMORY, SessionWriter

CUT, REST, LAST, INNER = 0, 1, 2, 3
FRAMES = [
    TimedFrame("0/0", is_resume=False, is_cut=True, has_graph=True),
    TimedFrame("1/0", is_resume=True, is_cut=True, has_graph=False),
    TimedFrame("2/0", is_resume=True, is_cut=False, has_graph=True),
    TimedFrame("3/0", is_resume=False, is_cut=True, has_graph=True),
]


def at(*ticks: tuple[float, TickKind, int]) -> dict[int, float]:
    return spent([Tick(*tick) for tick in ticks], FRAMES).at_cuts_s


def test_a_cut_lasts_from_the_graph_before_to_the_graph_behind() -> None:
    found = at(
        (0, "enter", CUT),
        (1, "begin", CUT),
        (3, "end", CUT),
        (13, "resume", CUT),
        (14, "enter", LAST),
        (15, "begin", LAST),
        (20, "end", LAST),
        (30, "leave", LAST),
        (31, "leave", CUT),
    )
    assert found == {CUT: 12}


def test_of_two_cuts_in_a_row_each_has_its_own_time() -> None:
    found = at(
        (0, "enter", CUT),
        (1, "begin", CUT),
        (3, "end", CUT),
        (13, "resume", CUT),
        (14, "enter", REST),
        (114, "resume", REST),
        (115, "enter", LAST),
        (116, "begin", LAST),
        (120, "end", LAST),
        (130, "leave", LAST),
        (131, "leave", REST),
        (132, "leave", CUT),
    )
    assert found == {CUT: 11, REST: 102}


def test_a_rest_that_is_not_compiled_is_no_time_at_the_cut() -> None:
    found = at(
        (0, "enter", CUT),
        (1, "begin", CUT),
        (3, "end", CUT),
        (5, "resume", CUT),
        (105, "enter", CUT),
        (106, "begin", CUT),
        (107, "end", CUT),
        (109, "leave", CUT),  # the rest calls it again
        (209, "leave", CUT),
    )
    assert found == {CUT: 2 + 2}


def test_a_frame_that_an_exception_ended_is_over() -> None:
    """``INNER`` is called at the cut, and raises at its own; the code at the cut catches that."""
    found = at(
        (0, "enter", CUT),
        (1, "begin", CUT),
        (2, "end", CUT),
        (4, "enter", INNER),
        (5, "begin", INNER),
        (6, "end", INNER),
        (16, "resume", CUT),
        (17, "enter", LAST),
        (18, "begin", LAST),
        (19, "end", LAST),
        (29, "leave", LAST),
    )
    assert found == {CUT: 2 + 1 + 2, INNER: 10}


def nested(x: torch.Tensor) -> torch.Tensor:
    x = x.sin()
    torch._dynamo.graph_break()
    return x.cos()


def program(x: torch.Tensor) -> torch.Tensor:
    x = nested(x.exp())
    return x + 1 if x.sum() > 0 else x - 1


def test_a_call_ticks_for_each_graph_that_torch_made() -> None:
    torch._dynamo.reset()
    with (
        SessionWriter(IN_MEMORY) as writer,
        recording(writer, CaptureRequest("test", ""), lambda notice: None) as state,
    ):
        clock = FrameClock(state)
        before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        compiled = torch.compile(program, backend="eager")
        with clock.installed():
            expected = compiled(torch.ones(3))
        clock.take()
        torch.testing.assert_close(compiled(torch.ones(3)), program(torch.ones(3)))
        torch.testing.assert_close(expected, program(torch.ones(3)))
        ticks = clock.take()
        graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"] - before
    assert (
        sum(tick.kind == "begin" for tick in ticks)
        == graphs
        == sum(frame.has_graph for frame in clock.frames)
    )
    kinds = [tick.kind for tick in ticks]
    assert kinds.count("enter") == kinds.count("leave") == len(clock.frames)
    assert (
        kinds.count("resume")
        == sum(frame.is_cut for frame in clock.frames)
        == sum(frame.is_resume for frame in clock.frames)
    )
    assert [tick.time_s for tick in ticks] == sorted(tick.time_s for tick in ticks)
    torch._dynamo.reset()


def test_on_an_accelerator_each_tick_waits_for_the_device_first() -> None:
    torch._dynamo.reset()
    waited: list[int] = []
    with (
        SessionWriter(IN_MEMORY) as writer,
        recording(writer, CaptureRequest("test", ""), lambda notice: None) as state,
    ):
        clock = FrameClock(state, lambda: waited.append(1))
        with clock.installed():
            torch.compile(program, backend="eager")(torch.ones(3))
    assert len(waited) == len(clock.take()) > 0
    torch._dynamo.reset()
