"""This module lists the tensors at graph breaks: which ones are handed over, which graph and
kernels use them, how big they are, and which are saved for the backward because of the break.

A value that the graph before computes comes into a graph behind from outside. If that graph needs
it for its backward, it must keep it, because it cannot compute it again. In one graph torch would
be free to keep it, to keep something smaller, or to compute it again. A value that both sides need
is kept by both, whether computed before or an input of both. It is one tensor in memory, and
appears twice among the saved tensors.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from fx_explorer import model
from fx_explorer.analysis.lineage import RowsInUse, in_use
from fx_explorer.analysis.words import counted, size
from fx_explorer.instruments.breaks.call_tree import FunctionCall
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import chains_of_breaks
from fx_explorer.session.queries.graphs import (
    compilations_of_graphs,
    nodes_lowered_forward,
    nodes_of_stage,
)
from fx_explorer.session.queries.kernels import kernel_nodes
from fx_explorer.session.queries.links import descendants
from fx_explorer.session.queries.nodes import returned_nodes, users_of_inputs


class Local(NamedTuple):
    """A local of a function that a break cuts, as ``LocalTensor`` has it."""

    depth: int
    source: str


@dataclass(frozen=True, slots=True)
class KeptAcross:
    """A value that a graph after a break saves for its backward."""

    source: str
    """The function's name for it in torch's words: ``L['h']``."""
    node: int
    """Id of the node in the graph before the break that computes the value, or that is its
    input.
    """
    crosses: bool
    """Whether the graph before the break computes the value, so that it becomes an input only
    because of the break. Otherwise it is an input of both graphs.
    """
    kept_before: tuple[model.SavedTensor, ...]
    """Saved tensors of the graph before the break that hold the value, because that graph needs it
    for its own backward; usually none or one.
    """
    kept_behind: tuple[model.SavedTensor, ...]
    """Saved tensors of graphs after the break. Two branches of an ``if`` may each save the value.
    """

    @property
    def is_kept_twice(self) -> bool:
        return bool(self.kept_before)


class KeptValues:
    """Finds which values of Dynamo's graphs are saved for a backward. A view counts as the value
    that it is a view of.
    """

    def __init__(self, reader: SessionReader, compilations: frozenset[int] | None) -> None:
        """``compilations`` are those that count; None means all."""
        self._reader = reader
        self._compilations = compilations
        self._known: dict[int, tuple[model.SavedTensor, ...]] = {}

    @cached_property
    def _by_value(self) -> dict[int, list[model.SavedTensor]]:
        wanted = self._compilations
        by_value: dict[int, list[model.SavedTensor]] = {}
        for row in self._reader.rows(model.SavedTensor):
            if wanted is None or row.compilation in wanted:
                by_value.setdefault(self._value(row.producer), []).append(row)
        return by_value

    def _value(self, node: int) -> int:
        """Return the node that computes the value, through views. A getitem is not a view: it
        selects one of several values.
        """
        while True:
            viewed = self._reader.producers(node)
            (row,) = self._reader.by_ids(model.Node, [node]) or (None,)
            if (
                row is None
                or not row.is_view
                or "getitem" in row.target
                or len(viewed) != 1
                or viewed[0] >= node
            ):
                return node
            node = viewed[0]  # a node takes only what was computed before it, so this ends

    def of(self, node: int) -> tuple[model.SavedTensor, ...]:
        """Return the saved tensors that hold the value of a node of Dynamo's."""
        if not self._by_value:
            return ()
        if node not in self._known:
            self._known[node] = tuple(self._keeping(node))
        return self._known[node]

    def _keeping(self, node: int) -> Iterator[model.SavedTensor]:
        """Yield the saved tensors that hold the node's value, which is that of the last forward
        node that comes from it.
        """
        became = descendants(self._reader, [node])
        forward = nodes_of_stage(self._reader, became, "forward")
        last: dict[int, model.Node] = {}
        for row in self._reader.by_ids(model.Node, forward):
            if row.graph not in last or row.position > last[row.graph].position:
                last[row.graph] = row
        for operation in last.values():
            yield from self._by_value.get(self._value(operation.id), ())


def kept_across(
    kept: KeptValues,
    computed: Mapping[Local, int],
    inputs: Mapping[Local, int],
    taken: Mapping[Local, set[int]],
) -> list[KeptAcross]:
    """Return the values that the graphs after a break save for their backward.

    ``computed`` and ``inputs`` map a local to a node of the graph before the break: one that it
    computes, or an input of it. ``taken`` maps a local to the inputs of the later graphs that
    receive it.
    """
    values = []
    # A computed value comes first: under its name the input before it is no longer seen.
    nodes = dict(computed)
    for local, node in inputs.items():
        nodes.setdefault(local, node)
    for local, node in nodes.items():
        takers = sorted(taken.get(local, ()))
        behind = tuple(row for taker in takers for row in kept.of(taker))
        value = KeptAcross(local.source, node, local in computed, kept.of(node), behind)
        if behind and (value.crosses or value.is_kept_twice):
            values.append(value)
    return values


