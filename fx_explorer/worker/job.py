"""One request in the worker, from "importing torch" to the outcome. ``main`` never returns: the
process ends here.

The user's program owns everything but two private pipes, a command thread and the SIGTERM handler.
A script ends as under ``python``: threads are joined and exit handlers run, then the process leaves
through ``os._exit``. Any other target leaves as soon as its capture is done, so that no thread of
the program can keep it.
"""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from fx_explorer.errors import SessionWriteError, UsageError, WorkerError
from fx_explorer.model import Compilation, Outcome
from fx_explorer.program import loading, process_ending
from fx_explorer.program.arguments_of_script import request_of_script
from fx_explorer.program.guarded_writer import GuardedWriter
from fx_explorer.program.loading import check_package
from fx_explorer.program.place import locate
from fx_explorer.program.usable_torch import import_torch
from fx_explorer.worker.outcomes import Outcomes
from fx_explorer.worker.progress import IMPORTING_TORCH, Channel, RequestProgress
from fx_explorer.worker.request_recording import RequestRecording
from fx_explorer.worker.script_program import ScriptProgram

if TYPE_CHECKING:
    from collections.abc import Callable

    from fx_explorer.capture.recording.state import Recording
    from fx_explorer.instruments.fixes.measure.programs import OtherPrograms
    from fx_explorer.program.fresh_inputs import CalledTarget
    from fx_explorer.program.target import Target
    from fx_explorer.worker.virtual_gpu import VirtualGpu


def main(notices: int, commands: int, begun: bytes = b"") -> None:
    """Run what the client asks for, send the outcome, and end the process with its exit code.
    ``begun`` was read of the commands already.
    """
    channel = Channel(notices, commands, begun)
    request = channel.read_request()
    process_ending.watch(Path(request.session))
    channel.obey()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # As on a terminal: the console is live, and what was printed before a crash is not lost.
        sys.stdout.reconfigure(line_buffering=True)
    until = contextlib.ExitStack()  # never closed: the process ends
    try:
        writer = GuardedWriter(request.session)
    except SessionWriteError as error:
        outcome = Outcome("not_started", str(error), error.exit_code)
    else:
        progress = RequestProgress(request, writer, channel)
        outcome = Job(progress).run()
        until.enter_context(progress.original_functions.in_place())
    process_ending.ignore_cancel()
    channel.send_outcome(outcome)
    process_ending.leave(outcome.exit_code)


class RequestedProgram(Protocol):
    """The program that the user pointed at: a TargetProgram or a ScriptProgram."""

    def begin(self) -> None:
        """Make sure that recording begins in time. Nothing of the user's has run yet."""

    def run(self) -> None:
        """Run the program. Raises whatever the user's code raises."""

    def offer_again(self) -> None:
        """Say what may be asked about the program while its graphs are stepped through. It has
        run.
        """

    def leave(self) -> None:
        """End the program. Everything has been captured."""


class Job:
    """Carries out one request, from importing torch to the outcome."""

    def __init__(self, progress: RequestProgress) -> None:
        self._progress = progress
        self._outcomes = Outcomes(progress)

    def run(self) -> Outcome:
        """Do everything and return how it ended. Never raises."""
        outcome = self._outcome()
        with self._progress.original_functions.in_place():
            outcome = self._outcomes.checked(outcome)
            self._progress.writer.close()
        return outcome

    def _outcome(self) -> Outcome:
        try:
            return self._capture()
        except process_ending.Cancelled:
            return Outcome("cancelled", f"cancelled while {self._progress.activity}")
        except (UsageError, WorkerError) as error:
            return Outcome("not_started", str(error), error.exit_code)
        except (
            SessionWriteError
        ) as error:  # nobody's fault; ``checked`` says why the session is not complete
            return self._outcomes.program or Outcome("not_started", str(error), error.exit_code)
        except BaseException as error:  # noqa: BLE001
            # ours, since what the program raises is an outcome already
            return self._outcomes.of_fault(error)

    def _capture(self) -> Outcome:
        """Run the program, record what it compiles, and return how it ended."""
        self._progress.place = place = locate(self._progress.request)
        if place.module:
            check_package(place.module)
        if place.is_script:
            self._progress.request = request_of_script(self._progress.request, place)
        gpu = self._virtual_gpu()
        with contextlib.ExitStack() as until:
            recorded = RequestRecording(self._progress, gpu, until)
            program = self._program(recorded, until)
            program.begin()
            outcome = self._outcomes.of_program(program.run)
            with self._progress.original_functions.in_place():
                if gpu:
                    gpu.finish()
                if self._can_go_on(outcome):
                    program.offer_again()
                    recorded.finish(lambda: self._explained(outcome, recorded))
            program.leave()
            if self._progress.is_in_fork:
                # It came back from the program's code.
                process_ending.leave(outcome.exit_code)
            with self._progress.original_functions.in_place():
                until.close()
        with self._progress.original_functions.in_place():
            return self._explained(outcome, recorded)

    def _explained(self, outcome: Outcome, recorded: RequestRecording) -> Outcome:
        """Add the reason to the outcome of a program that compiled nothing."""
        if outcome.went_well and self._compiled_nothing():
            ending = (outcome.message, recorded.why_nothing_compiled(outcome))
            return replace(outcome, message="; ".join(filter(None, ending)))
        return outcome

    def _compiled_nothing(self) -> bool:
        """Return whether nothing was compiled; False where the session cannot be asked any more."""
        with contextlib.suppress(SessionWriteError):
            return not (self._outcomes.problem or self._progress.writer.count(Compilation))
        return False

    def _virtual_gpu(self) -> VirtualGpu | None:
        """Return the virtual GPU that code is to be made for. Call it before torch is imported."""
        if not self._progress.request.gpu:
            return None
        from fx_explorer.worker.virtual_gpu import VirtualGpu

        gpu = VirtualGpu(self._progress.request.gpu, self._progress)
        gpu.before_torch()
        self._outcomes.plain_words.append(gpu.explain_error)
        return gpu

    def _program(self, recorded: RequestRecording, until: contextlib.ExitStack) -> RequestedProgram:
        if self._progress.place.is_script:
            return ScriptProgram(self._progress, recorded, self._outcomes, until)
        return TargetProgram(self._progress, recorded)

    def _can_go_on(self, outcome: Outcome) -> bool:
        is_over = (
            outcome.kind in ("finished", "raised", "cancelled") and not self._outcomes.is_cancelled
        )
        return is_over and not self._progress.is_in_fork


