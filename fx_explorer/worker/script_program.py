"""The program of a request that names a script: it runs as under ``python``, and recording begins
when it imports torch.

For a comparison with the original (``verify``), the script on disk runs first, in a child, and this
one when that has ended.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path

from fx_explorer.errors import TargetError, UsageError, WorkerError
from fx_explorer.model import Kernel
from fx_explorer.worker.child_processes.recording_children import record_when_used
from fx_explorer.worker.ending import ending
from fx_explorer.worker.outcomes import Outcomes
from fx_explorer.worker.progress import IMPORTING_TORCH, RequestProgress
from fx_explorer.worker.request_recording import RequestRecording
from fx_explorer.worker.target import loading, overlay
from fx_explorer.worker.users.on_import import after_import
from fx_explorer.worker.users.usable_torch import BrokenTorch, no_end_of_process
from fx_explorer.worker.verify.script.run import ScriptRun
from fx_explorer.worker.verify.script.verifying import VerifyingScript


class ScriptProgram:
    """Runs the script and records it."""

    def __init__(
        self,
        progress: RequestProgress,
        recorded: RequestRecording,
        outcomes: Outcomes,
        until: contextlib.ExitStack,
    ) -> None:
        """``until`` is closed when nothing more is to be watched."""
        self._progress = progress
        self._request = progress.request
        self._recorded = recorded
        self._outcomes = outcomes
        self._until = until
        self._verifying: VerifyingScript | None = None
        """The runs that this one is compared with."""
        self._seen = ScriptRun()

    def begin(self) -> None:
        if self._request.verify:
            self._verifying = VerifyingScript(self._progress.place, self._request)
        self._progress.watch_children()
        overlay.install(self._request.overlay)
        after_import("torch", self._record, self._importing_torch)

    def run(self) -> None:
        file, request = self._progress.place.file, self._request
        assert file is not None
        name = Path(self._progress.place.shown).name
        self._progress.describe_script(name)
        script = functools.partial(loading.run_script, file, request.target, request.arguments)
        if self._verifying:
            self._verify(self._verifying, name, script)
            return
        self._progress.say(f"running {name}")
        script()

    def offer_again(self) -> None:
        """Make it possible to ask what its compiled functions would do with other inputs."""
        if self._recorded.recording:
            from fx_explorer.worker.target.other_calls.other_inputs import Script

            self._recorded.recording.live_guards.program = Script(
                self._progress.place, self._request
            )

    def leave(self) -> None:
        """Join threads and run exit handlers."""
        ending.finish_as_python()

    @contextlib.contextmanager
    def _importing_torch(self) -> Iterator[None]:
        activity = self._progress.activity
        self._progress.say(IMPORTING_TORCH)
        with no_end_of_process():
            yield
        self._progress.say(activity)

    def _record(self) -> None:
        """Begin to record from within the script's ``import torch``, which must not fail by our
        fault.
        """
        if self._progress.is_in_fork:
            self._record_child()
            return
        with self._progress.original_functions.in_place():
            self._try_to_record()

    def _try_to_record(self) -> None:
        activity = self._progress.activity
        try:
            self._begin_recording()
        except BrokenTorch as error:  # the script goes on, and its own error may say it better
            self._outcomes.note_problem(str(error))
        except (
            UsageError,
            WorkerError,
        ) as error:  # the script must not run with other options than were asked for
            raise TargetError(str(error)) from error
        except Exception as error:  # noqa: BLE001 - ours; the script goes on unrecorded, and the outcome says so
            self._outcomes.note_fault(error)
        self._progress.say(activity)

    def _record_child(self) -> None:
        """Record a child that the program forked before it imported torch."""
        directory = self._progress.writer.children
        if directory:
            after_import("torch._dynamo", lambda: record_when_used(str(directory), "forked"))

    def _begin_recording(self) -> None:
        self._recorded.begin()
        if self._request.stance_wanted:
            from fx_explorer.worker.target.stances import set_stance

            set_stance(self._request.stance_wanted)
        if self._verifying:
            self._seen.begin(self._until)

    def _verify(self, verifying: VerifyingScript, name: str, script: Callable[[], None]) -> None:
        with verifying:
            self._progress.say(f"running {name} as it is, without torch.compile")
            verifying.wait()
            self._progress.say(f"running {name}")
            try:
                self._seen.run(script)
            finally:
                has_code = self._progress.writer.count(Kernel) > 0 and not self._request.build
                self._progress.writer.add(verifying.compared(self._seen, has_code))
