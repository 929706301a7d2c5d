"""These tests check ``report --format chrome-trace``, ``collapsed`` and ``svg``: names, nesting and
sums equal those of the JSON report.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from fx_explorer.analysis.flame import FlameFrame
from fx_explorer.cli import main
from fx_explorer.instruments.ledger.flame_chart import flame
from fx_explorer.instruments.ledger.report import ledger_object
from fx_explorer.overview.view_tables import TABLES
from fx_explorer.report import view_pictures
from fx_explorer.report.collapsed_stacks import collapsed_stacks
from fx_explorer.report.trace_events import CALL, COMPILING, LINES, MEMORY, events_of_call
from fx_explorer.session import SessionReader
from tests.ledger.test_flame import TRAINING_STEP, TRAINS
from tests.ledger.test_ledger_rows import figures
from tests.report.conftest import Report

WHOLE = Path(__file__).parents[1] / "data" / "screens" / "whole.fxs.gz"

Event = dict[str, Any]

NUMBER, TEXT = {"type": "number"}, {"type": "string", "minLength": 1}
SCHEMA = {
    "type": "object",
    "required": ["traceEvents", "otherData", "displayTimeUnit"],
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "traceEvents": {
            "type": "array",
            "items": {
                "required": ["name", "ph", "pid", "tid", "args"],
                "properties": {"pid": {"type": "integer"}, "tid": {"type": "integer"}},
                "oneOf": [
                    {
                        "required": ["ts", "dur", "cat"],
                        "properties": {
                            "ph": {"const": "X"},
                            "name": TEXT,
                            "ts": {**NUMBER, "minimum": 0},
                            "dur": {**NUMBER, "minimum": 0},
                        },
                    },
                    {
                        "required": ["ts"],
                        "properties": {
                            "ph": {"const": "C"},
                            "args": {"additionalProperties": NUMBER, "minProperties": 1},
                        },
                    },
                    {
                        "properties": {
                            "ph": {"const": "M"},
                            "name": {"enum": ["process_name", "thread_name"]},
                            "args": {"required": ["name"], "properties": {"name": TEXT}},
                        },
                    },
                ],
            },
        },
    },
}
"""What the Trace Event Format asks of the events that are written."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "whole.fxs"
    path.write_bytes(gzip.decompress(WHOLE.read_bytes()))
    return path


@pytest.fixture(scope="module")
def trace(session: Path) -> list[Event]:
    path = session.with_suffix(".json")
    assert main(["report", str(session), "--format", "chrome-trace", "-o", str(path)]) == 0
    content = json.loads(path.read_text())
    jsonschema.validate(content, SCHEMA)
    assert content["otherData"]["schema"] == "fx-explorer/trace/1"
    events: list[Event] = content["traceEvents"]
    return events


def nanoseconds(microseconds: float) -> int:
    return round(microseconds * 1000)


def ends(event: Event) -> tuple[int, int]:
    begin = nanoseconds(event["ts"])
    return begin, begin + nanoseconds(event["dur"])


def with_self_times(events: Sequence[Event]) -> list[tuple[Event, int]]:
    """Return each slice with the nanoseconds outside of those in it. Slices of a track nest."""
    tracks: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append(event)
    result: list[tuple[Event, int]] = []
    for slices in tracks.values():
        itself = [ends(event)[1] - ends(event)[0] for event in slices]
        running: list[int] = []
        for at, event in enumerate(slices):
            begin, end = ends(event)
            while running and ends(slices[running[-1]])[1] <= begin:
                running.pop()
            if running:
                around = ends(slices[running[-1]])
                assert around[0] <= begin <= end <= around[1], event
                itself[running[-1]] -= end - begin
            running.append(at)
        assert min(itself) >= 0
        result += zip(slices, itself, strict=True)
    return result


