"""These tests check graphs that a backend easily gets wrong: each gives the same result as
uncompiled, in values and in strides.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves

from sample_backends.small_backend import backend
from tests.exhaustive import one_of
from tests.sample_backends.conftest import compiled

INFINITE, NAN = float("inf"), float("nan")


def writes_into_its_input(x: Tensor, y: Tensor) -> Tensor:
    x.add_(y)
    return x * 2


def writes_into_a_view(x: Tensor) -> object:
    row = x[0]
    row.mul_(3)
    return x + 1, row


def returns_views_of_its_input(x: Tensor) -> object:
    return x, x.t(), x[0]


def returns_views_of_a_result(x: Tensor, y: Tensor) -> object:
    product = x @ y
    return product, product.t(), product.view(-1), product[1:], product


def draws_random_numbers_in_between(x: Tensor) -> object:
    a = x.relu()
    first = torch.bernoulli(a.clamp(0, 1))
    b = (x * 2).relu()
    second = torch.rand_like(b)
    c = (b + second).relu()
    third = torch.rand(3)
    return first, second, third, (first + c).relu() + a, F.dropout(c * 2, 0.5)


def has_constants(x: Tensor) -> object:
    return x + torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([5.0, 6.0]), x * torch.tensor(2.0)


def mixes_dtypes(x: Tensor, y: Tensor) -> object:
    return x + y, x * y.double(), y * 2, (x.half() + 1).float() * 2, x.bfloat16().float() + x


def products(x: Tensor, y: Tensor) -> object:
    return x @ y, x + 1, (x * 2).sum(), F.relu(x)


def softmax_of_each_dim(x: Tensor) -> object:
    return F.softmax(x, 0), F.softmax(x, 1), F.softmax(x, 2), F.softmax(x.transpose(0, 2), 1)


def of_a_scalar(x: Tensor) -> object:
    return F.softmax(x, 0), x.sum(), x.relu(), x + 1, x.view(1, 1).sum(1), F.gelu(x)


def sums(x: Tensor) -> object:
    some = (
        x.sum((0, 1), keepdim=True),
        x.sum(-1, keepdim=True),
        x.sum((0, 1, 2)),
        x.permute(2, 0, 1).sum((0, 2)),
    )
    return x.sum(), x.sum(0), x.sum(1), x.sum(2), x.sum((0, 2)), *some, x.transpose(0, 1).sum(2)


def arithmetic(x: Tensor, y: Tensor) -> object:
    with_alpha = torch.add(x, y, alpha=-2.5), torch.sub(x, y, alpha=3), torch.add(x, 2, alpha=3)
    return x + 2, x - y, x - 3.5, x / y, x / 3, 2 * x, *with_alpha, 1 - x, 2 / x, x + True


def broadcasts(x: Tensor, y: Tensor, z: Tensor) -> object:
    return (
        x + y,
        x * z,
        y * z,
        x / z,
        (x + y).sum(),
        y.expand(3, 4, 5) + 1,
        y.expand(3, 4, 5).contiguous(),
    )


def layer_norms(x: Tensor) -> object:
    weight = torch.linspace(0, 1, 20).view(4, 5)
    plain = (
        F.layer_norm(x, (4, 5)),
        F.layer_norm(x, (5,)),
        F.layer_norm(x, (3, 4, 5)),
        F.layer_norm(x.transpose(1, 2), (4,)),
    )
    return *plain, F.layer_norm(x, (4, 5), weight, weight + 1), F.layer_norm(x, (4, 5), weight)


def products_with_bias(bias: Tensor, x: Tensor, y: Tensor) -> object:
    scaled = [
        torch.addmm(bias, x, y, beta=beta, alpha=alpha)
        for beta, alpha in ((0.5, 2), (0, 1), (1, 0), (2, 1))
    ]
    return (
        *scaled,
        torch.addmm(bias[:1], x, y),
        torch.addmm(bias[:, :1], x, y),
        torch.addmm(bias[0], x.relu(), y),
    )


def products_of_batches(x: Tensor, y: Tensor, bias: Tensor) -> object:
    turned = x.transpose(0, 1).contiguous().transpose(0, 1)
    return (
        torch.bmm(x, y),
        torch.baddbmm(bias, x, y, alpha=0.3, beta=0.2),
        x @ y[0],
        turned @ y,
        torch.matmul(x[None], y),
    )


def views(x: Tensor) -> object:
    (a, b), (c, d, e) = x.split(2, 1), x.unbind(0)
    cut = x[:, ::2] + 1, x[..., 1] + x[..., 2], x[1:, 1:3] * 2, x.select(1, 2).clone()
    return (
        a * b,
        c + d * e,
        *cut,
        x.squeeze() + 1,
        x.unsqueeze(1) * 2,
        x.flatten() + 1,
        x.permute(2, 1, 0).reshape(-1) + 1,
    )


def keeps_strides(x: Tensor) -> object:
    return (
        F.relu(x),
        x + 1,
        x * x.contiguous(),
        (x + 1).sum(1),
        F.softmax(x, 1),
        x.clone(),
        x.contiguous() + 1,
    )


def looks_at_memory(x: Tensor) -> object:
    return x.as_strided((2, 2), (1, 2), 1) + 1, (x + 1).as_strided((2, 2), (1, 2), 1) * 2


def of_an_imaginary_part(x: Tensor) -> object:
    return x.imag.relu(), x.imag * 2 + x.real


def branches_on_data(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda x: x.relu() + 1, lambda x: x * 2, (x,))  # type: ignore[no-any-return]


def of_numbers_that_are_none(x: Tensor) -> object:
    return (
        F.relu(x),
        F.softmax(x, -1),
        F.layer_norm(x[:2], (x.shape[-1],)),
        x * 0,
        x.sum(0),
        F.gelu(x[:, 2:]),
    )


def randn(*sizes: int) -> Tensor:
    return torch.randn(sizes)


SQUARE = randn(4, 4)
LARGE = randn(6, 8)
CASES: list[tuple[Callable[..., object], tuple[Tensor, ...]]] = [
    (writes_into_its_input, (randn(3, 4), randn(3, 4))),
    (writes_into_a_view, (randn(3, 4),)),
    (returns_views_of_its_input, (randn(3, 4),)),
    (returns_views_of_a_result, (randn(3, 4), randn(4, 5))),
    (draws_random_numbers_in_between, (randn(3),)),
    (has_constants, (randn(3, 4),)),
    (mixes_dtypes, (randn(3, 4), randn(3, 4).half())),
    (mixes_dtypes, (randn(3, 4), torch.arange(4))),
    (products, (randn(3, 4).double(), randn(4, 5).double())),
    (products, (randn(0, 4), randn(4, 5))),
    (products, (randn(3, 0), randn(0, 5))),
    (products, (SQUARE, SQUARE)),
    (products, (SQUARE, SQUARE.t())),
    (products, (LARGE[:4, :4], LARGE[1:5, 2:6])),
    (products, (randn(1, 4).expand(4, 4), randn(4, 1).expand(4, 4))),
    (products, (randn(1, 3), randn(3, 1))),
    (softmax_of_each_dim, (randn(3, 4, 5),)),
    (softmax_of_each_dim, (randn(5, 4, 3).permute(2, 1, 0),)),
    (of_a_scalar, (randn(),)),
    (sums, (randn(3, 4, 5),)),
    (sums, (randn(5, 3, 4).permute(1, 2, 0),)),
    (sums, (randn(1, 1, 1),)),
    (sums, (randn(70, 3, 130),)),
    (arithmetic, (randn(3, 4), randn(4, 3).t())),
    (arithmetic, (randn(3, 1), randn(1, 4))),
    (broadcasts, (randn(3, 4, 5), randn(4, 1), randn())),
    (broadcasts, (randn(3, 4, 5), randn(5, 4).t(), randn(5))),
    (layer_norms, (randn(3, 4, 5),)),
    (layer_norms, (randn(4, 3, 5).transpose(0, 1),)),
    (products_with_bias, (randn(4, 6), randn(4, 5), randn(5, 6))),
    (products_with_bias, (torch.full((4, 6), NAN), randn(4, 5), randn(5, 6))),
    (products_of_batches, (randn(3, 4, 5), randn(3, 5, 6), randn(3, 4, 6))),
    (products_of_batches, (randn(3, 4, 5), randn(3, 6, 5).transpose(1, 2), randn(3, 4, 6))),
    (views, (randn(3, 4, 5),)),
    (views, (randn(5, 4, 3).transpose(0, 2),)),
    (keeps_strides, (randn(2, 3, 4, 5).to(memory_format=torch.channels_last),)),
    (looks_at_memory, (randn(3, 4),)),
    (of_an_imaginary_part, (torch.randn(3, 4, dtype=torch.complex64).conj(),)),
    (branches_on_data, (SQUARE,)),
    (
        of_numbers_that_are_none,
        (
            torch.tensor(
                [[1, NAN, -3.0], [-INFINITE, 0, -0.0], [-1e30, 90, 1e-40], [-INFINITE] * 3]
            ),
        ),
    ),
    (sums, (randn(2, 1, 2, 1, 2, 1, 2).flatten(1, 5),)),
    (F.relu, (randn(2, 1, 2, 1, 2, 1, 2),)),  # type: ignore[list-item]
]


def fresh(given: tuple[Tensor, ...]) -> list[Tensor]:
    """Copies that share memory where the originals do, with the same strides."""
    memory = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().clone() for tensor in given
    }
    tensors: dict[int, Tensor] = {}
    for tensor in given:
        if tensor.is_conj():
            tensors[id(tensor)] = tensor.resolve_conj().conj_physical().conj()
            continue
        empty = torch.empty(0, dtype=tensor.dtype)
        storage = memory[tensor.untyped_storage().data_ptr()]
        tensors[id(tensor)] = empty.set_(
            storage, tensor.storage_offset(), tensor.shape, tensor.stride()
        )
    return [tensors[id(tensor)] for tensor in given]


WITH_SIZES = [(number, None) for number in range(len(CASES))]
WITH_SIZES += [(number, True) for number in one_of(3, range(len(CASES)))]
"""Case → whether sizes are unknown. An exhaustive run has each case with unknown sizes too."""


@pytest.mark.parametrize(
    ("number", "dynamic"),
    WITH_SIZES,
    ids=[
        f"{number} {CASES[number][0].__name__}-sizes {'unknown' if dynamic else 'known'}"
        for number, dynamic in WITH_SIZES
    ],
)
def test_results_are_those_of_the_uncompiled_function(number: int, dynamic: bool | None) -> None:
    function, given = CASES[number]
    ours, theirs = fresh(given), fresh(given)
    torch.manual_seed(1)
    expected = tree_leaves(function(*theirs))
    torch.manual_seed(1)
    results = tree_leaves(compiled(function, dynamic=dynamic)(*ours))
    torch.testing.assert_close(results, expected, equal_nan=True, check_stride=True)
    torch.testing.assert_close(ours, theirs, equal_nan=True)


def test_another_size_of_the_same_function_is_computed_right() -> None:
    function = compiled(lambda x, y: F.softmax(x @ y, -1))
    for rows in (3, 5, 8, 1):
        x, y = randn(rows, 4), randn(4, 6)
        torch.testing.assert_close(function(x, y), F.softmax(x @ y, -1))


def test_an_input_with_other_strides_than_it_was_compiled_for_is_computed_right() -> None:
    function = compiled(lambda x: (x * 2).sum(0))
    for x in (randn(4, 5), randn(5, 4).t(), randn(4, 10)[:, ::2]):
        torch.testing.assert_close(function(x), (x * 2).sum(0))


def test_a_result_that_is_written_into_changes_nothing_else() -> None:
    function = compiled(lambda x: (x + torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])))
    for _ in range(2):
        total, constant = function(torch.zeros(2))  # type: ignore[misc]
        assert total.tolist() == [1, 2]
        assert constant.tolist() == [3, 4]
        total.zero_()
        constant.zero_()


def test_the_users_default_dtype_is_not_ours() -> None:
    x = torch.randn(3, 4)
    expected = F.relu(x @ x.t())
    torch.set_default_dtype(torch.float64)
    try:
        torch.testing.assert_close(compiled(lambda x: F.relu(x @ x.t()))(x), expected)
    finally:
        torch.set_default_dtype(torch.float32)


def test_several_threads_run_one_program_at_once() -> None:
    function = compiled(lambda x: F.softmax(x @ x.t(), -1))
    inputs = [torch.randn(40, 30) for _ in range(4)]
    expected = [function(x) for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            torch.testing.assert_close(list(pool.map(function, inputs)), expected, rtol=0, atol=0)


def test_what_has_no_content_is_run_by_pytorch() -> None:
    graph_module = make_fx(lambda x: F.relu(x) * 2, tracing_mode="fake")(torch.randn(3, 4))
    function = backend.compiled(graph_module, (), "inference")
    with FakeTensorMode() as mode:
        (result,) = [function([mode.from_tensor(torch.randn(3, 4))])]
    assert isinstance(result, FakeTensor)
    assert result.shape == (3, 4)
