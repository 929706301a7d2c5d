"""A break's fixes as rows, and the text about the one under the cursor: why it may help, what it
changes, how its trial went.
"""

from __future__ import annotations

from fx_explorer.instruments.fixes.api import Fix, FixOffer, Trial, Verdict
from fx_explorer.session.file_names import file_name, in_file
from fx_explorer.tui.widgets.row_list import ListColumn, Row

COLUMNS = (
    ListColumn("", "text", min_width=30, max_width=70),
    ListColumn("", "muted", min_width=16),
)

SIGNS: dict[Verdict, tuple[str, str]] = {
    "good": ("✓", "good"),
    "prints differ": ("▲", "warning"),
    "partly compared": ("▲", "warning"),
    "refused": ("✗", "bad"),
    "not compared": ("?", "warning"),
    "timed out": ("?", "warning"),
}
"""(sign, kind of highlight.py). A sign is given because colour alone must not carry meaning."""

_DOUBTS: dict[Verdict, str] = {
    "prints differ": "Prints differ. ",
    "partly compared": "Not everything could be compared. ",
}
"""Verdicts other than good after which a fix may be written, with what the question begins with."""

Told = tuple[str, str]
"""A line and its kind."""


def title_of(offer: FixOffer) -> str:
    broken = offer.broken
    return f"Fixes · {in_file(broken.file, broken.line)} · {broken.in_words}"


def fix_row(fix: Fix, trial: Trial | None, *, is_being_tried: bool) -> Row:
    if is_being_tried:
        return (fix.title, ("… being tried", "warning"))
    if trial is None:
        return (fix.title, "not tried")
    sign, kind = SIGNS[trial.verdict]
    return (fix.title, (f"{sign} {trial.verdict}", kind))


def told(fix: Fix, trial: Trial | None) -> list[Told]:
    lines = [(fix.why, "text"), (f"▲ {fix.risk}" if fix.risk else "", "warning")]
    if trial is not None:
        sign, kind = SIGNS[trial.verdict]
        lines += [(f"{sign} {trial.verdict}: {trial.reason}", kind), (measured(trial), "muted")]
    return [(text, kind) for text, kind in lines if text]


def measured(trial: Trial) -> str:
    """Return what the trial cost and gained, before → after; only the time when the changed program
    failed.
    """
    took = f"tried in {trial.took_s:.0f} s"
    before, after = trial.before, trial.after
    if after is None:
        return took
    compiling = f"compiling {before.compile_s:.2f} s → {after.compile_s:.2f} s"
    return (
        f"breaks {before.graph_breaks} → {after.graph_breaks} · graphs {before.graphs} → "
        f"{after.graphs} · {compiling} · {took}"
    )


def shown(fix: Fix) -> str:
    """Return the edit as a diff, and options as the lines to add to the program."""
    options = "\n".join(
        f" {line}" if line.startswith("#") else f"+{line}" for line in fix.instruction.splitlines()
    )
    return f"{fix.diff}{options}"


def why_not_written(fix: Fix, trial: Trial | None) -> str:
    """Say why a fix is not written; empty when the user may be asked whether to write it."""
    if fix.marks:
        return (
            "This changes no file: mark it in your program, before the first call. The lines "
            "can be copied."
        )
    if fix.settings and not fix.edits:
        return "This fix changes no file: set the option in your program. The lines can be copied."
    if trial is None:
        return "It has not been tried: only what was tried is written to your file."
    if trial.verdict in ("good", *_DOUBTS):
        return ""
    return f"Not written: {trial.verdict}, {trial.reason}. The diff can be copied."


def good_words(good: int, of: int, key: str) -> str:
    """Say how many of the fixes are good once they were tried. ``key`` writes one."""
    if not good:
        return f"None of the {of} is good."
    return (
        f"{good} of the {of} {'is' if good == 1 else 'are'} good: {key} writes the one under "
        "the cursor."
    )


def question(fix: Fix, trial: Trial) -> str:
    doubt = _DOUBTS.get(trial.verdict, "")
    others = "".join(f", {file_name(edit.path)}" for edit in fix.edits[1:])
    return f"{doubt}Write it to {in_file(fix.path, fix.line)}{others}?"
