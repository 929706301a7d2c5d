"""The program of a request that names a target: torch is imported, then the target, which is
compiled and called.

For a comparison (``verify``) it is called several times, while the original runs in a child. For a
measurement (``measure_breaks``, ``ledger``) it is called very often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fx_explorer.worker.progress import IMPORTING_TORCH, RequestProgress
from fx_explorer.worker.request_recording import RequestRecording
from fx_explorer.worker.target import overlay
from fx_explorer.worker.users.usable_torch import import_torch

if TYPE_CHECKING:
    from fx_explorer.worker.target.other_calls.other_inputs import CalledTarget
    from fx_explorer.worker.target.target import Target
    from fx_explorer.worker.verify.programs import OtherPrograms


class TargetProgram:
    """Imports the target and calls it."""

    def __init__(self, progress: RequestProgress, recorded: RequestRecording) -> None:
        self._progress = progress
        self._request = progress.request
        self._recorded = recorded
        self._others: OtherPrograms | None = None
        """The programs that this one is compared with."""

    def begin(self) -> None:
        # Before the target's directory is on sys.path: a types.py or queue.py there must not reach
        # torch's imports.
        self._progress.say(IMPORTING_TORCH)
        import_torch()
        self._begin_others()
        self._progress.watch_children()
        overlay.install(self._request.overlay)
        self._recorded.begin()
        self._progress.say("ready")

    def run(self) -> None:
        from fx_explorer.worker.target.any_target import find_any_target

        self._progress.say(f"importing {self._progress.place.shown}")
        if self._others:
            self._others.original.seed()
        self._call(find_any_target(self._progress.place, self._request, self._progress.say))

    def offer_again(self) -> None:
        """Do nothing: what can be asked of the target was said when it was called."""

    def leave(self) -> None:
        """Do nothing: no thread of the program can keep this process."""

    def _begin_others(self) -> None:
        """Begin the programs that this one is compared with."""
        if self._request.verify:
            from fx_explorer.worker.verify.programs import OtherPrograms

            self._others = OtherPrograms(self._progress.place, self._request)

    def _call(self, target: Target) -> None:
        """Call the target in the way that was asked for: timed, compared with the original program,
        or plainly.
        """
        from fx_explorer.worker.target.calling import call_target
        from fx_explorer.worker.target.other_calls.other_inputs import CalledTarget

        called, recording = (
            CalledTarget(target, self._progress.place, self._request),
            self._recorded.recording,
        )
        if recording:
            recording.live_guards.program = called
        if self._request.measure_breaks and recording:
            from fx_explorer.worker.target.other_calls.timing import call_and_time

            call_and_time(target, self._progress, recording, self._recorded.stop)
            return
        if self._request.ledger and recording:
            from fx_explorer.worker.ledger.measuring import call_and_account

            call_and_account(target, self._progress, recording, self._recorded.stop)
            return
        if not self._others:
            ended = recording.forward_ended if recording else lambda loss: None
            call_target(
                target, self._progress, lambda ready: self._before_call(called, ready), ended
            )
            return
        from fx_explorer.worker.verify.verifying import call_and_verify

        with self._others as others:
            self._progress.writer.add(
                call_and_verify(target, self._progress, others, self._recorded.stop)
            )

    def _before_call(self, called: CalledTarget, ready: Target) -> None:
        """Mark inputs as requested, and make it possible to call the target again. ``ready`` is the
        target as it is called.
        """
        from fx_explorer.worker.target.other_calls.calling_again import CalledOnce
        from fx_explorer.worker.verify.verifying import users_modules

        called.mark(ready)
        if self._recorded.recording:
            modules = users_modules(self._progress.place, self._request)
            self._recorded.recording.call_again = CalledOnce(ready, self._request, modules)
            if self._request.front_ends:
                from fx_explorer.worker.front_ends.kept_target import keep

                self._recorded.kept_target = keep(ready, modules)
