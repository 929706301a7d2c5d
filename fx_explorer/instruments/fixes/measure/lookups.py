"""Count how often the user's code looks up a tensor in a dictionary or a set.

Both find a number by its value and a tensor by its identity, so a tensor in place of a number is
never found. Where the number was not among the keys anyway, no output shows that.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import torch

from fx_explorer.program.users_code import is_users_file


class Lookups:
    """Counts lookups in a program that runs without torch.compile. Dynamo would see what is patched
    here.
    """

    def __init__(self) -> None:
        self.count = 0

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Count the lookups inside the block."""
        by_identity = torch.Tensor.__hash__

        def counted(tensor: torch.Tensor) -> int:
            if is_users_file(sys._getframe(1).f_code.co_filename):
                self.count += 1
            return by_identity(tensor)

        torch.Tensor.__hash__ = counted
        try:
            yield
        finally:
            torch.Tensor.__hash__ = by_identity


def told_of_lookups(before: int, after: int) -> list[str]:
    """Describe the difference; empty when the changed program looks up no more tensors than the
    original.
    """
    return [_TOLD] if after > before else []


_TOLD = (
    "a tensor is looked up in a dictionary or a set, which finds it by identity and not by "
    "its value"
)
