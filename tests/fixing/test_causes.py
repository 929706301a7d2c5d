"""These tests have, for each cause of breaks, a fix that removes the break and one that must be
refused: each is tried by a real worker.

The functions are in programs/. That results are equal is told by the worker, which runs the
original without torch.compile. A trial takes two seconds: ``make test`` has one or two of each kind
of cause and of reason, and ``make exhaustive`` tries all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.exhaustive import in_exhaustive_runs, with_others
from tests.fixes import after as after_fix
from tests.fixing.conftest import Case
from tests.fixing.programs import calls

IN_TENSOR = "keep the value in a tensor"
NUMBER = "put the number into the graph"
WHERE = "choose with torch.where"
COND = "choose with torch.cond"
SIZE = "put a size that is not known yet into the graph"
ZEROS = "keep the size: put zeros where the mask is false"
WHILE = "loop with torch.while_loop"
OUTSIDE = "call backward() outside of the compiled function"
BACKWARD = "trace backward() into the graph"
AT_CALLER = "print where the compiled code is called"
NOT_COMPILED = "run this only in eager mode"
OUT = "move the line out of the compiled code"

OTHER_TYPES = "inputs of other types or dtypes or autocast"
RAISES_BEHIND = "a call in which a line after the print raises: nothing is written then"

GOOD = with_others(
    [
        ("calls:printed", "let torch do the print after the graph"),
        ("calls:trained", BACKWARD),
        ("values:item", IN_TENSOR),
        ("values:branch", WHERE),
        ("values:nonzero", SIZE),
        (
            "calls:interpolated",
            "make np.interp() an operation of the graph that gives torch.float64",
        ),
    ],
    [
        ("calls:printed_by_a_compiled_one", AT_CALLER),
        ("values:branch_of_more_steps", COND),
        ("calls:calls_kept_out", "let kept_out() be compiled"),
        ("calls:checksum_of", "call library.checksum() while compiling, and keep its result"),
        ("calls:named_global", "assign the global SEEN by its name"),
        ("control:summed", "let two() return a list"),
        ("calls:trained", OUTSIDE),
        ("values:grown", WHILE),
        ("values:item", NUMBER),
        ("values:mask", ZEROS),
        ("calls:asked_for", "remove the line that asks for the break"),
        ("calls:checksum", "call zlib.crc32() once, when the file is imported"),
        ("calls:third_party_in_numpy", "make library.smoothed() an operation of the graph"),
        ("control:calls_library", "keep the whole twice_interrupted() out of compilation"),
        ("calls:trained_elsewhere", OUTSIDE),
        ("calls:printed_with_a_shape", "let torch do the print after the graph"),
        ("values:as_float", IN_TENSOR),
        ("values:branch_that_returns", WHERE),
        ("values:unique", SIZE),
        ("calls:digitized", "compute np.digitize() with torch"),
        ("calls:third_party", "put the call of library.halved() into the graph unchanged"),
        (
            "calls:combined",
            "call itertools.combinations_with_replacement() once, when the file is imported",
        ),
    ],
)

PRINTS_DIFFER = with_others(
    [("calls:printed", "move the print out of the compiled code", "'the sum is tensor(20.")],
    [
        ("calls:logged", "do the log message only in eager mode", "'WARNING program: hello'"),
        (
            "calls:averaged",
            "compute np.nanmean() with torch",
            "'RuntimeWarning: Mean of empty slice'",
        ),
    ],
)

REFUSED = with_others(
    [
        (
            "calls:printed_while_changing",
            "move the print out of the compiled code",
            "results differ: the output",
        ),
        (
            "calls:printed_before_it_changes",
            AT_CALLER,
            "what is printed changes: this is no longer printed",
        ),
        (
            "values:item_that_decides",
            NUMBER,
            "this break is gone, and then values.py:65 breaks the graph",
        ),
        ("control:caught", "leave the try out", "the changed program failed"),
    ],
    [
        ("values:item_for_the_caller", IN_TENSOR, "was 4.0 and is a tensor []"),
        ("values:branch_of_two_shapes", COND, "the changed program failed"),
        (
            "calls:calls_one_that_tells",
            "let tells_where_it_runs() be compiled",
            "results differ: the output",
        ),
        (
            "calls:third_party_with_side_effect",
            "put the call of library.counted() into the graph unchanged",
            "COUNT[0]",
        ),
        (
            "calls:printed_among_others",
            "print at the end of the function",
            "this is printed or logged earlier: 'twice'",
        ),
        ("calls:returns_what_it_trained", BACKWARD, "there is nothing to compare with"),
        ("values:grown_with_the_input", WHILE, "results differ: input 1 after the call"),
        (
            "values:checked",
            "assert without the text",
            "it raised AssertionError before and it raised RuntimeError after",
        ),
        ("values:size_that_decides", SIZE, "the break stays"),
        ("values:mask_of_rows", ZEROS, "results differ: the output"),
        (
            "calls:averaged_by_column",
            "make np.interp() an operation of the graph that gives torch.float64",
            "its shape was [4]",
        ),
        ("calls:environment", OUT, "os.environ['FIXING_SAW'] is missing"),
        ("control:generated", "let numbers() return a list", "results differ"),
        ("calls:trained_differently", OUTSIDE, "results differ: the output"),
        ("values:grown_by_a_number", WHILE, "the changed program failed"),
        (
            "values:asserted",
            "assert without the text",
            "it raised AssertionError before and it raised RuntimeError after",
        ),
        ("values:branch_of_two_dtypes", WHERE, "its dtype was torch.float32 and is torch.float64"),
        (
            "calls:third_party_with_gradient",
            "make Smooth.apply() an operation of the graph",
            "gradient",
        ),
        ("calls:named_global", OUT, "results differ: global SEEN"),
        ("calls:counted_in_a_function", OUT, "counted_in_a_function.calls"),
        ("calls:changed_on_entering", "leave doubled(y) out", "results differ: the output"),
    ],
)


@pytest.mark.parametrize(("name", "title"), GOOD)
def test_the_fix_takes_the_break_away_and_changes_nothing(
    case: Callable[[str], Case], name: str, title: str
) -> None:
    found = case(name)
    trial = found.tried(found.fix(title))
    assert (trial.verdict, trial.is_good) == ("good", True), trial.reason
    assert trial.after is not None
    before, after = (
        (one.graph_breaks, one.eager_functions, one.graph_break_hits)
        for one in (trial.before, trial.after)
    )
    assert after < before
    assert trial.verification is not None
    assert trial.verification.compared["output"] > 0


@in_exhaustive_runs
def test_an_array_that_is_used_on_stays_one_and_the_program_runs_without_torch_compile_too(
    case: Callable[[str], Case],
) -> None:
    found = case("calls:digitized_first")
    fix = found.fix("compute np.digitize() with torch")
    trial = found.tried(fix)
    assert (trial.verdict, trial.is_good) == ("good", True), trial.reason
    program: dict[str, Any] = {
        "__name__": "tests.fixing.programs.calls",
        "__package__": "tests.fixing.programs",
    }
    exec(compile(after_fix(fix), "calls.py", "exec"), program)
    x = torch.linspace(-2, 2, 12)
    assert torch.equal(program["digitized_first"](x), calls.digitized_first(x))


@in_exhaustive_runs
@pytest.mark.parametrize(
    ("name", "title"),
    with_others(
        [("calls:hushed", "do the log message only in eager mode")],
        [
            ("calls:hushed", "move the log message out of the compiled code"),
            ("calls:warned_by_default_of_nothing", "move the warning out of the compiled code"),
        ],
    ),
)
def test_a_message_that_nobody_sees_is_not_taken_away_unmentioned(
    case: Callable[[str], Case], name: str, title: str
) -> None:
    found = case(name)
    trial = found.tried(found.fix(title))
    assert trial.verdict == "good where compared"
    assert "because no call in the captured run wrote it" in trial.reason


@pytest.mark.parametrize(
    ("name", "title", "what"),
    with_others(
        [("calls:locked", "enter lock only in eager mode", "lock, ")],
        [
            ("calls:hooked", OUT, "y.register_hook"),
            ("calls:slept", NOT_COMPILED, "time.sleep"),
            ("calls:timed", "leave Timed() out", "Timed(), "),
            ("calls:slept", OUT, "time.sleep"),
            ("calls:hooked", NOT_COMPILED, "y.register_hook"),
        ],
    ),
)
def test_what_is_no_longer_done_and_leaves_no_trace_was_not_compared(
    case: Callable[[str], Case], name: str, title: str, what: str
) -> None:
    found = case(name)
    trial = found.tried(found.fix(title))
    assert trial.verdict == "good where compared"
    assert f"not compared: the effects of {what}" in trial.reason
    assert "which the compared calls do not show" in trial.reason


@pytest.mark.parametrize(
    ("name", "title", "said"),
    with_others(
        [
            (
                "values:item_as_exponent",
                IN_TENSOR,
                "an exponent of 0.5 or -0.5 with a base of -0 or -inf",
            )
        ],
        [
            ("calls:printed", "let torch do the print after the graph", RAISES_BEHIND),
            (
                "values:as_large_as",
                IN_TENSOR,
                (
                    "a comparison of numbers that are equal only after rounding to the dtype of the "
                    "tensor"
                ),
            ),
            (
                "values:two_items_at_once",
                IN_TENSOR,
                "a division of numbers by 0, which raises only in Python; integers beyond 2**63",
            ),
            ("calls:printed_last_by_a_compiled_one", AT_CALLER, ""),
            (
                "values:branch_that_may_raise",
                WHERE,
                "a call in which the branch that is not taken raises, or has an infinite gradient",
            ),
            (
                "values:exponent_chosen",
                WHERE,
                "an exponent of 0.5 or -0.5 with a base of -0 or -inf",
            ),
            ("values:items_summed", IN_TENSOR, "integers beyond 2**63, which exist only in Python"),
            ("values:item", IN_TENSOR, ""),
            ("values:branch_of_more_steps", COND, "a second derivative (create_graph=True)"),
            ("calls:printed", "print at the end of the function", RAISES_BEHIND),
            (
                "values:item_as_exponent",
                NUMBER,
                "an exponent of 0.5 or -0.5 with a base of -0 or -inf",
            ),
            (
                "values:item_below_a_line",
                IN_TENSOR,
                "a division of numbers by 0, which raises only in Python; integers beyond 2**63",
            ),
            ("values:branch_of_plain_values", WHERE, ""),
            ("values:two_items_at_once", NUMBER, "a division of numbers by 0"),
            ("values:mean_in_python", IN_TENSOR, ""),
        ],
    ),
)
def test_a_kind_of_call_that_no_trial_makes_is_named(
    case: Callable[[str], Case], name: str, title: str, said: str
) -> None:
    found = case(name)
    trial = found.tried(found.fix(title))
    assert trial.verdict == "good", trial.reason
    untried = trial.reason.partition("not tried: ")[2]
    assert untried.startswith(said)
    assert OTHER_TYPES in untried if said else untried == OTHER_TYPES


def test_one_graph_in_place_of_two_is_good_though_the_print_stays(
    case: Callable[[str], Case],
) -> None:
    found = case("calls:printed")
    trial = found.tried(found.fix("print at the end of the function"))
    assert (trial.verdict, trial.reason) == (
        "good",
        f"the break stays, but 2 graphs → 1; equal in 20 calls; not tried: {RAISES_BEHIND}; {OTHER_TYPES}",
    )


@pytest.mark.parametrize(
    ("name", "call"), [("calls:dice", "random.random"), ("calls:shuffled", "random.sample")]
)
def test_what_gives_something_else_at_each_call_is_no_constant(
    case: Callable[[str], Case], name: str, call: str
) -> None:
    assert [fix.title for fix in case(name).fixes if call in fix.title] == []


def test_what_the_code_shows_to_change_is_refused_without_a_trial(
    case: Callable[[str], Case],
) -> None:
    found = case("calls:settings_read_again")
    fix = found.fix("call zlib.crc32() once, when the file is imported")
    trial = found.tried(fix)
    assert (trial.verdict, trial.took_s) == ("refused", 0.0)
    assert trial.reason == "SETTINGS is a dict, which can be changed"
    assert trial.reason in fix.risk


def test_a_call_that_the_original_does_not_end_is_left_out_and_named(
    case: Callable[[str], Case],
) -> None:
    found = case("values:endless_for_zeros")
    trial = found.tried(found.fix(WHILE))
    assert trial.verdict == "good"
    assert trial.verification is not None
    left_out = [
        f"a call with {inputs}, which the original did not finish in time"
        for inputs in ("the example inputs as zeros", "an empty batch")
    ]
    assert list(trial.verification.not_tried) == [OTHER_TYPES, *left_out]
    assert f"; not tried: {OTHER_TYPES}; {'; '.join(left_out)}" in trial.reason
    assert not {"the example inputs as zeros", "an empty batch"} & set(trial.verification.calls)


@pytest.mark.parametrize(("name", "title", "line"), PRINTS_DIFFER)
def test_output_that_is_lost_is_for_the_user_to_judge(
    case: Callable[[str], Case], name: str, title: str, line: str
) -> None:
    found = case(name)
    trial = found.tried(found.fix(title))
    assert (trial.verdict, trial.is_good) == ("prints differ", False), trial.reason
    assert line in trial.reason


@in_exhaustive_runs
def test_a_handler_that_no_input_reached_is_not_called_good_to_leave_out(
    case: Callable[[str], Case],
) -> None:
    found = case("control:tried")
    trial = found.tried(found.fix("leave the try out"))
    assert (trial.verdict, trial.is_good) == ("good where compared", False), trial.reason
    assert "line 17 of control.py, which no input reached" in trial.reason


@pytest.mark.parametrize(("name", "title", "reason"), REFUSED)
def test_the_fix_is_refused(
    case: Callable[[str], Case], name: str, title: str, reason: str
) -> None:
    found = case(name)
    trial = found.tried(found.fix(title))
    assert (trial.verdict, trial.is_good) == ("refused", False), trial.reason
    assert reason in trial.reason
