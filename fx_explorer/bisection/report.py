"""This module says what a bisect found, as text and as JSON (``fx-explorer/bisect/1``,
docs/reference/bisect-schema.json).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fx_explorer import __version__
from fx_explorer.analysis.words import counted, first_line
from fx_explorer.bisection.bisect_run import Bisect, SearchStep
from fx_explorer.bisection.changed_facts import PARTS_SHOWN, ChangedFact, Part
from fx_explorer.bisection.repository import Commit, Hunk
from fx_explorer.output.terminal import Hanging, Line

SCHEMA = "fx-explorer/bisect/1"

LINES_SHOWN = 12
"""Maximum number of lines of the commit's diff that are shown."""


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of the commit's diff."""

    file: str
    line: int
    """Line in the new file; of a removed line, where it was."""
    sign: str
    text: str


def bisect_lines(bisect: Bisect) -> Iterator[Line]:
    """Yield the result as text: the commit, its lines that matter, and the facts."""
    yield from _first_bad(bisect)
    shown, others = lines_that_matter(bisect)
    for line in shown:
        yield Hanging(f"  {line.file}:{line.line}  {line.sign} ", line.text)
    if others:
        yield f"  and {counted(others, 'more changed line')}"
    asked = [fact for fact in bisect.facts if fact.is_asked]
    others_changed = [fact for fact in bisect.facts if not fact.is_asked]
    yield "What changed:"
    for fact in asked:
        yield from _fact_lines(fact)
    if not asked:
        yield f"  {first_line(bisect.tried[bisect.search.first_bad].why)}"
    if others_changed:
        yield Hanging("  also: ", "; ".join(fact.heading for fact in others_changed))
    if bisect.confirmed is not None:
        yield _confirmed_line(bisect.confirmed)
    yield from _skipped_lines(bisect)
    yield f"{counted(bisect.captures, 'capture')} of {counted(len(bisect.steps), 'step')}."


def _first_bad(bisect: Bisect) -> Iterator[Line]:
    bad = bisect.tried[bisect.search.first_bad]
    if not bisect.commits:
        yield Hanging("First bad: ", f"{_of_torch(bisect, bisect.search.first_bad)}")
        good = bisect.search.last_good
        if good is not None:
            yield Hanging("Last good: ", _of_torch(bisect, good))
        return
    if len(bisect.commits) > 1:
        yield f"The first bad commit is one of {len(bisect.commits)}: the others cannot be judged."
        for commit in bisect.commits:
            yield Hanging("  ", _described(commit))
    else:
        yield Hanging("First bad commit: ", _described(bisect.commits[0]))
    yield Hanging("  ", first_line(bad.why))
    commit = bisect.commits[-1]
    if len(commit.parents) > 1:
        first, second = commit.parents[:2]
        words = shlex.join(bisect.condition.words)
        yield Hanging(
            "  It is a merge. To search the commits of its branch: ",
            f"fx-explorer bisect --good {first[:10]} --bad {second[:10]} -- {words}",
        )


def _of_torch(bisect: Bisect, at: int) -> str:
    release = bisect.tried[at].torch
    return f"torch {release} ({bisect.steps[at].name})" if release else bisect.steps[at].name


def _described(commit: Commit) -> str:
    return f"{commit.short} {commit.author}, {commit.date}: {commit.subject}"


def _confirmed_line(is_confirmed: bool) -> Line:
    if is_confirmed:
        return "Only times differ, and a second capture of both confirms it."
    return "Only times differ, and a second capture of both does not confirm it: not certain."


def _fact_lines(fact: ChangedFact) -> Iterator[Line]:
    yield Hanging("  ", fact.heading)
    for sign, parts in (("+", fact.new), ("-", fact.gone)):
        for part in parts[:PARTS_SHOWN]:
            where = f"{part.where}: " if part.where else ""
            yield Hanging(f"    {sign} {where}", part.text)
        if len(parts) > PARTS_SHOWN:
            yield f"    {sign} and {len(parts) - PARTS_SHOWN} more"


