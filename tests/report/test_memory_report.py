"""These tests check ``fx-explorer memory``: its output for a session, in every format, and its exit
codes.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fx_explorer import cli
from fx_explorer.analysis.words import size
from fx_explorer.instruments.memory import report
from fx_explorer.instruments.memory.saved_values import COMPUTED, saved_total
from fx_explorer.overview.view_tables import TABLES
from fx_explorer.session import SessionReader
from tests.sessions import write_training_step

Captured = Callable[..., Path]


@pytest.fixture(scope="module")
def transformer(captured: Captured) -> Path:
    return captured("transformer")


def printed(path: Path, capsys: pytest.CaptureFixture[str], format_: str) -> str:
    assert cli.main(["memory", str(path), "--format", format_]) == 0
    return capsys.readouterr().out


def as_json(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return dict(json.loads(printed(path, capsys, "json")))


def test_the_peak_is_the_most_of_the_timeline_and_the_sum_of_its_kinds(
    transformer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = as_json(transformer, capsys)
    assert (
        told["peak_bytes"]
        == sum(told["peak"].values())
        == max(row["bytes"] for row in told["timeline"])
    )
    assert told["peak_bytes"] == sum(one["bytes"] for one in told["held_at_peak"])
    assert not told["unread"]
    assert told["assumed"] == told["unknown_sizes"] == 0


def test_saved_bytes_are_those_of_the_saved_tensors(
    transformer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with SessionReader(transformer) as reader:
        assert (
            as_json(transformer, capsys)["saved_bytes"] == saved_total(reader, *COMPUTED).size_bytes
        )


def test_the_text_begins_with_the_answer_and_its_timeline_fits_80_columns(
    transformer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(transformer, capsys, "text")
    assert text.startswith("A training step needs ")
    timeline = text.partition("kernel by kernel:\n")[2].splitlines()
    assert len(timeline) > 10
    assert max(map(len, timeline)) <= 80
    assert sum(line.endswith("peak") for line in timeline) == 1


def test_long_names_of_the_timeline_keep_both_ends(
    transformer: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "PLACE_CELLS", 9)
    rows = as_json(transformer, capsys)["timeline"]
    whole = {f"{row['file'].rpartition('/')[2]}:{row['line']}" for row in rows} | {
        row["kernel"] for row in rows
    }
    text = printed(transformer, capsys, "text")
    timeline = text.partition("kernel by kernel:\n")[2].splitlines()[1:]
    cut = {line[2:11] for line in timeline if "…" in line[2:11]}
    assert cut
    assert all(
        any(place.startswith(one[:4]) and place.endswith(one[5:]) for place in whole) for one in cut
    )


def test_a_line_of_csv_for_each_kernel_call(
    transformer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = list(csv.DictReader(io.StringIO(printed(transformer, capsys, "csv"))))
    assert len(rows) == len(as_json(transformer, capsys)["timeline"])
    kinds = (
        "parameter",
        "buffer",
        "input",
        "activation",
        "output",
        "tangent",
        "gradient",
        "temporary",
    )
    assert all(int(row["total"]) == sum(int(row[kind]) for kind in kinds) for row in rows)


def test_markdown_is_a_list_and_a_table(
    transformer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(transformer, capsys, "markdown").splitlines()
    assert lines[0].startswith("- A training step needs ")
    assert lines[lines.index("") + 2].startswith("| ---: |")


def test_a_session_whose_code_cannot_be_read_ends_with_1_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_training_step(tmp_path / "s.fxs").path
    assert cli.main(["memory", str(path)]) == 1
    told = capsys.readouterr().out
    assert told.startswith("The peak of a step cannot be predicted.")
    assert "The forward of [0/0] is not included: " in told
    assert "The forward saves " in told


def test_the_view_has_a_row_for_each_line_and_draws_the_peak_full(transformer: Path) -> None:
    with SessionReader(transformer) as reader:
        table = TABLES["step_memory"](reader)
        assert table.answer.startswith("A training step needs ")
        assert max(len(row.cells[4]) for row in table.rows) == 24
        detail = table.rows[-1].detail
        assert detail is not None
        assert "gradient of blocks." in detail().text
        assert all(row.place is not None for row in table.rows)


def test_for_a_gpu_that_is_not_there_everything_is_on_it_in_its_allocators_blocks(
    captured: Captured, capsys: pytest.CaptureFixture[str]
) -> None:
    told = as_json(captured("convnet", train=True, gpu="h100"), capsys)
    assert told["device"] == "cuda"
    assert told["elsewhere"] == {}
    assert told["held_at_peak"]
    assert all(one["bytes"] % 512 == 0 for one in told["held_at_peak"])


def test_the_first_line_says_by_how_much_it_may_be_off_without_the_gpu(
    captured: Captured, capsys: pytest.CaptureFixture[str]
) -> None:
    """What cuDNN takes at work is known to the GPU alone, and is the larger part of a step of
    convolutions.
    """
    session = captured("convnet", train=True, gpu="h100")
    most = as_json(session, capsys)["most_bytes"]
    assert cli.main(["memory", str(session)]) == 0
    first_line = capsys.readouterr().out.splitlines()[0]
    match = re.search(
        r"at its peak \(up to (\S+ \S+): the temporary memory of (\d+) library calls is not known "
        r"without the GPU\)",
        first_line,
    )
    assert match, first_line
    assert match[1] == size(most)
    assert int(match[2]) > 1
