"""The functions of the user's that call compiled code, to look at the end at what their variables hold.

A program whose model, optimizer and results are variables of ``main()`` has no global that says what it
has computed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType, FrameType

from fx_explorer.worker.users.users_code import is_users_file


class Callers:
    """The functions that were being run when compiled code was called: of each the last run."""

    def __init__(self) -> None:
        self._frames: dict[CodeType, FrameType] = {}
        """A frame that is held keeps its variables when its function has returned."""

    def note(self) -> None:
        """Note the functions that the present call comes from, below the script itself. The variables of modules are
        globals.
        """
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not _is_the_script(frame):
            code = frame.f_code
            if (
                self._frames.get(code) is not frame
                and code.co_name != _OF_MODULE
                and is_users_file(code.co_filename)
            ):
                self._frames[code] = frame
            frame = frame.f_back

    def variables(self) -> Iterator[tuple[str, object]]:
        """Yield (``main()'s model``, value) of each variable, as it is now."""
        for code, frame in self._frames.items():
            for name, value in list(frame.f_locals.items()):
                if name.isidentifier():  # ".0" is the iterator of a comprehension
                    yield _told(code, name), value

    def names(self) -> Iterator[str]:
        """Yield the names of all variables that these functions may have, set or not."""
        for code in self._frames:
            yield from (
                _told(code, name)
                for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars)
            )


def _told(code: CodeType, name: str) -> str:
    return f"{getattr(code, 'co_qualname', code.co_name)}()'s {name}"  # Python 3.10 knows only the name


_OF_MODULE = "<module>"
"""Name of the code that an import runs."""


def _is_the_script(frame: FrameType) -> bool:
    return frame.f_code.co_name == _OF_MODULE and frame.f_globals.get("__name__") == "__main__"
