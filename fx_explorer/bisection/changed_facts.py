"""This module says what differs between the last good and the first bad capture of a bisect, as
facts: the break, the guard, the kernels, the tensor, the figure, each at its line. What the
condition is about comes first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fx_explorer import model
from fx_explorer.analysis.words import first_line
from fx_explorer.instruments.diff.two_sessions import cause_alone
from fx_explorer.overview.baseline import KINDS, Baseline, Kind
from fx_explorer.overview.checks import BASELINE, Check, CheckFinding, relative_path
from fx_explorer.session import SessionReader

OF_CONDITION: dict[str, tuple[str, ...]] = {
    "max-graph-breaks": ("graph_breaks",),
    "max-break-sites": ("graph_breaks",),
    "max-recompiles": ("recompiles", "guards"),
    "max-guards": ("guards",),
    "no-skipped-frames": ("eager_functions",),
    "expect-graphs": ("graph_breaks", "recompiles", "eager_functions", "graphs"),
    "max-compile-seconds": ("compile_s",),
    "max-kernels": ("kernels",),
    "max-saved-bytes": ("saved_bytes",),
    "max-peak": ("peak_bytes", "saved_bytes"),
    "no-fallbacks": ("fallbacks",),
    "expect-fused": ("kernels",),
}
"""Condition → the figures that it is about."""

PARTS_SHOWN = 8

Part = CheckFinding


@dataclass(frozen=True, slots=True)
class ChangedFact:
    """One thing that differs: a figure with what is new in it and gone from it, or a condition that
    is not met any more.
    """

    what: str
    """``graph breaks``, or the name of a condition."""
    before: str
    now: str
    is_asked: bool
    """Whether the condition is about it."""
    new: tuple[Part, ...] = ()
    gone: tuple[Part, ...] = ()

    @property
    def heading(self) -> str:
        if self.before == self.now:
            return f"{self.what}: {self.now} as before, and other ones"
        return f"{self.what}: {self.before} → {self.now}" if self.before else self.now


@dataclass(frozen=True, slots=True)
class CaptureFacts:
    """What is known of one capture."""

    figures: Baseline
    failed: tuple[Check, ...]
    """The conditions that it does not meet, with files relative to the checkout."""
    guards: tuple[Part, ...]
    """The guards of all compilations."""
    user_files: tuple[str, ...]
    """The files of the repository that the program ran."""


def changed_facts(good: CaptureFacts, bad: CaptureFacts) -> list[ChangedFact]:
    """Return what differs, first what the failed conditions are about."""
    asked = _asked_kinds(bad.failed)
    facts = []
    for kind in KINDS:
        fact = _figure_fact(kind, good, bad)
        if fact is not None:
            facts.append(replace(fact, is_asked=kind.name in asked))
    facts = [*_condition_facts(bad, facts), *facts]
    return sorted(facts, key=lambda fact: not fact.is_asked)


def _asked_kinds(failed: Iterable[Check]) -> set[str]:
    names: set[str] = set()
    for check in failed:
        if check.condition.startswith(BASELINE):
            names.add(check.condition.removeprefix(BASELINE).replace("-", "_"))
        names.update(OF_CONDITION.get(check.condition.split(" ")[0], ()))
    return names


def _condition_facts(bad: CaptureFacts, of_figures: Sequence[ChangedFact]) -> Iterator[ChangedFact]:
    """Yield the failed conditions that no figure explains: other results, errors of the compiler,
    problems that fx-explorer diagnose names.
    """
    explained = {fact.what for fact in of_figures if fact.is_asked}
    nouns = {kind.name: kind.noun for kind in KINDS}
    for check in bad.failed:
        kinds = OF_CONDITION.get(check.condition.split(" ")[0], ())
        is_explained = any(nouns[kind] in explained for kind in kinds)
        if not is_explained and not check.condition.startswith(BASELINE):
            yield ChangedFact(check.condition, "", check.measured, True, check.findings)


def _figure_fact(kind: Kind, good: CaptureFacts, bad: CaptureFacts) -> ChangedFact | None:
    old, now = good.figures.figures.get(kind.name), bad.figures.figures.get(kind.name)
    if old is None or now is None:
        return None
    if kind.name == "compile_s" and not _is_much_slower(kind, old.value, now.value):
        return None
    if kind.name == "guards":
        new, gone = _differing(good.guards, bad.guards)
    else:
        new, gone = _differing(old.parts, now.parts)
    if old.value == now.value and not new and not gone:
        return None
    return ChangedFact(kind.noun, kind.shown(old.value), kind.shown(now.value), False, new, gone)


def _is_much_slower(kind: Kind, before_s: float, now_s: float) -> bool:
    """Return whether compiling took clearly longer: it varies with the load of the machine."""
    return now_s > before_s * 1.5 and now_s > before_s + 0.5


def _differing(
    before: Sequence[Part], now: Sequence[Part]
) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """Return the parts that are new, and those that are gone, wherever lines moved to."""
    return tuple(_only(now, before)), tuple(_only(before, now))


def _only(parts: Sequence[Part], others: Sequence[Part]) -> Iterator[Part]:
    known = Counter(_key(part) for part in others)
    for part in parts:
        key = _key(part)
        if known[key]:
            known[key] -= 1
        else:
            yield part


_COMPILATION = re.compile(r" \[\d+/\d+(?:_\d+)?\]")


def _key(part: Part) -> tuple[str, str]:
    return part.file, cause_alone(_COMPILATION.sub("", part.text))


def guard_parts(reader: SessionReader, folder: Path) -> Iterator[Part]:
    """Yield the guards of a session, each with the line that it is from."""
    for guard in reader.rows(model.Guard):
        if guard.dropped_by:
            continue
        code = first_line(str(guard.code)) or guard.kind
        text = f"guard on {guard.source}: {code}" if guard.source else f"guard: {code}"
        yield Part(relative_path(guard.file, folder), guard.line, _ADDRESS.sub("…", text))


_ADDRESS = re.compile(r"\b\d{9,}\b|0x[0-9a-f]{6,}")
"""Matches addresses of objects in guards, which differ from run to run."""
