"""This module counts the guards of a call: how many are evaluated in C++ and in Python, which are
the most expensive, and which of them torch's guard filters would drop.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from fx_explorer.analysis.words import listed
from fx_explorer.instruments.guards.guard_tree import (
    ExplainedCheck,
    explained_checks,
    most_expensive,
)
from fx_explorer.model import Compilation, FilterAnswer, Guard, GuardCheck, OptionInForce, Origin
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import Filtered, filtered

IN_PYTHON = ("LAMBDA_GUARD", "PYTHON_")
"""Beginnings of torch's names for leaves that call Python (torch/csrc/dynamo/guards.cpp); all
others are C++.
"""

MOST_NAMED = 3

UNSEEN: dict[Origin, str] = {
    "argument": "arguments",
    "module": "attributes of modules",
    "closure": "variables of enclosing functions",
    "global": "globals",
    "library": "functions of torch and Python",
    "state": "settings of torch (grad mode, autocast)",
    "shapes": "relations between sizes",
}
"""Origin of a guard → the change that stays unnoticed when the guard is dropped."""


@dataclass(frozen=True, slots=True)
class FilterEffect:
    """The guards of a call that a guard filter would drop."""

    name: str
    like: tuple[str, ...]
    """Other filters that drop exactly the same guards."""
    guards: int
    """Number of guards that Dynamo requested."""
    dropped: int
    in_cpp: int
    """Checks in C++ that would certainly be dropped with them. torch's own checks, such as the keys
    of dicts on the way to a value, are counted only if no guard is left.
    """
    in_python: int
    risk: str
    """A sentence, without its end, on the changes that would go unnoticed."""


@dataclass(frozen=True, slots=True)
class GuardCounts:
    """The guards of the compilations that a call runs through."""

    in_cpp: int = 0
    in_python: int = 0
    most_expensive: str = ""
    """The most expensive checks by themselves, with the values' names in the program."""
    filters: tuple[FilterEffect, ...] = ()
    """Effects of torch's filters that would drop at least one check, ordered from fewest
    dropped.
    """
    dropped: tuple[Filtered, ...] = ()
    """The guards that the filter in force dropped."""
    checks: Sequence[GuardCheck] = ()
    options: dict[str, object] = field(default_factory=dict)
    """Full name → value in force of the options that this torch has."""

    @property
    def whole(self) -> int:
        return self.in_cpp + self.in_python


def guard_counts(reader: SessionReader, compilations: Collection[str]) -> GuardCounts:
    """Return the guards of the compilations of these names."""
    owners = {row.id: row.name for row in reader.rows(Compilation) if row.name in compilations}
    explained: list[ExplainedCheck] = []
    for owner in owners:
        explained += explained_checks(reader, owner)
    in_python = _in_python(explained)
    guards = [row for row in reader.rows(Guard) if row.compilation in owners]
    rows = reader.rows(OptionInForce)
    options = {row.name: json.loads(row.value) for row in rows if row.name.startswith("dynamo.")}
    return GuardCounts(
        len(explained) - in_python,
        in_python,
        most_expensive(explained, MOST_NAMED),
        tuple(_filters(reader, explained, guards, owners)),
        tuple(filtered(reader)),
        [check.check for check in explained],
        options,
    )


def _in_python(checks: Iterable[ExplainedCheck]) -> int:
    return sum(check.check.kind.startswith(IN_PYTHON) for check in checks)


def _filters(
    reader: SessionReader,
    checks: Sequence[ExplainedCheck],
    guards: Sequence[Guard],
    owners: dict[int, str],
) -> list[FilterEffect]:
    """Return the filters with the checks that they drop. Filters that drop no check are left out: a
    guard need not have a check.
    """
    of_guard: dict[int, list[ExplainedCheck]] = {}
    for check in checks:
        of_guard.setdefault(check.check.guard, []).append(check)
    alike: dict[frozenset[int], list[str]] = {}
    for name, dropped in _dropped(reader, guards, owners).items():
        if any(guard in of_guard for guard in dropped):
            alike.setdefault(frozenset(dropped), []).append(name)
    effects = []
    for dropped_alike, (name, *like) in alike.items():
        # Without any guard, what torch checks for itself goes too, such as the keys of dicts.
        if len(dropped_alike) == len(guards):
            gone = list(checks)
        else:
            gone = []
            for guard in dropped_alike:
                gone += of_guard.get(guard, [])
        count, python = len(dropped_alike), _in_python(gone)
        effects.append(
            FilterEffect(
                name, tuple(like), len(guards), count, len(gone) - python, python, _risk(gone)
            )
        )
    return sorted(effects, key=lambda effect: effect.dropped)


def _dropped(
    reader: SessionReader, guards: Sequence[Guard], owners: dict[int, str]
) -> dict[str, set[int]]:
    """Return name of a filter → ids of the guards that it drops."""
    ids = {(owners[row.compilation], row.position): row.id for row in guards}
    dropped: dict[str, set[int]] = {}
    for answer in reader.rows(FilterAnswer):
        of_filter = dropped.setdefault(answer.filter, set())
        for position in answer.dropped:
            key = (answer.compilation, position)
            if key in ids:
                of_filter.add(ids[key])
    return dropped


def _risk(gone: Sequence[ExplainedCheck]) -> str:
    """Describe the changes that go unnoticed without these checks."""
    by_origin: dict[Origin, list[str]] = {}
    for check in gone:
        if check.chance != "hardly":
            by_origin.setdefault(check.check.origin, []).append(check.name)
    if not by_origin:
        return (
            "a function, class or module that the program replaces after compiling is not "
            "noticed: the old one keeps running"
        )
    text = listed(
        (_with_examples(origin, by_origin[origin]) for origin in UNSEEN if origin in by_origin),
        len(UNSEEN),
    )
    risk = f"changes to {text} after compiling are not noticed: the old compiled code keeps running"
    is_open = any(
        check.check.kind == "TENSOR_MATCH" and check.check.origin == "argument" for check in gone
    )
    if is_open:
        return f"{risk}, also with tensors of another shape or dtype, which may end the process"
    return risk


def _with_examples(origin: Origin, names: Sequence[str]) -> str:
    # The shortest are the program's own; names inside torch's modules are long.
    examples = sorted(dict.fromkeys(filter(None, names)), key=lambda name: (len(name), name))
    if examples and origin != "library":
        return f"{UNSEEN[origin]} ({listed(examples, 2)})"
    return UNSEEN[origin]
