"""Directories of damaged logs: their ranks are compared, or it is told in one message why they are
not.
"""

from __future__ import annotations

import random
from pathlib import Path

from fx_explorer.errors import FxExplorerError
from fx_explorer.instruments.ranks.compared import compare
from tests.ranks.folder_fuzzing import make_folder, problem

ROUNDS = 600
"""Each takes 20 ms; ``python -m tests.ranks.folder_fuzzing`` does more."""


def test_the_ranks_of_a_damaged_folder_are_compared_or_the_reason_is_told() -> None:
    problems = [f"seed {seed}: {wrong}" for seed in range(ROUNDS) if (wrong := problem(seed))]
    assert not problems, "\n".join(problems[:3])


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