def _skipped_lines(bisect: Bisect) -> Iterator[Line]:
    for at in bisect.order:
        if bisect.tried[at].verdict == "skipped":
            why = first_line(bisect.tried[at].why)
            yield Hanging(f"Skipped {bisect.steps[at].shown}: ", why)


def lines_that_matter(bisect: Bisect) -> tuple[list[DiffLine], int]:
    """Return the lines of the commit's diff at which a fact is, else those of files that the
    program ran; and the number of the other changed lines.
    """
    hunks = bisect.hunks
    total = sum(len(hunk.removed) + len(hunk.added) for hunk in hunks)
    side = bisect.tried[bisect.search.first_bad].side
    parts = [part for fact in bisect.facts if fact.is_asked for part in fact.new]
    chosen = [hunk for hunk in hunks if _is_at(hunk, parts)]
    if not chosen and side is not None:
        chosen = [hunk for hunk in hunks if hunk.file in side.user_files]
    lines = [line for hunk in chosen or hunks for line in _diff_lines(hunk)][:LINES_SHOWN]
    return lines, total - len(lines)


def _is_at(hunk: Hunk, parts: Iterable[Part]) -> bool:
    return any(hunk.covers(part.file, part.line) for part in parts)


def _diff_lines(hunk: Hunk) -> Iterator[DiffLine]:
    for text in hunk.removed:
        yield DiffLine(hunk.file, hunk.line, "-", text)
    for offset, text in enumerate(hunk.added):
        yield DiffLine(hunk.file, hunk.line + offset, "+", text)


# As JSON.


Json = dict[str, object]


def bisect_report(bisect: Bisect) -> Json:
    """Return the result as JSON."""
    lines, others = lines_that_matter(bisect)
    good = bisect.search.last_good
    return {
        "schema": SCHEMA,
        "fx_explorer": __version__,
        "condition": list(bisect.condition.words),
        "over": "commits" if bisect.commits else "interpreters",
        "suspects": _suspects(bisect),
        "last_good": bisect.steps[good].name if good is not None else None,
        "why": bisect.tried[bisect.search.first_bad].why,
        "facts": [_fact(fact) for fact in bisect.facts],
        "lines": [
            {"file": line.file, "line": line.line, "sign": line.sign, "text": line.text}
            for line in lines
        ],
        "other_changed_lines": others,
        "confirmed": bisect.confirmed,
        "captures": bisect.captures,
        "steps": [_step(bisect, at) for at in bisect.order],
        "between": len(bisect.steps),
    }


def _suspects(bisect: Bisect) -> Sequence[Json]:
    if bisect.commits:
        return [_commit(commit) for commit in bisect.commits]
    return [_interpreter(bisect, at, bisect.steps[at]) for at in bisect.search.suspects]


def _interpreter(bisect: Bisect, at: int, step: SearchStep) -> Json:
    tried = bisect.tried.get(at)
    return {"python": step.name, "torch": (tried.torch if tried else "") or None}


def _commit(commit: Commit) -> Json:
    return {
        "hash": commit.hash,
        "author": commit.author,
        "date": commit.date,
        "subject": commit.subject,
        "parents": list(commit.parents),
    }


def _step(bisect: Bisect, at: int) -> Json:
    tried = bisect.tried[at]
    return {
        "name": bisect.steps[at].name,
        "verdict": tried.verdict,
        "why": tried.why,
        "torch": tried.torch or None,
        "took_s": round(tried.took_s, 2),
    }


def _fact(fact: ChangedFact) -> Json:
    return {
        "what": fact.what,
        "before": fact.before or None,
        "now": fact.now,
        "is_asked": fact.is_asked,
        "new": [_part(part) for part in fact.new],
        "gone": [_part(part) for part in fact.gone],
    }


def _part(part: Part) -> Json:
    return {
        "file": part.file or None,
        "line": part.line or None,
        "text": part.text,
        "rule": part.rule or None,
    }
