"""These tests check results that are not plain tensors: each is compared by its parts, in its own
process and through the file in which the results of eager mode are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

from fx_explorer.instruments.bench.measure.agreement import (
    Reference,
    agreement,
    content,
    reference_of,
)
from fx_explorer.instruments.bench.measure.calls import OTHER_SCALE, Caller, NetworkState, observed
from fx_explorer.program.inputs import Arguments
from fx_explorer.program.plain_values import copy_parts
from fx_explorer.program.target import Target

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning"
)  # torch says that some of these kinds may change


class Named(torch.Tensor):
    """A subclass without tensors of its own."""


def plain() -> torch.Tensor:
    return torch.arange(12.0).reshape(4, 3) + 1


KINDS: dict[str, Callable[[], torch.Tensor]] = {
    "plain": plain,
    "subclass": lambda: plain().as_subclass(Named),
    "wrapper": lambda: TwoTensor(plain(), plain() + 1),
    "wrapper in a wrapper": lambda: TwoTensor(
        TwoTensor(plain(), plain()), TwoTensor(plain(), plain() * 2)
    ),
    "nested, jagged": lambda: torch.nested.nested_tensor(
        [plain(), plain()[:2]], layout=torch.jagged
    ),
    "nested, strided": lambda: torch.nested.nested_tensor([plain(), plain()[:2]]),
    "sparse": lambda: plain().to_sparse(),
    "compressed": lambda: plain().to_sparse_csr(),
    "quantized": lambda: torch.quantize_per_tensor(plain(), 1.0, 0, torch.quint8),
    "conjugated": lambda: torch.complex(plain(), plain()).conj(),
    "negative view": lambda: torch.complex(plain(), plain()).conj().imag,
}


def caller_of(make: Callable[[], torch.Tensor], scale: float = 1.0) -> Caller:
    """Return the caller of a program that gives a tensor of a kind, and does something else where
    ``scale`` is not 1.
    """

    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (make() if scale == 1.0 else made_otherwise(make())), x.clone()

    return Caller(Target("program", program, Arguments((plain(),))), program, trains=False)


def made_otherwise(tensor: torch.Tensor) -> torch.Tensor:
    """Return a different tensor of the same kind: its last part is zeros."""
    parts = list(copy_parts(tensor).values())
    if isinstance(tensor, TwoTensor):
        return TwoTensor(tensor.a, tensor.b * 0)
    if tensor.is_nested:
        return torch.nested.nested_tensor([parts[0], parts[1] * 0], layout=tensor.layout)
    return parts[0] * 0


def compared(
    make: Callable[[], torch.Tensor], folder: Path, scale: float = 1.0
) -> dict[str, object]:
    """Compare a program with itself, or with a program that computes something else, as two
    processes do.
    """
    reference, other = caller_of(make), caller_of(make, scale)
    reference_of(reference, NetworkState(None)).save(str(folder / "reference"))
    results = [observed(one, NetworkState(None)) for one in (other, other.with_other_values())]
    return agreement(Reference.load(str(folder / "reference")), results, content(other))


@pytest.mark.parametrize("kind", KINDS)
def test_a_tensor_of_any_kind_is_compared_by_what_it_is_made_of(kind: str, tmp_path: Path) -> None:
    assert compared(KINDS[kind], tmp_path)["agreement"] == "equal"


@pytest.mark.parametrize("kind", KINDS)
def test_a_part_that_differs_is_found(kind: str, tmp_path: Path) -> None:
    told = compared(KINDS[kind], tmp_path, scale=0.0)
    assert told["agreement"] == "differs"
    assert str(told["where"]).startswith("output 0")


def test_the_part_that_differs_is_named(tmp_path: Path) -> None:
    assert compared(KINDS["wrapper"], tmp_path, 0.0)["where"] == "output 0.b"
    assert compared(KINDS["nested, jagged"], tmp_path, 0.0)["where"] == "output 0[1]"


@pytest.mark.parametrize("kind", KINDS)
def test_an_input_of_any_kind_can_be_given(kind: str) -> None:
    """Where other values cannot be made of it, the second call has the same ones."""
    caller = Caller(
        Target("program", torch.clone, Arguments((KINDS[kind](),))), torch.clone, trains=False
    )
    first, second = (
        observed(one, NetworkState(None)) for one in (caller, caller.with_other_values())
    )
    assert first.keys() == second.keys()
    assert content(caller)
    if kind == "plain":
        torch.testing.assert_close(second["output 0"], first["output 0"].flip((0, 1)) * OTHER_SCALE)
