"""This module records a process that the program started, or forked before it had torch, from its
first use of torch.compile on, into a session of its own.

It does not begin earlier: a process that loads data imports torch too, and must not pay for a
recorder that it has no use for.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from fx_explorer.model import Beginning, CaptureRequest
from fx_explorer.program.children import (
    OWN_CHILDREN,
    REQUEST,
    command_line,
    describe_process,
    new_session,
    note_unseen,
)
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
        except Exception as error:  # noqa: BLE001
            # ours: the program continues, and whoever reads the session is told
            note_unseen(
                Path(directory), command_line(), f"recording could not start in it: {error}"
            )
        return original(*args, **kwargs)

    dynamo.optimize = optimize


def _begin(directory: Path, beginning: Beginning) -> None:
    import torch._inductor.compile_fx  # noqa: F401

    from fx_explorer.capture.recorder import recording
    from fx_explorer.program.guarded_writer import GuardedWriter

    defer_handlers()
    request = CaptureRequest.from_json((directory / REQUEST).read_text(encoding="utf-8"))
    writer = GuardedWriter(new_session(directory), directory)
    describe_process(writer, beginning)
    state = _until.enter_context(recording(writer, request, lambda notice: None))
    os.register_at_fork(after_in_child=state.begin_in_fork)


def request_of_children(request: CaptureRequest) -> CaptureRequest:
    """Return the request for a child process of the program: the program's own, but without its
    arguments, gates and virtual GPU.
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
