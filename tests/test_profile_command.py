"""These tests check ``fx-explorer profile`` and ``--profile``: the same figures for people and for
programs, and the answers to bad input.
"""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pytest

from fx_explorer import cli
from tests.profiles import (
    DATA,
    events,
    gpu_seconds,
    graph_seconds,
    profiled_session,
    recorded_session,
    unpacked,
)


def printed(capsys: pytest.CaptureFixture[str], *words: str | Path, code: int = 0) -> str:
    assert cli.main([str(word) for word in words]) == code
    return capsys.readouterr().out


def test_the_verdict_comes_first_and_says_where_the_time_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = recorded_session("gpt2", tmp_path)
    told = printed(capsys, "profile", session, DATA / "gpt2.json.gz").splitlines()
    assert told[0].startswith(
        "The GPU computes for 1.31 ms in gpt2.json.gz: 71 % in compiled graphs; the optimizer 28 %"
    )
    assert told[2].startswith("Most expensive: your line pytorch_utils.py:119 (37 %), module ")
    assert "It waits longest between" in told[4]
    assert "meanwhile: " in told[4]
    for heading in (
        "your lines:",
        "modules:",
        "kernels:",
        "operations:",
        "assigned to no kernel:",
        "the GPU is idle:",
    ):
        assert heading in told


def test_json_and_csv_have_every_kernel_with_sums_of_the_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = profiled_session("gpt2", tmp_path)
    found = json.loads(printed(capsys, "profile", session, "--format", "json"))
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "profile", session, "--format", "csv"))))
    told = events("gpt2.json.gz")
    assert found["schema"] == "fx-explorer/profile/1"
    assert found["profile"]["work_s"] == pytest.approx(gpu_seconds(told))
    assert len(rows) == len(found["kernels"]) > 60
    assert sum(float(row["seconds"]) for row in rows) == pytest.approx(graph_seconds(told))
    assert {row["direction"] for row in rows} == {"forward", "backward"}
    elsewhere = sum(one["seconds"] for one in found["elsewhere"])
    assert sum(one["seconds"] for one in found["kernels"]) + elsewhere == pytest.approx(
        gpu_seconds(told)
    )


def test_markdown_has_the_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = printed(capsys, "profile", profiled_session("broken", tmp_path), "--format", "markdown")
    assert told.startswith("- The GPU computes for 147 µs")
    assert "| line | time | share | forward | backward |" in told
    assert "| broken.py:30 |" in told


def test_a_log_is_joined_as_a_session_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = unpacked("broken.log.gz", tmp_path)
    told = printed(capsys, "profile", log, DATA / "broken.bare.json.gz")
    assert "100 % is assigned to a kernel, 100 % to an operation, 100 % to a line of yours" in told
    assert "broken.py:30" in told


def test_the_profile_is_kept_in_the_session(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = recorded_session("broken", tmp_path)
    first = printed(capsys, "profile", session, DATA / "broken.json.gz")
    assert printed(capsys, "profile", session) == first


def test_a_session_that_cannot_be_written_to_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = recorded_session("broken", tmp_path)
    before = session.read_bytes()
    # root may write whatever the mode says
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert cli.main(["profile", str(session), str(DATA / "broken.json.gz")]) == 0
    told = capsys.readouterr()
    assert "100 % is assigned to a kernel" in told.out
    assert "stays unchanged" in told.err
    assert session.read_bytes() == before


def test_the_overview_without_a_terminal_has_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = recorded_session("gpt2", tmp_path)
    told = " ".join(printed(capsys, session, "--profile", DATA / "gpt2.json.gz").split())
    assert "The GPU computes for 1.31 ms in gpt2.json.gz" in told
    assert "The GPU is idle for 45.8 ms of the 47.1 ms between its first and its last work" in told


def test_modules_and_the_report_have_the_times_of_the_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = profiled_session("gpt2", tmp_path)
    modules = json.loads(printed(capsys, "modules", session, "--format", "json"))
    assert modules["time_kinds"] == ["in a profile"]
    assert modules["whole"]["time_s"] == pytest.approx(graph_seconds(events("gpt2.json.gz")))
    report = json.loads(printed(capsys, "report", session))
    kernels = [
        kernel for compilation in report["compilations"] for kernel in compilation["kernels"]
    ]
    assert {kernel["seconds_are"] for kernel in kernels} == {"in a profile"}
    assert sum(kernel["seconds"] for kernel in kernels) == pytest.approx(
        graph_seconds(events("gpt2.json.gz"))
    )


def test_a_profile_of_another_program_is_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = printed(
        capsys, "profile", recorded_session("broken", tmp_path), DATA / "gpt2.json.gz", code=1
    )
    assert "a profile of another program" in told


@pytest.mark.parametrize("content", ["", "garbage", '{"traceEvents": []}'])
def test_what_is_no_profile_is_exit_code_5(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text(content)
    assert cli.main(["profile", str(recorded_session("broken", tmp_path)), str(trace)]) == 5
    assert str(trace) in capsys.readouterr().err


def test_a_target_that_is_no_session_is_told_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "train.py"
    program.write_text("print(1)\n")
    for words in (["profile", str(program), "t.json"], [str(program), "--profile", "t.json"]):
        assert cli.main(words) == 2
        assert "fx-explorer run" in capsys.readouterr().err


def test_a_session_without_a_profile_says_how_to_give_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["profile", str(recorded_session("broken", tmp_path))]) == 2
    assert "has no profile. Give a profile" in capsys.readouterr().err
