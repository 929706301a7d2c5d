"""One request in the worker, from "importing torch" to the outcome. ``main`` never returns: the process ends here.

The user's program owns everything but two private pipes, a command thread and the SIGTERM handler. A script ends as under
``python``: threads are joined and exit handlers run, then the process leaves through ``os._exit``. Any other target leaves as
soon as its capture is done, so that no thread of the program can keep it.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.capture.driving.gates import Left
from fx_explorer.errors import SessionWriteError, TargetError, UsageError, WorkerError
from fx_explorer.model import CONSOLE, CaptureRequest, Compilation, Failure, Notice, Outcome
from fx_explorer.worker import ending, loading, overlay
from fx_explorer.worker.channel import Channel
from fx_explorer.worker.explaining import one_line, print_traceback, ran_out_of_memory, whole_text, without_our_frames
from fx_explorer.worker.guarded_writer import GuardedWriter
from fx_explorer.worker.on_import import after_import
from fx_explorer.worker.place import Place, locate, nothing_compiled
from fx_explorer.worker.refusals import in_plain_words
from fx_explorer.worker.verifying_script import OriginalScript, ScriptRun

if TYPE_CHECKING:
    from fx_explorer.capture.recording import Recording
    from fx_explorer.worker.other_inputs import CalledTarget
    from fx_explorer.worker.target import Target
    from fx_explorer.worker.verifying import Original
    from fx_explorer.worker.virtual_gpu import VirtualGpu


def main(notices: int, commands: int) -> None:
    channel = Channel(notices, commands)
    request = channel.read_request()
    ending.watch(Path(request.session))
    channel.obey()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # As on a terminal: the console is live, and what was printed before a crash is not lost.
        sys.stdout.reconfigure(line_buffering=True)
    try:
        writer = GuardedWriter(request.session)
    except SessionWriteError as error:
        outcome = Outcome("not_started", str(error), error.exit_code)
    else:
        outcome = Job(request, writer, channel).run()
    ending.ignore_cancel()
    channel.send_outcome(outcome)
    ending.leave(outcome.exit_code)


class Job:
    """What the worker is doing for one request. ``activity`` says it in words, for the user and for error messages."""

    def __init__(self, request: CaptureRequest, writer: GuardedWriter, channel: Channel) -> None:
        self.request = request
        self.writer = writer
        self.channel = channel
        self.activity = ""
        self.place = Place(request.target)
        self.ended: Outcome | None = None
        """How the user's program ended; None while it runs."""
        self.fault = ""
        """What of ours broke while a script went on."""
        self.process = os.getpid()
        self.is_cancelled = False
        """Whether the client asked us to stop, rather than the user at a gate."""
        self._outcome_so_far = Outcome("finished")
        self.original: Original | None = None
        """The program that this one is compared with."""
        self.original_script: OriginalScript | None = None
        """The same of a script."""
        self.script_run = ScriptRun()
        self.gpu: VirtualGpu | None = None
        """The virtual one that code is made for."""
        self.stop_recording: Callable[[], None] = lambda: None
        self.recording: Recording | None = None
        self.finish_steering: Callable[[], None] = lambda: None
        """Lets the client drive what is left to compile, once the program has ended."""

    def run(self) -> Outcome:
        """Do everything and say how it ended. Never raises."""
        try:
            self.ended = self._capture()
        except ending.Cancelled:
            self.ended = Outcome("cancelled", f"cancelled while {self.activity}")
        except (UsageError, WorkerError) as error:
            self.ended = Outcome("not_started", str(error), error.exit_code)
        except BaseException as error:  # noqa: BLE001 - ours, since _capture explains what the program raises
            self.ended = self._own_fault(error)
        outcome = self._checked(self.ended)
        self.writer.close()
        return outcome

    def say(self, activity: str) -> None:
        """Tell the client, and whoever reads the session, what happens now."""
        self.activity = activity
        self.writer.set_meta("progress", activity)
        self.channel.send(Notice("worker", text=activity))

    def note(self, text: str) -> None:
        self.channel.send(Notice("note", text=text))

    def describe(self, target: Target, train: bool) -> None:
        """Say in the session what is compiled; ``train``: whether backward is run."""
        name = f"{Path(self.place.shown).name}:{target.name}"
        self._describe(name, target.kind, train, target.name, sum(p.numel() for p in target.parameters()))

    def _describe(self, name: str, kind: str, train: bool, object_name: str = "", parameters: int = 0) -> None:
        file = str(self.place.file or "")
        self.writer.set_meta(
            "target",
            {"name": name, "kind": kind, "file": file, "object": object_name, "train": train, "parameters": parameters},
        )

    def _capture(self) -> Outcome:
        self.place = locate(self.request)
        self._begin_gpu()
        with contextlib.ExitStack() as recording:
            self.stop_recording = recording.close
            if self.place.is_script:
                self._begin_original_script()
                overlay.install(self.request.overlay)
                after_import("torch", lambda: self._record_script(recording))
            else:
                # Before the target's directory is on sys.path: a types.py or queue.py there must not reach torch's imports.
                self.say("importing torch")
                import_torch()
                self._begin_original()
                overlay.install(self.request.overlay)
                self._record(recording)
                self.say("ready")
            self.ended = outcome = self._explained(self._run_program)
            if self.gpu:
                self.gpu.finish()
            if outcome.kind in ("finished", "raised", "cancelled") and not self.is_cancelled and os.getpid() == self.process:
                self._drive(outcome)
            if self.place.is_script:
                ending.finish_as_python()
            if os.getpid() != self.process:
                # A child that the program forked came back from the program's code: it is no worker.
                ending.leave(outcome.exit_code)
        is_complete = not (self.fault or self.writer.failure)
        if outcome.kind == "finished" and is_complete and not self.writer.count(Compilation):
            return replace(outcome, message=self._why_nothing_compiled())
        return outcome

    def _why_nothing_compiled(self) -> str:
        if not self.recording:
            return nothing_compiled(self.place)
        from fx_explorer.worker.stances import why_nothing_compiled

        why = why_nothing_compiled(self.recording.options_in_force)
        return f"{self.place.shown} ran and compiled nothing: {why}" if why else nothing_compiled(self.place)

    def _record(self, until: contextlib.ExitStack) -> None:
        """Record whatever is compiled from now on, until the stack is closed."""
        if self.gpu:
            self.gpu.install()
        self.say("importing the compiler")
        import torch._inductor.compile_fx  # noqa: F401

        from fx_explorer.capture.driving.gates import Gates
        from fx_explorer.capture.driving.settings import add_catalogue, apply, in_force
        from fx_explorer.capture.recorder import recording
        from fx_explorer.worker.stances import check_stance, set_stance

        check_stance(self.request.stance_wanted)
        if self.request.settings:
            apply(self.request.settings)  # for good: the process ends with this request
        gates = Gates(self.request.pause, self.channel.send) if self.request.pause or self.request.stay else None
        options = in_force(self.request)  # before the recorder turns some off
        state = until.enter_context(recording(self.writer, self.request, self.channel.send, gates))
        self.recording = state
        if gates and state.steering:
            self.channel.give = gates.put
            self.finish_steering = functools.partial(state.steering.finish, self._at_hand)
        with state.noting("the options of the compiler"):
            add_catalogue(self.writer, options, only=None if gates else CONSOLE)
        if self.place.is_script and self.request.stance_wanted:
            set_stance(self.request.stance_wanted)

    def _drive(self, outcome: Outcome) -> None:
        self._outcome_so_far = outcome
        if self.recording and self.place.is_script:
            from fx_explorer.worker.other_inputs import Script

            self.recording.live_guards.program = Script(self.place, self.request)
        if self.recording and self.request.record_bytecode:
            self._record_steps(self.recording)
        self.say("the program has ended; its graphs are about to be compiled")
        self.finish_steering()

    def _record_steps(self, recording: Recording) -> None:
        from fx_explorer.capture.bytecode_steps import record_steps

        self.say("recording what the bytecode does")
        try:
            self.note(record_steps(recording))
        except UsageError as error:
            recording.unavailable("steps through the bytecode", str(error))
            self.note(str(error))

    def _at_hand(self) -> None:
        """Everything has been captured; whoever reads the session meanwhile sees a complete one."""
        if self.request.stay:
            self.writer.set_meta("outcome", self._outcome_so_far.to_json())

    def _record_script(self, until: contextlib.ExitStack) -> None:
        """The same from within a script's ``import torch``, which must not fail by our fault."""
        if os.getpid() != self.process:
            return
        activity = self.activity
        try:
            self._record(until)
            if self.original_script:
                self.script_run.begin(until)
        except (UsageError, WorkerError) as error:  # the script is not run with other options than were asked for
            raise TargetError(str(error)) from error
        except Exception as error:  # noqa: BLE001 - ours; the script goes on unrecorded, and the outcome says so
            self.fault = self._told_fault(error)
        self.say(activity)

    def _run_program(self) -> Outcome:
        """Run the script, or import the target and call it."""
        if self.place.is_script:
            self._run_script(self.place)
        else:
            from fx_explorer.worker.target import find_target

            self.say(f"importing {self.place.shown}")
            if self.original:
                self.original.seed()
            self._call(find_target(self.place, self.request, self.say))
        return Outcome("finished")

    def _call(self, target: Target) -> None:
        from fx_explorer.worker.calling import call_target
        from fx_explorer.worker.other_inputs import CalledTarget

        called = CalledTarget(target, self.place, self.request)
        if self.recording:
            self.recording.live_guards.program = called
        if self.request.measure_breaks and self.recording:
            from fx_explorer.worker.timing import call_and_time

            call_and_time(target, self, self.recording)
            return
        if not self.original:
            call_target(target, self, lambda ready: self._before_call(called, ready))
            return
        from fx_explorer.worker.verifying import call_and_verify

        with self.original:
            self.writer.add(call_and_verify(target, self, self.original))

    def _before_call(self, called: CalledTarget, ready: Target) -> None:
        """``ready``: the target as it is called."""
        from fx_explorer.worker.calling_again import CalledOnce
        from fx_explorer.worker.verifying import users_modules

        called.mark(ready)
        if self.recording:
            self.recording.call_again = CalledOnce(ready, self.request, users_modules(self.place, self.request))

    def _begin_gpu(self) -> None:
        if self.request.gpu:
            from fx_explorer.worker.virtual_gpu import VirtualGpu

            self.gpu = VirtualGpu(self.request.gpu, self)
            self.gpu.before_torch()

    def _begin_original(self) -> None:
        """Have the program as its files are run beside this one, for a comparison."""
        if self.request.verify:
            from fx_explorer.worker.verifying import Original

            self.original = Original(self.place, self.request)

    def _begin_original_script(self) -> None:
        """Before anything of the script's is imported."""
        if self.request.verify:
            self.original_script = OriginalScript(self.place, self.request)

    def _run_script(self, place: Place) -> None:
        assert place.file is not None
        name = Path(place.shown).name
        self._describe(name, "script", train=False)
        script = functools.partial(loading.run_script, place.file, self.request.target, self.request.arguments)
        if self.original_script:
            self._verify_script(self.original_script, name, script)
            return
        self.say(f"running {name}")
        script()

    def _verify_script(self, original: OriginalScript, name: str, script: Callable[[], None]) -> None:
        with original:
            self.say(f"running {name} as it is, without torch.compile")
            original.wait()
            self.say(f"running {name}")
            try:
                self.script_run.run(script)
            finally:
                self.writer.add(original.compared_with(self.script_run))

    def _explained(self, program: Callable[[], Outcome]) -> Outcome:
        """Whatever the user's program does, an outcome comes back; the traceback of one that raised is printed and stored."""
        try:
            return program()
        except ending.Cancelled:
            self.is_cancelled = True
            return Outcome("cancelled", f"cancelled while {self.activity}")
        except Left:
            return Outcome("cancelled", f"aborted at a gate while {self.activity}; what was captured is kept")
        except SystemExit as leaving:
            code = ending.exit_code(leaving)
            return Outcome("exited", f"the program called sys.exit({leaving.code!r}) while {self.activity}", code)
        except TargetError as error:
            return Outcome("not_started", str(error), error.exit_code)
        except BaseException as error:  # noqa: BLE001 - the program may raise anything; it is printed, stored and reported
            return self._raised(error)

    def _raised(self, error: BaseException) -> Outcome:
        plain = in_plain_words(error) or (self.gpu.in_plain_words(error) if self.gpu else "")
        message = self._report("program", error.with_traceback(without_our_frames(error.__traceback__)))
        message = plain or message
        if ran_out_of_memory(error):
            message += ". Out of memory: the program asked for more than its limit or the machine allows. It happened"
        return Outcome("raised", f"{message} while {self.activity}", 130 if isinstance(error, KeyboardInterrupt) else 1)

    def _own_fault(self, error: BaseException) -> Outcome:
        """Something of ours broke, outside the user's program: say so, and never blame the program."""
        told = self._told_fault(error)
        return replace(self.ended, kind="incomplete", message=told) if self.ended else Outcome("not_started", told, 4)

    def _told_fault(self, error: BaseException) -> str:
        return (
            f"fx-explorer itself failed while {self.activity}: {self._report('worker', error)}. "
            "This is a fault of fx-explorer, not of the program; please report it with the traceback above."
        )

    def _report(self, where: str, error: BaseException) -> str:
        """Print the traceback as Python would, store it, and return its last line."""
        print_traceback(error)
        message = one_line(error)
        self.writer.try_failure(Failure(0, 0, where, None, type(error).__name__, message), whole_text(error))
        return message

    def _checked(self, outcome: Outcome) -> Outcome:
        """An outcome that also tells when the session is not complete."""
        problem = self.fault or (str(self.writer.failure) if self.writer.failure else "")
        if not problem:
            return outcome
        told = f"{problem} The program went on: {outcome.kind}"
        return Outcome("incomplete", f"{told} ({outcome.message})" if outcome.message else told, outcome.exit_code)


def import_torch() -> None:
    """Raises WorkerError when this interpreter has no torch that works."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise WorkerError(
            f"torch cannot be imported by {sys.executable}: {error}. "
            "Install torch there, or choose the interpreter that has it with --python."
        ) from error
