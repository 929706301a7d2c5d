"""This module records source files and user stacks, each stored once, and finds who called into
torch: the user's program, with its line, or fx-explorer.

``node.meta["stack_trace"]`` is text in Python's traceback format; the same text on many nodes is
parsed once.
"""

from __future__ import annotations

import linecache
import os
import site
import sys
import sysconfig
import tokenize
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import torch

from fx_explorer.errors import UsageError
from fx_explorer.model import Frame, SourceFile, Stack
from fx_explorer.session import SessionWriter
from fx_explorer.torch_texts import complete_path
from fx_explorer.torch_texts.reports import parse_stack

_OWN = (f"{Path(__file__).parents[2]}{os.sep}", "<frozen")
"""Beginnings of the paths of our files and of the import system, which are in every stack and
belong to no model.
"""

MAX_SOURCE_BYTES = 4_000_000
"""A larger "source file" is data; it is listed without its text."""


_INSTALLED = ("site-packages", "dist-packages")
"""Folders of installed packages, in any place."""


def _library_roots() -> tuple[str, ...]:
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths |= {*site.getsitepackages(), site.getusersitepackages(), str(Path(sys.prefix) / "lib")}
    # Of another environment, by a .pth file.
    paths |= {path for path in sys.path if Path(path).name in _INSTALLED}
    # fx-explorer itself: the worker's frames are below the user's.
    paths |= {_torch_root(), str(Path(__file__).parents[2])}
    return tuple(sorted(f"{path.rstrip(os.sep)}{os.sep}" for path in paths if path))


def _torch_root() -> str:
    """Return the folder of torch, ending with a separator, since torchvision beside it is another
    package.
    """
    return f"{Path(sys.modules['torch'].__file__ or '').parent}{os.sep}"


class StackPlace(NamedTuple):
    """A user stack in the session, with its innermost line outside torch."""

    stack: int
    file: int
    line: int


class Sources:
    """Stores source files and stacks in the session and remembers their ids."""

    def __init__(self, writer: SessionWriter) -> None:
        self._writer = writer
        self._rollbacks = writer.rollbacks
        self._files: dict[str, int] = {}
        self._texts: dict[str, str] = {}
        """Path → text of the user's files when they were first read. It lacks sources that were
        never a file (a cell of a notebook, generated code).
        """
        self._stacks: dict[tuple[Frame, ...], int] = {}
        self._parsed: dict[str, tuple[Frame, ...]] = {}
        self._places: dict[str, StackPlace] = {}
        self._libraries = _library_roots()
        self._torch = _torch_root()

    def file(self, path: str) -> int:
        """Return the id of the SourceFile for ``path``. Its text is stored at first sight."""
        self._forget_what_was_rolled_back()
        known = self._files.get(path)
        if known is None:
            known = self._files[path] = self._writer.add(self._read(path))
        return known

    def _forget_what_was_rolled_back(self) -> None:
        """Forget all ids after a rollback: their rows may not exist, or the ids may be given to
        other rows.
        """
        if self._rollbacks != self._writer.rollbacks:
            self._rollbacks = self._writer.rollbacks
            for ids in (self._files, self._stacks, self._places):
                ids.clear()

    def _read(self, path: str) -> SourceFile:
        # linecache knows cells of a notebook, too, and text that is run in place of a file's own.
        lines = linecache.getlines(path)
        is_user = self.is_users(path)
        if not lines:
            return SourceFile(0, path, 0, is_user=is_user, note="the source could not be read")
        text = "".join(lines)
        if is_user and Path(path).is_file():
            self._texts[path] = text
        if len(text) > MAX_SOURCE_BYTES:
            return SourceFile(
                0,
                path,
                0,
                len(lines),
                is_user,
                note=f"not stored: larger than {MAX_SOURCE_BYTES:,} bytes",
            )
        return SourceFile(0, path, self._writer.text(text), len(lines), is_user)

    def is_users(self, path: str) -> bool:
        return not path.startswith((*self._libraries, "<frozen"))

    def remember(self, paths: Iterable[str]) -> frozenset[str]:
        """Store the texts of those files that are the user's, and return these files."""
        users = frozenset(path for path in paths if path and self.is_users(path))
        for path in users:
            self.file(path)
        return users

    def check_unchanged(self, paths: Iterable[str]) -> None:
        """Raise UsageError when a file of the user's has changed since first sight."""
        for path in paths:
            change = _change(self._texts[path], path) if path in self._texts else ""
            if change:
                raise UsageError(
                    f"{path} {change}; this session keeps the source as it was. Capture again (r) "
                    "to use the current source, or restore the file."
                )

    def complete(self, shortened: str) -> str:
        """Return the full path of a recorded file whose beginning torch cut off."""
        return complete_path(shortened, self._files)

    def stack(self, frames: Iterable[Frame]) -> int:
        """Return the id of the Stack with these frames, without our own worker's; 0 without
        frames.
        """
        key = tuple(frame for frame in frames if not frame.file.startswith(_OWN))
        if not key:
            return 0
        self._forget_what_was_rolled_back()
        known = self._stacks.get(key)
        if known is None:
            files = {frame.file: self.file(frame.file) for frame in key}
            known = self._stacks[key] = self._writer.add_stack(Stack(0, key), files)
        return known

    def parse(self, stack_trace: str) -> tuple[Frame, ...]:
        """Parse a stack trace. The result is stored, because the nodes of a line share one text."""
        frames = self._parsed.get(stack_trace)
        if frames is None:
            frames = self._parsed[stack_trace] = parse_stack(stack_trace)
        return frames

    def place(self, stack_trace: str) -> StackPlace:
        """Return the session's id of a stack, and the user's line in it. The nodes of one line
        share their stack text.
        """
        self._forget_what_was_rolled_back()
        known = self._places.get(stack_trace)
        if known is None:
            frames = self.parse(stack_trace)
            user = self.user_frame(frames)
            stack = self.stack(frames)
            file, line = (self.file(user.file), user.line) if user else (0, 0)
            known = self._places[stack_trace] = StackPlace(stack, file, line)
        return known

    def user_frame(self, frames: tuple[Frame, ...]) -> Frame | None:
        """Return the innermost frame outside torch: the line that its author can change.

        A stack that is torch's alone (an nn.Sequential, an optimizer's step) gives its innermost
        frame. None is returned only for an empty stack.
        """
        without_ours = [frame for frame in frames if not frame.file.startswith(_OWN)]
        outside = [frame for frame in without_ours if not self.is_torch(frame.file)]
        if outside:
            return outside[-1]
        return without_ours[-1] if without_ours else None

    def is_torch(self, path: str) -> bool:
        return path.startswith(self._torch)


