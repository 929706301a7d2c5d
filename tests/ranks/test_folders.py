"""These tests check directories of damaged logs: their ranks are compared, or one message says why
they are not.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fx_explorer.errors import FxExplorerError
from fx_explorer.instruments.ranks.compared import compare
from tests.exhaustive import rounds
from tests.ranks.folder_fuzzing import make_folder, problems

LOGS, PARTS = rounds(1_200, exhaustive=10_000), 4
"""Damaged logs, in so many tests, which run side by side: each log takes 10 ms, and
``make fuzz-folders`` reads more.
"""


@pytest.mark.parametrize("part", range(PARTS))
def test_the_ranks_of_a_damaged_folder_are_compared_or_the_reason_is_told(part: int) -> None:
    wrong = list(problems(LOGS // PARTS, first=part * LOGS))
    assert not wrong, "\n".join(wrong[:3])


def test_most_folders_have_ranks_to_compare_and_some_have_several(tmp_path: Path) -> None:
    numbers = []
    for seed in range(60):
        folder = tmp_path / str(seed)
        folder.mkdir()
        make_folder(folder, random.Random(seed))
        try:
            numbers.append(len(compare([folder]).summaries))
        except FxExplorerError:
            numbers.append(0)
    assert sum(number > 0 for number in numbers) > 30
    assert sum(number > 1 for number in numbers) > 10
