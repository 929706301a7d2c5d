"""What a log has many times is read once: stacks of kernels, and for the report the wrappers."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest

from fx_explorer.instruments.memory import graph_memory
from fx_explorer.instruments.memory.saved_values import biggest_saved_value, saved_values
from fx_explorer.model import Frame
from fx_explorer.readers.torch_trace import kernel_stacks, read_log
from fx_explorer.report.json_report import json_report
from fx_explorer.session import SessionReader
from fx_explorer.torch_texts.reports import parse_stack

LOGS = Path(__file__).parents[2] / "data" / "torch_trace"
LOG = LOGS / "h200_gpt_block_train.log.gz"
LOG_OF_LAYERS = LOGS / "h200_llama_train.log.gz"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("read_once")
    log = folder / "train.log"
    log.write_bytes(gzip.decompress(LOG.read_bytes()))
    read_log(log, folder / "train.fxs")
    return folder / "train.fxs"


def test_a_stack_of_many_kernels_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = Counter[str]()

    def counted(text: str) -> tuple[Frame, ...]:
        times[text] += 1
        return parse_stack(text)

    monkeypatch.setattr(kernel_stacks, "parse_stack", counted)
    read_log(LOG_OF_LAYERS, tmp_path / "train.fxs")
    # The forward and the backward have a record each.
    assert len(times) > 3
    assert max(times.values()) <= 2


def test_a_report_reads_each_wrapper_once(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = Counter[str]()
    read_wrapper = graph_memory.read_wrapper

    def counted(text: str, language: str = "python") -> object:
        times[text] += 1
        return read_wrapper(text, language)

    monkeypatch.setattr(graph_memory, "read_wrapper", counted)
    with SessionReader(session) as reader:
        json_report(reader)
    assert sorted(times.values()) == [1, 1]


def test_the_biggest_saved_value_is_the_first_of_all(session: Path) -> None:
    with SessionReader(session) as reader:
        assert biggest_saved_value(reader) == saved_values(reader)[0]
