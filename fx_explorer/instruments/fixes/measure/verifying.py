"""This module compares a changed program, compiled, with the original, run without torch.compile
(``CaptureRequest.verify``).

Four processes build the target and make the same calls in the same order:

- the original without torch.compile;
- the changed program as it is captured; its graphs are run by PyTorch's own operators unless
  they are built (``--build``);
- the changed program without torch.compile (``uncompiled.py``);
- the changed program with its code built (``programs.py``). Where it differs, a fifth process
  builds the original too.

Where results differ by what may be rounding, the original also runs in float64, and in 16 bits the
changed program too (``float64_judge.py``).

Where something differs, the original runs once more (``OriginalAgain``): a value that is different
in that run varies by itself, whatever is changed.

All but the second are children of the worker, forked before anything of the user's is imported, so
they share nothing but the seeds.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any, Protocol

from fx_explorer.instruments.fixes.measure import inductors_own
from fx_explorer.instruments.fixes.measure.beyond_example import never_tried, planned_calls
from fx_explorer.instruments.fixes.measure.child_program import (
    BUILT_RUNS,
    CHANGED_RUNS,
    ORIGINAL_IS_BUILT,
    ORIGINAL_RUNS,
    Count,
)
from fx_explorer.instruments.fixes.measure.comparing import (
    WITHOUT_COMPILING,
    Comparison,
    describe_hidden,
)
from fx_explorer.instruments.fixes.measure.float64_judge import (
    Float64Judge,
    compare_in_float64,
    tensors_within,
    without_float64,
)
from fx_explorer.instruments.fixes.measure.observing import Observation, Observer, describe_lookups
from fx_explorer.instruments.fixes.measure.outside import asks_for_what_varies
from fx_explorer.instruments.fixes.measure.programs import (
    BuiltProgram,
    OtherPrograms,
    recompiling_often,
)
from fx_explorer.instruments.fixes.measure.varying import VariesByItself, Varying
from fx_explorer.model import CaptureRequest, Verification
from fx_explorer.program import calling
from fx_explorer.program.equal_results import rounding_of
from fx_explorer.program.place import TargetPlace, users_code
from fx_explorer.program.target import Target

COMPILES_LONG_S = 30.0
"""Seconds of compilation above which a program is not recompiled for other sizes, gradients or
modes.
"""


class VerifyingJob(calling.CallingJob, Protocol):
    """The job for which a compiled program is called and compared with the original."""

    place: TargetPlace

    def plan(self, steps: int) -> None:
        """Say how many steps there will be."""

    def begin_step(self, activity: str) -> None:
        """Report the present activity, which is the next step."""

    def count(self, work: str, done: int, planned: int) -> None:
        """Report how much of the present activity is done."""


def call_and_verify(
    target: Target, job: VerifyingJob, programs: OtherPrograms, stop_recording: Callable[[], None]
) -> Verification:
    """Call the compiled target as ``calling.call_target`` does, then with other inputs, and compare
    each call with the original's.

    Only the first call is recorded: graphs and breaks are counted for the example inputs, as in any
    capture.
    """
    request = job.request
    target, train = calling.prepared(target, request)
    job.describe(target, train)
    observer = Observer(target, train, request.train is not False, users_code(job.place, request))
    job.plan(2 + programs.uncompiled.is_needed + programs.built.is_needed)
    job.begin_step(ORIGINAL_RUNS)

    def tell(count: Count) -> None:
        job.count(*count)

    before = programs.original.result(tell)
    if "problem" in before:
        return nothing_compared(before["problem"])
    programs.uncompiled.begin()
    programs.built.begin()
    # What the original compiles by itself is left to the changed program too, which may compile
    # another part of it.
    if before["is_compiled"]:
        compiled = target.callable
    else:
        compiled = calling.compile_target(target, job)
    observer.set_state(before["state"])
    first, *others = planned_calls(target.arguments, before["ways"])
    job.begin_step(
        f"calling {target.name} with {target.arguments.describe()} from {target.arguments.origin}"
    )
    began = time.monotonic()
    seen: list[Observation | None] = [observer.first(compiled, first.words, first.arguments)]
    takes_long = time.monotonic() - began > COMPILES_LONG_S
    stop_recording()
    with _as_captured(request):
        for call, of_original in zip(others, before["seen"][1:], strict=True):
            if of_original is None or (takes_long and call.compiled_anew_for):
                observer.leave_out()
                seen.append(None)
                continue
            job.say(f"comparing: calling {target.name} with {call.words}")
            seen.append(observer.again(compiled, call))
    words = [call.unlike_example or call.words for call in (first, *others)]
    kinds = [call.compiled_anew_for for call in (first, *others)]
    observed = [_plain(observation) for observation in seen]
    original = CallsOfTheOriginal(
        before,
        words,
        [again.result for again in programs.again],
        lambda: programs.original_in_float64.result,
    )
    comparison = original.compared(observed, observer.names_at_first, is_built=request.build)
    # One difference decides the verdict: then the other programs need not be waited for.
    if not comparison.differences:
        if programs.uncompiled.is_needed:
            job.begin_step(CHANGED_RUNS)
        add_uncompiled(
            comparison,
            original,
            programs.uncompiled.result(tell),
            lambda: programs.changed_in_float64.result,
        )
    if not comparison.differences:
        if programs.built.is_needed:
            job.begin_step(BUILT_RUNS)
        add_built(
            comparison,
            original,
            programs.built.result(tell),
            kinds,
            lambda: _begun(job, programs.built_original),
        )
    comparison.not_tried[:0] = never_tried(target, request.train is not False)
    return comparison.row([observation.call for observation in seen if observation])


def _begun(job: VerifyingJob, built_original: BuiltProgram) -> dict[str, Any]:
    job.say(ORIGINAL_IS_BUILT)
    built_original.begin()
    return built_original.result(lambda count: job.count(*count))


def nothing_compared(problem: str) -> Verification:
    """Return a verification without a comparison, which says why there is none."""
    return Verification(0, False, False, (), {}, 0.0, "", (), (), (), problem)


def _as_captured(request: CaptureRequest) -> AbstractContextManager[object]:
    """Compile inside the block with the settings of the first call, without recording it."""
    stack = contextlib.ExitStack()
    stack.enter_context(recompiling_often())
    if not request.build:
        from fx_explorer.capture.inspecting import inspecting

        stack.enter_context(inspecting())
    return stack


def users_modules(place: TargetPlace, request: CaptureRequest) -> list[ModuleType]:
    """Return the user's modules that are imported now, including those of the target and of changed
    files.
    """
    return users_code(place, request).modules()


# Comparison of all calls of two programs.


class CallsOfTheOriginal:
    """Compares calls of a changed program with the original's, and leaves out values that differ
    between runs of the original itself.
    """

    def __init__(
        self,
        before: Mapping[str, Any],
        words: Sequence[str],
        runs_again: Sequence[Callable[[], Mapping[str, Any]]] = (),
        run_in_float64: Callable[[], Mapping[str, Any]] = lambda: {
            "problem": "it was not asked for"
        },
    ) -> None:
        """``before`` is the original's result; ``words`` describe the inputs of each call, or how
        it differs from the example. Each of ``runs_again`` runs the original once more, and
        ``run_in_float64`` in float64.
        """
        self.before = before
        self.words = words
        self._run_in_float64 = run_in_float64
        self._judge: Float64Judge | None = None
        self._varies_by_itself = VariesByItself(
            [functools.partial(self._varying_in, run) for run in runs_again],
            is_of_chance=asks_for_what_varies(before),
        )

    def compared(
        self,
        seen: Sequence[Mapping[str, Any] | None],
        names: Sequence[str],
        *,
        is_built: bool = False,
        is_uncompiled: bool = False,
        of_original: Sequence[Mapping[str, Any] | None] | None = None,
    ) -> Comparison:
        """Compare the calls of the changed program (``seen``) with those of the original:
        ``of_original`` if given, else those observed before.
        """
        if of_original is None:
            before = self.before
        else:
            before = {**self.before, "seen": of_original}

        def compare(varying: Varying, judge: Float64Judge | None) -> Comparison:
            return compared(
                before,
                seen,
                names,
                self.words,
                varying,
                judge,
                is_built=is_built,
                is_uncompiled=is_uncompiled,
            )

        def compare_and_judge(varying: Varying) -> Comparison:
            comparison = compare(varying, self._judge)
            # Without torch.compile, the changed program is compared in float64 itself.
            if not comparison.rounded or is_uncompiled:
                return comparison
            judged = compare(varying, self.in_float64)
            if judged.near_by_direction:
                judged.not_compared.append(without_float64(self.in_float64.problem))
            return judged

        return self._varies_by_itself.compared(compare_and_judge)

    @property
    def in_float64(self) -> Float64Judge:
        """Run the original in float64, once, and return its results."""
        if self._judge is None:
            self._judge = Float64Judge.of(self._run_in_float64())
        return self._judge

    def _varying_in(self, run_again: Callable[[], Mapping[str, Any]]) -> Varying | None:
        again = run_again()
        if "seen" not in again:
            return None
        varying = Varying()
        for one, other in zip(self.before["seen"], again["seen"], strict=True):
            if one and other:
                comparison = Comparison(at_first=_state_at_first(self.before))
                comparison.add(one, other)
                varying |= comparison.varies(one, other)
        return varying


def _plain(observation: Observation | None) -> dict[str, Any] | None:
    return observation.plain() if observation else None


def _state_at_first(before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters and buffers with which the calls begin, by all their names."""
    state: dict[str, Any] = {}
    for name, tensor in before["state"].items():
        state[name] = tensor
        state[f"global {name}"] = tensor
    return state


