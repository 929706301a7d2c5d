"""Room on Python's stack, so that calls do not map and unmap memory.

Python 3.11 and later keep the frames of a thread in pieces of 16 KB, and give a piece back to the
operating system when the last frame in it returns (``_PyThreadState_PopFrame``, Python/pystate.c).
A loop that happens to call across the end of a piece therefore maps memory, faults and unmaps at
every turn. Which depths are unlucky changes with every frame between. Measured on two virtual
processors, Python 3.11: a call of a compiled MLP takes 33 µs, and 48 to 98 µs at 17 of 160 depths
of the stack; torch's pattern matcher took 3.5 s for a GPT-2 and not 0.8 s; and four fifths of all
page faults of a capture were these.

A piece is at least as large as its first frame asks for. So a frame that asks for a little more
than half of a large piece leaves the rest to the frames of all that it calls, and only what they
use of it becomes memory.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, TypeVar

_SLOTS = 300_000
"""Places of 8 bytes that a frame asks for: 2.4 of the 4 MB that its piece has then. Some thousand
frames fit into the rest.
"""

_HAS_PIECES = sys.version_info >= (3, 11)

Function = TypeVar("Function", bound=Callable[..., object])


def with_room(function: Function) -> Function:
    """Enlarge the stack space of a function's frames from now on, and return the function. A
    function without Python code is unchanged.
    """
    code = getattr(function, "__code__", None)
    if _HAS_PIECES and isinstance(code, CodeType):
        function.__code__ = code.replace(co_stacksize=max(_SLOTS, code.co_stacksize))
    return function


@contextlib.contextmanager
def room_behind(function: Callable[..., object]) -> Iterator[None]:
    """Enlarge the stack space of another library's function inside the block."""
    before: Any = getattr(function, "__code__", None)
    larger = getattr(with_room(function), "__code__", None)
    try:
        yield
    finally:
        if (
            getattr(function, "__code__", None) is larger is not before
        ):  # else somebody has given it other code meanwhile
            function.__code__ = before
