"""A break's mends as rows, and what is told about the one under the cursor: why, what it changes, what came of trying it."""

from __future__ import annotations

from pathlib import PurePath

from fx_explorer.mending import Mend, Offer, Trial, Verdict
from fx_explorer.tui.widgets.row_list import Column, Row

COLUMNS = (
    Column("", "text", min_width=30, max_width=70),
    Column("", "muted", min_width=16),
)

SIGNS: dict[Verdict, tuple[str, str]] = {
    "good": ("✓", "good"),
    "prints differ": ("▲", "warning"),
    "partly compared": ("▲", "warning"),
    "refused": ("✗", "bad"),
    "not compared": ("?", "warning"),
}
"""(sign, kind of highlight.py): colour is never alone."""

_DOUBTS: dict[Verdict, str] = {
    "prints differ": "Prints differ. ",
    "partly compared": "Not everything could be compared. ",
}
"""What is asked about before it is written."""

Told = tuple[str, str]
"""A line and its kind."""


def title_of(offer: Offer) -> str:
    broken = offer.broken
    return f"Mends · {PurePath(broken.file).name}:{broken.line} · {broken.in_words}"


def mend_row(mend: Mend, trial: Trial | None, *, is_being_tried: bool) -> Row:
    if is_being_tried:
        return (mend.title, ("… being tried", "warning"))
    if trial is None:
        return (mend.title, "not tried")
    sign, kind = SIGNS[trial.verdict]
    return (mend.title, (f"{sign} {trial.verdict}", kind))


def told(mend: Mend, trial: Trial | None) -> list[Told]:
    lines = [(mend.why, "text"), (f"▲ {mend.risk}" if mend.risk else "", "warning")]
    if trial is not None:
        sign, kind = SIGNS[trial.verdict]
        lines += [(f"{sign} {trial.verdict}: {trial.reason}", kind), (measured(trial), "muted")]
    return [(text, kind) for text, kind in lines if text]


def measured(trial: Trial) -> str:
    """What the trial cost and gained, before → after; only the time when the changed program did not get through."""
    took = f"tried in {trial.took_s:.0f} s"
    before, after = trial.before, trial.after
    if after is None:
        return took
    compiling = f"compiling {before.compile_s:.2f} s → {after.compile_s:.2f} s"
    return f"breaks {before.sites} → {after.sites} · graphs {before.graphs} → {after.graphs} · {compiling} · {took}"


def shown(mend: Mend) -> str:
    """The edit as a diff; options as the lines that are to be added to the program."""
    options = "\n".join(f" {line}" if line.startswith("#") else f"+{line}" for line in mend.instruction.splitlines())
    return f"{mend.diff}{options}"


def why_not_written(mend: Mend, trial: Trial | None) -> str:
    """Empty when the user may be asked whether to write it."""
    if mend.marks:
        return "This changes no file: mark it in your program, before the first call. The lines can be copied."
    if mend.settings and not mend.path:
        return "This mend changes no file: set the option in your program. The lines can be copied."
    if trial is None:
        return "It has not been tried: only what was tried is written to your file."
    if trial.verdict in ("good", *_DOUBTS):
        return ""
    return f"Not written: {trial.verdict}, {trial.reason}. The diff can be copied."


def question(mend: Mend, trial: Trial) -> str:
    doubt = _DOUBTS.get(trial.verdict, "")
    others = "".join(f", {PurePath(edit.path).name}" for edit in mend.also)
    return f"{doubt}Write it to {PurePath(mend.path).name}:{mend.line}{others}, keeping a backup? y or yes"
