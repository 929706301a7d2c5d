"""The wall between a fault of ours and the user's compile."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from fx_explorer.capture.recording.hidden_from_dynamo import DynamoOff
from fx_explorer.model import Stage
from fx_explorer.session.undisturbed import undisturbed

_PACKAGE = str(Path(__file__).parents[2])

_RAISED_BY_US = frozenset(("fx_explorer", "numpy", "sympy", "torch", "triton"))
"""Packages whose exceptions our code meets, beside those of the standard library."""

AddFault = Callable[[str, Stage | None, Exception], None]
"""Is given what could not be recorded, its stage, and why."""


class Noting:
    """The wall around recording: nothing that is raised or called inside reaches the program or its
    compiler. What is raised is told to ``add_fault``.
    """

    __slots__ = ("_add_fault", "_stage", "_tracer", "_unseen", "_what")

    def __init__(
        self, add_fault: AddFault, what: str, stage: Stage | None, unseen: DynamoOff
    ) -> None:
        self._add_fault = add_fault
        self._what = what
        self._stage = stage
        self._unseen = unseen

    def __enter__(self) -> None:
        undisturbed.__enter__()
        self._tracer = sys.gettrace()
        self._unseen.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        # What is no Exception continues: the user's interrupt, a gate that is left.
        is_ours = isinstance(error, Exception) and not _came_from_outside(error, self._tracer)
        try:
            if isinstance(error, Exception) and is_ours:
                self._add_fault(self._what, self._stage, error)
        finally:
            self._unseen.__exit__(None, None, None)
            undisturbed.__exit__()  # last: here the program's signal handlers may raise
        return is_ours


def _came_from_outside(error: Exception, tracer: object) -> bool:
    """Return whether an exception was raised into our code by the program: by its trace function
    (``sys.settrace``), or by another thread of it (``PyThreadState_SetAsyncExc``). That one has a
    class that nothing of ours raises, and no frame but ours.
    """
    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    if innermost is None:
        return False
    code = innermost.tb_frame.f_code
    if code is getattr(tracer, "__code__", None):
        return True
    owner = type(error).__module__.partition(".")[0]
    is_programs = owner not in sys.stdlib_module_names and owner not in _RAISED_BY_US
    is_in_ours = code.co_filename.startswith(_PACKAGE)
    return is_in_ours and (is_programs or isinstance(error, TimeoutError))
