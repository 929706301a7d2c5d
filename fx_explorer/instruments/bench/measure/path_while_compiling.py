"""This module checks whether a program takes another path while it is compiled: code that asks
``torch.compiler.is_compiling()`` may compute something else then, and the compiler is not the cause
of results that differ.

It is seen, not guessed: the program in eager mode is called with the answer that Dynamo gives, and
its results are compared with those of the contender.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch

PATH_WHILE_COMPILING = (
    "the program takes another branch while it is compiled: {lines}; in eager mode with the same "
    "branch, these results are equal"
)

_LINES_NAMED = 3
_TORCH = str(Path(torch.__file__).parent) + os.sep
_ASKED = "compiling"
"""Endings of the functions that ask whether they are compiled: ``is_compiling``,
``is_dynamo_compiling``, ``is_torchdynamo_compiling``.
"""


@contextlib.contextmanager
def answering_as_compiled() -> Iterator[dict[str, str]]:
    """Make ``torch.compiler.is_compiling()`` and related functions answer as inside Dynamo's
    tracing, within the block.

    Yields a dict: line that asked → the function that it called. It has the lines of the program
    and of its libraries; torch's own only where no other line asked.
    """
    asked: dict[tuple[str, int], str] = {}
    lines: dict[str, str] = {}
    compiler: Any = torch.compiler
    before = compiler._is_compiling_flag, compiler.is_dynamo_compiling
    profile = sys.getprofile()
    compiler._is_compiling_flag, compiler.is_dynamo_compiling = True, _is_dynamo_compiling
    sys.setprofile(_noting(asked))
    try:
        yield lines
    finally:
        sys.setprofile(profile)
        compiler._is_compiling_flag, compiler.is_dynamo_compiling = before
        of_others = {
            place: name for place, name in asked.items() if place[0][: len(_TORCH)] != _TORCH
        }
        for (file, line), name in (of_others or asked).items():
            lines[f"{_short(file)}:{line}"] = name


def describe_other_path(lines: dict[str, str]) -> str:
    """Return a clause that the program takes another path, with the lines that ask."""
    named = [f"{line} calls {name}()" for line, name in list(lines.items())[:_LINES_NAMED]]
    more = len(lines) - len(named)
    if more:
        named.append("one more line asks, too" if more == 1 else f"{more:,} more lines ask, too")
    return PATH_WHILE_COMPILING.format(lines=", ".join(named))


def _is_dynamo_compiling() -> bool:
    return True


def _noting(asked: dict[tuple[str, int], str]) -> Callable[[FrameType, str, Any], None]:
    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not frame.f_code.co_name.endswith(_ASKED):
            return
        name, caller = frame.f_code.co_name.lstrip("_"), frame.f_back
        while caller is not None and caller.f_code.co_name.endswith(_ASKED):
            name, caller = caller.f_code.co_name, caller.f_back
        if caller is not None:
            asked.setdefault((caller.f_code.co_filename, caller.f_lineno), name)

    return profile


def _short(file: str) -> str:
    """Return the path as the user may write it: from the working directory, or from the package
    on.
    """
    parts = Path(file).parts
    if "site-packages" in parts:
        return str(Path(*parts[parts.index("site-packages") + 1 :]))
    path, here = Path(file), Path.cwd()
    if path.is_relative_to(here):
        return str(path.relative_to(here))
    return path.name
