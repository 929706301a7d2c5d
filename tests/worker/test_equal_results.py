"""These tests compare our rule for "equal" with torch's own (``torch._dynamo.utils.same``)."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch._dynamo.utils import same

from fx_explorer.program.equal_results import (
    GPU_GRADIENT_TOLERANCE,
    TOLERANCE,
    Precision,
    compare_result,
    is_within_tolerance,
    root_mean_square,
    rounding_of,
)
from tests.exhaustive import with_others

Tensors = tuple[torch.Tensor, ...]
Computation = Callable[..., torch.Tensor]


def quietly(*text: object) -> None:
    """Where ``same`` would log why results differ."""


def is_same(result: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor | None) -> bool:
    return same(eager, result, exact, equal_nan=True, log_error=quietly)


def softmax(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ w, -1)


def softmax_by_hand(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    logits = torch.stack([(row * w.T).sum(-1) for row in x])
    exp = (logits - logits.amax(-1, keepdim=True)).exp()
    return exp / exp.sum(-1, keepdim=True)


def norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x @ w, [w.shape[1]])


def norm_by_hand(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x @ w
    return (y - y.mean(-1, keepdim=True)) * (y.var(-1, correction=0, keepdim=True) + 1e-5).rsqrt()


def gelu_sum(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x @ w).sum()


def gelu_sum_by_hand(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x @ w
    return (y * 0.5 * (1 + torch.erf(y / math.sqrt(2)))).sum(0).sum()


def cancelling(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (x @ w + 100).sum(-1) - (x @ w).sum(-1)


def cancelling_in_other_order(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (x @ w + 100 - x @ w).sum(-1)


WAYS = {
    "softmax": (softmax, softmax_by_hand),
    "norm": (norm, norm_by_hand),
    "loss": (gelu_sum, gelu_sum_by_hand),
    "cancelling": (cancelling, cancelling_in_other_order),
}


def inputs_of(seed: int, rows: int, dtype: torch.dtype) -> Tensors:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 96, generator=generator, dtype=torch.float64)
    w = torch.randn(96, 64, generator=generator, dtype=torch.float64) / 10
    return x.to(dtype), w.to(dtype)


def run_all(name: str, seed: int, rows: int, dtype: torch.dtype) -> Tensors:
    """Return a result computed otherwise, eager's, and that in float64."""
    eager, otherwise = WAYS[name]
    x, w = inputs_of(seed, rows, dtype)
    return otherwise(x, w), eager(x, w), eager(x.double(), w.double())


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", with_others([4], [1, 40]))
def test_what_is_computed_in_another_order_differs_only_where_same_says_so(
    name: str, dtype: torch.dtype, rows: int
) -> None:
    for seed in range(5):
        result, eager, exact = run_all(name, seed, rows, dtype)
        found = compare_result(result, eager, exact, Precision(rounding_of([eager])))
        if is_same(result, eager, exact):
            assert found.kind != "differs", found
        elif eager.numel() > 500:  # of fewer, eager's error may be small by chance
            assert found.kind == "differs", found


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("size", [1.0, 1e-3, 1e3])
def test_a_thousandth_too_much_differs_however_small_the_results(name: str, size: float) -> None:
    _, eager, exact = run_all(name, 0, 40, torch.float32)
    result, eager, exact = eager * 1.001 * size, eager * size, exact * size
    assert compare_result(result, eager, exact).kind == "differs"
    assert compare_result(result, eager).kind == "differs"  # and without a run in float64
    if root_mean_square(eager) < 0.01:  # the absolute tolerance of ``same`` is 1e-4
        assert is_same(result, eager, exact)


