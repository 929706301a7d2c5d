"""This module has the state of a request while the worker carries it out, and sends it to the
client and the session. The worker has two private pipes: notices to the client, commands from it.

A program may replace functions of Python's that our code in its process needs too: ``freezegun``
replaces ``time.time``, tests replace ``open``. When our code fails for that reason, the message
names what was replaced and blames nobody else. When the program has ended, we use Python's own
functions again.
"""

from __future__ import annotations

import _thread
import builtins
import contextlib
import hashlib
import importlib
import io
import json
import linecache
import logging
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import sys
import threading
import time
import tokenize
import traceback
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from os import getpid  # at once: the program may replace it
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fx_explorer.model import CaptureRequest, Command, Notice, Outcome
from fx_explorer.program import children, process_ending
from fx_explorer.program.guarded_writer import GuardedWriter
from fx_explorer.program.place import TargetPlace
from fx_explorer.program.recording_children import request_of_children
from fx_explorer.session.bounds import shortened
from fx_explorer.session.undisturbed import Descriptor, moved_up, undisturbed

if TYPE_CHECKING:
    from fx_explorer.program.target import Target


LAST_WORDS_FILE = "outcome.json"
"""File beside the session with the outcome of the capture, if the pipe is closed."""

MAX_NOTICE = 20_000
MAX_MESSAGE = 4_000
"""Maximum number of characters of a text sent to the client; the session has the whole text. JSON
may make it 14 times as long, and the client reads lines up to 1 MiB.
"""

_read, _write = os.read, os.write
"""The functions as they are before the program can replace them."""

MAX_SHOWN = 200
"""Maximum number of characters shown of a line that is not a command."""


class Channel:
    """Talks to the client. Usable from any thread; silent in forked children, who are not the
    worker.
    """

    def __init__(self, notices: int, commands: int, begun: bytes = b"") -> None:
        """``begun`` was read of the commands already."""
        self._notices: Descriptor | None = moved_up(notices)
        self._commands: Descriptor | None = moved_up(commands)
        """The pipe of commands, or None once the program has closed it."""
        self._last_words: Path | None = None
        self._lock = threading.Lock()
        self._unread = begun
        self.give: Callable[[Command], bool] = lambda command: False
        """Passes a command to a gate; returns False if none waits."""
        os.register_at_fork(after_in_child=self._close_in_child)

    def send(self, notice: Notice) -> None:
        """Write one line. Do nothing if the pipe is closed, because the program closed every
        descriptor or the client died: the client notices that itself.
        """
        self._is_sent(notice)

    def _is_sent(self, notice: Notice) -> bool:
        line = replace(notice, text=shortened(notice.text, MAX_NOTICE)).to_json().encode() + b"\n"
        with undisturbed, self._lock:
            try:
                while line and self._notices and self._notices.is_ours:
                    line = line[_write(self._notices.number, line) :]
            except OSError:
                self._notices = None
        return not line

    def send_outcome(self, outcome: Outcome) -> None:
        """Send the outcome through the pipe, or leave it in a file beside the session if the
        program has closed the pipe.
        """
        text = json.dumps(
            replace(outcome, message=shortened(outcome.message, MAX_MESSAGE)).to_json()
        )
        if not self._is_sent(Notice("outcome", text=text)) and self._last_words:
            with contextlib.suppress(
                OSError
            ):  # no room, or the directory is gone: the client tells it from our status
                self._last_words.write_text(text)

    def read_request(self) -> CaptureRequest:
        """Return the request in the first line that the client sends. Raises EOFError when the
        client went away before.
        """
        line = self._read_line()
        if not line:
            raise EOFError("the client closed the command pipe before it sent a request")
        request = CaptureRequest.from_json(line.decode())
        self._last_words = Path(request.session).with_name(LAST_WORDS_FILE)
        return request

    def obey(self) -> None:
        """Follow commands from now on, in a thread that is not listed among the program's own
        (``threading``).
        """
        _thread.start_new_thread(self._obey, ())

    def _obey(self) -> None:
        """Pass commands on as they come. If no gate waits for one, an abort or quit ends the work,
        and any other is refused.
        """
        while line := self._read_line():
            try:
                command = Command.from_json(line.decode())
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                shown = line.decode(errors="replace")[:MAX_SHOWN]
                self.send(Notice("refused", text=f"Not a command: {shown} ({error})"))
                continue
            if self.give(command):
                continue
            if command.kind == "abort":
                process_ending.stop()
            elif command.kind == "quit":
                end_group()
            else:
                self.send(
                    Notice(
                        "refused",
                        text=(
                            "The worker is not at a pause now: it is compiling, or running the "
                            "program."
                        ),
                    )
                )
        if self._commands:
            end_group()  # the client is gone: nobody is left to stop us later

    def _read_line(self) -> bytes:
        """Return the next line; empty at the end of the pipe."""
        while b"\n" not in self._unread:
            try:
                if self._commands and self._commands.is_ours:
                    chunk = _read(self._commands.number, 65536)
                else:
                    chunk = None
            except OSError:
                chunk = None
            if chunk is None:
                # The program closed descriptors that are not its own (a daemon does); continue
                # without commands.
                self._commands = None
                return b""
            if not chunk:
                return b""
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _close_in_child(self) -> None:
        """Close the pipes in a forked child. Their end is how each side learns that the other is
        gone, so a child must not hold them.
        """
        for descriptor in (self._notices, self._commands):
            if descriptor and descriptor.is_ours:
                os.close(descriptor.number)
        self._notices = self._commands = None
        self._lock = threading.Lock()  # another thread may have held it when the fork happened


