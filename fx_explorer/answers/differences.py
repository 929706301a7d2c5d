"""The answer to "what changed": two sessions, figure by figure, with what only one of them has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fx_explorer.analysis.words import counted, listed
from fx_explorer.answers.answer import Answer, Json
from fx_explorer.instruments.diff.kernel_pairs import IN_WORDS, KernelPair, code_diff, kernel_pairs
from fx_explorer.instruments.diff.two_sessions import COMPILE_TIME, figures_of_both
from fx_explorer.overview.baseline import KINDS, Baseline, Figure, measure
from fx_explorer.overview.checks import CheckFinding
from fx_explorer.session import SessionReader

CHANGED_LINES = 30
"""Maximum number of changed lines of one kernel."""


def of_difference(before: SessionReader, after: SessionReader) -> Answer:
    """Return what differs: figures, then what only one session has (breaks, recompiles, fallbacks,
    saved tensors, options), then kernels whose code differs.
    """
    figures = [figure for figure in figures_of_both(before, after) if figure.differs]
    rows: list[Json] = []
    for figure in figures:
        if figure.what != COMPILE_TIME:
            change = {"before": figure.left, "after": figure.right, "change": figure.change}
            rows.append({"what": "figure", "name": figure.what.strip(), **change})
    rows += _parts(measure(before, Path()), measure(after, Path()))
    rows += _options(before, after)
    rows += _kernels(before, after)
    return Answer(
        text=_sentence(rows),
        rows=rows,
        known_from="both sessions; kernels are paired by the operations that they compute",
        next=[],
    )


def _sentence(rows: list[Json]) -> str:
    if not rows:
        return "Nothing differs but times."
    counts = Counter(str(row["what"]) for row in rows)
    differing = listed([f"{name}: {count}" for name, count in counts.items()], 8)
    return f"{counted(len(rows), 'difference')} ({differing})."


def _parts(before: Baseline, after: Baseline) -> Iterator[Json]:
    """Yield what each figure consists of, where only one session has it."""
    for kind in KINDS:
        old = before.figures.get(kind.name, Figure(0))
        new = after.figures.get(kind.name, Figure(0))
        if kind.name in ("kernels", "moved_bytes"):
            continue  # kernels are compared one by one
        for side, here, there in (("before", old, new), ("after", new, old)):
            for part, count in _only_in(here, there).items():
                yield {
                    "what": f"only {side}",
                    "name": kind.noun,
                    "text": part.text,
                    "at": f"{part.file}:{part.line}" if part.file else "",
                    "times": count if count > 1 else None,
                }


def _only_in(here: Figure, there: Figure) -> Counter[CheckFinding]:
    """Return the parts that the other figure does not have, wherever their lines have moved to."""
    known = Counter((part.file, part.text) for part in there.parts)
    only: Counter[CheckFinding] = Counter()
    for part in here.parts:
        key = (part.file, part.text)
        if known[key]:
            known[key] -= 1
        else:
            only[part] += 1
    return only


def _options(before: SessionReader, after: SessionReader) -> Iterator[Json]:
    old, new = _values(before), _values(after)
    for name in sorted(old.keys() & new.keys()):
        if old[name] != new[name]:
            yield {"what": "option", "name": name, "before": old[name], "after": new[name]}


def _values(reader: SessionReader) -> dict[str, str]:
    """Return name of an option → its values in force."""
    from fx_explorer.instruments.options.explained_options import explained_options

    values = {}
    for option in explained_options(reader):
        values[option.name] = ", ".join(dict.fromkeys(row.value for row in option.in_force))
    return values


def _kernels(before: SessionReader, after: SessionReader) -> Iterator[Json]:
    for pair in kernel_pairs(before, after):
        if pair.difference in ("same", "device"):
            continue
        lines = _changed_lines(before, after, pair) if pair.difference == "code" else []
        use = pair.right or pair.left
        yield {
            "what": "kernel",
            "name": pair.name,
            "compilation": pair.compilation,
            "direction": pair.direction,
            "change": IN_WORDS[pair.difference],
            "computes": list(use.nodes) if use else [],
            "changed_lines": lines,
        }


def _changed_lines(before: SessionReader, after: SessionReader, pair: KernelPair) -> list[str]:
    lines = []
    for row in code_diff(before, after, pair):
        if row.sign == " ":
            continue
        if row.before is not None and row.sign != "+":
            lines.append(f"- {row.before}")
        if row.after is not None and row.sign in "+~":
            lines.append(f"+ {row.after}")
    return lines[:CHANGED_LINES]
