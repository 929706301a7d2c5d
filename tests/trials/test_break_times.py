"""These tests measure the time that calls spend at graph breaks. Each break sleeps a known time,
which is the least that can be measured there; nothing more is required of the clock.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from fx_explorer import cli, model
from fx_explorer.client import Capture
from fx_explorer.errors import UsageError
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.instruments.breaks.view import breaks_table
from fx_explorer.model import BreakTime, CallTime, CaptureRequest
from fx_explorer.report.json_report import json_report
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.trials import BreakTimes, TrialWorker, add_break_times, measure_breaks

pytestmark = pytest.mark.usefixtures("warm_workers")

PROGRAM = """
import time
import torch

def inner(x):
    x = x * 3
    time.sleep(0.004)  # inside
    return x + 3

def f(x):
    time.sleep(0.003)  # before any graph
    h = x.sin()
    time.sleep(0.002)  # between two graphs
    h = inner(h) + inner(h)
    if h.sum() > 0:  # branch
        h = h + 1
    h = h * 2
    torch._dynamo.graph_break()  # nothing to compile behind it
    time.sleep(0.001)
    return h

example_inputs = (torch.ones(4, 8),)
"""

LINES = {
    line.partition("# ")[2]: number
    for number, line in enumerate(PROGRAM.splitlines(), 1)
    if "# " in line
}

SLEPT_S = {"inside": 2 * 0.004, "before any graph": 0.003, "between two graphs": 0.002}


def program(tmp_path: Path, text: str = PROGRAM) -> CaptureRequest:
    (tmp_path / "p.py").write_text(text)
    return CaptureRequest(f"{tmp_path / 'p.py'}:f", "", backend="eager")


@pytest.fixture(scope="module")
def times(tmp_path_factory: pytest.TempPathFactory, warm_python: str) -> BreakTimes:
    return asyncio.run(
        measure_breaks(program(tmp_path_factory.mktemp("times")), worker=TrialWorker(warm_python))
    )


def of_lines(times: BreakTimes) -> dict[int, BreakTime]:
    return {line: row for (_, line, _), row in times.at_breaks}


@pytest.mark.parametrize("comment", SLEPT_S)
def test_a_break_takes_at_least_as_long_as_python_sleeps_there(
    times: BreakTimes, comment: str
) -> None:
    """Of the function that is called twice, both calls count; that it cuts its caller too does not
    make them more.
    """
    row = of_lines(times)[LINES[comment]]
    assert row.median_s >= SLEPT_S[comment]


def test_each_break_is_measured_and_all_are_parts_of_the_call(times: BreakTimes) -> None:
    rows = of_lines(times)
    assert set(rows) == set(LINES.values()) | {
        next(line for line in rows if "sleep(0.001)" in PROGRAM.splitlines()[line - 1])
    }
    assert times.call.runs >= 5
    assert times.call.device == "cpu"
    assert times.call.graphs_s > 0
    slept_s = sum(SLEPT_S.values()) + 0.001
    assert times.call.median_s >= slept_s


async def test_times_are_added_to_the_session_that_was_inspected_and_order_its_breaks(
    tmp_path: Path, times: BreakTimes
) -> None:
    request = program(tmp_path)
    capture = Capture(request)
    await capture.start()
    await capture.wait()
    try:
        moved = BreakTimes(
            times.call,
            tuple(((str(tmp_path / "p.py"), *cause[1:]), row) for cause, row in times.at_breaks),
        )
        with SessionReader(capture.session_path) as reader:
            assert {one.cost.run_s for one in distinct_breaks(reader)} == {None}
        assert add_break_times(capture.session_path, moved) == len(times.at_breaks)
        with SessionReader(capture.session_path) as reader:
            found = distinct_breaks(reader)
            report = json.loads(json.dumps(json_report(reader)))
            table = breaks_table(reader)
    finally:
        capture.discard()
    measured = {one.line: one.cost.run_s for one in found if one.cost.run_s is not None}
    assert measured == {line: row.median_s for line, row in of_lines(times).items()}
    assert next(iter(measured)) == LINES["inside"]
    assert (
        report["measured_call"]["calls"]
        == report["graph_breaks"][0]["cost"]["run_calls"]
        == times.call.runs
    )
    assert "takes" in [column.title for column in table.columns]


async def test_a_program_that_is_compiled_anew_at_every_call_is_refused(tmp_path: Path) -> None:
    """A function for each call: its code is the same, what is called is not."""
    text = (
        "import torch\nstate = {'calls': 0}\n\ndef f(x):\n    torch._dynamo.reset()\n"
        "    return torch.compile(lambda y: y.sin(), backend='eager')(x)\n\nexample_inputs = (torch.ones(3),)\n"
    )
    with pytest.raises(UsageError, match="recompiles at every call"):
        await measure_breaks(program(tmp_path, text))


async def test_a_program_that_torch_gives_up_compiling_is_refused(tmp_path: Path) -> None:
    """The guard on the list's length fails at every call, until the recompile limit; from then on
    it runs in Python.
    """
    text = (
        "import torch\nseen = []\n\ndef f(x):\n    x = x.sin()\n    seen.append(x.sum().item())\n    return x.cos()\n\n"
        "example_inputs = (torch.ones(3),)\n"
    )
    with pytest.raises(UsageError, match="until torch gave up"):
        await measure_breaks(program(tmp_path, text))


async def test_a_program_that_raises_when_it_is_called_again_is_told(tmp_path: Path) -> None:
    text = (
        "import torch\ncalls = []\n\n@torch.compiler.disable\ndef count():\n    calls.append(1)\n    if len(calls) > 4:\n"
        "        raise RuntimeError('called too often')\n\ndef f(x):\n    x = x.sin()\n    count()\n    return x.cos()\n\n"
        "example_inputs = (torch.ones(3),)\n"
    )
    with pytest.raises(UsageError, match="called too often"):
        await measure_breaks(program(tmp_path, text))


async def test_a_script_is_not_called_again() -> None:
    with pytest.raises(UsageError, match="A script cannot be called repeatedly"):
        await measure_breaks(CaptureRequest("train.py", "", as_script=True))


def test_the_report_of_a_target_has_the_times_when_they_are_asked_for(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    times: BreakTimes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[CaptureRequest] = []

    async def measured(request: CaptureRequest, *_: object) -> BreakTimes:
        asked.append(request)
        return BreakTimes(
            times.call,
            tuple(((str(tmp_path / "p.py"), *cause[1:]), row) for cause, row in times.at_breaks),
        )

    monkeypatch.setattr("fx_explorer.trials.measure_breaks", measured)
    target = program(tmp_path).target
    assert (
        cli.main(["report", target, "--backend", "eager", "--measure-breaks", "--timeout", "99"])
        == 0
    )
    report = json.loads(capsys.readouterr().out)
    assert report["measured_call"]["median_s"] == times.call.median_s
    slept = {one["line"]: one["cost"]["run_s"] for one in report["graph_breaks"]}
    assert slept[LINES["inside"]] == of_lines(times)[LINES["inside"]].median_s
    assert [request.target for request in asked] == [target]


def test_a_report_is_written_also_when_nothing_could_be_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object) -> BreakTimes:
        raise UsageError("It recompiles at every call.")

    monkeypatch.setattr("fx_explorer.trials.measure_breaks", refused)
    assert (
        cli.main(["report", program(tmp_path).target, "--backend", "eager", "--measure-breaks"])
        == 0
    )
    printed = capsys.readouterr()
    assert json.loads(printed.out)["measured_call"] is None
    assert "breaks are not measured: It recompiles at every call." in printed.err


def test_a_saved_session_is_not_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["report", str(tmp_path / "s.fxs"), "--measure-breaks"]) == 2
    assert "--measure-breaks works on targets" in capsys.readouterr().err


def test_only_the_last_measurement_counts(tmp_path: Path) -> None:
    path = tmp_path / "s.fxs"
    with SessionWriter(path) as writer:
        writer.add(model.GraphBreak(0, 0, "GB0025", "asked for", "", (), "/p.py", 3, "x"))
    cause = ("/p.py", 3, "GB0025")
    for median_s in (1.0, 2.0):
        add_break_times(
            path,
            BreakTimes(
                CallTime(0, 5.0, 0.1, 1.0, 9, "cpu"), ((cause, BreakTime(0, 0, 7, median_s, 0.1)),)
            ),
        )
    with SessionReader(path) as reader:
        (one,) = distinct_breaks(reader)
    assert one.cost.run_s == 2.0
