"""This module tells apart the loop nests that stand in one C++ kernel, with the user's lines of
each, and says of any two that access the same memory why Inductor did not merge them.

One kernel is no proof of fusion in C++: what Inductor's scheduler left apart is written into one
function as long as no library call lies between, and each loop nest reads and writes memory again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.lineage import in_use
from fx_explorer.analysis.words import counted, listed
from fx_explorer.instruments.fusion.unfused_reasons import Cause, cause_of
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import source_paths
from fx_explorer.session.queries.joined import origins_of_joined
from fx_explorer.session.queries.kernels import lines_of_nodes
from fx_explorer.session.reader import answered_once

Line = tuple[str, int]
"""File and line, from 1."""


@dataclass(frozen=True, slots=True)
class Nest:
    """A loop nest of a C++ kernel, or several that share their outer loops."""

    rows: tuple[model.LoopNest, ...]
    kernel: model.Kernel
    name: str
    """Inductor's name: ``op0_op4``."""
    lines: tuple[Line, ...]
    """The user's lines that it computes, in order."""
    computes: tuple[str, ...]
    """The post-grad nodes that it computes."""

    @property
    def is_alone(self) -> bool:
        """Return whether it was fused with nothing, and shares no outer loop."""
        is_one = len(self.rows) == 1 and self.name.count("op") == 1
        return is_one and not self.rows[0].is_outer_shared

    @property
    def where(self) -> str:
        return listed([in_file(*line) for line in self.lines], 4)


@dataclass(frozen=True, slots=True)
class NestPair:
    """Two loop nests of one kernel that access the same memory, and were not merged."""

    pair: model.UnfusedPair
    first: Nest
    second: Nest
    cause: Cause


@answered_once
def nests_by_kernel(reader: SessionReader) -> dict[int, list[Nest]]:
    """Return kernel → its loop nests in the order they run, of kernels in use that have several.
    Of a kernel that is called several times, those of its first call.
    """
    by_call: defaultdict[int, list[model.LoopNest]] = defaultdict(list)
    for row in reader.rows(model.LoopNest):
        by_call[row.call].append(row)
    if not by_call:
        return {}
    used = in_use(reader)
    calls = reader.by_ids(model.KernelCall, by_call)
    kernels = {row.id: row for row in reader.by_ids(model.Kernel, {c.kernel for c in calls})}
    facts = _Facts.of(reader, [row for rows in by_call.values() for row in rows])
    nests: dict[int, list[Nest]] = {}
    for call in sorted(calls, key=lambda call: call.id):
        if call.kernel in nests or (used is not None and call.kernel not in used.kernels):
            continue
        rows = sorted(by_call[call.id], key=lambda row: row.position)
        nests[call.kernel] = [facts.nest([row], kernels[call.kernel]) for row in rows]
    return nests


@dataclass(frozen=True, slots=True)
class _Facts:
    """Names and lines of the nodes that loop nests compute."""

    names: Mapping[int, str]
    lines: Mapping[int, Sequence[Line]]

    @classmethod
    def of(cls, reader: SessionReader, rows: Iterable[model.LoopNest]) -> _Facts:
        nodes = {node for row in rows for node in row.nodes}
        paths = source_paths(reader)
        lines: dict[int, Sequence[Line]] = {}
        joined = origins_of_joined(reader)
        for node, (file, line) in lines_of_nodes(reader, nodes).items():
            places = [(origin.file, origin.line) for origin in joined.get(node, ())]
            lines[node] = [(paths[f], n) for f, n in places or [(file, line)] if f in paths]
        names = {node.id: node.name for node in reader.by_ids(model.Node, nodes)}
        return cls(names, lines)

    def nest(self, rows: Sequence[model.LoopNest], kernel: model.Kernel) -> Nest:
        nodes = list(dict.fromkeys(node for row in rows for node in row.nodes))
        lines = sorted({line for node in nodes for line in self.lines.get(node, ())})
        return Nest(
            rows=tuple(rows),
            kernel=kernel,
            name="_".join(row.name for row in rows),
            lines=tuple(lines),
            computes=tuple(self.names[node] for node in nodes if node in self.names),
        )


@answered_once
def unmerged_pairs(reader: SessionReader) -> list[NestPair]:
    """Return the pairs of loop nests in one kernel, by kernel, those first that share most."""
    rows = [row for row in reader.rows(model.UnfusedPair) if row.first == row.second]
    if not rows:
        return []
    by_kernel = nests_by_kernel(reader)
    kernels = {}
    for call in reader.by_ids(model.KernelCall, {row.first for row in rows}):
        kernels[call.id] = call.kernel
    of_nests = [nest.rows[0] for nests in by_kernel.values() for nest in nests]
    facts = _Facts.of(reader, of_nests)
    pairs = []
    for row in rows:
        nests = by_kernel.get(kernels[row.first], [])
        first = _with_buffers(facts, nests, row.first, row.first_buffers)
        second = _with_buffers(facts, nests, row.first, row.second_buffers)
        if first is None or second is None:
            continue
        cause = cause_of(row, first.kernel, second.kernel, is_split=False)
        pairs.append(NestPair(row, first, second, cause))
    pairs.sort(key=lambda pair: (pair.first.kernel.id, -pair.pair.saved_bytes, pair.pair.id))
    return pairs


def _with_buffers(
    facts: _Facts, nests: Sequence[Nest], call: int, buffers: Iterable[str]
) -> Nest | None:
    """Return the nest that computes these buffers, or those together that do."""
    wanted = set(buffers)
    rows = []
    for nest in nests:
        rows += [row for row in nest.rows if row.call == call and wanted.intersection(row.buffers)]
    return facts.nest(rows, nests[0].kernel) if rows else None


def pairs_in_kernel(reader: SessionReader, kernel: int) -> list[NestPair]:
    return [pair for pair in unmerged_pairs(reader) if pair.first.kernel.id == kernel]


MOST_DESCRIBED = 6
"""Maximum number of loop nests in a sentence."""


def describe_nests(nests: Sequence[Nest]) -> str:
    """Return ``3 loop nests: op0_op4 (model.py:6), op1 and op2 with one outer loop (model.py:7) and
    op3, which stays alone (model.py:8)``.
    """
    groups: dict[str, list[Nest]] = {}
    for nest in nests:
        row = nest.rows[0]
        key = row.outer if row.outer and row.is_outer_shared else f"{row.position}"
        groups.setdefault(key, []).append(nest)
    parts = [_describe_group(group) for group in groups.values()]
    how_many = counted(len(groups), "loop nest")
    return f"{how_many}: {listed(parts, MOST_DESCRIBED)}"


def _describe_group(group: Sequence[Nest]) -> str:
    names = listed([nest.name for nest in group], len(group))
    if len(group) > 1:
        names += " with one outer loop"
    elif group[0].is_alone:
        names += ", which stays alone"
    lines = dict.fromkeys(in_file(*line) for nest in group for line in nest.lines)
    return f"{names} ({listed(lines, 4)})" if lines else names
