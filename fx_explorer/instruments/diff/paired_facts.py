"""Guards, options, passes and missed fusions of two sessions of the same program, in pairs: what
differs, and what only one of them has. Names that torch numbers, and addresses of objects, do not
count.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import PurePath
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.documents import graph_title
from fx_explorer.analysis.lineage import variants_in_use
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.words import counted
from fx_explorer.instruments.kernels.counts import kernel_uses
from fx_explorer.instruments.options.explained_options import OTHERS, all_options
from fx_explorer.model.setting_values import as_python
from fx_explorer.session import SessionReader

FactKind = Literal["guard", "option", "pass", "missed fusion"]

KINDS: dict[FactKind, str] = {
    "option": "options",
    "guard": "guards",
    "pass": "passes",
    "missed fusion": "missed fusions",
}
"""Kind → its title, in the order in which they are listed."""


@dataclass(frozen=True, slots=True)
class PairedFact:
    """One that differs; None on the side that lacks it."""

    kind: FactKind
    name: str
    """What it is about: ``L['x']``, ``inductor.max_fusion_size``, a pass with its graph."""
    left: str | None
    right: str | None
    times: int = 1
    """How many of them differ alike."""

    @property
    def words(self) -> str:
        """Return ``L['x']: size=[8, 16] → size=[16, 16]``."""
        times = f" ({self.times:,} times)" if self.times > 1 else ""
        if self.left is None:
            return f"{self.name}: only in the second: {self.right}{times}"
        if self.right is None:
            return f"{self.name}: only in the first: {self.left}{times}"
        left, right = _differing_parts(self.left, self.right)
        return f"{self.name}: {left} → {right}{times}"


_BETWEEN_PARTS = re.compile(r", (?![^\[]*\])| and ")
"""Matches what is between the parts of a condition: no comma of a list."""


def _differing_parts(left: str, right: str) -> tuple[str, str]:
    """Return the parts of two conditions that the other does not have; all where one has no such
    part.
    """
    old, new = _BETWEEN_PARTS.split(left), _BETWEEN_PARTS.split(right)
    only_old = [part for part in old if part not in new]
    only_new = [part for part in new if part not in old]
    if not only_old or not only_new:
        return left, right
    return ", ".join(map(_closed, only_old)), ", ".join(map(_closed, only_new))


def _closed(part: str) -> str:
    """Return the last argument of a call without the call's closing parenthesis."""
    is_closed = part.count(")") <= part.count("(")
    return part if is_closed else part.removesuffix(")")


def paired_facts(left: SessionReader, right: SessionReader) -> list[PairedFact]:
    """Return what differs, by kind."""
    facts = [*_options(left, right)]
    facts += _compared("guard", *_guards_of_both(left, right))
    facts += _compared("pass", _passes(left), _passes(right))
    facts += _compared("missed fusion", _missed_fusions(left), _missed_fusions(right))
    return facts


def _compared(
    kind: FactKind, left: Mapping[str, list[str]], right: Mapping[str, list[str]]
) -> list[PairedFact]:
    """Return what differs, by name. What is equal under a name on both sides is left out; the rest
    is paired in its order.
    """
    counts: Counter[tuple[str, str | None, str | None]] = Counter()
    for name in dict.fromkeys([*left, *right]):
        old, new = Counter(left.get(name, [])), Counter(right.get(name, []))
        only_old, only_new = (old - new).elements(), (new - old).elements()
        for before, after in zip_longest(only_old, only_new):
            counts[name, before, after] += 1
    return [PairedFact(kind, *fact, times) for fact, times in counts.items()]


# options


def _options(left: SessionReader, right: SessionReader) -> Iterator[PairedFact]:
    """Yield the options whose values in force differ, of those that both sessions know."""
    old, new = _values(left), _values(right)
    for name in sorted(old.keys() & new.keys()):
        if old[name] != new[name]:
            yield PairedFact("option", name, old[name], new[name])


