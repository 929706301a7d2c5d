"""These tests check which values count as equal, and text that is used in place of a file's own."""

from __future__ import annotations

import linecache
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fx_explorer.instruments.fixes.measure.comparing import Comparison
from fx_explorer.instruments.fixes.measure.reachable import ReachedValues
from fx_explorer.program import loading
from fx_explorer.program.fresh_inputs import ALL_HALF, ALL_LARGE, LARGEST, MODERATE, calls
from fx_explorer.program.inputs import Arguments


def seen(
    value: Any, kind: str = "output", printed: tuple[str, ...] = (), raised: str = ""
) -> dict[str, Any]:
    return {
        "call": "the example inputs",
        **vars(ReachedValues(values={kind: {"it": value}})),
        "printed": list(printed),
        "errors": [],
        "effects": [],
        "raised": raised,
        "message": "",
    }


def compared(before: Any, after: Any) -> Comparison:
    comparison = Comparison()
    comparison.add(seen(before), seen(after))
    return comparison


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (torch.ones(2), torch.ones(2) * (1 + 1e-6)),
        (torch.ones(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.bfloat16) * 1.01),
        (torch.tensor([math.nan, math.inf]), torch.tensor([math.nan, math.inf])),
        (torch.empty(0), torch.empty(0)),
        (torch.tensor([True, False]), torch.tensor([True, False])),
        (torch.tensor([3], dtype=torch.uint8), torch.tensor([3], dtype=torch.uint8)),
        (3, 3),
        (None, None),
        (math.nan, math.nan),
        (5.737573146820068, 5.737579345703125),
    ],
)
def test_equal_within_what_the_dtype_allows(before: Any, after: Any) -> None:
    assert compared(before, after).differences == []


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (torch.ones(2), torch.ones(2) * 1.001, "differs by up to 0.001"),
        (
            torch.ones(2, dtype=torch.float64),
            torch.ones(2, dtype=torch.float64) * (1 + 1e-6),
            "differs by up to 1e-06",
        ),
        (torch.ones(2), torch.ones(2).double(), "its dtype was torch.float32 and is torch.float64"),
        (torch.ones(2), torch.ones(2, 1), "its shape was [2] and is [2, 1]"),
        (torch.ones(1).double() / 3, (torch.ones(1) / 3).double(), "differs by up to 9.93e-09"),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "differs by up to 1"),
        (torch.tensor([True, False]), torch.tensor([True, True]), "differs by up to 1"),
        (torch.ones(1), torch.tensor([math.nan]), "differs by up to inf"),
        (torch.ones(1), None, "was a tensor [1] and is nothing"),
        (True, 1, "was True and is 1"),
        (2.0, torch.tensor(2.0), "was 2.0 and is a tensor []"),
        (2.0, 2.001, "was 2.0 and is 2.001"),
        (1e300, 2e300, "was 1e+300 and is 2e+300"),
        (0.0, -0.0, "was 0.0 and is -0.0"),
    ],
)
def test_a_difference_is_told_with_its_place(before: Any, after: Any, said: str) -> None:
    difference = compared(before, after).differences[0]
    assert difference == f"it, with the example inputs: {said}"


def test_the_largest_difference_is_told_even_when_all_is_equal() -> None:
    row = compared(torch.zeros(2), torch.tensor([0.0, 5e-8])).row(["the example inputs"])
    assert row.is_equal
    assert (pytest.approx(row.largest_difference), row.where) == (
        5e-8,
        "it, with the example inputs",
    )


def test_both_have_to_raise_the_same() -> None:
    comparison = Comparison()
    comparison.add(seen(1, raised="ValueError"), seen(1, raised="ValueError"))
    assert comparison.differences == []
    comparison.add(seen(1, raised="ValueError"), seen(1))
    assert comparison.differences == [
        "with the example inputs it raised ValueError before and it returned after"
    ]


@pytest.mark.parametrize(
    ("before", "after", "message", "is_equal"),
    [
        ("IndexError", "RuntimeError", "", True),
        ("RuntimeError", "AssertionError while compiling", "", True),
        ("IndexError", "RuntimeError", "said by the program itself", False),
        (
            "IndexError",
            "RuntimeError",
            "Runtime assertion failed for expression u0 >= 1 on node 'ge'",
            True,
        ),
        ("ValueError", "RuntimeError", "", False),
    ],
)
def test_an_operator_may_raise_something_else_while_it_is_traced(
    before: str, after: str, message: str, is_equal: bool
) -> None:
    comparison = Comparison()
    comparison.add(
        {**seen(1, raised=before), "message": "of the operator"},
        {**seen(1, raised=after), "message": message},
    )
    assert bool(comparison.differences) != is_equal


def test_one_call_has_a_single_element_that_a_condition_chooses() -> None:
    for example in (torch.linspace(-1, 1, 6).view(2, 3), torch.arange(6)):
        given = [call.arguments.args[0] for call in calls(Arguments((example,), {}, "the test"))]
        for threshold in (example.flatten()[:-1] + example.flatten()[1:]) / 2:
            assert 1 in [int((values > threshold).sum()) for values in given]
            assert 1 in [int((values < threshold).sum()) for values in given]


def test_the_text_of_an_exception_is_compared_apart_from_what_is_printed() -> None:
    comparison = Comparison()
    one, other = ({**seen(1, raised="ValueError"), "message": text} for text in ("a", "b"))
    comparison.add(one, other)
    row = comparison.row([])
    assert (row.prints_equal, row.lost_lines, row.new_lines) == (True, (), ())
    assert row.other_messages == ("ValueError said 'a' and says 'b'",)


