"""A script that prints other results with Inductor's code than in eager mode. Its graphs alone are
right: a capture runs them with PyTorch's operators, and prints what eager mode prints. Another
backend says whether AOTAutograd or Inductor makes the difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fx_explorer.findings.cache_faults import run_built
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.findings.without_compile import (
    OF_TIME,
    SHOWN_LINES,
    ProgramRun,
    differing_lines,
    has_no_fraction,
    is_far_off,
    run_program,
)
from fx_explorer.model import CaptureRequest
from fx_explorer.trials import TrialWorker, straight_through

AOT_EAGER = "aot_eager"


@dataclass(frozen=True, slots=True)
class BuiltResults:
    """What a program prints otherwise when it runs the code that was built."""

    differing: tuple[tuple[str, str], ...]
    """(line, line of eager mode)."""
    is_right_with_aot_eager: bool


async def compare_built(
    request: CaptureRequest,
    built: ProgramRun,
    eager: tuple[ProgramRun, ProgramRun],
    worker: TrialWorker,
) -> BuiltResults | None:
    """Compare what a built program prints with two runs in eager mode, and where it differs run it
    with ``aot_eager``. None where nothing differs.
    """
    differing = tuple(printed_otherwise(built, eager))
    if _is_about_compiling(differing):
        # A line such as "compiled 3.1" is a result, or a time: a second run tells them apart.
        again = await run_built(request, worker, use_caches=False)
        printed = set(again.printed)
        differing = tuple(
            (line, other)
            for line, other in differing
            if not _COMPILING.search(line) or line in printed
        )
    if not differing:
        return None
    settings = {**request.settings, "compile.backend": AOT_EAGER}
    other = await run_program(straight_through(request, settings=settings), worker)
    is_right = (
        other is not None
        and other.ended == eager[0].ended
        and not list(printed_otherwise(other, eager))
    )
    return BuiltResults(differing, is_right)


_COMPILING = re.compile(r"\bcompil", re.I)


def printed_otherwise(
    run: ProgramRun, eager: tuple[ProgramRun, ProgramRun]
) -> Iterator[tuple[str, str]]:
    """Yield (line, line of eager mode) where a run prints otherwise; without the lines that count
    compilations.
    """
    for line, other in differing_lines(run, *eager, left_out=OF_TIME):
        if not (_COMPILING.search(line) and has_no_fraction(line)):
            yield line, other


def _is_about_compiling(differing: Sequence[tuple[str, str]]) -> bool:
    return any(_COMPILING.search(line) for line, _ in differing)


def built_findings(compared: BuiltResults) -> Iterator[Finding]:
    """Yield that built code prints other results, with the stage that makes the difference."""
    stage = "Inductor" if compared.is_right_with_aot_eager else "AOTAutograd"
    is_far = any(is_far_off(line, other) for line, other in compared.differing)
    evidence = [
        f"Compiled it prints “{line}”, in eager mode “{other}”."
        for line, other in compared.differing[:SHOWN_LINES]
    ]
    more = len(compared.differing) - SHOWN_LINES
    if more > 0:
        evidence.append(f"{more} more lines differ.")
    yield Finding(
        kind="wrong result",
        text=(
            f"The program prints other results compiled than in eager mode: {stage} makes the "
            "difference."
        ),
        urgency="wrong",
        severity="problem" if is_far else "notice",
        topic="call",
        view="console",
        evidence=tuple(evidence),
        explanation=_explanation(compared, is_far=is_far),
        remedies=tuple(_remedies(compared)),
    )


def _explanation(compared: BuiltResults, *, is_far: bool) -> str:
    if compared.is_right_with_aot_eager:
        text = (
            'With backend="aot_eager" it prints what eager mode prints: the graphs are right, and '
            "the code that Inductor generates computes something else."
        )
    else:
        text = (
            "Dynamo's graphs, run with PyTorch's operators, print what eager mode prints, and "
            'backend="aot_eager" does not: AOTAutograd changes what they compute, writes into '
            "tensors and their views first of all."
        )
    if not is_far:
        text += " Rounding, too, can add up to such a difference over many steps."
    return text


def _remedies(compared: BuiltResults) -> Iterator[Remedy]:
    if compared.is_right_with_aot_eager:
        yield Remedy(
            'Use backend="aot_eager" until it is mended: it fuses nothing.',
            state="tried",
            result="it prints what eager mode prints.",
        )
    yield Remedy(
        "Find the first operator that differs: fx-explorer numerics FILE.py:FUNCTION --inputs "
        "EXPRESSION, with the function that you compile."
    )
