"""These tests search among steps whose verdicts are known."""

from __future__ import annotations

import math

import pytest

from fx_explorer.bisection.search import Search, Verdict


def run(count: int, first_bad: int, skipped: frozenset[int] = frozenset()) -> tuple[Search, int]:
    """Search with the answers of a history in which everything from ``first_bad`` on is bad."""
    search, trials = Search(count), 0
    while (step := search.next_step()) is not None:
        assert step not in search.verdicts
        trials += 1
        verdict: Verdict = "bad" if step >= first_bad else "good"
        search.verdicts[step] = "skipped" if step in skipped else verdict
    return search, trials


@pytest.mark.parametrize("count", range(2, 66))
def test_the_first_bad_step_is_found_in_the_fewest_trials_that_suffice_for_any(count: int) -> None:
    for first_bad in range(1, count):
        search, trials = run(count, first_bad)
        assert (search.last_good, search.first_bad) == (first_bad - 1, first_bad)
        assert list(search.suspects) == [first_bad]
        assert trials <= 1 + math.ceil(math.log2(count))


def test_sixty_commits_take_seven_captures_with_both_ends_judged() -> None:
    assert max(run(61, first_bad)[1] for first_bad in range(1, 61)) == 7


def test_what_is_left_is_told_and_never_exceeded() -> None:
    for first_bad in range(1, 40):
        search = Search(40)
        while True:
            most = search.most_left
            step = search.next_step()
            if step is None:
                break
            search.verdicts[step] = "bad" if step >= first_bad else "good"
            assert search.most_left < most
        assert search.most_left == 0


def test_a_first_step_that_is_bad_is_found_out() -> None:
    search, _ = run(20, 0)
    assert search.last_good is None
    assert search.verdicts[0] == "bad"


def test_a_last_step_that_is_good_ends_the_search_at_once() -> None:
    search, trials = run(20, 20)
    assert trials == 1
    assert search.verdicts == {19: "good"}


def test_steps_that_cannot_be_tried_leave_several_suspects_only_next_to_the_first_bad_one() -> None:
    skipped = frozenset({11, 12, 13})
    search, _ = run(40, 12, skipped)
    assert list(search.suspects) == [11, 12, 13, 14]
    search, _ = run(40, 30, skipped)
    assert list(search.suspects) == [30]


def test_a_row_of_steps_that_cannot_be_tried_is_left_soon() -> None:
    """git bisect does so, too: neighbours of a commit that is broken are mostly broken."""
    skipped = frozenset(range(20, 45))
    _, trials = run(64, 50, skipped)
    assert trials <= 12
