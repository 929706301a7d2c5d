"""What is left out while torch is recorded gives what torch itself gives."""

from typing import Any

import pytest
import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils._ordered_set import OrderedSet

from fx_explorer.capture.torch_compat.shortcuts import shortcuts


def key_of(tensor: torch.Tensor, mode: FakeTensorMode) -> list[object]:
    """Return what the tensor adds to the key of an operation, as torch's cache of fake tensors makes it."""
    parts: list[object] = []
    metadata = fake_tensor.extract_tensor_metadata(tensor)
    metadata._flatten_into(parts, mode, fake_tensor._CacheKeyState(mode.shape_env))
    return parts


def test_fake_tensors_have_the_keys_that_torch_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    mode = FakeTensorMode(shape_env=ShapeEnv())
    with mode:
        matrix = torch.empty(2, 3)
        tensors = [matrix, matrix.t(), matrix.bool(), matrix[1], torch.empty(())]
    dynamic = StatelessSymbolicContext([DimDynamic.DYNAMIC, DimDynamic.STATIC])
    symbolic = mode.from_tensor(torch.empty(5, 3), symbolic_context=dynamic)
    by_torch = [key_of(tensor, mode) for tensor in tensors]
    made: list[object] = []
    original = fake_tensor.TensorMetadata._flatten_into

    def counted(*args: Any) -> None:
        made.append(args)
        original(*args)

    monkeypatch.setattr(fake_tensor.TensorMetadata, "_flatten_into", counted)
    with shortcuts():
        for _ in range(2):
            assert [key_of(tensor, mode) for tensor in tensors] == by_torch
        assert len(made) == len(tensors)
        for _ in range(2):
            key_of(symbolic, mode)
        assert len(made) == len(tensors) + 2, "symbols are always left to torch"
    assert fake_tensor.TensorMetadata._flatten_into is counted


@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_tensors_are_told_from_strided_ones() -> None:
    dense = torch.eye(4)
    tensors = [dense, dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_bsr((2, 2)), None]
    assert [fake_tensor.is_sparse_any(tensor) for tensor in tensors] == [False, True, True, True, False]
    with shortcuts():
        assert [fake_tensor.is_sparse_any(tensor) for tensor in tensors] == [False, True, True, True, False]


def test_ordered_sets_have_the_order_that_torch_gives_them() -> None:
    sets = [OrderedSet(text) for text in ("", "abc", "cb", "dcba", "xay", "bcd")]
    others = [*sets, set("a"), frozenset("b")]

    def united_and_common() -> list[list[str]]:
        return [list(result) for one in sets for other in others for result in (one | other, one & other)]

    by_torch = united_and_common()
    with shortcuts():
        assert united_and_common() == by_torch
        united = sets[1] | sets[1]
    united.add("new")
    assert "new" not in sets[1]
