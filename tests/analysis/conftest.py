"""These helpers open a session written by hand: the expected values can be read off
``tests/sessions.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fx_explorer.session import SessionReader
from tests.sessions import Hand, write_training_step


@pytest.fixture(scope="session")
def hand(tmp_path_factory: pytest.TempPathFactory) -> Hand:
    return write_training_step(tmp_path_factory.mktemp("hand") / "step.fxs")


@pytest.fixture
def step(hand: Hand) -> Iterator[SessionReader]:
    with SessionReader(hand.path) as opened:
        yield opened