@dataclass(frozen=True, slots=True)
class Tensors:
    count: int = 0
    size_bytes: int = 0
    unknown_sizes: int = 0
    """How many of ``count`` have a size that depends on a symbol without a value. They are not in
    ``size_bytes``.
    """

    def __add__(self, other: Tensors) -> Tensors:
        unknown = self.unknown_sizes + other.unknown_sizes
        return Tensors(self.count + other.count, self.size_bytes + other.size_bytes, unknown)

    @property
    def description(self) -> str:
        return f"{counted(self.count, 'tensor')} ({self.description_of_size})"

    @property
    def description_of_size(self) -> str:
        at_least = "at least " if self.unknown_sizes else ""
        return f"{at_least}{size(self.size_bytes)}"


NO_TENSORS = Tensors()


class CutTensors:
    """Answers questions about the tensors at a session's breaks. Each row is read once."""

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader
        self._chains = {
            stack.id: stack.frames for stack in reader.by_ids(model.Stack, chains_of_breaks(reader))
        }
        self._resumes = reader.rows(model.ResumeFunction)
        self._locals = reader.rows(model.LocalTensor)
        self._owners = compilations_of_graphs(reader)
        self._symbols = {(row.compilation, row.name): row.hint for row in reader.rows(model.Symbol)}
        used = in_use(reader)
        self._kernels: dict[int, set[int]] = {}
        # Without tensors at a cut nobody asks for a kernel, and the nodes of all kernels are many
        # rows.
        if self._locals:
            self._kernels = _kernels_of_nodes(reader, used)
        saving = used.saving if used else None
        self.kept = KeptValues(reader, saving)

    def root_line(self, hit: model.GraphBreak) -> int:
        """Return the line of the compiled function at which the break happened, perhaps inside a
        function called there.
        """
        chain = self.chain(hit)
        return chain[0].line if chain else hit.line

    def chain(self, hit: model.GraphBreak) -> tuple[model.Frame, ...]:
        """Return the compiled function and the functions inlined into it, outermost first."""
        return self._chains.get(hit.chain, ())

    def resumed_lines(self, cut: FunctionCall) -> set[int]:
        compilations = {row.id for row in cut.compilations}
        return {row.root_line for row in self._resumes if row.compilation in compilations}

    def resume_functions(self, hit: model.GraphBreak) -> list[model.ResumeFunction]:
        """Return the resume functions that Dynamo made at a break, the innermost first."""
        return self._made_at(hit, {hit.compilation})

    def _made_at(
        self, hit: model.GraphBreak, compilations: Collection[int]
    ) -> list[model.ResumeFunction]:
        line = self.root_line(hit)
        of_line = [row for row in self._resumes if row.root_line == line]
        return [row for row in of_line if row.compilation in compilations]

    def handed_over(self, cut: FunctionCall, hit: model.GraphBreak) -> dict[Local, int]:
        """Return local → node of the graph before. One compilation of the function represents
        all.
        """
        compilations = {row.id for row in cut.compilations}
        computed = [row for row in self._locals if not row.is_input]
        rows = [row for row in computed if row.compilation in compilations]
        of_hit = [row for row in rows if row.compilation == hit.compilation] or rows
        # A tensor without a name would count once for each of several compilations.
        last = max((row.compilation for row in of_hit), default=0)
        handed_over = {}
        for row in of_hit:
            if row.compilation == last:
                local = Local(row.depth, row.source or f"node {row.node}")
                handed_over[local] = row.node
        return handed_over

    def takers(
        self, local: Local, cut: FunctionCall, hit: model.GraphBreak, behind: Iterable[FunctionCall]
    ) -> set[int]:
        """Return the inputs of graphs after a break that are the tensor of ``local``.

        A rest that does not use the tensor may pass it on to its own rest, as long as it does not
        give the name to another tensor.
        """
        takers: set[int] = set()
        passed: set[tuple[Local, str, int]] = set()  # breaks of one line are one cut
        pending = [(local, cut, hit, behind)]
        while pending:
            before, cut, hit, behind = pending.pop()
            rests = [call for call in behind if call.is_resume]
            for after, rest in itertools.product(self._in_rest(before, cut, hit), rests):
                taken = self._inputs(rest).get(after, set())
                takers |= taken
                if taken:
                    continue
                for inner in rest.breaks:
                    at = after, rest.frame, self.root_line(inner)
                    if at not in passed and after not in self.handed_over(rest, inner):
                        passed.add(at)
                        pending.append((after, rest, inner, rest.calls))
        return takers

    def inputs_of(self, cut: FunctionCall) -> dict[Local, int]:
        """Return local → input of a graph of ``cut``, by the input's name; of several compilations,
        the first is used.
        """
        return {local: min(nodes) for local, nodes in self._inputs(cut).items()}

    def _in_rest(self, local: Local, cut: FunctionCall, hit: model.GraphBreak) -> set[Local]:
        """Return the locals of the resume functions that hold a value after a break, if it is
        needed there. A function that only returns has no resume function; those of the functions it
        called then move up one depth.
        """
        made = self._made_at(hit, {row.id for row in cut.compilations})
        depths = sorted({row.depth for row in made})
        locals_behind: set[Local] = set()
        for row in made:
            depth = depths.index(row.depth)
            locals_behind.update(Local(depth, source) for source in _sources_in(row, local))
        return locals_behind

    def _inputs(self, called: FunctionCall) -> dict[Local, set[int]]:
        compilations = {row.id for row in called.compilations}
        taken: dict[Local, set[int]] = {}
        for row in self._locals:
            if row.is_input and row.compilation in compilations:
                taken.setdefault(Local(row.depth, row.source), set()).add(row.node)
        return taken

    def tensors(self, nodes: set[int]) -> Tensors:
        sizes = [self._size_bytes(node) for node in self._nodes(nodes)]
        known = [size for size in sizes if size is not None]
        return Tensors(len(sizes), sum(known), sizes.count(None))

    def _nodes(self, ids: Iterable[int]) -> list[model.Node]:
        return self._reader.by_ids(model.Node, ids)

    def writing(self, nodes: set[int]) -> set[int]:
        """Return the kernels that compute the outputs of a lowered graph that come from these
        nodes.
        """
        returned = returned_nodes(self._reader, self._lowered(nodes))
        return {kernel for node in returned for kernel in self._kernels.get(node, ())}

    def reading(self, inputs: set[int]) -> set[int]:
        """Return the kernels that read these inputs directly."""
        users = users_of_inputs(self._reader, self._lowered(inputs))
        return {kernel for node in users for kernel in self._kernels.get(node, ())}

    def _lowered(self, nodes: set[int]) -> list[int]:
        """Return the nodes that come from these ones in graphs that Inductor lowered, forward or
        inference.
        """
        if not self._kernels or not nodes:
            return []
        return nodes_lowered_forward(self._reader, descendants(self._reader, nodes))

    def _size_bytes(self, node: model.Node) -> int | None:
        owner = self._owners.get(node.graph, 0)
        if node.shape is None:
            shape = None
        else:
            shape = [self._symbols.get((owner, dim), dim) for dim in node.shape]
        return size_bytes(node.dtype, shape)


