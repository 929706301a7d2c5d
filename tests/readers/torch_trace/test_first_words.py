"""These tests check the summary of a log's beginning before the app starts: the second source is
the session made from the same log.
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from fx_explorer.analysis.whole_session import totals
from fx_explorer.command_line.logs import describe_log_start
from fx_explorer.overview.overview import overview
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.readers.torch_trace.opened import BLOCK
from fx_explorer.session import SessionReader
from tests.readers.torch_trace.mutating import mutated
from tests.readers.torch_trace.test_read_log import ALL, LOGS

SMALL = [name for name in ALL if len(gzip.decompress((LOGS / name).read_bytes())) < BLOCK]


@pytest.mark.parametrize("name", SMALL)
def test_it_counts_what_the_session_of_the_log_has(name: str, tmp_path: Path) -> None:
    read_log(LOGS / name, tmp_path / "s.fxs")
    with SessionReader(tmp_path / "s.fxs") as reader:
        known = totals(reader)
        breaks = [fact.text for fact in overview(reader) if " breaks the graph" in fact.text]
    size, counted, *lines = describe_log_start(LOGS / name)
    assert f"{known.compilations} compilation" in counted
    assert f" {known.recompiles} recompile" in counted
    assert (
        f" {known.graph_breaks} graph break" if known.graph_breaks else "no graph break"
    ) in counted
    assert {line.split()[1] for line in lines} == {
        text.removeprefix("Look first at: ").split(" breaks the graph")[0] for text in breaks
    }
    assert "begins at 03:" in size


def test_of_a_longer_log_it_says_so_and_leaves_out_the_record_that_is_not_whole(
    tmp_path: Path,
) -> None:
    data = gzip.decompress((LOGS / "h200_graph_breaks.log.gz").read_bytes())
    longer = tmp_path / "x.log"
    longer.write_bytes(data * 4)
    assert describe_log_start(longer)[1].startswith(
        "Its first megabyte has 7 compilations, 0 recompiles, 4 graph breaks, hit "
    )


def test_a_pipe_is_left_to_the_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert describe_log_start(tmp_path / "pipe") == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no log",
        b"\xff" * 5000,
        b"\x1f\x8b garbage",
        b"\x28\xb5\x2f\xfd garbage",
        b"V" * 3_000_000,
    ],
)
def test_of_what_is_no_log_it_says_the_size_only(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.log").write_bytes(content)
    assert len(describe_log_start(tmp_path / "x.log")) == 1
    assert describe_log_start(tmp_path) == describe_log_start(tmp_path / "gone.log") == []


def test_damaged_logs_are_told_as_far_as_they_go(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    for seed in range(400):
        path.write_bytes(mutated(seed))
        assert describe_log_start(path)
