"""These tests run programs whose obvious fix is wrong in a way that one result does not show: the
whole path, by real workers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.exhaustive import in_exhaustive_runs, one_of
from tests.fixing.conftest import Case

OUT = "move the line out of the compiled code"
NOT_COMPILED = "run this only in eager mode"
NUMBER = "put the number into the graph"
WHERE = "choose with torch.where"

WRONG = [
    (
        "nasty:total_on_an_object",
        OUT,
        "refused",
        "global st.total, with the example inputs: was 8.0 and is 0",
    ),
    ("nasty:private_on_an_object", NOT_COMPILED, "refused", "global st._n"),
    (
        "nasty:kept_in_a_list",
        "keep the value in a tensor",
        "refused",
        "kept_in_a_list's default of seen",
    ),
    ("nasty:float_for_the_state", "keep the value in a tensor", "refused", "global st.scale"),
    ("nasty:alias_or_copy", WHERE, "refused", "input 1"),
    ("nasty:threshold", WHERE, "good", "equal in 20 calls"),
    ("nasty:never", WHERE, "good where compared", "which no input reached"),
    (
        "nasty:by_number",
        "keep the value in a tensor",
        "refused",
        "a tensor is looked up in a dictionary or a set, which compares",
    ),
    ("nasty:corner_kept", "keep the value in a tensor", "good", "equal in 20 calls"),
    (
        "nasty:reads_the_clock",
        OUT,
        "good where compared",
        "time.time(), which differs from run to run",
    ),
    (
        "nasty:stores_the_clock",
        "let torch do the print after the graph",
        "good where compared",
        "global st.at, which differs from run to run",
    ),
]


@pytest.mark.parametrize(("name", "title", "verdict", "said"), one_of(4, WRONG))
def test_what_is_lost_is_found_and_what_is_not_seen_is_named(
    case: Callable[[str], Case], name: str, title: str, verdict: str, said: str
) -> None:
    found = case(name)
    trial = found.tried(found.fix(title))
    assert trial.verdict == verdict, trial.reason
    assert said in trial.reason


@in_exhaustive_runs
def test_a_number_that_overflows_in_a_kernel_is_found_in_the_built_code(
    case: Callable[[str], Case],
) -> None:
    found = case("nasty:overflowing")
    integers = replace(found.request, inputs="torch.arange(6)")
    assert (
        replace(found, request=integers).tried(found.fix(NUMBER)).verdict == "good"
    )  # with backend eager nothing is built
    built = replace(found, request=replace(integers, backend="inductor")).tried(found.fix(NUMBER))
    assert built.verdict == "good where compared", (
        built.reason
    )  # the number is one of 64 bits behind the break, too
    where = "(the output, with the largest and smallest integers in the built code: differs by up to 104, and the original's "
    assert f"not compared: facts that compiling changes in the original too {where}" in built.reason
    assert "also with the code built" not in built.reason


@in_exhaustive_runs
def test_what_inductor_sets_in_its_own_process_is_no_difference(
    case: Callable[[str], Case],
) -> None:
    found = case("nasty:computed_with_floats")
    integers = replace(found.request, inputs="torch.arange(6)", backend="inductor")
    built = replace(found, request=integers).tried(found.fix(NUMBER))
    assert built.verdict == "good", (
        built.reason
    )  # the kernel computes 4.0 * float(m), which cannot overflow
    assert "also with the code built" in built.reason


def test_integers_that_wrap_in_a_tensor_and_not_in_python_are_tried(
    case: Callable[[str], Case],
) -> None:
    found = case("nasty:summed_in_python")
    integers = replace(found, request=replace(found.request, inputs="torch.arange(3)"))
    trial = integers.tried(found.fix("keep the value in a tensor"))
    assert trial.verdict == "refused", trial.reason
    assert "so large that a sum of two overflows the dtype" in trial.reason


@in_exhaustive_runs
def test_a_sum_that_a_graph_makes_in_another_order_is_tried_with_large_numbers_that_cancel(
    case: Callable[[str], Case],
) -> None:
    found = case("nasty:scaled_to_its_range")
    built = replace(found, request=replace(found.request, backend="inductor")).tried(
        found.fix(NUMBER)
    )
    assert built.verdict == "good where compared", (
        built.reason
    )  # the floats of the original are dynamic by then, with the same end
    assert "with the same large number in all places in the built code" in built.reason


@in_exhaustive_runs
def test_what_raises_when_it_is_looked_at_is_named_and_not_blamed_on_the_program(
    case: Callable[[str], Case],
) -> None:
    found = case("odd:uses_them")
    trial = found.tried(found.fix(NUMBER))
    assert trial.verdict == "good where compared", trial.reason
    for raised in ("RuntimeError", "NotImplementedError", "ValueError"):
        assert f"its internal state, which raises {raised} when it is read" in trial.reason
    assert "original program raises" not in trial.reason
