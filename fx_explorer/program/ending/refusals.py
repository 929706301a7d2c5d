"""Explain in one sentence what torch raises because it was told to be strict (fullgraph,
fail_on_recompile, error_on_recompile), or because a backend returned nothing that can be called.

torch: torch/_dynamo/exc.py (``Unsupported``, ``RecompileError``), torch/_dynamo/eval_frame.py
(``fail_callback``).
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from pathlib import Path

from fx_explorer.errors import TargetError
from fx_explorer.torch_texts import bounded

_FAILED_STANCE = re.compile(
    r"Detected recompile when torch\.compile stance is 'fail_on_recompile'\. "
    r"filename: '(?P<file>.*)', function name: '(?P<function>.*)', line number: (?P<line>\d+)"
)
_RECOMPILED = re.compile(r"Recompiling function (?P<function>.*) in (?P<file>.*):(?P<line>\d+)")
_GUARD = re.compile(r"^[^\S\n]*- (?:\d+/\d+: )?(.*?)(?: {2,}#.*)?$", re.MULTILINE)


def told_by_us(error: BaseException) -> BaseException:
    """Return the TargetError that an error of torch's was made of, as of one that is raised while
    Dynamo asks a guard filter of the request; else the error itself.
    """
    found: BaseException | None = error
    seen: set[int] = set()
    while found is not None and id(found) not in seen:
        if isinstance(found, TargetError):
            return found
        seen.add(id(found))
        found = found.__cause__ or found.__context__
    return error


def in_plain_words(error: BaseException) -> str:
    """Return which break, call or backend was refused, and where; empty for any other exception."""
    if "torch" not in sys.modules:
        return ""
    from torch._dynamo import exc

    if isinstance(error, exc.BackendCompilerFailed):
        from fx_explorer.program.ending.backend_result import not_callable

        return not_callable(error)
    if isinstance(error, exc.Unsupported):
        return _broke(error)
    if isinstance(error, exc.RecompileError):
        return _recompiled(
            "the option error_on_recompile", _RECOMPILED.match(bounded(str(error))), error
        )
    if isinstance(error, RuntimeError):
        return _recompiled(
            "the stance fail_on_recompile", _FAILED_STANCE.match(bounded(str(error))), error
        )
    return ""


def _recompiled(who: str, match: re.Match[str] | None, error: BaseException) -> str:
    if not match:
        return ""
    guards = _GUARD.findall(bounded(str(error)))
    if guards:
        because = f"the guard that failed is {guards[0]}"
    else:
        because = "nothing is compiled for it yet"
    function = f"{match['function']} ({match['file']}:{match['line']})"
    return (
        f"{who} allows no further compilation, and {_call(error)} needs one of {function}: "
        f"{because}"
    )


def _broke(error: BaseException) -> str:
    """Describe the break. ``real_stack`` holds the frames of the user's program that Dynamo was in,
    innermost last.
    """
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    stack = list(getattr(error, "real_stack", None) or ())
    if not stack:
        return f"fullgraph=True allows no graph break, and there is one: {reason}"
    place = stack[-1]
    code = f" `{place.line.strip()}`" if place.line else ""
    return (
        "fullgraph=True allows no graph break, and there is one at "
        f"{place.filename}:{place.lineno}{code}: {reason}"
    )


def _call(error: BaseException) -> str:
    """Name the call by the last line of the user's program that led to it."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_not_theirs())
    ]
    if frames:
        return f"the call at {frames[-1].filename}:{frames[-1].lineno}"
    return "the call of the target in it"


def _not_theirs() -> tuple[str, ...]:
    torch_folder = str(Path(str(sys.modules["torch"].__file__)).parent) + os.sep
    return torch_folder, str(Path(__file__).parents[2]) + os.sep
