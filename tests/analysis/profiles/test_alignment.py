"""These tests check that kernels that ran are joined to calls by order and name, and that a kernel
is called shared where the order cannot tell.
"""

from __future__ import annotations

import pytest

from fx_explorer.instruments.profile.event_names import key_of_call, key_of_event
from fx_explorer.instruments.profile.graph_calls import CallName, Matched, align


def kernels(words: str) -> list[CallName]:
    """``a_1 mm ?x``: names in lower case without a number are library calls, ``?`` marks a
    library's own kernel.
    """
    return [
        CallName(word.lstrip("?"), "_" not in word, word.startswith("?")) for word in words.split()
    ]


def joined(ran: str, calls: str) -> list[str]:
    found = align(kernels(ran), kernels(calls))
    mark = {"order": "", "similar": "≈", "shared": "~"}
    told = []
    for at in range(len(ran.split())):
        one = found.get(at)
        told.append("-" if one is None else mark[one.how] + "/".join(map(str, one.calls)))
    return told


def test_equal_lists_are_joined_in_order() -> None:
    assert joined("a_0 mm a_0 mm b_1", "a_0 mm a_0 mm b_1") == ["0", "1", "2", "3", "4"]


def test_what_runs_in_addition_is_joined_to_nothing_and_the_rest_stays_right() -> None:
    assert joined("a_0 mm fill b_1 mm c_2", "a_0 mm b_1 mm c_2") == ["0", "1", "-", "2", "3", "4"]


def test_a_call_that_did_not_run_is_passed_over() -> None:
    assert joined("a_0 b_1 mm", "a_0 mm b_1 mm") == ["0", "2", "3"]


def test_other_numbers_of_the_same_names_are_similar() -> None:
    assert joined("a_0 x_1 b_2 mm", "a_0 b_1 mm") == ["0", "-", "≈1", "2"]


def test_order_that_tells_nothing_shares_the_time_among_the_calls_of_the_name() -> None:
    ran, calls = kernels("s_1 mm y_2 mm y_2 mm e_3"), kernels("s_1 y_2 mm z_7 mm y_2 z_7 e_3")
    found = align(ran, calls)
    assert [found[at] for at in (1, 3, 5)] == [Matched((2, 4), "shared")] * 3


def test_kernels_of_a_library_without_an_operator_are_joined_by_their_place() -> None:
    assert joined("a_0 ?gemm b_1", "a_0 mm b_1") == ["0", "1", "2"]
    assert joined("a_0 ?gemm ?splitk b_1", "a_0 mm addmm b_1") == ["0", "~1/2", "~1/2", "3"]
    assert joined("a_0 ?gemm b_1", "a_0 c_3 b_1") == ["0", "-", "2"]


def test_nothing_is_joined_to_nothing() -> None:
    assert align([], kernels("mm")) == {}
    assert align(kernels("mm"), []) == {}


@pytest.mark.parametrize(
    ("call", "event"),
    [
        ("extern_kernels.mm", "aten::mm"),
        ("extern_kernels.bias_addmm", "aten::addmm"),
        ("torch.ops.aten.convolution_backward.default", "aten::convolution_backward"),
        ("aten.index_put_", "aten::index_put_"),
        ("torch.ops.mylib.scaled.default", "mylib::scaled"),
        ("torch.ops._c10d_functional.all_reduce_.default", "_c10d_functional::all_reduce_"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
    ],
)
def test_code_and_trace_have_one_key_for_a_kernel(call: str, event: str) -> None:
    assert key_of_call(call) == key_of_event(event)