def compared(
    before: Mapping[str, Any],
    seen: Sequence[Mapping[str, Any] | None],
    names: Sequence[str],
    words: Sequence[str],
    varying: Varying = Varying(),  # noqa: B008 - it is never changed
    judge: Float64Judge | None = None,
    *,
    is_built: bool = False,
    is_uncompiled: bool = False,
) -> Comparison:
    """Compare the calls of two programs.

    ``before`` is the original's result. ``seen`` is what the changed program did in the same calls,
    None where it was not called. ``names`` are its globals before the first call, and ``words`` say
    what each call is made with, or in what it is unlike the example.
    """
    known = frozenset(before["names"])
    comparison = Comparison(
        is_built,
        is_uncompiled,
        frozenset(names) - known,
        known,
        varying,
        at_first=_state_at_first(before),
        rounding=rounding_of([*tensors_within(before["state"]), *tensors_within(before["seen"])]),
        judge=judge,
    )
    for one, other in zip(before["seen"], seen, strict=False):
        if one and other:
            comparison.add(one, other)
    untried = []
    for position, call in enumerate(before["seen"]):
        if call is None and position not in before["unsupported"]:
            untried.append(
                f"a call with {words[position]}, which the original did not finish in time"
            )
        elif call is not None and seen[position] is None:
            untried.append(f"a call with {words[position]}, for which recompiling would take long")
    unsupported = {words[position] for position in before["unsupported"]}
    made = {word for word, call in zip(words, before["seen"], strict=True) if call}
    comparison.not_tried += [*dict.fromkeys(untried), *sorted(unsupported - made)]
    comparison.not_compared += [*varying.describe(), *describe_hidden(before)]
    return comparison


