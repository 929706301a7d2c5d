"""This module stores the source files and stacks of a log: paths of another machine, of which only
the named lines are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from fx_explorer.model import Frame, SourceFile, Stack
from fx_explorer.readers.torch_trace.records import Record
from fx_explorer.session import SessionWriter
from fx_explorer.torch_texts import complete_path

_LIBRARY = re.compile(
    r"(?:^|/)(?:site-packages|dist-packages|lib(?:64)?/python3[.\d]*)/|^<frozen"
    r"|/\w\w/c[a-z2-7]{51}\.py$"
)
"""Matches files of packages, and those that Inductor generated (torch/_inductor/codecache.py,
``get_path``).
"""

_TORCH = re.compile(
    r"(?:site-packages|dist-packages)/torch/"
    r"|(?:^|/)torch/(?:__init__\.py|_\w+\.py|_dynamo|_inductor|_functorch|_export|export|"
    r"_higher_order_ops|_subclasses|_library|_logging|_prims|_refs|_decomp|nn|autograd|fx|utils"
    r"|testing/_internal)\b"
)

NOT_HERE = "the log has no source files, only the lines that it names"

MOST_STRINGS = 1_000_000


class Places:
    """Stores files and stacks in the session, each once."""

    def __init__(self, writer: SessionWriter) -> None:
        self._writer = writer
        self._strings: dict[int, str] = {}
        """The table of paths that torch writes into the log: number → path."""
        self._files: dict[str, int] = {}
        self._stacks: dict[tuple[Frame, ...], int] = {}

    def intern(self, record: Record) -> None:
        """Note a path that later records name by a number."""
        content = record.content
        if isinstance(content, list) and len(content) == 2 and len(self._strings) < MOST_STRINGS:
            text, number = content
            if isinstance(number, int):
                self._strings[number] = str(text)

    def frames(self, stack: Any) -> tuple[Frame, ...]:
        """Return the frames of a structured stack."""
        if not isinstance(stack, list):
            return ()
        return tuple(self._frame(entry) for entry in stack if isinstance(entry, dict))

    def _frame(self, entry: dict[str, Any]) -> Frame:
        return Frame(
            self._path(entry.get("filename")),
            _int(entry.get("line")),
            str(entry.get("name")),
            str(entry.get("loc") or ""),
        )

    def _path(self, number: Any) -> str:
        if not isinstance(number, int):
            return str(number)
        return self._strings.get(number, str(number))

    def file(self, path: str) -> int:
        """Return the id of the SourceFile."""
        known = self._files.get(path)
        if known is None:
            row = SourceFile(0, path, 0, is_user=not is_library(path), note=NOT_HERE)
            known = self._files[path] = self._writer.add(row)
        return known

    def stack(self, frames: Iterable[Frame]) -> int:
        """Return the id of the Stack with these frames; 0 without frames."""
        key = tuple(frames)
        if not key:
            return 0
        known = self._stacks.get(key)
        if known is None:
            for frame in key:
                self.file(frame.file)
            known = self._stacks[key] = self._writer.add_stack(Stack(0, key), self._files)
        return known

    def user_frame(self, frames: Iterable[Frame]) -> Frame | None:
        """Return the innermost frame outside torch, else the innermost; None for no frames."""
        known = tuple(frames)
        outside = [frame for frame in known if not is_torch(frame.file)]
        return next(reversed(outside or known), None)

    def complete(self, shortened: str) -> str:
        """Return the full path of a file of the log whose beginning torch cut off."""
        return complete_path(shortened, self._files)


def is_library(path: str) -> bool:
    return bool(_LIBRARY.search(path))


@lru_cache(maxsize=4_096)
def is_torch(path: str) -> bool:
    return bool(_TORCH.search(path))


def _int(value: Any) -> int:
    return value if isinstance(value, int) else 0
