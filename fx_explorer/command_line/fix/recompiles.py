"""The recompiles in ``fx-explorer fix``: what caused each, what avoids it, and, with ``--try``,
what came of it.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.analysis.overview.checks import relative_path
from fx_explorer.analysis.recompiles.causes import ExplainedRecompile, causes
from fx_explorer.analysis.whole_session.figures import totals
from fx_explorer.command_line.trusting import check_program
from fx_explorer.fixing.dynamic_marks import DynamicMark, instruction, marks, sources_of
from fx_explorer.highlight import printable
from fx_explorer.model import CaptureRequest
from fx_explorer.output.terminal import Hanging, tell
from fx_explorer.session import SessionReader
from fx_explorer.trials.dynamic_marks import try_marks
from fx_explorer.trials.recapture import TrialWorker


@dataclass(frozen=True, slots=True)
class Recompiles:
    """The recompiles of a session and the marks against them, kept when the session is closed."""

    causes: list[ExplainedRecompile]
    marks: list[DynamicMark]
    compilations: int


def recompiles_of(reader: SessionReader) -> Recompiles:
    return Recompiles(causes(reader), marks(reader), totals(reader).compilations)


async def list_recompiles(
    found: Recompiles, request: CaptureRequest | None, arguments: argparse.Namespace
) -> None:
    """Print the recompiles. When ``request`` is None, the session does not say how it was captured,
    so nothing is tried.
    """
    for cause in found.causes:
        where = (
            f"{relative_path(cause.file, Path.cwd())}:{cause.line}"
            if cause.file
            else f"[{cause.compilation}]"
        )
        tell(Hanging(f"{printable(where)}  ", printable(f"compiled again: {cause.in_words}")))
        if cause.remedy:
            tell(f"       {printable(cause.remedy)}")
        for mark in found.marks:
            if mark.cause == cause and arguments.trying and request:
                await _try([mark], mark.instruction, found.compilations, request, arguments)
    if len(found.marks) > 1 and arguments.trying and request:
        tell("all that vary")
        await _try(found.marks, instruction(found.marks), found.compilations, request, arguments)


async def _try(
    wanted: list[DynamicMark],
    how: str,
    compilations: int,
    request: CaptureRequest,
    arguments: argparse.Namespace,
) -> None:
    check_program(arguments)
    sources = sources_of(wanted)
    trial = await try_marks(
        request, sources, compilations, TrialWorker(arguments.python, arguments.timeout)
    )
    tell(f"       {printable(f'{trial.in_words}: {how}')} (in {trial.took_s:.0f} s)")
