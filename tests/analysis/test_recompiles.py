"""Recompiles; the second source is the number of compilations torch made of the same frame."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fx_explorer.analysis.recompiles import in_words, recompiles
from fx_explorer.analysis.totals import totals
from fx_explorer.session import SessionReader


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("tensor 'x' size mismatch at index 0. expected 8, actual 12", "size 0 of x was 8 and now is 12"),
        ("0/0: tensor 'L['x']' size mismatch at index 1. expected 8, actual 12.", "size 1 of x was 8 and now is 12"),
        (
            "tensor 'L['batch']['ids']' dtype mismatch. expected Float, actual BFloat16",
            "the dtype of batch['ids'] was float32 and now is bfloat16",
        ),
        (
            "tensor 'x' stride mismatch at index 0. expected 8, actual 1",
            "the memory layout of x changed (stride 0 was 8 and now is 1)",
        ),
        ("tensor 'x' rank mismatch. expected 2, actual 3", "x had 2 dimensions and now has 3"),
        ("tensor 'x' requires_grad mismatch. expected requires_grad=1", "whether x requires a gradient changed"),
        ("power == 2", "power is no longer 2, which the compiled code was made for"),
        ("L['self'].power == 2", "self.power is no longer 2, which the compiled code was made for"),
        ("GLOBAL_STATE changed: grad_mode", "a global setting changed: grad_mode"),
        ("Cache line invalidated because f was deleted", "Cache line invalidated because f was deleted"),
    ],
)
def test_torchs_reason_in_plain_words(reason: str, words: str) -> None:
    assert in_words(reason) == words


def test_there_are_as_many_recompiles_as_compilations_after_the_first(
    captured: Callable[..., Path], reader: Callable[[Path], SessionReader]
) -> None:
    session = reader(captured("recompiles"))
    frames = session.meta("counters")["frames"]
    assert totals(session).recompiles == frames["total"] - 1
    assert totals(session).graphs == session.meta("counters")["stats"]["unique_graphs"]


def test_a_recompile_says_what_was_different(captured: Callable[..., Path], reader: Callable[[Path], SessionReader]) -> None:
    found = recompiles(reader(captured("recompiles")))
    assert {one.function for one in found} == {"score"}
    assert all(one.compilation and one.of and one.reason and one.place for one in found)
    words = " ".join(one.in_words for one in found)
    assert "size 0 of x was" in words
    assert "the dtype of x was float32 and now is float64" in words
