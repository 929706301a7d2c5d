"""These tests check directories that are not as a job leaves them: the known facts are reported,
and the unknown ones named.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import pytest

from fx_explorer import cli
from fx_explorer.errors import SessionError, UsageError
from fx_explorer.folders import IN_USE_PREFIX, Lock
from fx_explorer.instruments.ranks.compared import ComparedRanks, compare
from fx_explorer.instruments.ranks.rank_files import rank_in_name
from fx_explorer.instruments.ranks.summary import RankSummary
from fx_explorer.readers.torch_trace.excerpt import write_excerpt
from tests.ranks.logs_of_ranks import H200, as_rank, text_of, write_rank

DATA_OF_TEXT = Path(__file__).parents[1] / "data" / "torch_logs" / "breaks_and_recompiles.log.gz"

DDP = H200 / "h200_ranks_ddp" / "rank_0.log.gz"


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("dedicated_log_torch_trace_rank_3_ab12cd.log", 3),
        ("rank_0.log.gz", 0),
        ("train.rank17.fxs", 17),
        ("dedicated_log_torch_trace_ab12.log", None),
        ("frank_3.log", None),
        ("rank_99999999999.log", None),
    ],
)
def test_a_rank_in_a_name(name: str, rank: int | None) -> None:
    assert rank_in_name(name) == rank


@pytest.mark.parametrize("share", [0.4, 0.7, 0.95])
def test_a_log_that_was_cut_off_is_compared_up_to_there_and_does_not_diverge(
    tmp_path: Path, share: float
) -> None:
    log = text_of(DDP)
    for rank in range(3):
        write_rank(
            tmp_path, rank, as_rank(log[: int(len(log) * share)] if rank == 2 else log, rank)
        )
    found = compare([tmp_path])
    assert found.first is None
    assert [bool(one.unknown_end) for one in found.summaries] == [False, False, True]


def test_a_log_that_was_cut_off_in_the_first_line_of_a_compilation_does_not_diverge(
    tmp_path: Path,
) -> None:
    log = text_of(DDP)
    write_rank(tmp_path, 0, log)
    write_rank(tmp_path, 1, as_rank(log[: log.rindex(b'{"dynamo_start"') + 40], 1))
    found = compare([tmp_path])
    assert found.first is None
    assert found.summaries[1].unknown_end == "the log ends in the middle of a record"


def test_a_packed_log_that_was_cut_off_does_not_diverge(tmp_path: Path) -> None:
    log = text_of(DDP)
    write_rank(tmp_path, 0, log)
    (tmp_path / "rank_1.log.gz").write_bytes(gzip.compress(as_rank(log, 1))[:100_000])
    found = compare([tmp_path])
    assert found.first is None
    assert found.summaries[1].unknown_end == "the packed log ends in the middle"


def test_a_rank_that_only_stopped_compiling_diverges(tmp_path: Path) -> None:
    log = text_of(DDP)
    last = log.rindex(b'{"dynamo_start"')
    write_rank(tmp_path, 0, log)
    write_rank(tmp_path, 1, as_rank(log[: log.rindex(b"\n", 0, last) + 1], 1))
    found = compare([tmp_path])
    assert found.first is not None
    assert found.first.words.startswith(
        "rank 1 did not compile forward() at ranks_zoo.py:7, but rank 0 did"
    )


def did(found: ComparedRanks) -> list[RankSummary]:
    """Return the summary of each rank, wherever its log is."""
    return [replace(one, path="") for one in found.summaries]


@pytest.mark.parametrize(
    "way", ["one after the other", "line by line, as torchrun prints them", "record by record"]
)
def test_a_file_that_mixes_ranks_is_taken_apart(tmp_path: Path, way: str) -> None:
    logs = [
        as_rank(text_of(H200 / "h200_ranks_diverge" / f"rank_{rank}.log.gz"), rank)
        for rank in (0, 1)
    ]
    apart, mixed = tmp_path / "apart", tmp_path / "mixed"
    for folder in (apart, mixed):
        folder.mkdir()
    for rank, log in enumerate(logs):
        write_rank(apart, rank, log)
    if way == "one after the other":
        text = b"".join(logs)
    elif way == "record by record":
        text = b"".join(
            piece for pair in zip_longest(*map(records_of, logs), fillvalue=b"") for piece in pair
        )
    else:
        prefixed = [
            [b"[rank%d]:%s" % (rank, line) for line in log.splitlines(True)]
            for rank, log in enumerate(logs)
        ]
        text = b"".join(line for pair in zip_longest(*prefixed, fillvalue=b"") for line in pair)
    (mixed / "all.log").write_bytes(text)
    wanted, found = compare([apart]), compare([mixed])
    assert did(found) == did(wanted)
    assert [one.words for one in found.findings] == [one.words for one in wanted.findings] != []
    assert found.notes == (
        "all.log has the records of 2 ranks, which were separated",
        *wanted.notes,
    )
    kept = Path(found.summaries[0].path).parents[1]
    assert kept.name.startswith(IN_USE_PREFIX)  # found at the next start, however this process ends
    with pytest.raises(OSError, match="unavailable"):
        Lock(kept)


def test_what_several_ranks_printed_is_taken_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What torch printed of one program, as two ranks print it into one file; one of them compiles
    only once.
    """
    lines = gzip.decompress(DATA_OF_TEXT.read_bytes()).splitlines(keepends=True)
    first = [b"[rank0]:" + line for line in lines if b" [__" in line]
    second = [
        b"[rank1]:" + line
        for line in lines
        if b" [__" in line and b"[0/1" not in line and b"[1/1" not in line
    ]
    text = b"".join(line for pair in zip_longest(first, second, fillvalue=b"") for line in pair)
    (tmp_path / "stderr.txt").write_bytes(text + b"loss 0.5\n")
    found = compare([tmp_path / "stderr.txt"])
    assert [one.rank for one in found.summaries] == [0, 1]
    names = [{row.name for row in one.compilations} for one in found.summaries]
    assert names[1] < names[0]
    assert found.first is not None
    assert found.notes[0].startswith("stderr.txt has the records of 2 ranks, which were separated")
    capsys.readouterr()
    assert cli.main(["explore", str(tmp_path / "stderr.txt")]) == 0
    assert "2 ranks wrote into this file (0 and 1)" in capsys.readouterr().out