def test_phases_nest_and_their_times_are_those_of_the_report(
    session: Path, trace: list[Event], report: Report
) -> None:
    phases = [event for event in trace if event["pid"] == COMPILING]
    sums: dict[tuple[str, str], float] = defaultdict(float)
    for event, itself in with_self_times(phases):
        sums[event["args"]["compilation"], event["cat"]] += itself / 1e9
    told = {}
    for compilation in report(session)["compilations"]:
        for stage, spent in compilation["seconds"].items():
            told[compilation["id"], stage] = spent
    assert len(told) > 10
    assert dict(sums) == pytest.approx(told, abs=1e-5)


def test_each_compilation_has_a_track_with_its_function(
    session: Path, trace: list[Event], report: Report
) -> None:
    names = [
        event["args"]["name"]
        for event in trace
        if event["name"] == "thread_name" and event["pid"] == COMPILING
    ]
    compilations = report(session)["compilations"]
    assert len(names) == len(compilations) > 1
    for name, compilation in zip(names, compilations, strict=True):
        assert name.startswith(f"[{compilation['id']}] ")


def test_the_counter_of_memory_has_the_peak_of_the_report(
    session: Path, trace: list[Event], report: Report
) -> None:
    memory = report(session)["memory"]
    held = [event for event in trace if event["name"] == "bytes held"]
    by_kind = [event for event in trace if event["name"] == "bytes by kind"]
    assert held[0]["args"]["all"] == memory["begin_bytes"]
    assert max(event["args"]["all"] for event in held) == memory["peak_bytes"]
    for total, kinds in zip(held, by_kind, strict=True):
        assert total["ts"] == kinds["ts"]
        assert total["args"]["all"] == sum(kinds["args"].values())
    peak = max(by_kind, key=lambda event: sum(event["args"].values()))
    assert {kind: size for kind, size in peak["args"].items() if size} == memory["peak"]
    calls = [event for event in trace if event["pid"] == MEMORY and event["ph"] == "X"]
    assert len(calls) > 5
    with_self_times(calls)


@pytest.mark.parametrize("call", [TRAINS, replace(TRAINS, call_s=1e-6)])
def test_the_steps_of_a_call_are_those_of_the_ledger(call: Any) -> None:
    ledger = figures(*TRAINING_STEP, call=call)
    events = list(events_of_call(ledger))
    jsonschema.validate({"traceEvents": events, "otherData": {}, "displayTimeUnit": "ms"}, SCHEMA)
    written = ledger_object(ledger)["steps"]
    assert isinstance(written, list)
    assert all(event["pid"] == CALL for event in events)
    slices = with_self_times(events)
    steps = [event for event, _ in slices if event["cat"] in {step["kind"] for step in written}]
    assert len(steps) == len(written) == len(TRAINING_STEP)
    for event, step in zip(steps, written, strict=True):
        assert event["cat"] == step["kind"]
        assert event["dur"] == pytest.approx(step["host_s"] * 1e6, abs=0.002)
    whole = slices[0][0]
    assert whole["ts"] == 0
    assert sum(itself for _, itself in slices) == nanoseconds(whole["dur"])
    assert whole["dur"] == pytest.approx(max(ledger.call.call_s, ledger.accounted_s) * 1e6)


def test_the_time_of_lines_stands_beside_their_phase() -> None:
    from fx_explorer.instruments.compile_time.timing import CompilePart, CompileTime
    from fx_explorer.model import Span
    from fx_explorer.report.trace_events import _lines_in

    line = FlameFrame("net.py:3", "line", 2, 0.0, 2e-6, range(2, 3))
    module = FlameFrame("first", "module", 1, 0.0, 2e-6, range(1, 3), None, (line,))
    inner = FlameFrame("lowering", "schedule", 1, 2e-6, 3e-6, range(3, 5))
    elsewhere = FlameFrame("net.py:3", "line", 2, 2e-6, 3e-6, range(4, 5))
    phase = FlameFrame("Dynamo", "dynamo", 0, 0.0, 3e-6, range(5), None, (module, inner))
    span = Span(1, 1, "dynamo", "dynamo", 0.0, 3e-6)
    parts = [CompilePart(phase, span), CompilePart(module), CompilePart(line)]
    parts += [CompilePart(inner, span), CompilePart(elsewhere)]
    found = _lines_in(CompileTime(phase, tuple(parts), True), parts[0])
    assert found == {LINES: {"net.py:3": 2.0}}