def test_a_check_of_the_graph_that_comes_before_the_operation_is_told() -> None:
    comparison = Comparison()
    checked = "Runtime assertion failed for expression u0 >= 1 on node 'ge'"
    comparison.add(
        {**seen(1, raised="IndexError"), "message": "of the operator"},
        {**seen(1, raised="RuntimeError"), "message": checked},
    )
    (told,) = comparison.row([]).other_messages
    assert told == f"IndexError said 'of the operator' and RuntimeError says {checked!r}"


def test_lines_are_counted_whatever_their_order() -> None:
    comparison = Comparison()
    comparison.add(seen(1, printed=("a", "b", "b")), seen(1, printed=("b", "a", "c")))
    row = comparison.row([])
    assert (row.is_equal, row.prints_equal, row.lost_lines, row.new_lines) == (
        True,
        False,
        ("b",),
        ("c",),
    )


def test_fresh_inputs_are_the_same_in_every_process_and_have_the_form_of_the_examples() -> None:
    example = torch.randn(3, 4).t().requires_grad_()
    index = torch.tensor([0, 5, 2])
    once, again = (list(calls(Arguments((example,), {"index": index}))) for _ in range(2))
    assert len({call.words for call in once}) == len(once)
    for one, other in zip(once, again, strict=True):
        (x, i), (y, j) = one.arguments.tensors(), other.arguments.tensors()
        assert torch.equal(x.nan_to_num(), y.nan_to_num()), one.words
        assert torch.equal(i, j), one.words
        assert (x.dtype, x.requires_grad, x is example) == (example.dtype, True, False)
        if not one.has_other_sizes:
            assert (x.shape, x.stride()) == (example.shape, example.stride())
        if not one.has_other_sizes and one.words not in (LARGEST, ALL_LARGE, ALL_HALF, MODERATE):
            assert 0 <= int(i.min()) <= int(i.max()) <= 5
    assert torch.equal(next(once[1].arguments.tensors()), -example)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
@pytest.mark.parametrize("shape", [(), (1,), (4,), (3, 5), (30, 30)])
def test_some_integers_have_a_sum_that_overflows_as_an_exponent_and_still_ends(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    example = (
        torch.ones(shape, dtype=dtype).t() if len(shape) == 2 else torch.ones(shape, dtype=dtype)
    )
    (given,) = (
        call.arguments for call in calls(Arguments((example,), {})) if call.words == MODERATE
    )
    (moderate,) = given.tensors()
    assert (moderate.shape, moderate.dtype) == (example.shape, dtype)
    assert 64 <= int(moderate.max()) <= 101
    assert 64 <= int(moderate.sum()) <= 2000


def test_the_inputs_go_both_ways_of_what_a_branch_may_ask() -> None:
    given = {
        call.words: next(call.arguments.tensors())
        for call in calls(Arguments((torch.tensor([1.0, 2.0]),), {}))
    }
    questions = [
        lambda x: x.numel() and x.sum() > 100,
        lambda x: x.numel() and x.sum() < -100,
        lambda x: x.isnan().any(),
        lambda x: x.isinf().any(),
        lambda x: x.numel() and not x.any(),
        lambda x: x.numel() and (x == 1).all(),
        lambda x: len(x) == 0,
        lambda x: len(x) > 2,
    ]
    for position, question in enumerate(questions):
        assert {bool(question(x)) for x in given.values()} == {True, False}, position


def test_numbers_and_flags_among_the_arguments_vary_too() -> None:
    seen = [
        call.arguments.args[1:]
        for call in calls(Arguments((torch.ones(2), 3, True, {"scale": 0.5}), {}))
    ]
    assert {flag for _, flag, _ in seen} == {True, False}
    assert {number for number, _, _ in seen} >= {3, 4, -3, 0, 2**62}
    assert {given["scale"] for _, _, given in seen} >= {0.5, 1.5, -0.5, 0.0}


@pytest.fixture
def clean_imports() -> Iterator[None]:
    before, finders = dict(sys.modules), list(sys.meta_path)
    path, argv = list(sys.path), list(sys.argv)
    yield
    sys.modules.clear()
    sys.modules.update(before)
    sys.meta_path[:], sys.path[:], sys.argv[:] = finders, path, argv
    loading._texts.clear()


@pytest.mark.usefixtures("clean_imports")
def test_imports_get_the_other_text_under_the_files_own_name(tmp_path: Path) -> None:
    file = tmp_path / "overlaid.py"
    file.write_text("VALUE = 1\ndef f(): return 1\n")
    (tmp_path / "start.py").write_text("from overlaid import VALUE, f\n")
    loading.install_texts({str(file): "# another text\nVALUE = 2\ndef f(): raise ValueError\n"})
    module = loading.load_file(tmp_path / "start.py", ())
    assert module.VALUE == 2
    assert module.f.__code__.co_filename == str(file)
    assert not (tmp_path / "__pycache__" / f"overlaid.{sys.implementation.cache_tag}.pyc").exists()
    linecache.checkcache(str(file))
    assert linecache.getline(str(file), 3) == "def f(): raise ValueError\n"
    assert file.read_text().startswith("VALUE = 1")


@pytest.mark.usefixtures("clean_imports")
def test_the_target_itself_may_be_the_file_with_another_text(tmp_path: Path) -> None:
    file = tmp_path / "target.py"
    file.write_text("VALUE = 1\n")
    loading.install_texts({str(file): "VALUE = 2\n"})
    assert loading.load_file(file, ()).VALUE == 2
