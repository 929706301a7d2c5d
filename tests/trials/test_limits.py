"""These tests check how long a trial may take."""

from __future__ import annotations

from pathlib import Path

from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.trials import CAPTURES_PER_TRIAL, LONGEST_TRIAL_S, TIMEOUT_S, TrialWorker


def worker_after(tmp_path: Path, capture_s: float, worker: TrialWorker) -> TrialWorker:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.set_meta("finished", capture_s)
    with SessionReader(tmp_path / "s.fxs") as reader:
        return worker.after_capture(reader)


def test_a_trial_of_a_program_whose_capture_was_long_may_take_longer(tmp_path: Path) -> None:
    assert TrialWorker().limit_s(TIMEOUT_S) == TIMEOUT_S
    assert worker_after(tmp_path, 2.0, TrialWorker()).limit_s(TIMEOUT_S) == TIMEOUT_S
    long = worker_after(tmp_path, 156.0, TrialWorker())
    assert long.limit_s(TIMEOUT_S) == 156.0 * CAPTURES_PER_TRIAL
    assert worker_after(tmp_path, 1e5, TrialWorker()).limit_s(TIMEOUT_S) == LONGEST_TRIAL_S


def test_the_limit_that_was_given_holds(tmp_path: Path) -> None:
    worker = worker_after(tmp_path, 156.0, TrialWorker(timeout_s=20.0))
    assert worker.limit_s(TIMEOUT_S) == 20.0
