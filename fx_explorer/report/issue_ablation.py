"""The ablation of a program under torch.compile: the program runs by each backend and with parts of
the compiler switched off, each in a process of its own. Where an error or a difference begins says
which component it is of (https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/
torch.compiler_troubleshooting.html, "Ablation").
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fx_explorer import model
from fx_explorer.analysis.words import first_line
from fx_explorer.findings.compiled_results import printed_otherwise
from fx_explorer.findings.without_compile import ProgramRun, run_of
from fx_explorer.model import CaptureRequest
from fx_explorer.overview.ending import failures
from fx_explorer.session import SessionReader
from fx_explorer.trials import Told, TrialWorker, recapture, straight_through

Result = Literal["passes", "fails", "differs", "timed out", "not tried"]


@dataclass(frozen=True, slots=True)
class Variation:
    """One way to run the program."""

    name: str
    """As a user writes it: ``backend="aot_eager"``."""
    settings: dict[str, Any]
    stage: str = ""
    """Of a backend: the component that it adds to the backend before it."""


BACKENDS: tuple[Variation, ...] = (
    Variation('backend="eager"', {"compile.backend": "eager"}, "Dynamo"),
    Variation('backend="aot_eager"', {"compile.backend": "aot_eager"}, "AOTAutograd"),
    Variation(
        'backend="aot_eager_decomp_partition"',
        {"compile.backend": "aot_eager_decomp_partition"},
        "decompositions or the partitioner",
    ),
    Variation('backend="inductor"', {"compile.backend": "inductor"}, "Inductor"),
)
"""Each adds a component to the one before, so the first that fails has the fault."""

PARTS: tuple[Variation, ...] = (
    Variation("dynamic=True", {"compile.dynamic": True}),
    Variation("dynamic=False", {"compile.dynamic": False}),
    Variation("inductor.pattern_matcher = False", {"inductor.pattern_matcher": False}),
    Variation("inductor.max_fusion_size = 1", {"inductor.max_fusion_size": 1}),
    Variation(
        "inductor.emulate_precision_casts = True", {"inductor.emulate_precision_casts": True}
    ),
    Variation("inductor.fallback_random = True", {"inductor.fallback_random": True}),
    Variation("inductor.layout_optimization = False", {"inductor.layout_optimization": False}),
    Variation("inductor.split_reductions = False", {"inductor.split_reductions": False}),
)
"""Settings of the program's own backend, one at a time."""

AS_IT_IS = "as it is"

WITHOUT = "without torch.compile"


