"""Compare a changed script with the one on disk, which runs first, in a child process and without
torch.compile.

What is compared is what two runs of a script have in common (``ScriptRun``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fx_explorer.model import CaptureRequest, Verification
from fx_explorer.worker.target.place import TargetPlace
from fx_explorer.worker.verify.child_program import ChildProgram
from fx_explorer.worker.verify.observed.outside import AS_LONG_AS_COMPILING_S, MOST_PLACES
from fx_explorer.worker.verify.original_request import as_on_disk
from fx_explorer.worker.verify.script.comparing import WithTheOriginal, new_names
from fx_explorer.worker.verify.script.run import (
    ScriptRun,
    built_result,
    original_again,
    original_result,
    uncompiled_result,
)
from fx_explorer.worker.verify.varying import MOST_RUNS

if TYPE_CHECKING:
    from typing_extensions import Self

    from fx_explorer.worker.verify.comparing import Comparison


LONGEST_S = 200.0
"""Seconds that a run may take, C++ compiler included."""


@dataclass(frozen=True)
class SeenRun:
    """What came of a run of a script: what was seen (``ScriptRun.plain``), how it failed, or why it could not be run."""

    seen: Mapping[str, Any] = field(default_factory=dict)
    failed: str = ""
    problem: str = ""


class LaterRun(ChildProgram):
    """One more run of a script, after those before it have ended: two at once could be in each other's way, for instance
    in files.
    """

    def __init__(
        self, request: CaptureRequest, run: Callable[[], dict[str, Any]], longest_s: float
    ) -> None:
        self._longest_s = longest_s
        self._ended: SeenRun | None = None
        super().__init__(request, run, waits=True)

    def run(self) -> SeenRun:
        """Run the script and return what came of it. It is run once, also when it is asked for again."""
        if self._ended is None:
            self.begin()
            self._ended = self._end()
        return self._ended

    def seen_again(self) -> Mapping[str, Any]:
        """Run the script and return what was seen; empty where it did not come to its end."""
        return self.run().seen

    def _end(self) -> SeenRun:
        from fx_explorer.worker.verify.uncompiled import read_result

        if not self.wait_for(self._longest_s):
            return SeenRun(problem=f"it took longer than {self._longest_s:.0f} s")
        if self.status:
            return SeenRun(failed=f"the process ended with status {self.status}")
        result = read_result(self, "what it gave")
        return SeenRun(result) if "values" in result else SeenRun(problem=result["problem"])


class VerifyingScript:
    """The runs of a script that the captured one is compared with. It is a context manager: none of them outlives the block.

    The original runs before the captured one, without torch.compile. The others run after it, each where it is needed: the
    original once more, where something differs, to know what is something else in each run; the changed script without
    torch.compile; the changed script with its code built; and the original so, where built code differs.
    """

    def __init__(self, place: TargetPlace, request: CaptureRequest) -> None:
        self._request = request
        self._original = ChildProgram(request, lambda: original_result(place, request))
        as_it_was = as_on_disk(request)
        self._again = [
            LaterRun(
                request,
                lambda: original_again(place, as_it_was),
                LONGEST_S + MOST_PLACES * AS_LONG_AS_COMPILING_S,
            )
            for _ in range(MOST_RUNS)
        ]
        self._uncompiled = LaterRun(request, lambda: uncompiled_result(place, request), LONGEST_S)
        self._built = LaterRun(request, lambda: built_result(place, request), LONGEST_S)
        self._built_original = LaterRun(request, lambda: built_result(place, as_it_was), LONGEST_S)
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
        """Wait until the original has ended."""
        self._original.wait()

    def compared(self, captured: ScriptRun, has_code: bool) -> Verification:
        """Compare the captured run with the original, then run the changed script in other ways and compare those.
        ``has_code`` says that there is generated code which the captured run has not run.
        """
        from fx_explorer.worker.verify.uncompiled import read_result
        from fx_explorer.worker.verify.verifying import nothing_compared

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
        from fx_explorer.worker.verify import inductors_own

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
        from fx_explorer.worker.verify.comparing import WITHOUT_COMPILING
        from fx_explorer.worker.verify.observed.lookups import told_of_lookups

        run = self._uncompiled.run()
        if run.problem:
            comparison.not_compared.append(
                f"what the changed script does{WITHOUT_COMPILING}: {run.problem}"
            )
        elif run.failed:
            comparison.differences.append(f"{run.failed}{WITHOUT_COMPILING}")
        else:
            comparison.add_run_without_compiling(comparing.compared(run.seen, is_uncompiled=True))
            comparison.differences += told_of_lookups(
                comparing.original["lookups"], run.seen["lookups"]
            )

    def _add_built(self, comparing: WithTheOriginal, comparison: Comparison) -> None:
        from fx_explorer.worker.verify import inductors_own

        run = self._run_built(self._built)
        if run.problem:
            comparison.not_compared.append(f"what the built code computes: {run.problem}")
        elif run.failed:
            original = self._run_built(self._built_original)
            inductors_own.add_failed(comparison, run.failed, original.failed, original.problem)
        else:
            comparison.is_run_built = True
            built = comparing.compared(run.seen, is_built=True)
            if built.differences or not built.prints_equal:
                self._add_differences(comparing, comparison, run.seen, built)

    def _add_differences(
        self,
        comparing: WithTheOriginal,
        comparison: Comparison,
        seen: Mapping[str, Any],
        built: Comparison,
    ) -> None:
        from fx_explorer.worker.verify import inductors_own

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
        return (
            SeenRun(problem=f"it is for a GPU that is not here ({gpu.title})") if gpu else run.run()
        )
