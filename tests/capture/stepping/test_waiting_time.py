"""These tests check that time spent waiting for the user is not counted as compile time, and that
another variant's time is not counted for the first.
"""

from __future__ import annotations

from pathlib import Path

from torch._guards import CompileId
from torch._logging import trace_structured

from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.trace import trace_records
from fx_explorer.instruments.compile_time.timing import stage_times
from fx_explorer.model import CaptureRequest, Command, Compilation, Span
from fx_explorer.session import SessionReader, SessionWriter
from tests.capture.stepping.driving import Driven, drive
from tests.exhaustive import in_exhaustive_runs

STACK = [{"filename": 0, "line": 1, "name": "f"}]


def tell(name: str, content: dict[str, object], payload: object = None) -> None:
    trace_structured(
        name,
        lambda: content,
        payload_fn=lambda: payload,
        compile_id=CompileId(frame_id=0, frame_compile_id=0),
    )


def event(phase: str, name: str, time_s: float) -> None:
    tell("chromium_event", {}, {"ph": phase, "name": name, "ts": time_s * 1e6})


def test_a_minute_at_a_gate_is_not_in_the_times(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        recording = Recording(writer, CaptureRequest("test", ""), lambda _: None)
        with trace_records(recording):
            now = recording.started
            event("B", "dynamo", now)
            tell("dynamo_start", {"stack": STACK})
            event("B", "backend_compile", now + 1)
            recording.waited_s = 60.0
            event("E", "backend_compile", now + 63)
            event("E", "dynamo", now + 64)
            tell("compilation_metrics", {"entire_frame_compile_time_s": 64.0})
    with SessionReader(tmp_path / "s.fxs") as reader:
        took = {span.name: round(span.duration_s, 3) for span in reader.rows(Span)}
        assert took == {"backend_compile": 2.0, "dynamo": 4.0}
        assert reader.rows(Compilation)[0].duration_s == 4.0


def outermost(driven: Driven, variant: str) -> list[str]:
    return [
        span.name
        for span in driven.reader.rows(Span, compilation=driven.variant(variant).id)
        if span.depth == 0
    ]


@in_exhaustive_runs
def test_another_variant_at_the_end_adds_nothing_to_the_time_of_the_first(tmp_path: Path) -> None:
    alone = drive(tmp_path / "alone.fxs")
    driven = drive(
        tmp_path / "s.fxs", [Command("again", gate="dynamo"), Command("again", gate="joint")]
    )
    assert outermost(driven, "0/0") == outermost(alone, "0/0")
    assert outermost(driven, "0/0~1") == outermost(driven, "0/0~2") == ["backend_compile"]


def test_what_dynamo_took_is_not_lost_when_another_variant_is_compiled_within_its_frame(
    tmp_path: Path,
) -> None:
    driven = drive(
        tmp_path / "s.fxs", [Command("again", gate="dynamo")], pause="dynamo", build=True
    )
    assert driven.variant("0/0~1").in_use
    assert outermost(driven, "0/0") == ["dynamo"]
    assert stage_times(driven.reader).by_stage["dynamo"] > 0


@in_exhaustive_runs
def test_measuring_a_variant_adds_nothing_to_the_times(tmp_path: Path) -> None:
    alone = drive(tmp_path / "alone.fxs")
    driven = drive(tmp_path / "s.fxs", [Command("measure", compilation="0/0")])
    assert outermost(driven, "0/0") == outermost(alone, "0/0")
