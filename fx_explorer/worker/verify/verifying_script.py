"""Compare a changed script with the one on disk, which runs first, in a child process and without
torch.compile.

What is compared is what two runs of a script have in common: how it ends, what it prints, what the
outermost compiled calls return, and all that can be reached from its globals at the end. The script
itself imports torch: until then nothing here needs it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fx_explorer.model import CaptureRequest, Verification
from fx_explorer.worker.ending import ending
from fx_explorer.worker.target import loading, overlay
from fx_explorer.worker.target.place import TargetPlace
from fx_explorer.worker.users.on_import import after_import
from fx_explorer.worker.users.users_code import UsersCode, is_users_file
from fx_explorer.worker.verify.child_program import ChildProgram
from fx_explorer.worker.verify.comparing_scripts import compared, new_names
from fx_explorer.worker.verify.observed.branch_coverage import BranchCoverage
from fx_explorer.worker.verify.observed.outside import HiddenCalls, OutsideEffects
from fx_explorer.worker.verify.observed.printed import PrintedLines, printed
from fx_explorer.worker.verify.original_request import as_on_disk

if TYPE_CHECKING:
    from typing_extensions import Self

    from fx_explorer.worker.verify.comparing import Comparison
    from fx_explorer.worker.verify.compiled_calls import CompiledCalls
    from fx_explorer.worker.verify.observed.lookups import Lookups

OWN_INPUTS = "the script's own inputs"


class ScriptRun:
    """One run of the script, with everything it did that can be seen from outside."""

    def __init__(self, watch: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext) -> None:
        """Make a run that enters ``watch`` around the script."""
        self._calls: CompiledCalls | None = None
        self._watch = watch
        self._outside = OutsideEffects()
        self._effects: list[str] = []
        self._written = PrintedLines()
        self._status = 0
        self._raised, self._message = "", ""
        self._lookups: Lookups | None = None

    def begin(self, until: contextlib.ExitStack) -> None:
        """Begin to watch compiled calls, and seed random numbers. Call it as soon as torch has been
        imported.
        """
        from fx_explorer.worker.verify.compiled_calls import CompiledCalls
        from fx_explorer.worker.verify.observed.observing import seed

        seed(0)
        self._calls = CompiledCalls()
        until.enter_context(self._calls.watched())

    def count_lookups(self, until: contextlib.ExitStack) -> None:
        """Count lookups of tensors. Call it as soon as torch has been imported, in a run without
        torch.compile.
        """
        from fx_explorer.worker.verify.observed.lookups import Lookups

        self._lookups = Lookups()
        until.enter_context(self._lookups.watched())

    def run(self, script: Callable[[], None]) -> None:
        """Run the script and note how it ended. What it raises goes on to the caller."""
        try:
            with self._outside.heard(self._effects), printed(self._written, is_users_file), self._watch():
                script()
        except SystemExit as leaving:
            self._status = ending.status(leaving)
            raise
        except Exception as error:
            self._raised, self._message = type(error).__name__, str(error)
            raise

    def plain(self) -> dict[str, Any]:
        """Return what was seen, as plain values that another process can read."""
        calls = self._calls
        reached = _globals()
        reached["values"]["exit status"] = {"the exit status": self._status}
        return {
            "call": OWN_INPUTS,
            **reached,
            "printed": self._written.lines,
            "errors": self._written.errors,
            "effects": self._effects,
            "raised": self._raised,
            "message": self._message,
            "returned": calls.returned if calls else {},
            "identities": calls.identities if calls else {},
            "counts": dict(calls.counts) if calls else {},
            "problem": calls.problem if calls else "",
            "lookups": self._lookups.count if self._lookups else 0,
        }


class OriginalScript(ChildProgram):
    """The script as it is in its file, run without torch.compile.

    It must have ended before the changed script runs: two runs at once could be in each other's
    way, for instance in files.
    """

    def __init__(self, place: TargetPlace, request: CaptureRequest) -> None:
        self._request = request
        super().__init__(request, lambda: _original_result(place, request))

    def compared_with(self, changed: ScriptRun, uncompiled: UncompiledScript, built: BuiltScripts) -> Verification:
        """Compare the changed script with the original, then without torch.compile and with its
        code built.
        """
        import torch

        from fx_explorer.worker.verify.verifying import nothing_compared

        if self.status:
            return nothing_compared(f"the original script ended its process with status {self.status}")
        try:
            before = torch.load(self.file, weights_only=True)
        except Exception as error:  # noqa: BLE001 - ours; the changed script must not be blamed
            return nothing_compared(f"what the original script gave cannot be read: {error}")
        comparison = compared(before, changed.plain(), new_names(self._request.overlay))
        uncompiled.compare(before, comparison)
        built.compare(before, comparison)
        return comparison.row(())


class UncompiledScript(ChildProgram):
    """The changed script, run again without torch.compile after the captured run has ended."""

    def __init__(self, place: TargetPlace, request: CaptureRequest) -> None:
        self._request = request
        super().__init__(request, lambda: _uncompiled_result(place, request), waits=True)

    def compare(self, before: Mapping[str, Any], comparison: Comparison) -> None:
        """Run the script and add what differs from ``before``. Does nothing if a difference is
        known already.
        """
        import torch

        from fx_explorer.worker.verify.comparing import WITHOUT_COMPILING
        from fx_explorer.worker.verify.observed.lookups import told_of_lookups
        from fx_explorer.worker.verify.uncompiled import LONGEST_S

        if not self._request.overlay or comparison.differences:
            return
        self.begin()
        if not self.wait_for(LONGEST_S):
            comparison.not_compared.append(
                f"what the changed script does{WITHOUT_COMPILING}: it took longer than {LONGEST_S:.0f} s"
            )
        elif self.status:
            comparison.differences.append(f"the process ended with status {self.status}{WITHOUT_COMPILING}")
        else:
            result = torch.load(self.file, weights_only=True)
            other = compared(before, result, new_names(self._request.overlay), is_uncompiled=True)
            comparison.add_run_without_compiling(other)
            comparison.differences += told_of_lookups(before["lookups"], result["lookups"])


@dataclass(frozen=True)
class BuiltRun:
    """What came of running a script with its code built: what was seen (``ScriptRun.plain``), how it failed, or why it could
    not be run.
    """

    seen: Mapping[str, Any] = field(default_factory=dict)
    failed: str = ""
    problem: str = ""


class BuiltScript(ChildProgram):
    """A script, run again with its generated code built, after the other runs have ended."""

    def __init__(self, place: TargetPlace, request: CaptureRequest) -> None:
        self._gpu = request.gpu
        super().__init__(request, lambda: _built_result(place, request), waits=True)

    def run(self) -> BuiltRun:
        from fx_explorer.worker.verify.built import LONGEST_S
        from fx_explorer.worker.verify.uncompiled import read_result

        if self._gpu:
            return BuiltRun(problem=f"it is for a GPU that is not here ({self._gpu.title})")
        self.begin()
        if not self.wait_for(LONGEST_S):
            return BuiltRun(problem=f"it took longer than {LONGEST_S:.0f} s")
        if self.status:
            return BuiltRun(failed=f"the process ended with status {self.status}")
        result = read_result(self, "what the built code gave")
        return BuiltRun(result) if "values" in result else BuiltRun(problem=result["problem"])


class BuiltScripts:
    """The changed script with its code built and, where that differs, the original so. It is a context manager: neither
    outlives the block.
    """

    def __init__(self, place: TargetPlace, request: CaptureRequest) -> None:
        self.is_needed = False
        """Whether there is generated code that has not been run."""
        self._new_names = new_names(request.overlay)
        self._changed = BuiltScript(place, request)
        self._original = BuiltScript(place, as_on_disk(request))
        self._until = contextlib.ExitStack()

    def __enter__(self) -> Self:
        for program in (self._changed, self._original):
            self._until.enter_context(program)
        return self

    def __exit__(self, *_: object) -> None:
        self._until.close()

    def compare(self, before: Mapping[str, Any], comparison: Comparison) -> None:
        """Run the script and add what differs from ``before``. Does nothing if a difference is
        known already.
        """
        from fx_explorer.worker.verify import inductors_own

        if not self.is_needed or comparison.differences:
            return
        run = self._changed.run()
        if run.problem:
            comparison.not_compared.append(f"what the built code computes: {run.problem}")
        elif run.failed:
            original = self._original.run()
            inductors_own.add_failed(comparison, run.failed, original.failed, original.problem)
        else:
            comparison.is_run_built = True
            built = compared(before, run.seen, self._new_names, is_built=True)
            if built.differences:
                self._add_differences(comparison, before, run.seen, built)

    def _add_differences(
        self, comparison: Comparison, before: Mapping[str, Any], seen: Mapping[str, Any], built: Comparison
    ) -> None:
        from fx_explorer.worker.verify import inductors_own

        original = self._original.run()
        if original.failed or original.problem:
            inductors_own.add_unknown(comparison, built, original.failed or original.problem)
            return
        of_original = compared(before, original.seen, is_built=True)
        between = compared({**before, **original.seen}, seen, self._new_names, is_built=True)
        inductors_own.add_differences(comparison, built, of_original, between)


def _original_result(place: TargetPlace, request: CaptureRequest) -> dict[str, Any]:
    hidden, coverage = HiddenCalls(), BranchCoverage(request.overlay)

    @contextlib.contextmanager
    def watched() -> Iterator[None]:
        with hidden.watched(), coverage.watched():
            yield

    seen = ScriptRun(watched)
    with contextlib.ExitStack() as until:
        after_import("torch", lambda: _run_eagerly(seen, until))
        _run_to_its_end(seen, place, request)
    return {**seen.plain(), "hidden": list(hidden.found), "not reached": coverage.not_taken()}


def _uncompiled_result(place: TargetPlace, request: CaptureRequest) -> dict[str, Any]:
    seen = ScriptRun()
    overlay.install(request.overlay)
    with contextlib.ExitStack() as until:
        after_import("torch", lambda: _run_eagerly(seen, until))
        _run_to_its_end(seen, place, request)
    return {**seen.plain(), "hidden": [], "not reached": []}


def _built_result(place: TargetPlace, request: CaptureRequest) -> dict[str, Any]:
    seen, problems = ScriptRun(), []
    overlay.install(request.overlay)
    with contextlib.ExitStack() as until:
        after_import("torch", lambda: problems.append(_run_built(seen, request, until)))
        _run_to_its_end(seen, place, request)
    if problem := "".join(problems):
        return {"problem": problem}
    return {**seen.plain(), "hidden": [], "not reached": []}


def _run_to_its_end(seen: ScriptRun, place: TargetPlace, request: CaptureRequest) -> None:
    """Run the script as ``__main__``. Suppress what it raises: ``seen`` has noted it."""
    assert place.file is not None
    with contextlib.suppress(Exception, SystemExit):
        seen.run(lambda: loading.run_script(place.file, request.target, request.arguments))  # type: ignore[arg-type]
    import torch  # noqa: F401 - the changed script's process has it too, and looking at globals needs it


def _run_built(seen: ScriptRun, request: CaptureRequest, until: contextlib.ExitStack) -> str:
    """Prepare for building code, and return why it cannot be built; empty when it can."""
    from fx_explorer.worker.verify.built import no_compiler, set_up

    set_up(request, until)
    seen.begin(until)
    return no_compiler()


def _run_eagerly(seen: ScriptRun, until: contextlib.ExitStack) -> None:
    from fx_explorer.worker.target.stances import without_compiling

    without_compiling()
    seen.begin(until)
    seen.count_lookups(until)


def _globals() -> dict[str, Any]:
    """Return what the script leaves behind, and the names of all globals."""
    from fx_explorer.worker.verify.observed.observing import globals_of
    from fx_explorer.worker.verify.observed.reachable import ReachedValues, Walk

    if "torch" not in sys.modules:
        return {**vars(ReachedValues()), "names": []}
    main = sys.modules["__main__"]
    others = [module for module in UsersCode().modules() if module is not main]
    found = list(globals_of([main, *others], "__main__"))
    walk = Walk(is_users_file)
    for kind, name, value in found:
        walk.add(kind, name, value)
    return {**vars(walk.reached()), "names": [name for _, name, _ in found]}