# A request that names a target.


class TargetProgram:
    """Imports the target and calls it.

    torch is imported before it. For a comparison (``verify``) it is called several times, while the
    original runs in a child. For a measurement (``measure_breaks``, ``ledger``) it is called very
    often.
    """

    def __init__(self, progress: RequestProgress, recorded: RequestRecording) -> None:
        self._progress = progress
        self._request = progress.request
        self._recorded = recorded
        self._others: OtherPrograms | None = None
        """Runs the programs that the target is compared with; None when nothing is compared."""

    def begin(self) -> None:
        # Before the target's directory is on sys.path: a types.py or queue.py there must not reach
        # torch's imports.
        self._progress.say(IMPORTING_TORCH)
        import_torch()
        self._begin_others()
        self._progress.watch_children()
        loading.install_texts(self._request.overlay)
        self._recorded.begin()
        self._progress.say("ready")

    def run(self) -> None:
        from fx_explorer.program.exported_program import find_any_target

        self._progress.say(f"importing {self._progress.place.shown}")
        if self._others:
            self._others.original.seed()
        elif self._request.seed is not None:
            from fx_explorer.program.seeds import seed

            seed(self._request.seed)
        self._call(find_any_target(self._progress.place, self._request, self._progress.say))

    def offer_again(self) -> None:
        """Do nothing: which commands the target allows was reported when it was called."""

    def leave(self) -> None:
        """Do nothing: no thread of the program can keep this process."""

    def _begin_others(self) -> None:
        """Begin the programs that this one is compared with."""
        if self._request.verify:
            from fx_explorer.instruments.fixes.measure.programs import OtherPrograms

            self._others = OtherPrograms(self._progress.place, self._request)

    def _call(self, target: Target) -> None:
        """Call the target in the way that was asked for: timed, compared with the original program,
        or plainly.
        """
        from fx_explorer.program.calling import call_target
        from fx_explorer.program.fresh_inputs import CalledTarget

        called, recording = (
            CalledTarget(target, self._progress.place, self._request),
            self._recorded.recording,
        )
        if recording:
            recording.live_guards.program = called
        measuring = self._measuring_call(recording) if recording else None
        if measuring and recording:
            measuring(target, self._progress, recording, self._recorded.stop)
            return
        if not self._others:
            ended = recording.forward_ended if recording else lambda loss: None
            call_target(
                target, self._progress, lambda ready: self._before_call(called, ready), ended
            )
            return
        from fx_explorer.instruments.fixes.measure.verifying import call_and_verify

        with self._others as others:
            self._progress.writer.add(
                call_and_verify(target, self._progress, others, self._recorded.stop)
            )

    def _measuring_call(self, recording: Recording) -> Callable[..., None] | None:
        """Return what calls the target and measures, as the request asks; None where nothing is to
        be measured, or torch lacks what it takes, which the session then says.
        """
        try:
            if self._request.measure_breaks:
                from fx_explorer.program.break_timing import call_and_time

                return call_and_time
            if self._request.ledger:
                from fx_explorer.instruments.ledger.measure.call_measurement import call_and_account

                return call_and_account
        except ImportError as error:
            recording.unavailable("the times of calls", str(error))
        return None

    def _before_call(self, called: CalledTarget, ready: Target) -> None:
        """Mark inputs as requested, and make it possible to call the target again. ``ready`` is the
        target as it is called.
        """
        from fx_explorer.instruments.fixes.measure.verifying import users_modules
        from fx_explorer.program.calling_again import CalledOnce

        called.mark(ready)
        if self._recorded.recording:
            modules = users_modules(self._progress.place, self._request)
            self._recorded.recording.call_again = CalledOnce(ready, self._request, modules)
            if self._request.front_ends:
                from fx_explorer.instruments.front_ends.measure import keep

                self._recorded.kept_target = keep(ready, modules)
