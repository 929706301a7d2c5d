"""The ablation of a program under torch.compile: the program runs in each of the ways of
``issue_variations``, in a process of its own each time. Where an error or a difference begins says
which component it is of.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fx_explorer.model import CaptureRequest
from fx_explorer.report import issue_variations
from fx_explorer.report.issue_run import (
    Eager,
    ProgramEnd,
    Result,
    end_of,
    judge,
    result_of_eager,
)
from fx_explorer.report.issue_variations import (
    AS_IT_IS,
    BACKENDS,
    FALLBACK_RANDOM,
    STATIC,
    Variation,
)
from fx_explorer.trials import Told, TrialWorker, recapture, straight_through

WITHOUT = "without torch.compile"

FAULTS: tuple[Result, ...] = ("fails", "differs", "falls back", "timed out")
"""Results that the program does not have without torch.compile."""

SEED = 0

_OWN_CHECK = "AssertionError"
"""Begins the error of an assert, and of torch.testing.assert_close. One of torch's own asserts
comes to the program as another error.
"""

USED_UP = "--budget is used up"


@dataclass(frozen=True, slots=True)
class VariationOutcome:
    """What a variation did."""

    name: str
    result: Result
    message: str = ""
    """The error, or the first difference."""
    took_s: float = 0.0
    stage: str = ""


@dataclass(frozen=True, slots=True)
class Ablation:
    """What all variations did."""

    tried: tuple[VariationOutcome, ...]
    error: str = ""
    """The traceback of the unchanged program; empty if it raises none."""
    is_script: bool = False
    """Whether only what it prints was compared, and not its results."""
    is_crash: bool = False
    """Whether a signal ended the unchanged program."""
    is_seeded: bool = False
    """Whether random numbers had a seed in every run, and were drawn as in eager mode, because the
    program prints what it draws.
    """

    def of(self, name: str) -> VariationOutcome | None:
        return next((tried for tried in self.tried if tried.name == name), None)

    @property
    def as_it_is(self) -> VariationOutcome | None:
        return self.of(AS_IT_IS.name)

    @property
    def is_open(self) -> bool:
        """Return whether the unchanged program was not run, so that its results are not known."""
        return self.as_it_is is not None and self.as_it_is.result == "not tried"

    @property
    def is_reproduced(self) -> bool:
        """Return whether the program does something else with torch.compile than without it."""
        as_it_is, without = self.as_it_is, self.of(WITHOUT)
        if as_it_is is None or without is None:
            return False
        if without.result == "fails":
            return as_it_is.result == "differs"
        return without.result == "passes" and as_it_is.result in FAULTS

    @property
    def gives_other_results(self) -> bool:
        """Return whether it is the results that are wrong: they differ, or a check of the
        program's own fails.
        """
        as_it_is = self.as_it_is
        if as_it_is is None or not self.is_reproduced:
            return False
        return as_it_is.result == "differs" or as_it_is.message.startswith(_OWN_CHECK)

    @property
    def component(self) -> str:
        """Return the component that the first backend with the fault adds; empty where none has
        it. A backend may fail in a way of its own before that: it counts where no other does.
        """
        faulty = self._faulty_backends
        same = [tried for tried in faulty if self._is_same_fault(tried)]
        return next((tried.stage for tried in [*same, *faulty]), "")

    @property
    def other_fault(self) -> VariationOutcome | None:
        """Return the first backend that fails differently from the unchanged program, before the
        one that fails in the same way; None without one.
        """
        faulty = self._faulty_backends
        if not faulty or faulty[0].stage == self.component:
            return None
        return faulty[0]

    @property
    def _faulty_backends(self) -> list[VariationOutcome]:
        if not self.is_reproduced:
            return []
        return [tried for tried in self.tried if tried.stage and tried.result in self._faults]

    def _is_same_fault(self, tried: VariationOutcome) -> bool:
        as_it_is = self.as_it_is
        if as_it_is is None or tried.result != as_it_is.result:
            return False
        return tried.result != "fails" or kind_of(tried.message) == kind_of(as_it_is.message)

    @property
    def _faults(self) -> tuple[Result, ...]:
        without = self.of(WITHOUT)
        return ("differs",) if without and without.result == "fails" else FAULTS

    @property
    def not_tried(self) -> int:
        return sum(tried.result == "not tried" for tried in self.tried)

    @property
    def helps(self) -> list[str]:
        """Return the settings with which the program does what it does without torch.compile."""
        if not self.is_reproduced:
            return []
        names = {AS_IT_IS.name, WITHOUT, *(backend.name for backend in BACKENDS)}
        parts = [tried for tried in self.tried if tried.name not in names]
        return [tried.name for tried in parts if tried.result not in (*self._faults, "not tried")]

    @property
    def needs_dynamic_sizes(self) -> bool:
        """Return whether the fault is there with dynamic sizes alone."""
        return STATIC in self.helps


async def ablate(
    request: CaptureRequest,
    worker: TrialWorker,
    budget_s: float,
    tell: Told,
    *,
    is_script: bool,
    trace: Path | None = None,
) -> Ablation:
    """Run the program in each way until the time is used up; what was not tried is in the answer,
    too. The results of a target are compared by PyTorch's rule, those of a script by what it
    prints. ``trace`` is a folder for torch's log of the program as it is (``TORCH_TRACE``).
    """
    running = _Running(request, worker, tell, is_script, time.monotonic() + budget_s)
    await running.without_compile()
    await running.variation(AS_IT_IS, {"TORCH_TRACE": str(trace)} if trace else None)
    for backend in BACKENDS:
        await running.variation(backend)
    for part in running.parts():
        await running.variation(part)
    return running.ablation


class _Running:
    """Runs the variations of one program, one after the other, and judges each."""

    def __init__(
        self,
        request: CaptureRequest,
        worker: TrialWorker,
        tell: Told,
        is_script: bool,
        ends_at: float,
    ) -> None:
        self._request = straight_through(request, build=True)
        self._worker = worker
        self._tell = tell
        self._ends_at = ends_at
        self._eager: Eager
        self.ablation = Ablation((), is_script=is_script)

    async def without_compile(self) -> None:
        """Run the program twice in eager mode. Where it prints what it draws at random, do so
        again with a seed, which all later runs have, too.
        """
        self._tell(f"running the program {WITHOUT}")
        self._eager = await self._run_eager(self._request)
        if self._eager.is_random():
            await self._seed()
        self._add_eager()

    async def variation(
        self, variation: Variation, environment: Mapping[str, str] | None = None
    ) -> None:
        """Run the program in one way, unless the time is used up."""
        name = variation.name
        if time.monotonic() > self._ends_at:
            self._add(VariationOutcome(name, "not tried", USED_UP, stage=variation.stage))
            return
        self._tell(f"running the program {name if variation is AS_IT_IS else f'with {name}'}")
        end = await self._run(self._changed(variation), environment)
        if variation is AS_IT_IS:
            is_crash = end.outcome.kind == "killed"
            self.ablation = replace(self.ablation, error=end.error, is_crash=is_crash)
            end = await self._compare_steadily(end)
        result, message = judge(end, self._eager)
        self._add(VariationOutcome(name, result, message, end.took_s, variation.stage))

    async def _compare_steadily(self, end: ProgramEnd) -> ProgramEnd:
        """Exclude output that differs between two runs of the unchanged program from the
        comparison. That may be what it draws at random, though eager mode prints the same each time
        (a gradient that must be zero): so compare both with a seed.
        """
        if not self._eager.differing(end):
            return end
        again = await self._run(self._changed(AS_IT_IS))
        steady = self._eager.without_unsteady(end, again)
        if steady.unsteady and not self.ablation.is_seeded and await self._seed():
            self.ablation = replace(self.ablation, tried=())
            self._add_eager()
            self._tell(f"running the program {AS_IT_IS.name}, with a seed")
            end = await self._run(self._changed(AS_IT_IS))
            again = await self._run(self._changed(AS_IT_IS))
            steady = self._eager.without_unsteady(end, again)
        self._eager = steady
        return end

    async def _seed(self) -> bool:
        """Give all later runs a seed, and draw random numbers as in eager mode. Return whether two
        runs in eager mode then print the same; otherwise nothing is changed.
        """
        settings = {**self._request.settings, FALLBACK_RANDOM: True}
        seeded = replace(self._request, seed=SEED, settings=settings)
        self._tell(f"running the program {WITHOUT}, with a seed")
        eager = await self._run_eager(seeded)
        if eager.is_random():
            return False
        self._request, self._eager = seeded, eager
        self.ablation = replace(self.ablation, is_seeded=True)
        return True

    def _changed(self, variation: Variation) -> CaptureRequest:
        settings = {**self._request.settings, **variation.settings}
        return replace(self._request, settings=settings, verify=not self.ablation.is_script)

    def _add_eager(self) -> None:
        result, message = result_of_eager(self._eager)
        self._add(VariationOutcome(WITHOUT, result, message, self._eager.first.took_s))

    def parts(self) -> list[Variation]:
        """Return the parts of the compiler to switch off: those that the fault may be of."""
        if not self.ablation.is_reproduced:
            return []
        component = self.ablation.component or issue_variations.INDUCTOR
        parts = issue_variations.PARTS[component]
        of_program = self._request.settings.items()
        return [part for part in parts if not part.settings.items() <= of_program]

    def _add(self, tried: VariationOutcome) -> None:
        self.ablation = replace(self.ablation, tried=(*self.ablation.tried, tried))

    async def _run_eager(self, request: CaptureRequest) -> Eager:
        plain = replace(request, without_compile=True, build=False)
        return Eager(await self._run(plain), await self._run(plain))

    async def _run(
        self, request: CaptureRequest, environment: Mapping[str, str] | None = None
    ) -> ProgramEnd:
        again = await recapture(request, self._worker, end_of, environment=environment)
        return replace(again.found, outcome=again.outcome, took_s=again.took_s)


def kind_of(message: str) -> str:
    """Return the class of an error, or how a program was ended, without the details."""
    return message.partition(":")[0].partition(" (")[0]
