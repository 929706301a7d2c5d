"""The reason that torch gives for a recompile: which compiled code did not fit, and the check that
failed in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fx_explorer.model import Frame
from fx_explorer.torch_texts import LONGEST_LINE, bounded
from fx_explorer.torch_texts.stacks import parse_stack

_CODE = re.compile(r"#\s")
"""Where the remark begins, with the user's code."""

_PLACE = re.compile(r"\s#\s(?P<file>[^#\n]+?):(?P<line>\d+) in \S+\s*(?:\(.*\))?$")
"""The user's line, behind the code."""


@dataclass(frozen=True, slots=True)
class RecompileReason:
    """A text ``0/0: CHECK  # CODE  # FILE:LINE in FUNCTION`` in its parts
    (torch/_dynamo/guards.py).
    """

    of: str
    """Name of the compilation that did not fit."""
    guard: str
    """The check, without its remark."""
    file: str = ""
    """The end of the path of the user's file; empty where no line is named."""
    line: int = 0
    frames: tuple[Frame, ...] = ()
    """The user's stack that may stand below."""


def parse_reason(text: str) -> RecompileReason:
    """Take a reason apart. What it lacks stays empty."""
    of, _, failed = text.partition(": ")
    first, _, below = failed.partition("\n")
    code = _CODE.search(first) if len(first) <= LONGEST_LINE else None
    place = _PLACE.search(first, code.end() - 1) if code else None
    if code is None or place is None:
        return RecompileReason(of, first.strip(), frames=parse_stack(below))
    guard = first[: code.start()].strip()
    return RecompileReason(of, guard, place["file"], int(place["line"]), parse_stack(below))


_ABOUT = re.compile(
    r"^(?:[!\d/]+: )?(?:\d+ <=? )?(?P<about>.*?)(?: (?:==|is|<=|<|!=) |, \d{6,}|\. |\s+#|\n|$)"
)


def what_failed(reason: str) -> str:
    """Return what a guard failed on: ``tensor 'x' size mismatch at index 0``,
    ``___check_obj_id(g.__code__``, ``k`` for ``0/3: k == 2  # …``. It is equal for guards that
    failed on the same, whatever they wanted it to be. Cheap, since it is asked of every compilation
    of a function.
    """
    found = _ABOUT.match(bounded(reason))
    return found["about"] if found else reason
