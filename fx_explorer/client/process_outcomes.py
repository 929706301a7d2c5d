"""This module derives how a capture ended from the traces of the worker: its last message, its exit
status, and our own actions on it.
"""

from __future__ import annotations

import json
import re
import signal
from dataclasses import dataclass, replace
from typing import Literal

from fx_explorer.model import Failure, Outcome

OF_A_JOB = (
    "torchrun ends the other ranks of a job when one of them fails; see the failed rank for the "
    "cause"
)

StopReason = Literal["", "cancelled", "timed_out"]

SIGNALS: dict[int, str] = {
    signal.SIGSEGV: (
        "a segmentation fault: native code (an extension, a library, a kernel) accessed memory "
        "that does not belong to it"
    ),
    signal.SIGBUS: (
        "a bus error: native code accessed memory that does not exist (a truncated mapped file, a "
        "full /dev/shm)"
    ),
    signal.SIGABRT: "an abort: native code gave up (a failed assertion, or memory that ran out)",
    signal.SIGILL: "an illegal instruction: native code was built for another processor",
    signal.SIGFPE: "an arithmetic fault in native code (an integer division by zero)",
    signal.SIGKILL: (
        "usually sent by the kernel because memory ran out (see `dmesg`), else by `kill -9` or by "
        "the program itself"
    ),
    signal.SIGXCPU: "its CPU time limit (`ulimit -t`)",
    signal.SIGTERM: "sent by itself or from outside, not by fx-explorer",
    signal.SIGHUP: "sent by itself or from outside, as by a terminal that goes away",
    signal.SIGINT: "sent by itself or from outside, not by your Ctrl-C",
}


IMPORTING_TORCH = "importing torch"
"""Name of the worker's activity while it imports torch (worker/progress.py)."""

STACK_LINE = re.compile(
    r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)$', re.MULTILINE
)
"""Matches a frame as faulthandler writes it (CPython, Python/traceback.c, ``dump_frame``)."""


@dataclass(frozen=True, slots=True)
class EndedWorker:
    """The facts about a worker process that has ended."""

    returncode: int
    """The worker's exit status, or minus the signal's number."""
    last_words: str = ""
    """JSON of the Outcome the worker sent; empty when it died before."""
    activity: str = ""
    """Its last activity, as it reported; empty if it never reported any."""
    stacks: str = ""
    """Python stacks that faulthandler left behind."""
    stopped: StopReason = ""
    """Why we ended it; empty when we did not."""
    is_interrupted: bool = False
    """Whether the user's Ctrl-C was passed on to the program."""
    timeout_s: float = 0.0
    python: str = ""
    last_output: str = ""
    """The worker's last line on stderr."""
    stopped_by: int = 0
    """The signal that fx-explorer itself received and for which it ended the worker; 0 for none."""
    is_of_job: bool = False
    """Whether torchrun started fx-explorer, as one rank of a job."""


