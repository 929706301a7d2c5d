"""This module finds what holds a tensor at a graph break: Python, or autograd for a backward of
operators that ran outside of the graphs.

Python holds a tensor where anything but autograd, and the views of it, refers to it. A weak
reference alone does not tell: autograd keeps what it needs for the backward of operators that run
uncompiled, and a tensor keeps its Python object for as long as anything in C++ refers to it
(torch/csrc/autograd/python_variable.cpp). So references are counted: Python's, less the one of C++.

Operators outside of the graphs are those of a loss that is not compiled, and those that run at a
graph break. While a program is inspected its graphs run uncompiled, so that their operators are in
autograd's graph, too. They are distinguished by autograd's sequence numbers, which rise with each
operator. Tensors are read as autograd keeps them (``_raw_saved_*``): nothing is unpacked, so no
hook of the program's runs.
"""

from __future__ import annotations

import gc
import itertools
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import torch

from fx_explorer.capture.torch_compat.versions import MissingInTorch
from fx_explorer.model import SavedBetween

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
        return any(self.count(reference) > 0 for reference in references)


def owners_in_cpp(reference: WeakTensor) -> int:
    """Return how many references C++ has to a tensor, that of its Python object among them."""
    return _counted(reference)[1]


def _counted(reference: WeakTensor) -> tuple[int, int]:
    """Return the references to a tensor as Python and as C++ count them; (0, 0) where it is
    gone.
    """
    tensor = reference()
    return (0, 0) if tensor is None else (sys.getrefcount(tensor), tensor._use_count())


def tensors_in(storages: Iterable[int]) -> dict[int, list[WeakTensor]]:
    """Return all tensors that Python knows of these storages (by the address of their C++ object):
    views, too. Every object there is is looked at, which takes some tens of milliseconds.
    """
    tensors: dict[int, list[WeakTensor]] = {storage: [] for storage in storages}
    objects = gc.get_objects()
    # By their types: to ask some objects for their class runs code of the program's. There are more
    # than a million, and ``issubclass`` in a loop of Python takes twice as long.
    are_tensors = map(torch.Tensor.__subclasscheck__, map(type, objects))
    for tensor in itertools.compress(objects, are_tensors):
        number = storage_of(tensor)
        if number in tensors:
            tensors[number].append(weakref.ref(tensor))
    return tensors


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


# What autograd keeps.


MOST_NODES = 200_000
"""Nodes of autograd's graph that are looked at."""

RAW = "_raw_saved_"


class Numbers(Protocol):
    def of(self, tensor: torch.Tensor) -> int: ...


class SavedByEager:
    """The sequence numbers between which a forward's graphs ran, and what is kept outside of
    them.
    """

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []
        self._names: dict[type, tuple[str, ...]] = {}
        """Kind of node → the attributes in which it has what it keeps, as autograd keeps it."""

    def graph_begins(self) -> None:
        self._begins.append(torch.autograd._get_sequence_nr())

    def graph_ended(self) -> None:
        self._ends.append(torch.autograd._get_sequence_nr())

    def saved(self, results: Any, numbers: Numbers) -> list[SavedBetween]:
        """Return what is kept for a backward from ``results``, each storage once, and the
        parameters that operators outside of the graphs take. The forward that they belong to is
        left open.
        """
        if len(self._begins) != len(self._ends):
            return []
        kept: dict[int, SavedBetween] = {}
        for node, call in self._outside(results):
            for tensor, is_parameter in self._tensors(node):
                number = numbers.of(tensor)
                if number and (number not in kept or not kept[number].is_parameter):
                    kept[number] = SavedBetween(
                        0,
                        0,
                        call,
                        node._sequence_nr(),
                        number,
                        tensor.untyped_storage().nbytes(),
                        tensor.device.type,
                        node.name(),
                        is_parameter,
                    )
        return list(kept.values())

    def _outside(self, results: Any) -> Iterator[tuple[Any, int]]:
        """Yield autograd's nodes of operators outside of the graphs, each with the number of graphs
        that had run before.
        """
        tensors = results if isinstance(results, tuple | list) else (results,)
        waiting = [
            tensor.grad_fn
            for tensor in tensors
            if isinstance(tensor, torch.Tensor) and tensor.grad_fn
        ]
        seen = set(waiting)
        while waiting and len(seen) < MOST_NODES:
            node = waiting.pop()
            call = self._graphs_before(node._sequence_nr())
            if call >= 0:
                yield node, call
            inputs = {before for before, _ in node.next_functions if before is not None} - seen
            # A leaf has no number of its own: it is asked for by the operator that takes it.
            following = {
                before for before in inputs if before.next_functions or not _is_leaf(before)
            }
            seen |= following
            waiting += following

    def _tensors(self, node: Any) -> Iterator[tuple[torch.Tensor, bool]]:
        """Yield what a node of autograd's keeps, and the parameters that it leads to (with
        True).
        """
        kind = type(node)
        if kind not in self._names:
            self._names[kind] = tuple(name for name in dir(kind) if name.startswith(RAW))
        for name in self._names[kind]:
            for kept in _each(getattr(node, name, None)):
                data = getattr(kept, "data", None)
                if isinstance(data, torch.Tensor):
                    yield data, False
        for following, _ in node.next_functions:
            if following is not None and _is_leaf(following):
                yield following.variable, True

    def _graphs_before(self, sequence: int) -> int:
        """Return how many graphs had begun before an operator; -1 where it ran within one."""
        call = sum(begin <= sequence for begin in self._begins)
        if call and sequence < self._ends[call - 1]:
            return -1
        return call


def _is_leaf(node: Any) -> bool:
    return hasattr(node, "variable")


def _each(kept: Any) -> Iterable[Any]:
    if isinstance(kept, tuple | list):
        return kept
    if kept is None:
        return ()
    return (kept,)
