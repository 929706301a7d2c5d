"""These tests check where compile time went: no time is counted twice, and none is hidden."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.instruments.compile_time.timing import LOADING, exclusive_seconds, stage_times
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.queries.compilations import compile_seconds
from tests.sessions import Written


def span(name: str, stage: model.Stage | None, start: float, duration: float) -> model.Span:
    return model.Span(0, 1, name, stage, start, duration)


def test_what_surrounds_the_stages_is_loading_where_a_cache_had_what_it_makes() -> None:
    spans = [
        span("dynamo", None, 0, 10),
        span("backend_compile", None, 2, 7),
        span("PyCodeCache.load_by_key_path", None, 4, 3),
    ]
    assert exclusive_seconds(spans)["pre_grad"] >= 4
    loading = {spans[0].compilation: LOADING | {"backend_compile"}}
    assert exclusive_seconds(spans, loading) == {"dynamo": 3, "cache": 7}


def test_an_instant_belongs_to_the_innermost_span() -> None:
    spans = [span("a", "dynamo", 0, 10), span("b", "joint", 2, 5), span("c", "post_grad", 3, 1)]
    assert exclusive_seconds(spans) == {"dynamo": 5, "joint": 4, "post_grad": 1}


def test_a_span_without_a_stage_belongs_to_the_one_around_it() -> None:
    assert exclusive_seconds([span("a", "dynamo", 0, 10), span("b", None, 2, 5)]) == {"dynamo": 10}


def test_what_surrounds_the_stages_is_work_for_one() -> None:
    assert exclusive_seconds([span("create_aot_dispatcher_function", None, 0, 3)]) == {"joint": 3}


def test_unknown_time_is_kept_apart() -> None:
    assert exclusive_seconds([span("news", None, 0, 3), span("a", "dynamo", 1, 1)]) == {
        "": 2,
        "dynamo": 1,
    }


@pytest.mark.parametrize("overrun", [0.0, 0.5])
def test_a_span_that_ends_late_is_cut(overrun: float) -> None:
    spans = [
        span("a", "dynamo", 0, 2),
        span("b", "joint", 1, 1 + overrun),
        span("c", "kernel", 3, 1),
    ]
    assert exclusive_seconds(spans) == {"dynamo": 1, "joint": 1, "kernel": 1}


def test_the_same_instant_twice_counts_once() -> None:
    assert sum(exclusive_seconds([span("a", "dynamo", 0, 2)] * 3).values()) == 2


def test_no_spans_take_no_time() -> None:
    assert exclusive_seconds([]) == {}


def test_time_in_no_span_is_said(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        writer.add(model.Compilation(0, "0/0", 0, 0, "f", "", 0, duration_s=10.0))
        writer.add(span("a", "dynamo", 0, 4))

    times = stage_times(written(write))
    assert (times.by_stage, times.total_s, times.unaccounted_s) == ({"dynamo": 4}, 10, 6)


def test_a_backward_compiled_later_is_counted(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        writer.add(model.Compilation(0, "0/0", 0, 0, "f", "", 0, duration_s=3.0))
        writer.add_all([span("dynamo", None, 0, 3), span("backward", "backward", 100, 2)])

    assert compile_seconds(written(write)) == 5


def test_stages_add_up_to_the_whole(step: SessionReader) -> None:
    times = stage_times(step)
    assert times.by_stage == {"dynamo": 1.0, "schedule": 0.5, "output_code": 0.5}
    assert times.total_s == 2.0


def test_the_time_of_a_real_compile_is_what_torch_says(
    captured: Callable[..., Path], reader: Callable[[Path], SessionReader]
) -> None:
    session = reader(captured("mlp"))
    (metrics,) = [m for m in session.rows(model.Metric) if m.name == "compilation_metrics"]
    import json

    torch_says = json.loads(metrics.value)["entire_frame_compile_time_s"]
    times = stage_times(session)
    assert times.total_s == pytest.approx(torch_says, rel=0.05)
    assert sum(times.by_stage.values()) == pytest.approx(times.total_s, rel=0.05)
    assert times.by_stage.get("", 0.0) < 0.1 * times.total_s
