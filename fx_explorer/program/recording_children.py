"""A process that the program started, or forked before it had torch, is recorded from its first use
of torch.compile on, into a session of its own.

It does not begin earlier: a process that loads data imports torch too, and must not pay for a
recorder that it has no use for. ``GuardedWriter`` is the session writer of the worker: it remembers
the first write that failed, and writes a session of its own in a forked child.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from os import getpid  # as it is before the program can put something else in its place
from pathlib import Path
from typing import Any

from fx_explorer.errors import SessionWriteError
from fx_explorer.model import Beginning, CaptureRequest, Failure
from fx_explorer.program.children import (
    OWN_CHILDREN,
    REQUEST,
    command_line,
    describe_process,
    new_session,
    note_unseen,
)
from fx_explorer.session import SessionWriter
from fx_explorer.session.undisturbed import defer_handlers

_until = contextlib.ExitStack()
"""Never closed: recording continues to the end of the process, and every row is in the file at
once.
"""


def record_when_used(directory: str, beginning: Beginning) -> None:
    """Record from the first use of torch.compile on. Called when ``torch._dynamo`` has been
    imported.
    """
    import torch._dynamo as dynamo

    if any(
        part in " ".join(sys.orig_argv).replace(os.sep, "/").replace(".", "/")
        for part in OWN_CHILDREN
    ):
        return  # a process of the compiler's own, which compiles kernels
    original = dynamo.optimize

    @functools.wraps(original)
    def optimize(*args: Any, **kwargs: Any) -> Any:
        # Before it begins: that is tried once, whatever comes of it.
        dynamo.optimize = original
        try:
            _begin(Path(directory), beginning)
        except Exception as error:  # noqa: BLE001 - ours: the program continues, and whoever reads the session is told
            note_unseen(
                Path(directory), command_line(), f"recording could not begin in it: {error}"
            )
        return original(*args, **kwargs)

    dynamo.optimize = optimize


def _begin(directory: Path, beginning: Beginning) -> None:
    import torch._inductor.compile_fx  # noqa: F401

    from fx_explorer.capture.recorder import recording

    defer_handlers()
    request = CaptureRequest.from_json((directory / REQUEST).read_text(encoding="utf-8"))
    writer = GuardedWriter(new_session(directory), directory)
    describe_process(writer, beginning)
    state = _until.enter_context(recording(writer, request, lambda notice: None))
    os.register_at_fork(after_in_child=state.begin_in_fork)


def request_of_children(request: CaptureRequest) -> CaptureRequest:
    """Return the request for a process of the program's: the program's own, but without its
    arguments, without waiting at gates and without a virtual GPU.
    """
    return replace(
        request,
        arguments=(),
        pause="",
        stay=False,
        overlay={},
        verify=False,
        gpu=None,
        no_weights=False,
    )


class GuardedWriter(SessionWriter):
    """A writer that stops at the first write that fails, so that a full disk does not stop the
    user's program. ``failure`` then says why.
    """

    def __init__(self, path: str | Path, children: Path | None = None) -> None:
        """``children`` is the directory for the sessions of forked processes. Without it they are
        not kept.
        """
        self.failure: SessionWriteError | None = None
        self.children = children
        super().__init__(path, beside_program=True)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Write as usual, but never again after a write that failed.

        Trying again would mean waiting again, for a lock or a disk, with each artefact of a program
        that compiles thousands.
        """
        if getpid() != self._owner:
            self._move_to_child()
        if self.failure:
            raise self.failure
        try:
            with super().transaction():
                yield
        except SessionWriteError as error:
            self.failure = self.failure or error
            raise

    def _move_to_child(self) -> None:
        """Begin a session of its own in a forked child, when the first row comes: most children
        never write one.

        SQLite connections must not be used across a fork, nor closed (sqlite.org/howtocorrupt.html,
        "carrying an open database").
        """
        if self.children is None:
            raise SessionWriteError("what a forked child compiles is not recorded")
        self._abandon()
        self.failure = None
        super().__init__(new_session(self.children), beside_program=True)
        describe_process(self, "forked")

    def set_meta(self, key: str, value: object) -> None:
        """Write as usual, but only note a failed write in ``failure``: meta is written outside the
        recorder's own safety net.
        """
        with contextlib.suppress(SessionWriteError):
            super().set_meta(key, value)

    def try_failure(self, row: Failure, text: str) -> None:
        """Add a Failure with its whole text. A failed write shows in ``failure``."""
        with contextlib.suppress(SessionWriteError), self.transaction():
            self.add(replace(row, text=self.text(text)))

    def close(self) -> None:
        with contextlib.suppress(SessionWriteError):
            super().close()