def _values(reader: SessionReader) -> dict[str, str]:
    """Return name of an option → its values in force, as Python writes them."""
    values = {}
    for option in all_options(reader):
        if option.group != OTHERS or option.in_force:
            in_force = dict.fromkeys(row.value for row in option.in_force)
            values[option.name] = ", ".join(as_python(in_force))
    return values


# guards

_ADDRESS = re.compile(r"(?<![\d.])\d{9,}(?![\d.])|\b0x[0-9a-f]{6,}\b")
"""Matches the address of an object, which differs from run to run: alone, and in the name of a
global variable that torch makes (``__builtins_dict___140425777157264_c1``).
"""


Guards = dict[str, list[str]]
"""What is guarded, in a function → its conditions."""


def _guards_of_both(left: SessionReader, right: SessionReader) -> tuple[Guards, Guards]:
    """Return the guards of both. Where the program was in another file, its classes have another
    module: that is left out on both sides.
    """
    modules = _own_module(left), _own_module(right)
    if modules[0] == modules[1]:
        return _guards(left), _guards(right)
    return _guards(left, modules[0]), _guards(right, modules[1])


def _own_module(reader: SessionReader) -> str:
    """Return the name of the target's module: ``model`` for ``runs/model.py``."""
    return PurePath(str((reader.meta("target") or {}).get("file") or "")).stem


def _guards(reader: SessionReader, module: str = "") -> Guards:
    """Return the guards, without ``module`` in the names of classes."""
    of_module = f"<class '{module}."
    functions = {row.id: plain_function(row.function) for row in variants_in_use(reader)}
    guards: defaultdict[str, list[str]] = defaultdict(list)
    for guard in reader.rows(model.Guard):
        if guard.compilation in functions and not guard.dropped_by:
            subject = _ADDRESS.sub("…", guard.source) or guard.kind
            condition = _ADDRESS.sub("…", guard.code) or guard.kind
            if module:
                condition = condition.replace(of_module, "<class '")
            guards[f"{functions[guard.compilation]} {subject}"].append(condition)
    return guards


# passes


def _passes(reader: SessionReader) -> dict[str, list[str]]:
    """Return a pass and its graph → what it did, where it changed something."""
    names = {row.id: plain_function(row.function) for row in variants_in_use(reader)}
    graphs = {graph.id: graph for graph in reader.rows(model.Graph)}
    passes: defaultdict[str, list[str]] = defaultdict(list)
    for row in reader.rows(model.GraphPass):
        graph = graphs.get(row.graph)
        if graph is None or graph.compilation not in names:
            continue
        counts = ((row.made, "made"), (row.erased, "removed"), (row.changed, "changed"))
        did = [f"{counted(count, 'node')} {verb}" for count, verb in counts if count]
        if did:
            name = f"{names[graph.compilation]} · {graph_title(graph)} · {row.name}"
            passes[name].append(", ".join(did))
    return passes


# missed fusions

_NUMBER_OF_KERNEL = re.compile(r"_\d+$")

_NUMBERED = re.compile(r"\b(buf|op)\d+")
"""Matches Inductor's names of buffers and operations, which are numbered in each graph."""


def _missed_fusions(reader: SessionReader) -> dict[str, list[str]]:
    """Return two kernels, by their names without numbers → Inductor's reason for not fusing
    them.
    """
    used = {use.kernel.id: use.kernel for use in kernel_uses(reader)}
    calls = {call.id: call.kernel for call in reader.rows(model.KernelCall)}
    missed: defaultdict[str, list[str]] = defaultdict(list)
    for pair in reader.rows(model.UnfusedPair):
        if pair.first == pair.second:  # loops of one kernel
            continue
        if not pair.reason:  # Inductor did not think of fusing them
            continue
        kernels = [used.get(calls.get(call, 0)) for call in (pair.first, pair.second)]
        names = [_NUMBER_OF_KERNEL.sub("", kernel.name) for kernel in kernels if kernel]
        if len(names) == len(kernels):
            missed[" and ".join(names)].append(_NUMBERED.sub(r"\1", pair.reason))
    return missed
