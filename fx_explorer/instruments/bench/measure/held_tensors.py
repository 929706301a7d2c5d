"""What an uncompiled call holds when it holds most, by the user's line that made it.

A dispatch mode sees every tensor that an operator returns, and after each operator which of them
are still there. What an operator takes while it works is not seen. A backward has its forward's
line, which autograd's sequence numbers tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fx_explorer.model import HeldLine
from fx_explorer.program.users.users_line import users_line

Place = tuple[str, int]

ENGINE = "_engine_run_backward"
"""The function that starts a backward (torch/autograd/graph.py)."""


def held_by_line(call: Callable[[], object]) -> list[HeldLine]:
    """Make a call, and return what it holds beyond what is there before it, at the moment in which
    that is most: each line once, biggest first.
    """
    seen = _Tensors()
    with seen:
        returned = call()
    del returned
    return [
        HeldLine(file, line, size_bytes) for (file, line), size_bytes in seen.at_most.most_common()
    ]


class _Tensors(TorchDispatchMode):
    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.at_most: Counter[Place] = Counter()
        """Line → bytes, when most was held."""
        self._most = 0
        self._there: dict[int, StorageWeakRef] = {}
        """Storages that the call found."""
        self._made: dict[int, tuple[StorageWeakRef, Place, int]] = {}
        self._of_node: dict[int, Place] = {}
        """Sequence number of an autograd node → the line of its forward."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        for storage in _storages((args, kwargs)):
            if not self._is_known(storage):
                self._there[storage._cdata] = StorageWeakRef(storage)
        place = self._place()
        result = func(*args, **(kwargs or {}))
        self._drop()
        for storage in _storages(result):
            if not self._is_known(storage):
                self._made[storage._cdata] = StorageWeakRef(storage), place, storage.nbytes()
        self._add_up()
        return result

    def _is_known(self, storage: torch.UntypedStorage) -> bool:
        number = storage._cdata
        if number in self._there and self._there[number].expired():  # another one took its place
            del self._there[number]
        return number in self._there or number in self._made

    def _place(self) -> Place:
        node = torch._C._current_autograd_node()
        # In a backward, Python of the user's runs again for checkpoints, and in functions with a
        # backward of their own.
        place = users_line(3) if node is None else users_line(3, within=ENGINE)
        if node is not None and not place[1]:
            return self._of_node.get(node._sequence_nr(), ("", 0))
        # The node of this operator was made just now, before anything below autograd. One without a
        # node comes later.
        self._of_node.setdefault(torch.autograd._get_sequence_nr() - 1, place)
        return place

    def _drop(self) -> None:
        for number in [
            number for number, (reference, _, _) in self._made.items() if reference.expired()
        ]:
            del self._made[number]

    def _add_up(self) -> None:
        held = sum(size_bytes for _, _, size_bytes in self._made.values())
        if held > self._most:
            self._most, self.at_most = held, Counter()
            for _, place, size_bytes in self._made.values():
                self.at_most[place] += size_bytes


def _storages(value: object) -> Iterator[torch.UntypedStorage]:
    for leaf in tree_leaves(value):
        if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided:
            yield leaf.untyped_storage()
