"""These tests read a log that ends in the middle: the times of its phases and the whole agree; a
silent rank is reported.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.instruments.compile_time.timing import stage_times
from fx_explorer.instruments.ranks.compared import compare
from fx_explorer.instruments.ranks.sentences import headline
from fx_explorer.overview.overview import overview
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.session import SessionReader
from tests.ranks.logs_of_ranks import H200, text_of, write_rank

LOG = H200 / "h200_ranks_ddp" / "rank_0.log.gz"


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9, 1.0])
def test_the_phases_never_take_longer_than_the_whole(share: float, tmp_path: Path) -> None:
    whole = text_of(LOG)
    (tmp_path / "cut.log").write_bytes(whole[: int(len(whole) * share)])
    read_log(tmp_path / "cut.log", tmp_path / "cut.fxs")
    with SessionReader(tmp_path / "cut.fxs") as reader:
        times = stage_times(reader)
        told = next((fact.text for fact in overview(reader) if fact.topic == "time"), "")
        has_no_end = bool(reader.count(model.Compilation, status="running"))
    assert sum(times.by_stage.values()) <= times.total_s * (1 + 1e-9)
    assert times.unaccounted_s >= 0
    assert not told or ("at least" in told) == has_no_end


def test_a_rank_whose_log_ends_before_it_compiled_is_not_said_to_have_done_the_same(
    tmp_path: Path,
) -> None:
    whole = text_of(LOG)
    write_rank(tmp_path, 0, whole)
    first = whole.split(b"\n")[0]
    assert b"dynamo_start" not in first
    write_rank(tmp_path, 1, first[: len(first) // 2])
    told = headline(compare([tmp_path]))
    assert "the same" not in told
    assert told == "Rank 1 compiled nothing before the end of its log."


def test_the_line_of_the_only_damage_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "odd.log").write_bytes(
        text_of(LOG) + b'V1125 14:35:35.000000 1 torch/x.py:1] {"artifact": {"name"\n'
    )
    read_log(tmp_path / "odd.log", tmp_path / "odd.fxs")
    with SessionReader(tmp_path / "odd.fxs") as reader:
        lines = json.loads(json.dumps(reader.meta("log")))["damaged_lines"]
        told = next(fact for fact in overview(reader) if "are damaged" in fact.text)
    assert len(set(lines)) == 1
    assert told.detail == f"First in line {lines[0]:,}."