# Collapsed stacks.


def stacks(text: str) -> dict[tuple[str, ...], int]:
    """Read collapsed stacks as flamegraph.pl does: the number is what stands after the last
    space.
    """
    read = {}
    for line in text.splitlines():
        stack, _, number = line.rpartition(" ")
        assert number.isdecimal(), line
        frames = tuple(stack.split(";"))
        assert frames not in read
        read[frames] = int(number)
    return read


def test_stacks_of_compile_time_add_up_to_the_view(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(session), "--format", "collapsed"]) == 0
    read = stacks(capsys.readouterr().out)
    with SessionReader(session) as reader:
        rows = TABLES["flame"](reader).rows
    in_all = {}
    for row in rows[:40]:
        in_all[row.cells[0].strip()] = row.values["in all"]
    assert sum(read.values()) == round(rows[0].values["in all"] * 1e6)
    of_function: dict[str, int] = defaultdict(int)
    for frames, microseconds in read.items():
        assert frames[0] == "fx-explorer: compiling"
        if len(frames) > 1:
            of_function[frames[1]] += microseconds
    assert len(of_function) > 1
    for name, microseconds in of_function.items():
        if name in in_all:
            assert microseconds == pytest.approx(in_all[name] * 1e6, abs=1)


def test_stacks_of_a_call_add_up_to_it_in_whole_microseconds() -> None:
    ledger = figures(*TRAINING_STEP, call=TRAINS)
    root = flame(ledger)
    read = stacks(collapsed_stacks(root))
    assert sum(read.values()) == round(root.duration_s * 1e6)
    leaves = {frame.name for frame in root.frames() if not frame.children}
    assert {frames[-1] for frames in read} <= leaves


def test_a_name_cannot_end_its_frame_or_its_line() -> None:
    inner = FlameFrame("a;b\nc 7", "line", 1, 0.0, 5e-6, range(0))
    root = FlameFrame("", "call", 0, 0.0, 5e-6, range(0), None, (inner,))
    assert collapsed_stacks(root) == "fx-explorer: ?;a:b␊c 7 5\n"


# Pictures.


def test_every_view_of_the_app_with_a_picture_is_a_section_with_one(session: Path) -> None:
    with SessionReader(session) as reader:
        drawn = {
            name for name, table in TABLES.items() if (make := table(reader)).svg and make.rows
        }
    assert {"flame", "step_memory"} <= drawn <= set(view_pictures.SECTIONS) <= set(TABLES)


def test_the_picture_is_that_of_the_view_and_is_replaced(session: Path, tmp_path: Path) -> None:
    file = tmp_path / "memory.svg"
    command = ["report", str(session), "--format", "svg", "--section", "step_memory"]
    assert main([*command, "-o", str(file)]) == 0
    assert main([*command, "-o", str(file)]) == 0, "a picture of ours is replaced"
    ElementTree.fromstring(file.read_text())
    with SessionReader(session) as reader:
        draw = TABLES["step_memory"](reader).svg
        assert draw
        assert file.read_text() == draw()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["svg"], "--format svg draws one section: --section flame, ledger, step_memory"),
        (["svg", "--section", "guards"], "--format svg has no section 'guards'; it has: flame"),
        (["svg", "--section", "bench"], "there is no picture of bench: Nothing was measured yet"),
        (["collapsed", "--section", "bench"], "--format collapsed has no section 'bench'"),
        (["collapsed", "--section", "ledger"], "this session has no ledger; make one with"),
        (["chrome-trace", "--section", "kernels"], "it has: flame, ledger, step_memory"),
        (["chrome-trace", "--section", "ledger"], "has nothing in its section ledger"),
    ],
)
def test_what_cannot_be_written_is_told(
    session: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["report", str(session), "--format", *options]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
