"""One cold compile of one model's training step in this process, timed: bare, or while everything is recorded.

    python -m benchmarks.one_compile MODEL bare|inspect|build [SESSION]

Prints one line of JSON. Everything is imported and the model is built before the clock starts, for all three alike.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from contextlib import AbstractContextManager
from os import times

import torch
import torch._dynamo
import torch._inductor.compile_fx

from benchmarks import models

sys.setrecursionlimit(10_000)


def observer(how: str, session: str) -> AbstractContextManager[object]:
    """What the compile runs under. Nothing of ours is even imported for a bare one."""
    if how == "bare":
        return contextlib.nullcontext()
    from fx_explorer.capture.recorder import recording
    from fx_explorer.model import CaptureRequest
    from fx_explorer.session import SessionWriter

    request = CaptureRequest(target="benchmark", session=session, build=how == "build")
    return recording(SessionWriter(session), request, lambda notice: None)


def main(name: str, how: str, session: str = "") -> None:
    model, example = models.build(name), models.inputs(name)
    observing = observer(how, session)
    started_s, before = time.perf_counter(), times()
    with observing:
        models.train_step(torch.compile(model), example)
    wall_s, after = time.perf_counter() - started_s, times()
    own_s = after.user + after.system - before.user - before.system
    children_s = after.children_user + after.children_system - before.children_user - before.children_system
    print(json.dumps({"wall_s": wall_s, "own_cpu_s": own_s, "cpu_s": own_s + children_s}))


if __name__ == "__main__":
    main(*sys.argv[1:])
