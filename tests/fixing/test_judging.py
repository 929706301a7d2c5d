"""These tests check the verdict on a trial, from its figures and from the comparison."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fx_explorer.analysis.whole_session import SessionFigures
from fx_explorer.instruments.fixes.trial import judge
from fx_explorer.model import Failure, Outcome, Verification
from tests.figures import figures

BEFORE = figures(
    graph_breaks=2, graph_break_hits=4, eager_functions=1, graphs=3, operations=10, compile_s=1.0
)
BETTER = replace(BEFORE, graph_breaks=1, graph_break_hits=2, graphs=2)
EQUAL = Verification(
    0, True, True, ("the example inputs", "others"), {"output": 2}, 0.0, "", (), (), ()
)
FINISHED = Outcome("finished")


def test_fewer_breaks_and_equal_results_are_good() -> None:
    assert judge(FINISHED, BEFORE, BETTER, EQUAL) == ("good", "2 breaks → 1; equal in 2 calls")
    fewer_hits = replace(BEFORE, graph_break_hits=3)
    not_skipped = replace(BEFORE, eager_functions=0, graph_break_hits=5)
    assert judge(FINISHED, BEFORE, not_skipped, EQUAL)[1].startswith("1 function not compiled → 0")
    assert judge(FINISHED, BEFORE, fewer_hits, EQUAL) == (
        "good",
        "2 breaks, hit 4 times → 3; equal in 2 calls",
    )


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (BEFORE, "the break stays"),
        (replace(BEFORE, graph_break_hits=5), "the break stays"),
        (replace(BEFORE, graph_breaks=3, graph_break_hits=3), "other breaks replace it"),
        (replace(BETTER, operations=0, graphs=0), "nothing is compiled any more"),
        (
            replace(BETTER, operations=9, graphs=3),
            "less is compiled (10 operations → 9), in as many graphs",
        ),
    ],
)
def test_what_gains_nothing_is_refused(after: SessionFigures, said: str) -> None:
    assert judge(FINISHED, BEFORE, after, EQUAL) == ("refused", said)


def test_a_break_that_hid_others_may_go_though_there_are_more_breaks_then() -> None:
    """A break in a loop leaves the whole function to Python. Without it Dynamo comes to the breaks
    behind it.
    """
    uncovered = replace(
        BEFORE, graph_breaks=4, graph_break_hits=6, eager_functions=0, graphs=5, operations=30
    )
    verdict, reason = judge(FINISHED, BEFORE, uncovered, EQUAL)
    assert verdict == "good"
    assert reason.startswith(
        "1 function not compiled → 0, 10 operations compiled → 30; after this break there were "
        "others, 2 → 4; equal"
    )
    nothing_more_is_compiled = replace(uncovered, operations=10)
    assert judge(FINISHED, BEFORE, nothing_more_is_compiled, EQUAL) == (
        "refused",
        "other breaks replace it",
    )


def test_one_cut_instead_of_several_is_good_though_less_is_compiled() -> None:
    assert judge(FINISHED, BEFORE, replace(BETTER, operations=7), EQUAL)[0] == "good"


def test_a_difference_is_refused_whatever_the_breaks() -> None:
    differs = replace(EQUAL, is_equal=False, differences=("the output: differs by up to 1",))
    assert judge(FINISHED, BEFORE, BETTER, differs) == (
        "refused",
        "results differ: the output: differs by up to 1",
    )


def test_nothing_to_compare_with_is_never_good() -> None:
    assert judge(FINISHED, BEFORE, BETTER, None)[0] == "not compared"
    problem = replace(EQUAL, is_equal=False, problem="the original program raises")
    assert judge(FINISHED, BEFORE, BETTER, problem) == (
        "refused",
        "the original program raises, so there is nothing to compare with",
    )


def test_a_compiler_that_fails_is_refused() -> None:
    failure = Failure(0, 1, "compiler", "post_grad", "LoweringException", "no lowering for it")
    refused = "refused", "the compiler fails: no lowering for it"
    assert judge(FINISHED, BEFORE, BETTER, EQUAL, [failure]) == refused
    assert (
        judge(FINISHED, replace(BEFORE, failed=("Unsupported",)), BETTER, EQUAL, [failure])
        == refused
    )
    before = replace(BEFORE, failed=("LoweringException",))
    assert judge(FINISHED, before, BETTER, EQUAL, [failure])[0] == "good", "as it did before"
    assert judge(FINISHED, before, BETTER, EQUAL, [failure, failure]) == refused


def test_a_program_that_did_not_get_through_is_refused() -> None:
    assert judge(Outcome("killed", "ended by SIGSEGV"), BEFORE, BETTER, EQUAL) == (
        "refused",
        "the changed program failed: ended by SIGSEGV",
    )


def test_lines_that_are_lost_or_new_are_named() -> None:
    lost = replace(EQUAL, prints_equal=False, lost_lines=("hello",))
    new = replace(EQUAL, prints_equal=False, new_lines=("twice",))
    assert judge(FINISHED, BEFORE, BETTER, lost)[1].endswith(
        "this is no longer printed or logged: 'hello'"
    )
    assert judge(FINISHED, BEFORE, BETTER, new)[1].endswith(
        "this is printed or logged in addition: 'twice'"
    )


def test_another_exception_is_not_called_printed() -> None:
    other = replace(EQUAL, other_messages=("ValueError said 'a' and says 'b'",))
    verdict, reason = judge(FINISHED, BEFORE, BETTER, other)
    assert verdict == "prints differ"
    assert reason.endswith(
        "results are equal, but an exception differs: ValueError said 'a' and says 'b'"
    )


def test_what_could_not_be_compared_is_never_called_good() -> None:
    partly = replace(EQUAL, not_compared=("time.time(), which differs from run to run",))
    assert judge(FINISHED, BEFORE, BETTER, partly) == (
        "good where compared",
        "2 breaks → 1; equal in 2 calls; not compared: time.time(), which differs from run to run",
    )


def test_what_was_not_tried_is_told_with_a_good_verdict() -> None:
    verdict, reason = judge(
        FINISHED, BEFORE, BETTER, replace(EQUAL, not_tried=("zeros",), is_built=True)
    )
    assert (verdict, reason) == (
        "good",
        "2 breaks → 1; equal in 2 calls, also with the code built; not tried: zeros",
    )


def test_a_trial_that_took_too_long_is_no_refusal() -> None:
    outcome = Outcome("timed_out", "stopped after 300 s (--timeout) while running model.py", -9)
    verdict, reason = judge(outcome, BEFORE, BETTER, None)
    assert (verdict, reason.partition(";")[0]) == ("timed out", "after 300 s (not verified)")
    assert "refused" not in reason
