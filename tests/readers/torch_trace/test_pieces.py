"""These tests check that a log is cut where records begin, whatever the blocks, and that a record
that is too long is cut, too.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from fx_explorer.readers.torch_trace import records as module
from fx_explorer.readers.torch_trace.records import Damage, LogPiece, pieces, records

LOG = gzip.decompress(
    (Path(__file__).parents[2] / "data" / "torch_trace" / "h200_user_triton.log.gz").read_bytes()
)

HEAD = b'V1121 03:15:04.813000 952 torch/new.py:1] {"artifact": {"name": "x"}}\n'


def in_blocks(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 7, 64, 4096, 10_000_000])
def test_the_pieces_are_the_log_whatever_the_blocks_are(size: int) -> None:
    data = LOG[:30_000] if size < 64 else LOG
    found = list(pieces(in_blocks(data, size)))
    assert b"".join(piece.raw for piece in found) == data
    assert all(data[piece.offset :].startswith(piece.raw) for piece in found)
    assert [piece.line for piece in found] == [
        data[: piece.offset].count(b"\n") + 1 for piece in found
    ]
    assert len(found) == sum(line.startswith(b"V") for line in data.split(b"\n"))


@pytest.mark.parametrize("size", [50, 1000, 100_000])
def test_what_is_too_long_keeps_its_beginning_and_the_rest_is_counted(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_OF_A_PIECE", 2_000)
    long = HEAD + b"\tline\n" * 5_000
    first, second = pieces(in_blocks(long + HEAD + b"\tend\n", size))
    assert first.raw == long[: len(first.raw)]
    assert 2_000 <= len(first.raw) <= 2_000 + max(size, 100)
    assert first.raw.count(b"\n") + first.lines_left_out == 5_001
    assert second == LogPiece(HEAD + b"\tend\n", len(long), 5_002)


def test_a_long_log_without_any_record_takes_little_memory_and_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_OF_A_PIECE", 2_000)
    damage = Damage()
    assert list(records(in_blocks(b"garbage\n" * 10_000, 1_000), damage)) == []
    assert damage.skipped == 10_000
    assert damage.first_lines[0] == 1


def test_a_line_without_end_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OF_A_PIECE", 2_000)
    damage = Damage()
    found = list(records(in_blocks(HEAD + b"\t" + b"x" * 100_000 + b"\n" + HEAD, 1_000), damage))
    assert len(found) == 2
    assert damage.skipped == 1
