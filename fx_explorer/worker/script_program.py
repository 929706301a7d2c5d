"""The program of a request that names a script: it runs as under ``python``, and recording begins
when it imports torch.

For a comparison with the original (``verify``), the script on disk runs first, in a child, and this
one when that has ended.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fx_explorer.errors import TargetError, UsageError, WorkerError
from fx_explorer.instruments.fixes.measure.child_program import (
    BUILT_RUNS,
    CHANGED_RUNS,
    ORIGINAL_IS_BUILT,
    ORIGINAL_RUNS,
    ChildProgram,
    ChildProgress,
    Count,
    CountTold,
    as_on_disk,
    ignore_count,
)
from fx_explorer.instruments.fixes.measure.outside import AS_LONG_AS_COMPILING_S, MOST_PLACES
from fx_explorer.instruments.fixes.measure.script_comparing import WithTheOriginal, new_names
from fx_explorer.instruments.fixes.measure.script_run import (
    ScriptRun,
    built_result,
    original_again,
    original_result,
    uncompiled_result,
)
from fx_explorer.instruments.fixes.measure.varying import MOST_RUNS
from fx_explorer.model import CaptureRequest, Kernel, Verification
from fx_explorer.program import loading, process_ending
from fx_explorer.program.on_import import after_import
from fx_explorer.program.recording_children import record_when_used
from fx_explorer.program.usable_torch import BrokenTorch, no_end_of_process
from fx_explorer.worker.outcomes import Outcomes
from fx_explorer.worker.progress import IMPORTING_TORCH, RequestProgress
from fx_explorer.worker.request_recording import RequestRecording

if TYPE_CHECKING:
    from typing_extensions import Self

    from fx_explorer.instruments.fixes.measure.comparing import Comparison


class ScriptProgram:
    """Runs the script and records it."""

    def __init__(
        self,
        progress: RequestProgress,
        recorded: RequestRecording,
        outcomes: Outcomes,
        until: contextlib.ExitStack,
    ) -> None:
        """``until`` is closed when the watching ends."""
        self._progress = progress
        self._request = progress.request
        self._recorded = recorded
        self._outcomes = outcomes
        self._until = until
        self._verifying: VerifyingScript | None = None
        """Runs the programs with which the captured run is compared; None without a comparison."""
        self._seen = ScriptRun()

    def begin(self) -> None:
        if self._request.verify:
            self._verifying = VerifyingScript(self._progress)
        self._progress.watch_children()
        loading.install_texts(self._request.overlay)
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
        """Make it possible to check other inputs of its compiled functions."""
        if self._recorded.recording:
            from fx_explorer.program.fresh_inputs import Script

            self._recorded.recording.live_guards.program = Script(
                self._progress.place, self._request
            )

    def leave(self) -> None:
        """Join threads and run exit handlers."""
        process_ending.finish_as_python()

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
        except BrokenTorch as error:  # the script continues, and its own error may say it better
            self._outcomes.note_problem(str(error))
        except (
            UsageError,
            WorkerError,
        ) as error:  # the script must not run with other options than were asked for
            raise TargetError(str(error)) from error
        except Exception as error:  # noqa: BLE001
            # ours; the script continues unrecorded, and the outcome says so
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
            from fx_explorer.program.calling import set_stance

            set_stance(self._request.stance_wanted)
        if self._request.seed is not None:
            from fx_explorer.program.seeds import seed

            seed(self._request.seed)
        if self._verifying:
            self._seen.begin(self._until)

    def _verify(self, verifying: VerifyingScript, name: str, script: Callable[[], None]) -> None:
        with verifying:
            verifying.wait()
            self._progress.begin_step(f"running {name}")
            try:
                self._seen.run(script)
            finally:
                has_code = self._progress.writer.count(Kernel) > 0 and not self._request.build
                self._progress.writer.add(verifying.compared(self._seen, has_code))


# Comparison with the script on disk: what two runs have in common (``ScriptRun``).

LONGEST_S = 200.0
"""Seconds that a run may take, C++ compiler included."""


@dataclass(frozen=True)
class SeenRun:
    """Result of one run of a script: the observed values (``ScriptRun.plain``), the error that
    ended it, or why it could not run.
    """

    seen: Mapping[str, Any] = field(default_factory=dict)
    failed: str = ""
    problem: str = ""


class LaterRun(ChildProgram):
    """A further run of a script, after the earlier ones have ended, because simultaneous runs could
    conflict, for instance in files.
    """

    def __init__(
        self,
        request: CaptureRequest,
        run: Callable[[ChildProgress], dict[str, Any]],
        longest_s: float,
    ) -> None:
        """``run`` is called in the child, with what shows the parent how far it is."""
        self._longest_s = longest_s
        self._ended: SeenRun | None = None
        super().__init__(request, lambda: run(self.progress), waits=True)

    def run(self, tell: CountTold = ignore_count) -> SeenRun:
        """Run the script and return the result. It is run once, also when it is asked for
        again. ``tell`` is called with its progress.
        """
        if self._ended is None:
            self.begin()
            self._ended = self._end(tell)
        return self._ended

    def seen_again(self) -> Mapping[str, Any]:
        """Run the script once more and return its observations; empty when it did not run to its
        end.
        """
        return self.run().seen

    def _end(self, tell: CountTold) -> SeenRun:
        from fx_explorer.instruments.fixes.measure.uncompiled import read_result

        if not self.wait_for(self._longest_s, tell):
            return SeenRun(problem=f"it took longer than {self._longest_s:.0f} s")
        if self.status:
            return SeenRun(failed=f"the process ended with status {self.status}")
        result = read_result(self, "what it gave")
        if "values" in result:
            return SeenRun(result)
        return SeenRun(problem=result["problem"])


class VerifyingScript:
    """The runs of a script with which the captured one is compared. As a context manager it ends
    them all with the block.

    The original runs before the captured one, without torch.compile. The others run after it, each
    where it is needed: the original once more, where something differs, to know what is something
    else in each run; the changed script without torch.compile; the changed script with its code
    built; and the original so, where built code differs.
    """

    def __init__(self, progress: RequestProgress) -> None:
        """``progress`` has the request, and is told what runs."""
        place, request = progress.place, progress.request
        self._progress = progress
        self._request = request
        self._original = ChildProgram(request, lambda: original_result(place, request))
        as_it_was = as_on_disk(request)
        longest_again_s = LONGEST_S + MOST_PLACES * AS_LONG_AS_COMPILING_S
        self._again = []
        for _ in range(MOST_RUNS):
            again = LaterRun(request, lambda _: original_again(place, as_it_was), longest_again_s)
            self._again.append(again)
        self._uncompiled = LaterRun(request, lambda _: uncompiled_result(place, request), LONGEST_S)
        self._built = LaterRun(
            request, lambda progress: built_result(place, request, progress), LONGEST_S
        )
        self._built_original = LaterRun(
            request, lambda progress: built_result(place, as_it_was, progress), LONGEST_S
        )
        self._until = contextlib.ExitStack()

    def __enter__(self) -> Self:
        for program in (
            self._original,
            *self._again,
            self._uncompiled,
            self._built,
            self._built_original,
        ):
            self._until.enter_context(program)
        return self

    def __exit__(self, *_: object) -> None:
        self._until.close()

    def wait(self) -> None:
        """Wait until the original has ended, which is the first step of a comparison."""
        self._progress.plan(2 + bool(self._request.overlay) + (not self._request.build))
        self._progress.begin_step(ORIGINAL_RUNS)
        self._original.wait()

    def compared(self, captured: ScriptRun, has_code: bool) -> Verification:
        """Compare the captured run with the original, then run the changed script in other ways and
        compare those. ``has_code`` says that there is generated code which the captured run has not
        run.
        """
        from fx_explorer.instruments.fixes.measure.uncompiled import read_result
        from fx_explorer.instruments.fixes.measure.verifying import nothing_compared

        if self._original.status:
            return nothing_compared(
                f"the original script ended its process with status {self._original.status}"
            )
        original = read_result(self._original, "what the original script gave")
        if "values" not in original:
            return nothing_compared(original["problem"])
        comparing = WithTheOriginal(
            original,
            new_names(self._request.overlay),
            [again.seen_again for again in self._again],
        )
        comparison = self._of_captured(comparing, captured.plain(), has_code)
        # One difference decides the verdict: then the other runs need not be waited for.
        if self._request.overlay and not comparison.differences:
            self._add_uncompiled(comparing, comparison)
        if has_code and not comparison.differences:
            self._add_built(comparing, comparison)
        return comparison.row(())

    def _of_captured(
        self, comparing: WithTheOriginal, captured: Mapping[str, Any], has_code: bool
    ) -> Comparison:
        from fx_explorer.instruments.fixes.measure import inductors_own

        comparison = comparing.compared(captured)
        if has_code and inductors_own.may_be_compilings(comparison):
            built = self._run_built(self._built_original).seen
            if built:
                of_original, between = (
                    comparing.of_original(built),
                    comparing.between(built, captured),
                )
                inductors_own.explain(comparison, of_original, between)
        return comparison

    def _add_uncompiled(self, comparing: WithTheOriginal, comparison: Comparison) -> None:
        from fx_explorer.instruments.fixes.measure.comparing import WITHOUT_COMPILING
        from fx_explorer.instruments.fixes.measure.observing import describe_lookups

        self._progress.begin_step(CHANGED_RUNS)
        run = self._uncompiled.run()
        if run.problem:
            comparison.not_compared.append(
                f"the effects of the changed script{WITHOUT_COMPILING}: {run.problem}"
            )
        elif run.failed:
            comparison.differences.append(f"{run.failed}{WITHOUT_COMPILING}")
        else:
            comparison.add_run_without_compiling(comparing.compared(run.seen, is_uncompiled=True))
            comparison.differences += describe_lookups(
                comparing.original["lookups"], run.seen["lookups"]
            )

    def _add_built(self, comparing: WithTheOriginal, comparison: Comparison) -> None:
        from fx_explorer.instruments.fixes.measure import inductors_own

        self._progress.begin_step(BUILT_RUNS)
        run = self._run_built(self._built)
        if run.problem:
            comparison.not_compared.append(f"the results of the built code: {run.problem}")
        elif run.failed:
            original = self._run_built(self._built_original)
            inductors_own.add_failed(comparison, run.failed, original.failed, original.problem)
        else:
            comparison.is_run_built = True
            built = comparing.compared(run.seen, is_built=True)
            comparison.leave_out_too(built)
            if built.differences or not built.prints_equal:
                self._add_differences(comparing, comparison, run.seen, built)

    def _add_differences(
        self,
        comparing: WithTheOriginal,
        comparison: Comparison,
        seen: Mapping[str, Any],
        built: Comparison,
    ) -> None:
        from fx_explorer.instruments.fixes.measure import inductors_own

        original = self._run_built(self._built_original)
        if original.seen:
            of_original, between = (
                comparing.of_original(original.seen),
                comparing.between(original.seen, seen),
            )
            inductors_own.add_differences(comparison, built, of_original, between)
            inductors_own.add_prints(comparison, built, of_original)
        else:
            inductors_own.add_unknown(comparison, built, original.failed or original.problem)

    def _run_built(self, run: LaterRun) -> SeenRun:
        gpu = self._request.gpu
        if gpu:
            return SeenRun(problem=f"it is for a GPU that is not here ({gpu.title})")
        if run is self._built_original:
            self._progress.say(ORIGINAL_IS_BUILT)
        return run.run(self._tell)

    def _tell(self, count: Count) -> None:
        self._progress.count(*count)
