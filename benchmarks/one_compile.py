"""One cold compile of one model's training step in this process, timed: bare, or while everything
is recorded.

    python -m benchmarks.one_compile MODEL HOW [--session FILE] [--device cuda] [--profile]

HOW is one of bare, eager, unbuilt, unrecorded, inspect, trace and build (``capture_cost.py``). Prints one
line of JSON. Everything is imported, the model is built and the device is in use before the clock
starts, for all of them alike.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import sys
import time
from contextlib import AbstractContextManager
from os import times
from typing import Any

import torch
import torch._dynamo
import torch._inductor.compile_fx
import torch.utils._pytree

from benchmarks import models
from benchmarks.sampling import sampled

sys.setrecursionlimit(10_000)


def observer(how: str, session: str) -> AbstractContextManager[object]:
    """What the compile runs under. Nothing of ours is even imported for a bare one."""
    if how in ("bare", "eager"):
        return contextlib.nullcontext()
    if how == "unbuilt":
        from fx_explorer.capture.inspecting import inspecting

        return inspecting()
    from fx_explorer.capture.recorder import HOOKS, recording
    from fx_explorer.model import CaptureRequest
    from fx_explorer.session import SessionWriter

    if how == "unrecorded":
        HOOKS.clear()
    for module, _ in HOOKS.values():
        importlib.import_module(f"fx_explorer.capture.{module}")
    session = session or ":memory:"
    request = CaptureRequest(
        target="benchmark", session=session, build=how == "build", record_trace=how == "trace"
    )
    return recording(SessionWriter(session), request, lambda notice: None)


FLOORS = ("unbuilt", "unrecorded")
"""What an inspected compile would cost if recording took no time: all that torch does for it (its
code is made, no kernel is built, and the program runs eagerly), and without the work that nobody
sees.
"""


def on_device(example: Any, device: str) -> Any:
    """Move the tensors of the example inputs there."""
    return torch.utils._pytree.tree_map_only(
        torch.Tensor, lambda tensor: tensor.to(device), example
    )


def settled(device: str) -> None:
    """Wait until the device is through with what it was given. A first matrix product also loads
    its libraries.
    """
    if device == "cuda":
        torch.ones(8, 8, device=device, requires_grad=True).mm(
            torch.ones(8, 8, device=device)
        ).sum().backward()
        torch.cuda.synchronize()


def torch_phases() -> dict[str, float]:
    """Return the seconds of each phase as torch itself has timed it (``dynamo_timed``); phases
    contain one another.
    """
    return {
        name: sum(times) for name, times in torch._dynamo.utils.compilation_time_metrics.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("how", choices=("bare", "eager", *FLOORS, "inspect", "trace", "build"))
    parser.add_argument("--session", default="")
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--profile", action="store_true", help="sample where the time goes (a few per cent of it)"
    )
    arguments = parser.parse_args()
    model, example = (
        models.build(arguments.model).to(arguments.device),
        models.inputs(arguments.model),
    )
    example = on_device(example, arguments.device)
    observing = observer(arguments.how, arguments.session)
    settled(arguments.device)
    started_s, before = time.perf_counter(), times()
    with sampled(arguments.profile) as profile, observing:
        models.train_step(model if arguments.how == "eager" else torch.compile(model), example)
        settled(arguments.device)
    wall_s, after = time.perf_counter() - started_s, times()
    own_s = after.user + after.system - before.user - before.system
    children_s = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    cost = {"wall_s": wall_s, "own_cpu_s": own_s, "cpu_s": own_s + children_s}
    print(
        json.dumps(
            {
                "cost": cost,
                "profile": {**profile.as_json(), "torch": torch_phases()}
                if arguments.profile
                else {},
            }
        )
    )


if __name__ == "__main__":
    main()