def _kernels_of_nodes(reader: SessionReader, used: RowsInUse | None) -> dict[int, set[int]]:
    """Return node → the kernels that compute it. ``used`` limits the kernels to those in use; None
    means all.
    """
    kernels_of: dict[int, set[int]] = {}
    for kernel, nodes in kernel_nodes(reader).items():
        if used is None or kernel in used.kernels:
            for node in nodes:
                kernels_of.setdefault(node, set()).add(kernel)
    return kernels_of


_LOCAL = re.compile(r"L\['(?P<name>[^']+)'\]")


def _sources_in(resume: model.ResumeFunction, local: Local) -> Iterator[str]:
    """Yield the names in a resume function for a local of the function with the break."""
    named = _LOCAL.match(local.source)
    if named is not None and resume.depth == local.depth:
        # Values on the stack are not among a function's locals, and always come along.
        is_on_stack = named["name"].startswith("___stack")
        if is_on_stack or named["name"] in resume.locals:
            yield local.source
    if local.depth != 0 or not resume.taken_from:
        return
    for taken_as, source in resume.taken_from.items():
        within = local.source.removeprefix(source)
        if within != local.source and (not within or within[0] in ".["):
            yield f"L['{taken_as}']{within}"


_BITS = re.compile(r"[a-z]+(\d+)")


def size_bytes(dtype: str, shape: Sequence[str] | None) -> int | None:
    """Return the bytes of ``f32[4, 64]``; None for a value that is not a tensor, or with a size
    that is not a number.
    """
    bits = _BITS.match(dtype)
    if bits is None or shape is None or not all(dim.isdecimal() for dim in shape):
        return None
    # A packed dtype (``f4e2m1fnx2``) has less than a byte per value, and one byte per element.
    return math.prod(map(int, shape)) * max(1, int(bits[1]) // 8)
