"""The programs that a changed one is compared with.

They are children of the worker, forked with the state it has at that moment.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from fx_explorer.instruments.fixes.measure.built import BuiltProgram
from fx_explorer.instruments.fixes.measure.original_request import as_on_disk
from fx_explorer.instruments.fixes.measure.uncompiled import (
    OriginalAgain,
    OriginalProgram,
    UncompiledProgram,
)
from fx_explorer.instruments.fixes.measure.varying import MOST_RUNS
from fx_explorer.model import CaptureRequest
from fx_explorer.program.place import TargetPlace
from fx_explorer.program.users.users_code import UsersCode

if TYPE_CHECKING:
    from typing_extensions import Self


class OtherPrograms:
    """All programs of one comparison. It is a context manager: none of them outlives the block."""

    def __init__(self, place: TargetPlace, request: CaptureRequest) -> None:
        UsersCode().modules()  # that torch's files are none of the user's is found out once, and known in each of the children
        self.original = OriginalProgram(place, request)
        """Begins at once; the others begin when they are told to (``begin``)."""
        self.uncompiled = UncompiledProgram(place, request, self.original)
        """The changed program without torch.compile."""
        self.built = BuiltProgram(place, request, self.original)
        """The changed program with its code built."""
        self.built_original = BuiltProgram(place, as_on_disk(request), self.original)
        """The original with its code built. It tells whether a difference in built code comes from
        the change or from Inductor.
        """
        self.again = [OriginalAgain(place, request, self.original) for _ in range(MOST_RUNS)]
        """The original once more, where something differs."""
        self._until = contextlib.ExitStack()

    def __enter__(self) -> Self:
        others = (self.uncompiled, self.built, self.built_original, *self.again)
        for program in (self.original, *others):
            self._until.enter_context(program)
        return self

    def __exit__(self, *_: object) -> None:
        self._until.close()