@pytest.mark.parametrize(
    ("size", "tolerance", "part"),
    [(0.005, GPU_GRADIENT_TOLERANCE, 1e-3), (0.1, TOLERANCE, 2.5e-4)],
    ids=["a gradient on a GPU", "an output"],
)
def test_another_kernel_of_a_library_that_same_accepts_does_not_differ(
    size: float, tolerance: float, part: float
) -> None:
    """Errors of attention in another kernel on an H200, where eager's own is a thousand times
    smaller.
    """
    torch.manual_seed(0)
    exact = torch.randn(4, 10, dtype=torch.float64) * size
    eager = exact.float()
    result = (exact + torch.randn_like(exact) * size * part).float()
    assert same(eager, result, exact, tol=tolerance, log_error=quietly)
    difference = compare_result(result, eager, exact, Precision(tolerance=tolerance))
    assert difference.kind == "within_error"
    assert difference.note == "less exact than eager mode, but equal by PyTorch's rule"
    wrong = compare_result(
        result * (1 + 10 * tolerance), eager, exact, Precision(tolerance=tolerance)
    )
    assert wrong.kind == "differs"


def test_the_place_and_the_size_of_the_largest_difference_are_known() -> None:
    eager = torch.ones(3, 4)
    result = eager.clone()
    result[1, 2], result[2, 3] = 1.5, 0.75
    found = compare_result(result, eager, eager.double())
    assert (found.kind, found.place, found.largest, found.there) == (
        "differs",
        (1, 2),
        0.5,
        (1.5, 1.0),
    )
    assert found.error == pytest.approx(math.sqrt((0.25 + 0.0625) / 12))
    assert found.eager_error == 0


def test_more_exact_than_eager_is_within_its_error_and_known_as_such() -> None:
    exact = torch.linspace(1, 2, 2000, dtype=torch.float64)
    eager = exact.float() * 1.001
    assert is_same(exact.float(), eager, exact)
    found = compare_result(exact.float(), eager, exact)
    assert found.kind == "within_error"
    assert found.is_more_exact


@pytest.mark.parametrize("factor", [1.9, 3.1, 9.0])
@pytest.mark.parametrize("count", [5000, 700, 400, 5])
def test_so_many_times_eagers_error_is_allowed_as_same_allows(factor: float, count: int) -> None:
    exact = torch.linspace(1, 2, count, dtype=torch.float64)
    eager, result = (exact * (1 + 1e-2)).float(), (exact * (1 + factor * 1e-2)).float()
    allowed = same(eager, result, exact, log_error=quietly)
    assert (compare_result(result, eager, exact).kind != "differs") == allowed


def test_nan_and_infinities_are_equal_only_at_the_same_places() -> None:
    eager = torch.tensor([1.0, math.nan, math.inf, -math.inf])
    exact = torch.tensor([1.0, math.nan, math.inf, -math.inf], dtype=torch.float64)
    assert compare_result(eager.clone(), eager, exact).kind == "equal"
    for place, other in ((0, math.nan), (0, math.inf), (1, 0.0), (2, -math.inf), (3, 0.0)):
        result = eager.clone()
        result[place] = other
        for more_exact in (exact, None):
            found = compare_result(result, eager, more_exact)
            assert (found.kind, found.place, found.largest) == ("differs", (place,), math.inf)
            assert "1 of 4 numbers" in found.note


def test_a_number_where_eager_overflows_is_more_exact() -> None:
    """The corner case of ``same``: eager's NaN, where the run in float64 has a number."""
    exact = torch.full((4,), 2.0, dtype=torch.float64)
    eager = torch.tensor([2.0, math.nan, 2.0, 2.0])
    assert is_same(exact.float(), eager, exact)
    assert compare_result(exact.float(), eager, exact).kind == "within_error"
    assert compare_result(exact.float() * 1.2, eager, exact).kind == "differs"


def test_integers_and_booleans_are_equal_or_not() -> None:
    numbers = torch.arange(200_000)
    off = numbers.clone()
    off[-1] += 1
    found = compare_result(off, numbers, numbers)
    assert (found.kind, found.place, found.largest) == ("differs", (199_999,), 1)
    assert found.note.startswith("1 of 200,000 integers")
    yes = torch.tensor([True, False])
    assert compare_result(yes.clone(), yes).kind == "equal"
    assert compare_result(~yes, yes).note.startswith("2 of 2 booleans")


