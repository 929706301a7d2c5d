"""A report of which a second process computes a part is the one that a single process writes."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from fx_explorer.errors import NotASessionError
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.report import asked_beside as module
from fx_explorer.report.asked_beside import asked_beside
from fx_explorer.report.json_report import json_report
from fx_explorer.session import SessionReader, SessionWriter

LOGS = Path(__file__).parents[1] / "data" / "torch_trace"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("session")
    log = folder / "train.log"
    log.write_bytes(gzip.decompress((LOGS / "h200_llama_train.log.gz").read_bytes()))
    read_log(log, folder / "train.fxs")
    return folder / "train.fxs"


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(os, "fork"):
        pytest.skip("needs os.fork")
    monkeypatch.setattr(module, "is_gain", lambda: True)
    monkeypatch.setattr(module, "LARGE", 1)


def pid_of(_: SessionReader) -> int:
    return os.getpid()


def test_a_small_session_is_asked_here(session: Path) -> None:
    with SessionReader(session) as reader, asked_beside(reader, pid_of) as pid:
        assert pid() == os.getpid()


@pytest.mark.usefixtures("beside")
def test_a_large_session_is_asked_in_another_process(session: Path) -> None:
    with SessionReader(session) as reader, asked_beside(reader, pid_of) as pid:
        assert pid() != os.getpid()


@pytest.mark.usefixtures("beside")
def test_a_session_that_is_being_written_is_asked_here(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "s.fxs"):
        with SessionReader(tmp_path / "s.fxs") as reader, asked_beside(reader, pid_of) as pid:
            assert pid() == os.getpid()


@pytest.mark.usefixtures("beside")
def test_an_error_of_the_other_process_is_raised_here(session: Path) -> None:
    def fail(_: SessionReader) -> int:
        raise NotASessionError("damaged")

    with SessionReader(session) as reader, asked_beside(reader, fail) as answer:
        with pytest.raises(NotASessionError, match="damaged"):
            answer()


def test_the_report_is_the_same(session: Path, request: pytest.FixtureRequest) -> None:
    with SessionReader(session) as reader:
        alone = json_report(reader)
    request.getfixturevalue("beside")
    with SessionReader(session) as reader:
        both = json_report(reader)
    assert both == alone
    assert [*both] == [*alone]
