"""These tests check that fixes are offered and tried in the order of how likely they hold."""

from __future__ import annotations

import random
from dataclasses import replace

from fx_explorer.analysis.whole_session import SessionFigures
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.trial import CHANCES, Trial, Verdict, chance_of, ordered


def trial(fix: Fix, verdict: Verdict) -> Trial:
    return Trial(fix, verdict, "", SessionFigures.__new__(SessionFigures), None, None, 0.0)


PLAIN, KEPT_OUT = Fix("plain", "", line=1), Fix("kept out", "", line=2, compiles_less=True)
UNSEEN = Fix("unseen", "", line=3, unseen="a log")
ELSEWHERE = replace(PLAIN, line=9)


def test_nothing_is_known_before_a_trial_but_what_a_fix_says_of_itself() -> None:
    assert [chance_of(one) for one in (PLAIN, KEPT_OUT, UNSEEN)] == [
        "expected",
        "less likely",
        "less likely",
    ]


def test_its_own_last_trial_decides() -> None:
    good, refused, partly = (
        trial(PLAIN, "good"),
        trial(PLAIN, "refused"),
        trial(PLAIN, "good where compared"),
    )
    assert chance_of(PLAIN, [refused, good]) == "holds"
    assert chance_of(PLAIN, [good, refused]) == "fails"
    assert chance_of(PLAIN, [good, partly]) == "less likely"


def test_the_same_fix_in_another_line_tells_something() -> None:
    assert chance_of(ELSEWHERE, [trial(PLAIN, "good")]) == "likely"
    assert chance_of(ELSEWHERE, [trial(PLAIN, "refused")]) == "unlikely"
    assert (
        chance_of(
            ELSEWHERE,
            [trial(PLAIN, "good"), trial(PLAIN, "good"), trial(replace(PLAIN, line=5), "refused")],
        )
        == "likely"
    )
    assert chance_of(KEPT_OUT, [trial(replace(KEPT_OUT, line=7), "good")]) == "less likely"


def test_the_likeliest_come_first_and_equal_ones_stay_in_their_order() -> None:
    other = Fix("another", "", line=4)
    fixes = [KEPT_OUT, UNSEEN, PLAIN, other]
    assert ordered(fixes) == [PLAIN, other, KEPT_OUT, UNSEEN]
    trials = [trial(other, "good"), trial(PLAIN, "refused")]
    for seed in range(5):
        found = ordered(random.Random(seed).sample(fixes, 4), trials)
        assert (found[0], found[-1]) == (other, PLAIN)
        chances = [CHANCES.index(chance_of(one, trials)) for one in found]
        assert chances == sorted(chances)