def records_of(log: bytes) -> list[bytes]:
    return re.findall(rb"^(?!\t).*\n(?:\t.*\n)*", log, re.M)


def test_a_rank_packed_with_zstd_is_compared_like_the_others(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    log = text_of(DDP)
    write_rank(tmp_path, 0, log)
    (tmp_path / "rank_1.log.zst").write_bytes(zstandard.compress(as_rank(log, 1)))
    (tmp_path / "rank_2.log.zst").write_bytes(zstandard.compress(as_rank(log, 2))[:60_000])
    found = compare([tmp_path])
    first, second, third = did(found)
    assert replace(second, rank=0) == first
    assert third.unknown_end == "the packed log ends in the middle"
    with (tmp_path / "excerpt").open("wb") as file:
        excerpt = write_excerpt(tmp_path / "rank_1.log.zst", file)
    assert excerpt is not None
    assert 0 < (tmp_path / "excerpt").stat().st_size < len(log) / 2


def test_a_missing_rank_is_told(tmp_path: Path) -> None:
    for rank in (0, 1, 3):
        write_rank(tmp_path, rank, as_rank(text_of(DDP), rank))
    assert compare([tmp_path]).notes == ("Rank 2 is missing: none of the files is from it",)


def test_the_name_is_believed_where_the_records_say_another_rank(tmp_path: Path) -> None:
    write_rank(tmp_path, 0, text_of(DDP))
    write_rank(tmp_path, 1, text_of(DDP))
    found = compare([tmp_path])
    assert [one.rank for one in found.summaries] == [0, 1]
    assert found.notes == (
        "The files named as rank 1 have records that say rank 0: the names are used",
    )


def test_the_records_are_believed_where_the_name_says_nothing(tmp_path: Path) -> None:
    for rank, name in ((1, "a.log"), (0, "b.log")):
        (tmp_path / name).write_bytes(as_rank(text_of(DDP), rank))
    assert [(one.rank, Path(one.path).name) for one in compare([tmp_path]).summaries] == [
        (0, "b.log"),
        (1, "a.log"),
    ]


def test_of_two_files_of_a_rank_the_later_one_is_taken(tmp_path: Path) -> None:
    later = text_of(DDP).replace(b'"start_time": 17952312', b'"start_time": 17952412')
    (tmp_path / "dedicated_log_torch_trace_rank_0_aaa.log").write_bytes(later)
    (tmp_path / "dedicated_log_torch_trace_rank_0_bbb.log").write_bytes(text_of(DDP))
    found = compare([tmp_path])
    assert [Path(one.path).name for one in found.summaries] == [
        "dedicated_log_torch_trace_rank_0_aaa.log"
    ]
    assert "is an earlier file of rank 0" in found.left_out[0].why


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_compared(tmp_path: Path) -> None:
    write_rank(tmp_path, 0, text_of(DDP))
    write_rank(tmp_path, 1, as_rank(text_of(DDP), 1))
    os.symlink(tmp_path / "gone.log", tmp_path / "rank_2.log")
    (tmp_path / "rank_3.fxs").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    found = compare([tmp_path])
    assert [one.rank for one in found.summaries] == [0, 1]
    assert {one.path.name for one in found.left_out} == {"rank_2.log", "rank_3.fxs"}
    assert cli.main(["ranks", str(tmp_path), "--check"]) == 1


def test_ranks_of_which_nothing_can_be_read_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "rank_0.fxs").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    with pytest.raises(SessionError, match="no rank can be compared"):
        compare([tmp_path])


def test_what_is_not_there_is_bad_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no"):
        compare([tmp_path / "nowhere"])


def test_binary_garbage_in_the_middle_of_a_log_is_passed_over(tmp_path: Path) -> None:
    log = text_of(DDP)
    write_rank(tmp_path, 0, log)
    write_rank(tmp_path, 1, as_rank(log[:500_000] + b"\0\xff\x1b[31m\n" * 1000 + log[500_000:], 1))
    assert [one.rank for one in compare([tmp_path]).summaries] == [0, 1]


def test_hostile_names_are_shown_and_not_sent_to_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = text_of(H200 / "h200_ranks_diverge" / "rank_1.log.gz").replace(
        b"ranks_zoo.py", b"\\u001b[31m<b>zoo.py"
    )
    write_rank(tmp_path, 0, text_of(H200 / "h200_ranks_diverge" / "rank_0.log.gz"))
    write_rank(tmp_path, 1, log)
    for form in ("text", "markdown", "json", "html"):
        cli.main(["ranks", str(tmp_path), "--format", form])
        printed = capsys.readouterr().out
        assert "\x1b" not in printed
        assert form != "html" or ("<b>" not in printed and "&lt;b&gt;zoo.py" in printed)


def test_one_rank_has_none_to_be_held_against(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rank(tmp_path, 5, as_rank(text_of(DDP), 5))
    assert cli.main(["ranks", str(tmp_path), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"].startswith("There is only rank 5")