def add_uncompiled(
    comparison: Comparison,
    original: CallsOfTheOriginal,
    result: Mapping[str, Any],
    run_in_float64: Callable[[], Mapping[str, Any]],
) -> None:
    """Add the differences of the changed program when it runs without torch.compile (``result``, of
    ``UncompiledProgram.result``). ``run_in_float64`` runs it in float64.
    """
    if "problem" in result:
        comparison.not_compared.append(
            f"the effects of the changed program without torch.compile: {result['problem']}"
        )
    elif "failed" in result:
        comparison.differences.append(f"{result['failed']}{WITHOUT_COMPILING}")
    elif result:
        before = original.before
        other = original.compared(result["seen"], result["names"], is_uncompiled=True)
        comparison.add_run_without_compiling(other)
        comparison.differences += describe_lookups(before["lookups"], result["lookups"])
        if other.rounded and not comparison.differences:
            differences, problem = compare_in_float64(
                other.rounded, original.in_float64, run_in_float64
            )
            comparison.differences += differences
            if problem:
                comparison.not_compared.append(without_float64(problem))
        for position, (one, changed) in enumerate(zip(before["seen"], result["seen"], strict=True)):
            if one and not changed:
                comparison.not_tried.append(
                    f"a call with {original.words[position]}{WITHOUT_COMPILING}: it did "
                    "not end in time"
                )


def add_built(
    comparison: Comparison,
    original: CallsOfTheOriginal,
    result: Mapping[str, Any],
    kinds: Sequence[str],
    build_original: Callable[[], Mapping[str, Any]],
) -> None:
    """Add the differences of the changed program as built code (``result``, of
    ``BuiltProgram.result``). ``kinds`` says, for calls that would need another build, how they
    differ from the example.

    ``build_original`` builds and runs the original. That takes as long as a compile, so it is
    called only when there is a difference.
    """
    if "problem" in result:
        comparison.not_compared.append(f"the results of the built code: {result['problem']}")
    elif "failed" in result:
        built = build_original()
        inductors_own.add_failed(
            comparison, result["failed"], built.get("failed", ""), built.get("problem", "")
        )
    elif result:
        other = original.compared(result["seen"], result["names"], is_built=True)
        calls = zip(kinds, original.before["seen"], result["seen"], strict=True)
        not_called = [kind for kind, call, run in calls if call and not run]
        if not_called:
            comparison.not_tried.append(
                f"{' and '.join(dict.fromkeys(not_called))} with the code built"
            )
        comparison.is_run_built = True
        comparison.leave_out_too(other)
        if other.differences:
            _add_differences(comparison, original, result, other, build_original())


def _add_differences(
    comparison: Comparison,
    original: CallsOfTheOriginal,
    result: Mapping[str, Any],
    built: Comparison,
    built_original: Mapping[str, Any],
) -> None:
    """Sort differences in built code (``built``) by whether the original's built code has them
    too.
    """
    if "seen" not in built_original:
        why = built_original.get("failed") or built_original["problem"]
        inductors_own.add_unknown(comparison, built, why)
        return
    seen = built_original["seen"]
    of_original = original.compared(seen, built_original["names"], is_built=True)
    between = original.compared(result["seen"], result["names"], is_built=True, of_original=seen)
    inductors_own.add_differences(comparison, built, of_original, between)
