"""The answer about patterns that did not match: the nearest, or those of a name or at a node."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.words import counted
from fx_explorer.answers.answer import Answer
from fx_explorer.errors import UsageError
from fx_explorer.instruments.passes.near_match_reasons import (
    NOT_RECORDED,
    Near,
    all_near,
    describe_near,
    is_recorded,
    near_about,
    near_json,
    nearest,
)
from fx_explorer.session import SessionReader

KNOWN_FROM = (
    "torch's own pattern matching, recorded during the compile; alike: nodes of the pattern that "
    "match if the difference is ignored"
)


def of_patterns(reader: SessionReader, about: str) -> Answer:
    """Return the patterns that did not match; with words, those whose name has them, or else those
    at the node of this name. Raises UsageError where the words are neither.
    """
    if not is_recorded(reader):
        return Answer(NOT_RECORDED, known_from=KNOWN_FROM, next=["passes"])
    rows = near_about(reader, about) if about else nearest(reader)
    if about and not rows and all_near(reader) and not reader.has(model.Node, name=about):
        raise UsageError(
            f"no tried pattern and no node is called {about!r}; the answer to patterns lists the "
            "nearest of all"
        )
    return Answer(
        text=_sentence(reader, rows, about),
        rows=near_json(reader, rows),
        known_from=KNOWN_FROM,
        fields=(
            "patterns", "node", "matched", "alike", "size", "check", "expected", "found", "at",
            "line", "pass", "check_at",
        ),
        next=[f"node {rows[0].row.name}"] if rows and rows[0].row.name else ["passes"],
    )  # fmt: skip


def _sentence(reader: SessionReader, rows: list[Near], about: str) -> str:
    if rows:
        return f"{describe_near(reader, rows[0])} It is the nearest of {len(rows):,}."
    if about:
        return f"Every pattern that was tried at {about} matched, or none was tried there."
    count = len(all_near(reader))
    if count:
        return (
            f"No pattern nearly matched. {counted(count, 'pattern')} failed early; name a node or "
            "a pattern to see them."
        )
    return "Every pattern that was tried matched."