def end_group() -> None:
    """End this process and everything it started (compilers, the program's own children)."""
    if os.getpgrp() == getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os.kill(getpid(), signal.SIGKILL)  # the program has moved us into a group that is not ours


IMPORTING_TORCH = "importing torch"
"""The activity during which the client takes an ended process for torch's fault
(client/process_outcomes.py).
"""


class RequestProgress:
    """The request, the session, the pipes and the present activity. ``activity`` is shown to the
    user and in error messages.
    """

    def __init__(self, request: CaptureRequest, writer: GuardedWriter, channel: Channel) -> None:
        self.request = request
        self.writer = writer
        self.channel = channel
        self.place = TargetPlace(request.target)
        self.activity = ""
        self._step = self._steps = 0
        self.original_functions = OriginalFunctions()
        self._process = getpid()

    def say(self, activity: str) -> None:
        """Report the present activity to the client."""
        self.activity = activity
        self.writer.set_meta("progress", activity)
        self.channel.send(Notice("worker", text=activity, step=self._step, steps=self._steps))

    def plan(self, steps: int) -> None:
        """Say how many steps there will be, of which none has begun."""
        self._step, self._steps = 0, steps

    def begin_step(self, activity: str) -> None:
        """Report the present activity, which is the next step."""
        self._step = min(self._step + 1, self._steps)
        self.say(activity)

    def count(self, work: str, done: int, planned: int) -> None:
        """Report how much of the present activity is done."""
        if work:
            self.channel.send(Notice("count", text=work, done=done, planned=planned))

    def note(self, text: str) -> None:
        self.channel.send(Notice("note", text=text))

    def describe(self, target: Target, train: bool) -> None:
        """Record the compiled target; ``train`` says whether the backward runs."""
        name = f"{Path(self.place.shown).name}:{target.name}"
        self._describe(
            name, target.kind, train, target.name, sum(p.numel() for p in target.parameters())
        )

    def describe_script(self, name: str) -> None:
        self._describe(name, "script", train=False)

    @property
    def is_in_fork(self) -> bool:
        """Return whether this process is a child that the program forked, and no worker."""
        return getpid() != self._process

    def watch_children(self) -> None:
        """Track the processes that the program starts or forks from now on. They record their own
        compilations.
        """
        request = request_of_children(self.request).to_json()
        self.writer.children = children.watch(Path(self.request.session), request)

    def _describe(
        self, name: str, kind: str, train: bool, object_name: str = "", parameters: int = 0
    ) -> None:
        file = str(self.place.file or "")
        self.writer.set_meta(
            "target",
            {
                "name": name,
                "kind": kind,
                "file": file,
                "object": object_name,
                "train": train,
                "parameters": parameters,
            },
        )


# Python's own functions that the program has replaced.

_OWNERS: tuple[Any, ...] = (
    builtins,
    os,
    os.path,
    io,
    json,
    re,
    time,
    contextlib,
    hashlib,
    importlib,
    linecache,
    logging,
    pathlib,
    pathlib.Path,
    pathlib.PurePath,
    shutil,
    signal,
    sqlite3,
    threading,
    tokenize,
    traceback,
    zlib,
)

_MODULES: tuple[Any, ...] = tuple(owner for owner in _OWNERS if not isinstance(owner, type))

__builtins__ = dict(vars(builtins))  # type: ignore[assignment]
"""Python's own builtins for this file alone, so that its functions work whatever the program
replaces.
"""

