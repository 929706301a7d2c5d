"""Sessions damaged by chance, from a seed: whatever is read of them ends well, or with the one
error, in time.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Captured
from tests.session.fuzzing import fuzz
from tests.sessions import write_training_step
from tests.tui.quiet import share_parsed_styles, wait_by_event_loop

ROUNDS = 1_000
"""For each of two seeds. ``make fuzz`` does more."""

APP_EACH = 8
"""One in so many is opened in the app as well, which takes six times as long as a command;
``make fuzz`` opens all.
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_a_damaged_session_ends_well_or_with_the_one_error(
    seed: int, captured: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_by_event_loop(monkeypatch)
    share_parsed_styles(monkeypatch)
    hand = write_training_step(tmp_path / "hand.fxs").path
    ends, problems = fuzz(
        [hand, captured("graph_breaks"), captured("recompiles")], tmp_path, seed, ROUNDS, APP_EACH
    )
    assert not problems, "\n\n".join(problems[:3])
    assert ends["well"] == ROUNDS
    assert ends["app"] == ROUNDS // APP_EACH