def test_complex_numbers_are_held_against_their_more_exact_run_too() -> None:
    exact = torch.complex(torch.linspace(1, 2, 2000), torch.linspace(2, 1, 2000)).to(
        torch.complex128
    )
    eager = (exact * (1 + 1e-3)).to(torch.complex64)
    assert (
        compare_result((exact * (1 - 1e-3)).to(torch.complex64), eager, exact).kind
        == "within_error"
    )
    assert compare_result((exact * 1.1j).to(torch.complex64), eager, exact).kind == "differs"


def test_what_rounding_leaves_where_numbers_cancel_does_not_differ() -> None:
    """The gradient of a bias before a batch norm is 0; what is computed is noise, in eager mode
    too.
    """
    x, bias = torch.randn(64, 32, generator=torch.Generator().manual_seed(0)), torch.zeros(32)

    def gradients(dtype: torch.dtype, *, is_turned: bool) -> tuple[torch.Tensor, torch.Tensor]:
        rows = x.flip(0) if is_turned else x
        leaf, other = bias.to(dtype, copy=True), rows.to(dtype, copy=True)
        leaf.requires_grad_()
        other.requires_grad_()
        normed = torch.nn.functional.batch_norm(other + leaf, None, None, training=True)
        (normed * rows.to(dtype)).pow(2).sum().backward()
        assert leaf.grad is not None
        assert other.grad is not None
        return leaf.grad, other.grad

    eager, result = (gradients(torch.float32, is_turned=turned) for turned in (False, True))
    exact = gradients(torch.float64, is_turned=False)
    group = Precision(group_size=root_mean_square(eager[1]))
    assert float(exact[0].abs().max()) < 1e-12
    assert not torch.equal(result[0], eager[0])
    assert compare_result(result[0], eager[0], exact[0], group).kind != "differs"
    assert compare_result(eager[0] + 0.1, eager[0], exact[0], group).kind == "differs"


def test_a_loss_in_sixteen_bits_is_not_judged_by_eagers_luck() -> None:
    exact = torch.tensor(7.0, dtype=torch.float64)
    eager, result = torch.tensor(7.0), torch.tensor(7.01)
    assert compare_result(result, eager, exact).kind == "differs"
    in_bfloat16 = Precision(rounding_of([torch.ones(1, dtype=torch.bfloat16)]))
    assert compare_result(result, eager, exact, in_bfloat16).kind == "within_error"
    assert compare_result(result * 1.02, eager, exact, in_bfloat16).kind == "differs"


def test_without_a_more_exact_run_direction_and_size_decide() -> None:
    eager = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    noise = torch.randn(1000, generator=torch.Generator().manual_seed(1))
    turned = eager + noise * 1e-2
    turned *= eager.norm() / turned.norm()
    assert compare_result(turned, eager).kind == "within_error"
    assert "cosine similarity" in compare_result(turned, eager).note
    assert compare_result(eager * 2, eager).kind == "differs"  # the cosine alone would not see it
    assert compare_result(-eager, eager).kind == "differs"
    assert compare_result(torch.zeros(1000), eager).kind == "differs"


def test_what_is_missing_new_or_of_another_kind_differs() -> None:
    one = torch.ones(2)
    for result, eager in ((None, one), (one, None), (one, torch.ones(3)), (one, one.double())):
        found = compare_result(result, eager)
        assert (found.kind, found.is_another_kind) == ("differs", True)
        assert found.note


def test_nothing_to_compare_is_equal() -> None:
    empty = torch.ones(0, 3)
    assert compare_result(empty.clone(), empty, empty.double()).kind == "equal"
    assert is_within_tolerance(empty.clone(), empty)