_SKIPPED = frozenset(
    (
        "__doc__",
        "__warningregistry__",
        "_",
        "_formatArgSpec",
        "_active",
        "_limbo",
        "cache",
        "__builtins__",
    )
)
"""Names in Python's modules that change by themselves, and are no sign of a replaced function."""


def _functions_of(owner: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(owner).items() if callable(value)}


class OriginalFunctions:
    """Python's own functions, stored before any of the user's code has run."""

    def __init__(self) -> None:
        self._known = [(owner, _functions_of(owner)) for owner in _OWNERS]
        self._meta_path, self._path = list(sys.meta_path), list(sys.path)

    def replaced(self) -> list[str]:
        """Return the names of functions and classes (``builtins.len``) and parts of the import
        system that the program has replaced or removed.
        """
        names = [f"{_name(owner)}.{name}" for owner, name, _ in self.others()]
        gone = [module.__name__ for module in _MODULES if _is_gone(module)]
        names += [f"sys.modules[{name!r}]" for name in gone]
        names += ["sys.meta_path"] if not sys.meta_path else []
        names += ["sys.path"] if not sys.path else []
        names += (
            ["sys.setrecursionlimit"] if sys.getrecursionlimit() < SMALL_RECURSION_LIMIT else []
        )
        return names

    def describe(self) -> str:
        """Return a sentence with the functions that the program has replaced; empty without any."""
        names = self.replaced()
        if not names:
            return ""
        shown = ", ".join(names[:MOST_NAMED])
        if len(names) > MOST_NAMED:
            shown += " …"
        return f"The program has replaced or removed {shown}, which fx-explorer also needs"

    def in_place(self) -> OriginalsInPlace:
        """Return a context manager that restores Python's own functions inside its block.
        Afterwards the program's are back: its exit handlers may need them.
        """
        return OriginalsInPlace(self)

    def put_back(self) -> list[tuple[Any, str, object]]:
        """Restore Python's own functions. Returns the program's replacements."""
        others = list(self.others())
        now = [(owner, name, vars(owner).get(name, _ABSENT)) for owner, name, _ in others]
        for owner, name, value in others:
            _put(owner, name, value)
        return now

    def put_back_imports(self) -> None:
        sys.meta_path[:] = sys.meta_path or self._meta_path
        sys.path[:] = sys.path or self._path
        for module in _MODULES:
            sys.modules[module.__name__] = module

    def others(self) -> Iterator[tuple[Any, str, Any]]:
        """Yield (owner, name, Python's own object) for each replaced one."""
        for owner, known in self._known:
            there = vars(owner)
            for name, value in known.items():
                if there.get(name, _ABSENT) is not value and name not in _SKIPPED:
                    yield owner, name, value


class OriginalsInPlace:
    """Restores Python's own functions inside the block. It uses nothing that the program may have
    replaced.
    """

    def __init__(self, originals: OriginalFunctions) -> None:
        self._originals = originals

    def __enter__(self) -> None:
        self._limit, self._meta_path, self._path = (
            sys.getrecursionlimit(),
            sys.meta_path[:],
            sys.path[:],
        )
        self._modules = {
            module.__name__: sys.modules.get(module.__name__, _ABSENT) for module in _MODULES
        }
        self._now = self._originals.put_back()
        self._originals.put_back_imports()
        sys.setrecursionlimit(max(self._limit, SMALL_RECURSION_LIMIT))

    def __exit__(self, *_: object) -> None:
        sys.meta_path[:], sys.path[:] = self._meta_path, self._path
        for name, module in self._modules.items():
            if module is not _ABSENT:
                sys.modules[name] = module  # type: ignore[assignment]
            elif name in sys.modules:
                del sys.modules[name]
        for owner, name, value in self._now:
            _put(owner, name, value)
        with _suppress(RecursionError):  # we are deeper than the program allows
            sys.setrecursionlimit(self._limit)


MOST_NAMED = 5

SMALL_RECURSION_LIMIT = 1000
"""Python's own limit. Imports in torch need some hundreds of frames."""

_ABSENT = object()

_suppress = contextlib.suppress


def _is_gone(owner: Any) -> bool:
    return sys.modules.get(owner.__name__) is not owner


def _put(owner: Any, name: str, value: object) -> None:
    if value is _ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, value)


def _name(owner: Any) -> str:
    if isinstance(owner, type):
        return f"{owner.__module__.partition('.')[0]}.{owner.__qualname__}"
    if owner is os.path:
        return "os.path"
    return str(owner.__name__)
