"""The wall between a fault of ours and the user's compile."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from fx_explorer.capture.recording.hidden_from_dynamo import DynamoOff
from fx_explorer.model import Stage

AddFault = Callable[[str, Stage | None, Exception], None]
"""Is given what could not be recorded, its stage, and why."""


class Noting:
    """The wall around recording: nothing that is raised or called inside reaches the program or its
    compiler. What is raised is told to ``add_fault``.
    """

    __slots__ = ("_add_fault", "_stage", "_unseen", "_what")

    def __init__(
        self, add_fault: AddFault, what: str, stage: Stage | None, unseen: DynamoOff
    ) -> None:
        self._add_fault = add_fault
        self._what = what
        self._stage = stage
        self._unseen = unseen

    def __enter__(self) -> None:
        self._unseen.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        try:
            # What is no Exception goes on: the user's interrupt, a gate that is left.
            if isinstance(error, Exception):
                self._add_fault(self._what, self._stage, error)
        finally:
            self._unseen.__exit__(None, None, None)
        return isinstance(error, Exception)
