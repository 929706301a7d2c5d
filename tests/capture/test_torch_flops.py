"""These tests check the operations of a call: counted by hand where torch has no formula under this
name; unknown, which is not zero, where there is no formula.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from fx_explorer.capture.torch_flops import formulas, is_countable
from fx_explorer.instruments.backends.amounts import reports_to_show, summaries_of
from fx_explorer.instruments.backends.verdict import short_verdict
from tests.capture.recorded import Compile, failures, record

BATCH, HEADS, LENGTH, WIDTH = 2, 2, 16, 8

BY_HAND = 2 * 2 * BATCH * HEADS * LENGTH * LENGTH * WIDTH
"""Of two matrix products, a multiplication and an addition each."""


@torch.library.custom_op("fx_explorer_test::squared", mutates_args=())
def squared(x: torch.Tensor) -> torch.Tensor:
    return x @ x


@squared.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def attended(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(x, x, x)


def with_an_operator_of_its_own(x: torch.Tensor) -> torch.Tensor:
    return squared(x.view(-1, LENGTH, WIDTH) @ torch.ones(WIDTH, LENGTH))


def test_attention_on_the_cpu_counts_as_attention() -> None:
    with FlopCounterMode(display=False, custom_mapping=formulas()) as counter:
        attended(torch.ones(BATCH, HEADS, LENGTH, WIDTH))
    assert counter.get_total_flops() == BY_HAND


@pytest.mark.parametrize(
    ("operator", "known"),
    [
        (torch.ops.aten.mm.default, True),
        (torch.ops.aten.add.Tensor, True),
        (torch.ops.aten.native_layer_norm.default, True),
        (torch.ops.aten.mv.default, False),
        (torch.ops.aten.mkldnn_rnn_layer.default, False),
        (torch.ops.fx_explorer_test.squared.default, False),
    ],
)
def test_operators_that_compute_products_without_a_formula_are_not_known(
    operator: torch._ops.OpOverload, known: bool
) -> None:
    assert is_countable(operator) is known


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_backend_is_asked_for_the_operations_of_attention_on_the_cpu(
    tmp_path: Path, backend: str
) -> None:
    def program(compile_: Compile) -> None:
        x = torch.ones(BATCH, HEADS, LENGTH, WIDTH)
        compile_(attended)(x)
        compile_(with_an_operator_of_its_own)(x)

    with record(tmp_path / "s.fxs", program, backend=backend) as session:
        assert not failures(session)
        (summary,) = summaries_of(session, reports_to_show(session))
        product = 2 * BATCH * HEADS * LENGTH * WIDTH * LENGTH
        assert summary.whole.flops == BY_HAND + product
        assert summary.whole.without_flops == 1
        assert "does not say which operators it supports" in short_verdict(summary)[0]
