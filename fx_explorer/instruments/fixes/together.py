"""Several fixes become one here: their edits are merged file by file, their options together; they
are tried, and written to the user's files, as a whole. One fix alone is written here too
(``accept``).

One fix for each break is enough, and only good ones are taken: so the breaks are gone through, and
the fixes of each are tried until one is good.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.errors import UsageError
from fx_explorer.instruments.fixes.fix import Fix, distinct
from fx_explorer.instruments.fixes.trial import Trial, ordered
from fx_explorer.source_edit.merging import MergedEdits
from fx_explorer.source_edit.writing import why_not_written, write_edits

TITLE = "all good fixes together"


def unknown_yet(breaks: int) -> Fix:
    """Return the fix that represents all of them before anything was tried."""
    return Fix(
        TITLE,
        f"One good fix for each of the {breaks} breaks, as one edit. What was not tried "
        "yet is tried first.",
    )


def is_whole(fix: Fix) -> bool:
    return fix.title == TITLE


@dataclass(frozen=True, slots=True)
class Together:
    fix: Fix
    taken: tuple[Fix, ...]
    left_out: tuple[str, ...]
    """Fixes that do not go with the others, each with its reason."""


def next_to_try(breaks: Sequence[Sequence[Fix]], trials: Sequence[Trial]) -> Fix | None:
    """Return the likeliest fix, of the fixes of each break, that decides something: no other of its
    break is good, and it is not tried.

    None when all is known.
    """
    tried = [trial.fix for trial in trials]
    open_ones = (fixes for fixes in breaks if not _good(fixes, trials))
    return next(
        (fix for fixes in open_ones for fix in ordered(fixes, trials) if fix not in tried), None
    )


def together(breaks: Sequence[Sequence[Fix]], trials: Sequence[Trial]) -> Together | None:
    """Merge the good fixes into one; None when fewer than two are good, or go with each other: one
    alone has been tried.
    """
    good = [fix for fixes in breaks for fix in _good(fixes, trials)]
    texts: dict[str, MergedEdits] = {}
    taken: list[Fix] = []
    left_out: list[str] = []
    for fix in distinct(good):
        reason = _merge(fix, texts)
        if reason:
            left_out.append(f"{fix.title!r} (line {fix.line}) {reason}")
        else:
            taken.append(fix)
    if len(taken) > 1:
        return Together(_one(taken, texts, left_out), tuple(taken), tuple(left_out))
    return None


def _good(fixes: Sequence[Fix], trials: Sequence[Trial]) -> list[Fix]:
    """Return the first good one of the fixes of a break, if there is one."""
    good = [trial.fix for trial in trials if trial.is_good]
    return [fix for fix in fixes if fix in good][:1]


def _merge(fix: Fix, texts: dict[str, MergedEdits]) -> str:
    """Merge all edits of a fix into the texts, or none. Returns why that cannot be done; empty when
    it is done.
    """
    merged = {
        edit.path: copy.deepcopy(texts[edit.path]) for edit in fix.edits if edit.path in texts
    }
    for edit in fix.edits:
        reason = merged.setdefault(edit.path, MergedEdits(edit)).add(edit, fix.title)
        if reason:
            return reason
    texts.update(merged)
    return ""


def _one(taken: Sequence[Fix], texts: dict[str, MergedEdits], left_out: Sequence[str]) -> Fix:
    what = "; ".join(
        f"{fix.title} (line {fix.line})"
        for fix in sorted(taken, key=lambda fix: (fix.path, fix.line))
    )
    return Fix(
        TITLE,
        ". ".join([f"In one go: {what}", *(f"Left out: {one}" for one in left_out)]) + ".",
        " ".join(dict.fromkeys(fix.risk for fix in taken if fix.risk)),
        min(fix.line for fix in taken),
        tuple(merged.edit for merged in texts.values()),
        {name: value for fix in taken for name, value in fix.settings.items()},
        unseen="; ".join(dict.fromkeys(fix.unseen for fix in taken if fix.unseen)),
        # A fix joins several with the same sign, and two fixes often leave the same one out.
        untried="; ".join(
            dict.fromkeys(part for fix in taken for part in fix.untried.split("; ") if part)
        ),
    )


# What is written to the user's files.


def accept(fix: Fix) -> list[Path]:
    """Write it to each file that it edits, and return the backups. Nothing is written unless all of
    them are.

    Raises UsageError when it edits none, or a file is no longer what it was when captured, or
    cannot be written.
    """
    if not fix.edits:
        raise UsageError(
            f"this fix changes no file. Set it in your program: {fix.instruction.splitlines()[0]}"
        )
    return write_edits(fix.edits)


def why_not_accepted(fix: Fix) -> str:
    """Say why the fix cannot be written; empty when it can."""
    return why_not_written(fix.edits)
