"""These tests check the message about a worker that has ended unexpectedly, and the command line's
exit code.
"""

from __future__ import annotations

import json

import pytest

from fx_explorer.client.process_outcomes import (
    EndedWorker,
    exit_code,
    failure_of,
    outcome_of,
    with_problem,
)
from fx_explorer.model import Outcome, OutcomeKind

SEGFAULT_STACK = """Fatal Python error: Segmentation fault

Thread 0x00007f01 (most recent call first):
  File "/lib/threading.py", line 1 in wait

Current thread 0x00007f00 (most recent call first):
  File "/home/me/model.py", line 7 in forward
"""


def test_the_workers_own_words_count_when_it_came_to_speak() -> None:
    said = Outcome("raised", "ValueError: no", 1)
    assert outcome_of(EndedWorker(1, json.dumps(said.to_json()), "calling MLP")) == said


def test_a_segfault_is_named_explained_and_placed() -> None:
    remains = EndedWorker(-11, activity="calling MLP", stacks=SEGFAULT_STACK)
    outcome = outcome_of(remains)
    assert (outcome.kind, outcome.exit_code) == ("killed", -11)
    for part in ("SIGSEGV", "native code", "while calling MLP", "in forward (/home/me/model.py:7)"):
        assert part in outcome.message
    failure = failure_of(outcome, remains)
    assert failure is not None
    assert (failure.where, failure.kind) == ("program", "SIGSEGV")


def test_a_kill_that_was_not_ours_points_at_memory() -> None:
    assert "memory ran out" in outcome_of(EndedWorker(-9, activity="calling MLP")).message


def test_an_unknown_signal_still_gets_a_sentence() -> None:
    assert "signal 77" in outcome_of(EndedWorker(-77, activity="calling MLP")).message


def test_a_process_that_ended_itself_is_not_called_a_crash() -> None:
    outcome = outcome_of(EndedWorker(7, activity="calling MLP"))
    assert (outcome.kind, outcome.exit_code) == ("exited", 7)
    assert "os._exit" in outcome.message


def test_timeout_wins_over_what_the_worker_said_when_it_was_stopped() -> None:
    said = json.dumps(Outcome("cancelled", "cancelled").to_json())
    outcome = outcome_of(EndedWorker(0, said, "calling MLP", stopped="timed_out", timeout_s=5))
    assert outcome.kind == "timed_out"
    assert "5 s (--timeout) while calling MLP" in outcome.message


def test_something_that_is_no_python_is_not_blamed_on_the_target() -> None:
    outcome = outcome_of(EndedWorker(2, python="/bin/ls", last_output="ls: no such file"))
    assert outcome.kind == "not_started"
    assert "/bin/ls" in outcome.message
    assert "--python" in outcome.message


@pytest.mark.parametrize(
    ("kind", "status", "of_capture", "of_run"),
    [
        ("finished", 0, 0, 0),
        ("raised", 1, 3, 1),
        ("exited", 0, 0, 0),
        ("exited", 7, 3, 7),
        ("killed", -11, 4, 139),
        ("timed_out", -9, 4, 4),
        ("cancelled", 0, 130, 130),
        ("not_started", 2, 2, 2),
        ("not_started", 4, 4, 4),
        ("incomplete", 0, 4, 0),
    ],
)
def test_exit_codes_of_capture_are_ours_and_those_of_run_the_scripts(
    kind: OutcomeKind, status: int, of_capture: int, of_run: int
) -> None:
    outcome = Outcome(kind, "", status)
    assert exit_code(outcome, as_script=False) == of_capture
    assert exit_code(outcome, as_script=True) == of_run


def test_a_session_that_cannot_be_kept_is_told_beside_what_the_program_did() -> None:
    assert with_problem(Outcome("finished"), "The disk is full.").kind == "incomplete"
    raised = with_problem(Outcome("raised", "ValueError: no", 1), "The disk is full.")
    assert raised.kind == "raised"
    assert "The disk is full." in raised.message
    assert "ValueError: no" in raised.message
