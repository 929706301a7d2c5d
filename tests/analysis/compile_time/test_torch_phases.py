"""These tests check the seconds of phases under torch's own names against torch's records."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from fx_explorer.cli import main
from fx_explorer.instruments.compile_time.torch_phases import TIMED, PhaseSeconds, torch_phases
from fx_explorer.readers.torch_trace.read_log import read_log
from fx_explorer.session import SessionReader
from tests.conftest import ROOT

LOG = ROOT / "tests" / "data" / "torch_trace" / "h200_llama_train.log.gz"

CODE_GENERATION = "inductor_code_gen_cumulative_compile_time_us"

RECORDS = ("compilation_metrics", "bwd_compilation_metrics")


def text_of_log() -> str:
    return gzip.decompress(LOG.read_bytes()).decode()


def metrics_of_log() -> dict[str, dict[str, Any]]:
    """Return torch's records of both compiles, by their names."""
    found = {}
    for line in text_of_log().split("\n"):
        if "compilation_metrics" in line and line.startswith("V"):
            record = json.loads(line[line.index("{") :])
            found.update({name: record[name] for name in RECORDS if record.get(name)})
    return found


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> SessionReader:
    path = tmp_path_factory.mktemp("phases") / "log.fxs"
    read_log(LOG, path)
    return SessionReader(path)


def test_each_number_is_that_of_torchs_record(session: SessionReader) -> None:
    metrics = metrics_of_log()
    phases = torch_phases(session)
    assert {phase.source for phase in phases} == set(metrics)
    for phase in phases:
        assert phase.seconds == metrics[phase.source][phase.torch_name] / 1e6
    assert {phase.phase.column for phase in phases} >= {CODE_GENERATION, "duration_us"}


def test_the_timed_phases_say_the_same(tmp_path: Path, session: SessionReader) -> None:
    def key(phase: PhaseSeconds) -> tuple[str, str]:
        return phase.direction, phase.phase.name

    without = [line for line in text_of_log().split("\n") if 'compilation_metrics"' not in line]
    (tmp_path / "cut.log").write_text("\n".join(without))
    read_log(tmp_path / "cut.log", tmp_path / "cut.fxs")
    timed = {key(phase): phase for phase in torch_phases(SessionReader(tmp_path / "cut.fxs"))}
    assert {phase.source for phase in timed.values()} == {TIMED}
    whole = {key(phase): phase for phase in torch_phases(session)}
    assert len(timed) >= 8
    for name, phase in timed.items():
        assert phase.seconds == pytest.approx(whole[name].seconds, rel=0.02, abs=0.01)


def test_one_number_is_answered_with_its_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", str(LOG), "phases", "code generation backward"]) == 0
    answer = json.loads(capsys.readouterr().out)
    (row,) = answer["rows"]
    assert row["seconds"] == metrics_of_log()["bwd_compilation_metrics"][CODE_GENERATION] / 1e6
    assert row["torch_name"] == CODE_GENERATION
    assert CODE_GENERATION in answer["answer"]
    assert main(["ask", str(LOG), "phases", "nonsense"]) == 2