def _change(known: str, path: str) -> str:
    """Describe the change of a file that had the text ``known``; empty when it has not changed."""
    try:
        with tokenize.open(path) as file:  # as linecache reads it
            now = file.read()
    except OSError:
        return "is gone"
    except (SyntaxError, UnicodeDecodeError):
        return "has changed"
    before = known.removesuffix("\n").split("\n")
    after = now.removesuffix("\n").split("\n")
    if before == after:
        return ""
    line = 1
    for old, new in zip(before, after, strict=False):
        if old != new:
            break
        line += 1
    return f"has changed, first in line {line}"


# Who called into torch.


_TORCH = str(Path(torch.__file__).parent) + os.sep
_OURS = str(Path(__file__).parents[2]) + os.sep


_PASSING_ON = (_TORCH + "__init__.py", _TORCH + os.path.join("nn", "modules", "module.py"))
"""Files in which torch calls its own ``compile`` for the user: the decorator, and
``nn.Module.compile``.
"""


class CallSite(NamedTuple):
    """A line that called into torch. ``file`` is empty where fx-explorer called."""

    file: str
    line: int


def caller() -> CallSite:
    """Return the innermost frame outside torch and outside the function of ours that it called."""
    frame = _first_outside_capture()
    while frame.f_back and frame.f_code.co_filename.startswith((_TORCH, _OURS + "capture")):
        frame = frame.f_back
    file = frame.f_code.co_filename
    if file.startswith(_OURS):
        return CallSite("", 0)
    return CallSite(file, frame.f_lineno)


def is_torch_itself() -> bool:
    """Return whether torch itself calls ``compile``, as for ``flex_attention``."""
    file = _first_outside_capture().f_code.co_filename
    return file.startswith(_TORCH) and file not in _PASSING_ON


def _first_outside_capture() -> FrameType:
    frame = sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith(_OURS + "capture"):
        frame = frame.f_back
    return frame
