"""These tests read sessions damaged at random, from a seed: every reading ends well, or with
SessionError, in time.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tests.conftest import Captured
from tests.exhaustive import rounds, with_others
from tests.session.fuzzing import fuzz
from tests.sessions import write_training_step
from tests.tui.quiet import share_parsed_styles, wait_by_event_loop

ROUNDS = rounds(240, exhaustive=5_000)
"""For each of two seeds. ``make fuzz`` does more."""

APP_EACH = 40
"""One session in this many is also opened in the app, which takes twenty times as long as a
command; ``make fuzz`` opens all.
"""

SMALL = """
import torch

linear = torch.nn.Linear(4, 4)


@torch.compile
def step(x):
    y = linear(x).relu()
    print("computed")
    return y.sum()


for rows in (2, 3):
    step(torch.ones(rows, 4)).backward()
"""
"""A graph break, a recompile, a backward, kernels, and something printed."""


@pytest.mark.parametrize("seed", with_others([1], [2]))
def test_a_damaged_session_ends_well_or_with_the_one_error(
    seed: int,
    captured: Captured,
    shared_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wait_by_event_loop(monkeypatch)
    share_parsed_styles(monkeypatch)
    hand = write_training_step(tmp_path / "hand.fxs").path
    script = shared_folder / "small.py"
    script.write_text(SMALL)
    small = captured(script)
    # To read a larger one takes up to ten times as long, and what is damaged is as often the same.
    sessions = [hand] * 50 + [small] * 8 + [captured("graph_breaks"), captured("recompiles")]
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        ends, problems = fuzz(sessions, Path(folder), seed, ROUNDS, APP_EACH)
    assert not problems, "\n\n".join(problems[:3])
    assert ends["well"] == ROUNDS
    assert ends["app"] == ROUNDS // APP_EACH
