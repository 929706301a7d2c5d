"""This module has two kernels fused, or one taken apart, against Inductor's own choice: the program
is captured once more, its graph is compiled a second time as asked, and both are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fx_explorer import model
from fx_explorer.instruments.fusion.asked import GATE, AskedFusion, changes_for
from fx_explorer.instruments.fusion.tried_fusions import are_same_reason, why_still_apart
from fx_explorer.model import CaptureRequest, Changes, FusionChange
from fx_explorer.session import SessionReader
from fx_explorer.trials import HERE, Told, TrialWorker, ignore_message
from fx_explorer.variant_trials import (
    AskedAgain,
    Asking,
    VariantTrial,
    compile_again,
    side_of,
)


async def try_fusion(
    request: CaptureRequest,
    asked: AskedFusion,
    worker: TrialWorker = HERE,
    *,
    measures: bool = False,
    tell: Told = ignore_message,
) -> VariantTrial:
    """Compile as asked, and compare. ``request`` is that of the session with the kernels. With
    ``measures`` both are built and timed. Raises SessionWriteError when there is no room for a
    session.
    """
    again = AskedAgain(asked.first.compilation, asked.first.direction, GATE)
    asking = Asking(
        partial(_changes, asked),
        _NO_PLACE if asked.kind == "together" else _OTHER_PROGRAM,
        partial(_why_not, asked),
    )
    return await compile_again(request, again, asking, worker, measures=measures, tell=tell)


def _changes(asked: AskedFusion, reader: SessionReader) -> Changes:
    return Changes(fusions=changes_for(reader, asked))


def _why_not(
    asked: AskedFusion,
    reader: SessionReader,
    original: model.Compilation,
    variant: model.Compilation,
    changes: Changes,
) -> str:
    return why_not_as_asked(reader, original, variant, asked, changes.fusions)


_OTHER_PROGRAM = (
    "The program has no such kernel this time: capture it again, and use the kernel's new name."
)

_NO_PLACE = (
    "They access no memory in common, so fusing would save nothing; or the program has other "
    "kernels this time."
)


def why_not_as_asked(
    reader: SessionReader,
    original: model.Compilation,
    variant: model.Compilation,
    asked: AskedFusion,
    changes: Sequence[FusionChange],
) -> str:
    """Return why the code of the variant is not as was asked; empty where it is."""
    if variant.status != "ok":
        return f"Compiling it again failed: {variant.error}"
    if asked.kind == "together":
        refused = why_still_apart(reader, variant, changes)
        as_before = why_still_apart(reader, original, changes)
        # The original's kernels are on screen, with their numbers.
        return as_before if are_same_reason(refused, as_before) else refused
    direction = asked.first.direction
    before, after = side_of(reader, original, direction), side_of(reader, variant, direction)
    return "" if len(after.kernels) > len(before.kernels) else _NOTHING_APART


_NOTHING_APART = (
    "It has as many kernels as before. An operation that Inductor inlined into another kernel "
    "cannot be split off, and in C++, loops that are not fused are still written into one "
    "function."
)
