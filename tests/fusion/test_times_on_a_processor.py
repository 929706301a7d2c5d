"""These tests check what is said about the time of a missed fusion on a processor: an estimate from
the bandwidth that was measured, and without one the command that measures.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.findings.missed_fusions import find_missed_fusions
from fx_explorer.instruments.fusion.figures import unfused_pairs
from fx_explorer.instruments.fusion.view import (
    LESS_FROM_CACHE,
    ONLY_BYTES,
    explain_pair,
    fusion_table,
)
from fx_explorer.session import SessionReader, SessionWriter
from tests.sessions import write_training_step

SAVED_BYTES = 8_000_000


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """A training step on a processor, with a pair that could change its order."""
    hand = write_training_step(tmp_path / "s.fxs")
    with SessionReader(hand.path) as reader:
        kernel = reader.get(model.Kernel, hand.kernel)
        (call,) = reader.rows(model.KernelCall)
    with SessionWriter(hand.path) as writer:
        other = writer.add(kernel_like(kernel))
        second = writer.add(model.KernelCall(0, other, 1, 10))
        reason = "memory deps did not match"
        pair = model.UnfusedPair(
            0, call.id, second, True, "refused", reason, "can_fuse", SAVED_BYTES, "", "", (), (),
            ("buf1",), ("op1", "op2"), True,
        )  # fmt: skip
        writer.add(pair)
    return hand.path


def kernel_like(kernel: model.Kernel) -> model.Kernel:
    return model.Kernel(
        0, kernel.compilation, kernel.direction, 9, "cpp_second", "cpp", kernel.artifact
    )


def test_without_a_measurement_only_bytes_are_known_and_the_command_is_named(session: Path) -> None:
    with SessionReader(session) as reader:
        table = fusion_table(reader)
        (pair,) = unfused_pairs(reader)
        assert (pair.saved_s, pair.time_from) == (0, "")
        assert "time" not in [column.title for column in table.columns]
        assert table.notice == ONLY_BYTES
        assert LESS_FROM_CACHE not in explain_pair(reader, pair)


def test_with_a_measured_bandwidth_the_time_is_that_of_the_saved_bytes(session: Path) -> None:
    with SessionWriter(session) as writer:
        writer.add(model.CardCeiling(0, "cpu", "memory", 20e9, "copy of 1.07 GB"))
    with SessionReader(session) as reader:
        table = fusion_table(reader)
        (pair,) = unfused_pairs(reader)
        assert pair.saved_s == pytest.approx(SAVED_BYTES / 20e9)
        assert table.notice == ""
        assert "400 µs" in table.rows[0].cells
        assert "times estimated at the 20 GB/s measured here" in table.origin
        told = explain_pair(reader, pair)
        assert any("about 400 µs at the 20 GB/s measured here" in line for line in told)
        assert LESS_FROM_CACHE in told


def test_a_bandwidth_alone_makes_no_finding(session: Path) -> None:
    """The tensors may come from a cache."""
    with SessionWriter(session) as writer:
        writer.add(model.CardCeiling(0, "cpu", "memory", 20e9, "copy of 1.07 GB"))
    with SessionReader(session) as reader:
        assert list(find_missed_fusions(reader)) == []
