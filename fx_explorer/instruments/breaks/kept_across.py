"""Values that are kept for the backward because of a graph break, told apart from those that would
be kept anyway.

A value that the graph before computes comes into a graph behind from outside. If that graph needs
it for its backward, it must keep it, because it cannot compute it again. In one graph torch would
be free to keep it, to keep something smaller, or to compute it again. A value that both sides need
is kept by both, whether computed before or an input of both. It is one tensor in memory, and
appears twice among the saved tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from fx_explorer import model
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.graphs import nodes_of_stage
from fx_explorer.session.queries.links import descendants


class Local(NamedTuple):
    """A local of a function that a break cuts, as ``LocalTensor`` has it."""

    depth: int
    source: str


@dataclass(frozen=True, slots=True)
class KeptAcross:
    """One value that a graph behind a break keeps."""

    source: str
    """The function's name for it in torch's words: ``L['h']``."""
    node: int
    """The node of the graph before that computes it, or the input that it is."""
    crosses: bool
    """Whether the graph before computes it, so that only the cut makes it come in from outside.
    Otherwise it is an input of both.
    """
    kept_before: tuple[model.SavedTensor, ...]
    """What the graph before keeps because it needs the value too; mostly none or one."""
    kept_behind: tuple[model.SavedTensor, ...]
    """What graphs behind keep: two branches of an ``if`` each keep it."""

    @property
    def is_kept_twice(self) -> bool:
        return bool(self.kept_before)


class KeptValues:
    """Finds which SavedTensors are which values of Dynamo's graphs, one by one. A view is the value
    it is a view of.
    """

    def __init__(self, reader: SessionReader, compilations: frozenset[int] | None) -> None:
        """``compilations`` are those that count; None stands for all."""
        self._reader = reader
        self._compilations = compilations
        self._known: dict[int, tuple[model.SavedTensor, ...]] = {}

    @cached_property
    def _by_value(self) -> dict[int, list[model.SavedTensor]]:
        wanted = self._compilations
        found: dict[int, list[model.SavedTensor]] = {}
        for row in self._reader.rows(model.SavedTensor):
            if wanted is None or row.compilation in wanted:
                found.setdefault(self._value(row.producer), []).append(row)
        return found

    def _value(self, node: int) -> int:
        """Return the node whose value this is, through views. A getitem is no view: it chooses one
        of several values.
        """
        while True:
            viewed = self._reader.producers(node)
            (one,) = self._reader.by_ids(model.Node, [node]) or (None,)
            if (
                one is None
                or not one.is_view
                or "getitem" in one.target
                or len(viewed) != 1
                or viewed[0] >= node
            ):
                return node
            node = viewed[0]  # a node takes only what was computed before it, so this ends

    def of(self, node: int) -> tuple[model.SavedTensor, ...]:
        """Return what keeps the value of a node of Dynamo's."""
        if not self._by_value:
            return ()
        if node not in self._known:
            self._known[node] = tuple(self._keeping(node))
        return self._known[node]

    def _keeping(self, node: int) -> Iterable[model.SavedTensor]:
        """Return what keeps the node's value, which is that of the last operation it became.
        Earlier ones are on the way to it.
        """
        last: dict[int, model.Node] = {}
        made = self._reader.by_ids(
            model.Node, nodes_of_stage(self._reader, descendants(self._reader, [node]), "forward")
        )
        for one in made:
            if one.graph not in last or one.position > last[one.graph].position:
                last[one.graph] = one
        return (row for one in last.values() for row in self._by_value.get(self._value(one.id), ()))


def kept_across(
    kept: KeptValues,
    computed: Mapping[Local, int],
    inputs: Mapping[Local, int],
    taken: Mapping[Local, set[int]],
) -> list[KeptAcross]:
    """Return the values that graphs behind keep.

    ``computed`` and ``inputs`` map a local to a node of the graph before. ``taken`` maps a local to
    the inputs of graphs behind that it is.
    """
    values = []
    # A computed value comes first: under its name the input before it is no longer seen.
    for local, node in (
        *computed.items(),
        *((local, node) for local, node in inputs.items() if local not in computed),
    ):
        behind = tuple(row for taker in sorted(taken.get(local, ())) for row in kept.of(taker))
        value = KeptAcross(local.source, node, local in computed, kept.of(node), behind)
        if behind and (value.crosses or value.is_kept_twice):
            values.append(value)
    return values
