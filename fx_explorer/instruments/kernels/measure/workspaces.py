"""This module measures the memory that library calls use on a GPU while they run: cuDNN's
workspaces, the accumulators of an attention's backward. No graph contains it, so the calls are made
on the GPU, in a process of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from fx_explorer.capture.recording.state import Recording
from fx_explorer.model import LibraryWorkspace
from fx_explorer.model.library_call import LibraryCall
from fx_explorer.program import children

WORKER = Path(__file__).resolve().parents[3] / "worker" / "worker.py"

JOB = "instruments.kernels.measure.workspaces"

LONGEST_S = 120.0
"""Longest time of one process, in seconds."""

MOST_PROCESSES = 8
"""Number of processes after which calls that end their process are given up."""


@dataclass(frozen=True, slots=True)
class MeasuredWorkspace:
    """The measured workspace of one call, or the reason why it was not measured."""

    size_bytes: int = -1
    problem: str = ""


def add_workspaces(recording: Recording) -> None:
    """Ask for the workspaces of all library calls of a recording, and add the answers to it."""
    answers = asked(list(dict.fromkeys(recording.library_calls.values())))
    rows = []
    for call, alone in recording.library_calls.items():
        answer = answers[alone]
        rows.append(LibraryWorkspace(0, call, answer.size_bytes, answer.problem))
    with recording.writer.transaction():
        recording.writer.add_all(rows)


def asked(calls: Sequence[LibraryCall]) -> dict[LibraryCall, MeasuredWorkspace]:
    """Return the answer for each call. A call that ends its process is repeated with single
    integers on the host, and so are other calls of the same function.
    """
    answered: dict[LibraryCall, MeasuredWorkspace] = {}
    on_the_host: set[str] = set()
    for _ in range(MOST_PROCESSES):
        waiting = [call for call in calls if call not in answered]
        if not waiting:
            break
        answers, ended = _of_a_process([_as_made(call, on_the_host) for call in waiting])
        answered |= zip(waiting, answers, strict=False)
        if len(answers) == len(waiting) or (answers and GPU_IS_LOST in answers[-1].problem):
            continue
        fatal = waiting[len(answers)]
        if fatal.function in on_the_host or fatal.with_indices_on_the_host == fatal:
            answered[fatal] = MeasuredWorkspace(
                problem=(f"the separate process for this call {ended}")
            )
        on_the_host.add(fatal.function)
    given_up = MeasuredWorkspace(
        problem="other calls ended the process that runs them separately too often"
    )
    return {call: answered.get(call, given_up) for call in calls}


def _as_made(call: LibraryCall, on_the_host: Container[str]) -> LibraryCall:
    """Return the call in the form in which it is made: for some functions, with single integers on
    the host.
    """
    if call.function in on_the_host:
        return call.with_indices_on_the_host
    return call


def _of_a_process(calls: Sequence[LibraryCall]) -> tuple[list[MeasuredWorkspace], str]:
    """Return the answers that a process gave, in order, and how it ended."""
    answers_end, mine = os.pipe()
    process = subprocess.Popen(
        [sys.executable, str(WORKER), str(mine), "0", JOB],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(mine,),
        env={name: value for name, value in os.environ.items() if name != children.VARIABLE},
    )
    os.close(mine)
    out_of_time = threading.Timer(LONGEST_S, process.kill)
    out_of_time.start()
    try:
        assert process.stdin is not None
        # It may end before it has read everything: how is told.
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(_question(calls))
        with os.fdopen(answers_end, encoding="utf-8") as lines:
            answers = [MeasuredWorkspace(**json.loads(line)) for line in lines]
    finally:
        out_of_time.cancel()
    status = process.wait()
    if status < 0:
        return answers, f"was ended by signal {-status}"
    return answers, f"ended with {status}"


def _question(calls: Sequence[LibraryCall]) -> bytes:
    """Return the calls as bytes for the process, with the program's settings that decide how
    libraries compute.
    """
    question = {
        "calls": [call.to_json() for call in calls],
        "benchmark": torch.backends.cudnn.benchmark,
        "allow_tf32": torch.backends.cudnn.allow_tf32,
        "precision": torch.get_float32_matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
    }
    return json.dumps(question).encode()


# The process that makes the calls.

LONGEST = 500
"""Maximum number of characters of a message, which must go through a pipe in one piece."""

GPU_IS_LOST = "CUDA error"
"""Beginning of the message with which torch reports that this process can no longer use the GPU."""


def main(notices: int, commands: int) -> None:
    """Make library calls of generated code, one by one and with tensors of zeros, and report how
    much of the GPU's memory each uses. This is a process of its own because such a call may end it:
    native code does not check its arguments. Its input is a JSON object: the calls, and the
    program's settings that decide how libraries compute. It answers with a line for each call,
    ``{"size_bytes": …}`` or ``{"problem": …}``. If it dies, the call that ended it is the first
    without an answer.
    """
    with os.fdopen(commands, encoding="utf-8") as lines:
        asked = json.load(lines)
    import torch

    from fx_explorer.capture.inductor.library_calls import prepared
    from fx_explorer.model.library_call import LibraryCall

    torch.backends.cudnn.benchmark = asked["benchmark"]
    torch.backends.cudnn.allow_tf32 = asked["allow_tf32"]
    torch.set_float32_matmul_precision(asked["precision"])
    torch.use_deterministic_algorithms(asked["deterministic"], warn_only=asked["warn_only"])
    for text in asked["calls"]:
        call = LibraryCall.from_json(text)
        answer: dict[str, object]
        try:
            with torch.no_grad():
                for _ in range(2):  # the first of a kind may take what its library keeps for good
                    size_bytes = _beyond_results(prepared(call), torch.device(call.device))
            answer = {"size_bytes": size_bytes}
        except Exception as error:  # noqa: BLE001
            # told: whatever the call raises, the others are made
            answer = {"problem": f"{type(error).__name__}: {error}".partition("\n")[0][:LONGEST]}
        os.write(notices, json.dumps(answer).encode() + b"\n")
        if GPU_IS_LOST in str(answer.get("problem", "")):
            break
    os._exit(0)  # torch takes a second to release the GPU


def _beyond_results(run: Callable[[], object], device: torch.device) -> int:
    """Return the peak of a call's allocations beyond its results, in bytes."""
    import torch

    torch.cuda.reset_peak_memory_stats(device)
    returned = run()
    most, kept = torch.cuda.max_memory_allocated(device), torch.cuda.memory_allocated(device)
    del returned
    return max(0, most - kept)