@dataclass(frozen=True, slots=True)
class Tried:
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

    tried: tuple[Tried, ...]
    error: str = ""
    """The traceback of the program as it is; empty where it raises none."""
    is_script: bool = False
    """Whether only what it prints was compared, and not its results."""

    def of(self, name: str) -> Tried | None:
        return next((tried for tried in self.tried if tried.name == name), None)

    @property
    def is_reproduced(self) -> bool:
        """Return whether the program fails or differs with torch.compile, and not without it."""
        as_it_is, without = self.of(AS_IT_IS), self.of(WITHOUT)
        if as_it_is is None or without is None:
            return False
        return without.result == "passes" and as_it_is.result in ("fails", "differs", "timed out")

    @property
    def component(self) -> str:
        """Return the component that the first failing backend adds; empty where none fails."""
        if not self.is_reproduced:
            return ""
        for tried in self.tried:
            if tried.stage and tried.result in ("fails", "differs", "timed out"):
                return tried.stage
        return ""

    @property
    def not_tried(self) -> int:
        return sum(tried.result == "not tried" for tried in self.tried)

    @property
    def helps(self) -> list[str]:
        """Return the settings with which the program passes."""
        if not self.is_reproduced:
            return []
        names = {variation.name for variation in PARTS}
        return [
            tried.name for tried in self.tried if tried.name in names and tried.result == "passes"
        ]


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the session of a variation shows."""

    run: ProgramRun | None
    verification: model.Verification | None
    error: str


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
    ends_at = time.monotonic() + budget_s
    built = straight_through(request, build=True)
    plain = straight_through(request, without_compile=True)
    tell(f"running the program {WITHOUT}")
    first = await _seen(plain, worker)
    second = await _seen(plain, worker)
    tried = [_without(first, second)]
    error, unsteady = "", frozenset[str]()
    for variation in (Variation(AS_IT_IS, {}), *BACKENDS, *PARTS):
        if time.monotonic() > ends_at:
            tried.append(
                Tried(variation.name, "not tried", "--budget is used up", 0, variation.stage)
            )
            continue
        how = variation.name if variation.name == AS_IT_IS else f"with {variation.name}"
        tell(f"running the program {how}")
        settings = {**built.settings, **variation.settings}
        changed = straight_through(built, settings=settings, verify=not is_script)
        is_traced = trace is not None and variation.name == AS_IT_IS
        seen = await _seen(changed, worker, {"TORCH_TRACE": str(trace)} if is_traced else None)
        if variation.name == AS_IT_IS:
            error = seen[1].error
            if list(_printed(seen[1], first[1], second[1])):
                again = await _seen(changed, worker)
                unsteady = _unsteady(seen[1], again[1], first[1], second[1])
        tried.append(_judged(variation, seen, first, second, unsteady))
    return Ablation(tuple(tried), error, is_script)


_Outcome = tuple[model.Outcome, _Seen, float]


async def _seen(
    request: CaptureRequest, worker: TrialWorker, environment: Mapping[str, str] | None = None
) -> _Outcome:
    again = await recapture(request, worker, _look, environment=environment)
    return again.outcome, again.found, again.took_s


def _look(reader: SessionReader) -> _Seen:
    verifications = reader.rows(model.Verification)
    error = ""
    for explained in failures(reader):
        if explained.failure.where in ("program", "compiler"):
            error = explained.traceback or explained.failure.message
    return _Seen(run_of(reader), verifications[-1] if verifications else None, error)


def _without(first: _Outcome, second: _Outcome) -> Tried:
    outcome, seen, took_s = first
    if outcome.kind == "timed_out":
        return Tried(WITHOUT, "timed out", outcome.message, took_s)
    if not outcome.went_well:
        return Tried(WITHOUT, "fails", first_line(outcome.message), took_s)
    runs = [seen.run, second[1].run]
    if runs[0] and runs[1] and runs[0].printed != runs[1].printed:
        return Tried(WITHOUT, "passes", "prints otherwise each time", took_s)
    return Tried(WITHOUT, "passes", took_s=took_s)


def _judged(
    variation: Variation,
    seen: _Outcome,
    first: _Outcome,
    second: _Outcome,
    unsteady: frozenset[str],
) -> Tried:
    outcome, found, took_s = seen
    if outcome.kind == "timed_out":
        return Tried(variation.name, "timed out", outcome.message, took_s, variation.stage)
    if not outcome.went_well:
        message = first_line(outcome.message) or outcome.kind
        return Tried(variation.name, "fails", message, took_s, variation.stage)
    difference = next(_differences(found, first[1], second[1], unsteady), "")
    result: Result = "differs" if difference else "passes"
    return Tried(variation.name, result, difference, took_s, variation.stage)


def _differences(
    seen: _Seen, first: _Seen, second: _Seen, unsteady: frozenset[str]
) -> Iterator[str]:
    """Yield what differs from eager mode: by PyTorch's rule for a target, by what is printed for a
    script.
    """
    if seen.verification:
        yield from seen.verification.differences
    for line, expected in _printed(seen, first, second):
        if expected not in unsteady:
            yield f"prints “{line}”, without torch.compile “{expected}”"


def _printed(seen: _Seen, first: _Seen, second: _Seen) -> Iterator[tuple[str, str]]:
    """Yield (line, line without torch.compile) where a run prints otherwise."""
    if seen.run and first.run and second.run:
        yield from printed_otherwise(seen.run, (first.run, second.run))


def _unsteady(seen: _Seen, again: _Seen, first: _Seen, second: _Seen) -> frozenset[str]:
    """Return the lines that two runs as it is print in different ways: times and the like."""
    before = {expected: line for line, expected in _printed(seen, first, second)}
    after = {expected: line for line, expected in _printed(again, first, second)}
    differing = {*before, *after}
    return frozenset(line for line in differing if before.get(line) != after.get(line))


def rows_of(tried: Sequence[Tried]) -> list[list[str]]:
    """Return the rows of a table: variation, result, message, seconds."""
    rows = []
    for variation in tried:
        took = f"{variation.took_s:.0f} s" if variation.took_s else ""
        rows.append([variation.name, variation.result, variation.message, took])
    return rows
