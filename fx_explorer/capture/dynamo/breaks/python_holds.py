"""Whether Python holds a tensor: whether anything but autograd, and the views of it, refers to it.

A weak reference alone does not tell. Autograd keeps what it needs for the backward of operators
that run uncompiled, and a tensor keeps its Python object for as long as anything in C++ refers to
it (torch/csrc/autograd/python_variable.cpp). So references are counted: Python's, less the one of
C++.
"""

from __future__ import annotations

import gc
import itertools
import sys
import weakref
from collections.abc import Callable, Iterable

import torch

from fx_explorer.capture.torch_compat.versions import MissingInTorch

WeakTensor = Callable[[], torch.Tensor | None]


class PythonReferences:
    """Counts references to tensors, as this Python and this torch count them."""

    def __init__(self) -> None:
        """Count those of two tensors of which they are known. Raises MissingInTorch where torch
        counts in another way.
        """
        with torch.enable_grad():
            held = torch.ones(1, device="cpu", requires_grad=True) * 1
            self._ours = sum(_counted(weakref.ref(held))[:1]) - 1
            # The operator saves its operand, so that C++ holds it, too.
            result = held * held
        reference = weakref.ref(held)
        with_both = self.count(reference)
        del held
        with_autograd_alone = self.count(reference)
        del result
        if (with_both, with_autograd_alone) != (1, 0):
            raise MissingInTorch(f"torch {torch.__version__} does not tell who refers to a tensor")

    def count(self, reference: WeakTensor) -> int:
        """Return how many references Python's objects have to a tensor; 0 where it is gone."""
        references, owners = _counted(reference)
        return max(0, references - self._ours - (owners > 1))

    def holds(self, references: Iterable[WeakTensor]) -> bool:
        return any(self.count(one) > 0 for one in references)


def owners_in_cpp(reference: WeakTensor) -> int:
    """Return how many references C++ has to a tensor, that of its Python object among them."""
    return _counted(reference)[1]


def _counted(reference: WeakTensor) -> tuple[int, int]:
    """Return the references to a tensor as Python and as C++ count them; (0, 0) where it is gone."""
    tensor = reference()
    return (0, 0) if tensor is None else (sys.getrefcount(tensor), tensor._use_count())


def tensors_in(storages: Iterable[int]) -> dict[int, list[WeakTensor]]:
    """Return all tensors that Python knows of these storages (by the address of their C++ object):
    views, too. Every object there is is looked at, which takes some tens of milliseconds.
    """
    found: dict[int, list[WeakTensor]] = {one: [] for one in storages}
    objects = gc.get_objects()
    # By their types: to ask some objects for their class runs code of the program's. There are more
    # than a million, and ``issubclass`` in a loop of Python takes twice as long.
    are_tensors = map(torch.Tensor.__subclasscheck__, map(type, objects))
    for one in itertools.compress(objects, are_tensors):
        if (number := storage_of(one)) in found:
            found[number].append(weakref.ref(one))
    return found


def storage_of(tensor: torch.Tensor) -> int:
    """Return the address of a tensor's storage; 0 for one that has none of its own."""
    if tensor.layout is not torch.strided:
        return 0
    try:
        return int(tensor.untyped_storage()._cdata)
    except (
        NotImplementedError,
        RuntimeError,
    ):  # one that wraps others, as subclasses and torch.func do
        return 0
