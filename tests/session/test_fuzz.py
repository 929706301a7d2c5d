"""Sessions damaged by chance, from a seed: whatever is read of them ends well, or with the one error, in time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Captured
from tests.session.fuzzing import fuzz
from tests.sessions import write_training_step

ROUNDS = 1_000
"""For each of two seeds. ``make fuzz`` does more."""


@pytest.mark.parametrize("seed", [1, 2])
def test_a_damaged_session_ends_well_or_with_the_one_error(seed: int, captured: Captured, tmp_path: Path) -> None:
    hand = write_training_step(tmp_path / "hand.fxs").path
    ends, problems = fuzz([hand, captured("graph_breaks"), captured("recompiles")], tmp_path, seed, ROUNDS)
    assert not problems, "\n\n".join(problems[:3])
    assert ends["well"] == ROUNDS
