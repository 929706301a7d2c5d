"""These helpers make fixes of one file: its text before and after, and the same fix with another
text.
"""

from __future__ import annotations

from dataclasses import replace

from fx_explorer.instruments.fixes.fix import Fix


def before(fix: Fix) -> str:
    (edit,) = fix.edits
    return edit.before


def after(fix: Fix) -> str:
    (edit,) = fix.edits
    return edit.after


def with_text(fix: Fix, text: str) -> Fix:
    (edit,) = fix.edits
    return replace(fix, edits=(replace(edit, after=text),))


def elsewhere(fix: Fix, path: str) -> Fix:
    (edit,) = fix.edits
    return replace(fix, edits=(replace(edit, path=path),))
