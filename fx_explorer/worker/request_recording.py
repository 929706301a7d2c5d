"""This module has the recording of one request, and the steps after the program has ended."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fx_explorer.errors import UsageError
from fx_explorer.model import FRONT_END_CALLS, Outcome
from fx_explorer.program import children
from fx_explorer.program.place import nothing_compiled
from fx_explorer.program.usable_torch import describe_locale, importing_the_compiler, place_of_torch
from fx_explorer.worker.progress import RequestProgress

if TYPE_CHECKING:
    from fx_explorer.capture.recording.state import Recording
    from fx_explorer.instruments.front_ends.measure import KeptTarget
    from fx_explorer.worker.virtual_gpu import VirtualGpu


BACKEND_OF_PROGRAM = "--backend of fx-explorer run, or --setting compile.backend=NAME"


class RequestRecording:
    """Records all that is compiled from ``begin`` to ``stop``, and steps through the rest in
    ``finish``.
    """

    def __init__(
        self, progress: RequestProgress, gpu: VirtualGpu | None, until: contextlib.ExitStack
    ) -> None:
        """``gpu`` is the virtual GPU for which code is made. ``until`` is closed when the recording
        ends.
        """
        self._progress = progress
        self._gpu = gpu
        self._until = until
        self.recording: Recording | None = None
        """The recording; None before torch has been imported."""
        self.kept_target: KeptTarget | None = None
        """The target as it was before its first call, for front ends other than Dynamo."""
        self._ended: Callable[[], Outcome] = lambda: Outcome("finished")
        self._finish_stepping: Callable[[], None] = lambda: None
        """Lets the client step through the remaining compilations, after the program has ended."""

    def begin(self) -> None:
        """Record all compilations from now on. torch has been imported, but nothing was compiled
        yet.
        """
        request, writer, channel = (
            self._progress.request,
            self._progress.writer,
            self._progress.channel,
        )
        if self._gpu:
            self._gpu.install()
        self._progress.say("importing the compiler")
        with importing_the_compiler():
            from fx_explorer.capture.option_catalogue import (
                add_catalogue,
                in_force,
                options_of_console,
            )
            from fx_explorer.capture.option_settings import apply
            from fx_explorer.capture.recorder import has_steps, recording
            from fx_explorer.capture.stepping.gates import Gates
            from fx_explorer.capture.torch_compat.private_names import (
                compile_fx,  # noqa: F401
                eval_frame,
            )
            from fx_explorer.program.calling import check_stance, use_backend

        if describe_locale():
            self._progress.note(describe_locale())
        if hasattr(eval_frame, "skip_code"):
            children.keep_from_dynamo(eval_frame.skip_code)
        check_stance(request.stance_wanted)
        if request.compile_arguments.get("backend"):
            use_backend(str(request.compile_arguments["backend"]), BACKEND_OF_PROGRAM)
        if request.settings:
            apply(request.settings)  # for good: the process ends with this request
        if request.pause or request.stay:
            gates = Gates(request.pause, channel.send)
        else:
            gates = None
        options, unknown = _options(lambda: in_force(request))  # before the recorder turns some off
        state = self._until.enter_context(recording(writer, request, channel.send, gates))
        if not hasattr(eval_frame, "skip_code"):
            state.unavailable("keeping Dynamo out of fx-explorer", "torch has no skip_code")
        if unknown:
            state.unavailable("the options of the compiler", unknown)
        os.register_at_fork(after_in_child=state.begin_in_fork)
        state.with_pythons_own = self._progress.original_functions.in_place
        state.describe_replaced = self._progress.original_functions.describe
        self.recording = state
        if gates and has_steps(state):
            from fx_explorer.capture.stepping.after_the_program import finish
            from fx_explorer.capture.stepping.stepped_boundary import stepper_of

            channel.give = gates.put
            stepper = stepper_of(state)
            if stepper:
                self._finish_stepping = functools.partial(finish, stepper, self._at_hand)
        with state.noting("the options of the compiler"):
            is_whole = gates or request.all_settings
            with_help = None if is_whole else options_of_console(request)
            add_catalogue(writer, options, with_help)

    def stop(self) -> None:
        """Stop recording compilations."""
        self._until.close()

    def finish(self, ended: Callable[[], Outcome]) -> None:
        """Step through the recorded graphs, after the program has ended.

        Where its steps are wanted, the program is run once more. ``ended`` gives the outcome that
        is told once all is captured.
        """
        self._ended = ended
        if self.recording and self._progress.request.record_bytecode:
            self._record_steps(self.recording)
        if self.recording and self._progress.request.front_ends:
            self._record_front_ends(self.recording)
        if not self._progress.request.ledger:  # its graphs were compiled long before
            self._progress.say("the program has ended; its graphs are being compiled")
        self._finish_stepping()
        if self.recording:
            self._note_never_called(self.recording)
            self._note_misplaced_settings(self.recording)
        if self.recording and self.recording.library_calls:
            from fx_explorer.instruments.kernels.measure.workspaces import add_workspaces

            self._progress.say("measuring the temporary memory of library calls on the GPU")
            add_workspaces(self.recording)

    def _note_never_called(self, recording: Recording) -> None:
        """Store which results of torch.compile the program never calls, by its source."""
        from fx_explorer.program.unused_results import result_never_called

        entries = []
        with recording.noting("objects that were given to torch.compile and never called"):
            for name, place in recording.given.places.items():
                unused = result_never_called(place) if place.file else ""
                if unused:
                    recording.sources.file(place.file)
                    entries.append([name, place.file, place.line, unused])
        if entries:
            self._progress.writer.set_meta("never_called", entries)

    def _note_misplaced_settings(self, recording: Recording) -> None:
        """Store which options of the compiler the program set where torch does not read them."""
        from fx_explorer.capture.misplaced_settings import misplaced_settings

        with recording.noting("options that were set in a place that torch does not read"):
            misplaced = misplaced_settings()
            if misplaced:
                self._progress.writer.set_meta("misplaced_settings", misplaced)

    def why_nothing_compiled(self, ended: Outcome) -> str:
        """Return why the program compiled nothing, as far as it is known."""
        place, directory = self._progress.place, self._progress.writer.children
        if directory and any(directory.glob("*.fxs")):
            return (
                f"{place.shown} compiled nothing in its own process; compilations in its child "
                "processes are counted"
            )
        if not self.recording:
            why = self._why_not_recorded() if place.is_script else ""
            return nothing_compiled(place, ended, why)
        from fx_explorer.program.calling import given_and_not_called, why_nothing_compiled

        why = why_nothing_compiled(self.recording.options_in_force)
        if why:
            return f"{place.shown} ran and compiled nothing: {why}"
        made = self.recording.given.places
        return nothing_compiled(place, ended, given_and_not_called(made), list(made))

    def _why_not_recorded(self) -> str:
        if "torch" not in sys.modules:
            return "it never imported torch"
        return (
            f"the module that it imported as torch, from {place_of_torch()}, has no code to run: "
            "is torch fully installed?"
        )

    def _record_front_ends(self, recording: Recording) -> None:
        from fx_explorer.instruments.front_ends.measure import record_front_end

        for name in self._progress.request.front_ends:
            self._progress.say(f"tracing with {FRONT_END_CALLS.get(name, name)}")
            record_front_end(recording, self._progress.request, name, self.kept_target)

    def _record_steps(self, recording: Recording) -> None:
        from fx_explorer.capture.dynamo.bytecode_steps import record_steps

        self._progress.say("recording what the bytecode does")
        try:
            self._progress.note(record_steps(recording))
        except UsageError as error:
            recording.unavailable("steps through the bytecode", str(error))
            self._progress.note(str(error))

    def _at_hand(self) -> None:
        """Record that everything has been captured, so that readers of the session see it as
        complete.
        """
        if self._progress.request.stay:
            self._progress.writer.set_meta("outcome", self._ended().to_json())


def _options(read: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], str]:
    """Return the options of the compiler, and why they are not known."""
    try:
        return read(), ""
    except Exception as error:  # noqa: BLE001 - an unknown release may fail in any way; it is told
        return {}, f"{type(error).__name__}: {error}"