def outcome_of(remains: EndedWorker) -> Outcome:
    """Return how a capture ended. Our actions on the worker count first, then its last message,
    then its exit status and activity.
    """
    doing = f" while {remains.activity}" if remains.activity else ""
    status = remains.returncode
    if remains.stopped == "timed_out":
        return Outcome(
            "timed_out",
            f"stopped after {remains.timeout_s:g} s (--timeout){doing}{_where(remains.stacks)}",
            status,
        )
    if remains.stopped == "cancelled" and remains.stopped_by not in (0, signal.SIGINT):
        name = signal_name(remains.stopped_by)
        if remains.is_of_job and name == "SIGTERM":
            of_job = f": {OF_A_JOB}"
        else:
            of_job = ""
        message = f"ended by {name} from outside{doing}{of_job}"
        return Outcome("killed", message, -remains.stopped_by)
    if remains.stopped == "cancelled":
        return Outcome("cancelled", f"cancelled{doing}", status)
    if remains.last_words:
        outcome = Outcome.from_json(json.loads(remains.last_words))
        is_ctrl_c = remains.is_interrupted and outcome.exit_code == -signal.SIGINT
        if outcome.kind == "killed" and is_ctrl_c:
            return _of_ctrl_c(outcome)
        return outcome
    if remains.activity == IMPORTING_TORCH:
        if status < 0:
            how = f"was ended by {signal_name(-status)}"
        else:
            how = f"ended with status {status}"
        text = (
            f"the process {how} while {remains.python} imported torch{_where(remains.stacks)}: "
            "this torch does not work there."
        )
        return Outcome(
            "not_started",
            f"{text} Install it again, or choose another interpreter with --python.",
            4,
        )
    if status < 0:
        why = SIGNALS.get(-status)
        explained = f" ({why})" if why else ""
        return Outcome(
            "killed",
            "the program was ended by "
            f"{signal_name(-status)}{explained}{doing}{_where(remains.stacks)}",
            status,
        )
    if not remains.activity:
        if remains.last_output:
            last_output = f" Its last output: {remains.last_output}."
        else:
            last_output = ""
        return Outcome(
            "not_started",
            f"{remains.python} ended with status {status} before it could start.{last_output} "
            "Is it a Python interpreter, 3.10 or newer? Choose one with --python.",
            4,
        )
    text = (
        f"the program ended its process with status {status} (os._exit, or another program in "
        f"its place){doing}"
    )
    return Outcome("exited", text, status, is_early=True)


def _of_ctrl_c(outcome: Outcome) -> Outcome:
    """Return the outcome of a program that the user's Ctrl-C, passed on to it, has ended."""
    text = outcome.message.replace("ended by SIGINT", "interrupted by Ctrl-C", 1)
    return Outcome("raised", text, 128 + signal.SIGINT)


def failure_of(outcome: Outcome, remains: EndedWorker) -> Failure | None:
    """Return the row with the stacks of a process that was killed or stopped; None without
    stacks.
    """
    has_logged = bool(remains.last_words) and not remains.stopped
    if outcome.kind not in ("killed", "timed_out") or has_logged:
        return None
    if outcome.kind == "killed":
        kind = signal_name(-outcome.exit_code)
    else:
        kind = "timeout"
    return Failure(0, 0, "program", None, kind, outcome.message)


def signal_name(number: int) -> str:
    if number in set(signal.Signals):
        return signal.Signals(number).name
    return f"signal {number}"


def with_problem(outcome: Outcome, problem: str) -> Outcome:
    """Return the outcome of a capture whose session could not be written or moved in full."""
    text = f"{problem} The program: {outcome.kind}"
    if outcome.message:
        text += f" ({outcome.message})"
    if outcome.kind == "finished":
        return replace(outcome, kind="incomplete", message=text)
    return replace(outcome, message=text)


def _where(stacks: str) -> str:
    """Return ", in function (file:line)" for the main thread's innermost frame; empty without
    one.
    """
    main = stacks.rpartition("Current thread")[2] or stacks
    match = STACK_LINE.search(main)
    if match:
        return f", in {match['function']} ({match['file']}:{match['line']})"
    return ""


def exit_code(outcome: Outcome, *, as_script: bool, stopped_by: int = 0) -> int:
    """Return the exit code of the command line. ``run`` ends as the script itself would under a
    shell. ``stopped_by`` is the signal for which it was cancelled; 0 counts as Ctrl-C.
    """
    status = outcome.exit_code
    if outcome.kind in ("cancelled", "killed") and stopped_by:
        return 128 + stopped_by
    if as_script and outcome.kind in ("finished", "raised", "exited", "incomplete"):
        return status
    if as_script and outcome.kind == "killed":
        return 128 - status
    if outcome.kind == "exited":
        return 3 if status else 0
    codes = {
        "finished": 0,
        "raised": 3,
        "killed": 4,
        "timed_out": 4,
        "cancelled": 130,
        "incomplete": 4,
    }
    return codes.get(outcome.kind, status)
