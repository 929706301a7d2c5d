"""The tensors at graph breaks: what is handed over, which graph takes it, which kernels touch it,
and how big it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.breaks.call_tree import FunctionCall
from fx_explorer.analysis.breaks.kept_across import KeptValues
from fx_explorer.analysis.variants.lineage import in_use
from fx_explorer.analysis.words import counted, size
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.breaks import chains_of_breaks
from fx_explorer.session.queries.graph.graphs import compilations_of_graphs, nodes_lowered_forward
from fx_explorer.session.queries.graph.links import descendants
from fx_explorer.session.queries.graph.nodes import returned_nodes, users_of_inputs
from fx_explorer.session.queries.kernel.kernels import kernel_nodes


@dataclass(frozen=True, slots=True)
class Tensors:
    count: int = 0
    size_bytes: int = 0
    unknown_sizes: int = 0
    """How many of ``count`` have a size that depends on something without a value. They are not in
    ``size_bytes``.
    """

    def __add__(self, other: Tensors) -> Tensors:
        unknown = self.unknown_sizes + other.unknown_sizes
        return Tensors(self.count + other.count, self.size_bytes + other.size_bytes, unknown)

    @property
    def in_words(self) -> str:
        return f"{counted(self.count, 'tensor')} ({'at least ' if self.unknown_sizes else ''}{size(self.size_bytes)})"


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
        self._kernels: dict[int, set[int]] = {}
        used = in_use(reader)
        # Without tensors at a cut nobody asks for a kernel, and the nodes of all kernels are many
        # rows.
        for kernel, nodes in kernel_nodes(reader).items() if self._locals else ():
            if used is None or kernel in used.kernels:
                for node in nodes:
                    self._kernels.setdefault(node, set()).add(kernel)
        self.kept = KeptValues(reader, used.saving if used else None)

    def root_line(self, hit: model.GraphBreak) -> int:
        """Return the line of the compiled function at which the break happened, perhaps in
        something called there.
        """
        chain = self.chain(hit)
        return chain[0].line if chain else hit.line

    def chain(self, hit: model.GraphBreak) -> tuple[model.Frame, ...]:
        """Return the compiled function and what was inlined into it, outermost first."""
        return self._chains.get(hit.chain, ())

    def resumed_lines(self, cut: FunctionCall) -> set[int]:
        own = {row.id for row in cut.compilations}
        return {row.line for row in self._resumes if row.compilation in own}

    def handed_over(self, cut: FunctionCall, hit: model.GraphBreak) -> dict[str, int]:
        """Return source → node of the graph before. One compilation of the function stands for
        all.
        """
        own = [row.id for row in cut.compilations]
        rows = [row for row in self._locals if row.compilation in own and not row.is_input]
        of_hit = [row for row in rows if row.compilation == hit.compilation] or rows
        # A tensor without a name would count once for each of several compilations.
        last = max((row.compilation for row in of_hit), default=0)
        return {
            row.source or f"node {row.node}": row.node for row in of_hit if row.compilation == last
        }

    def takers(
        self, source: str, cut: FunctionCall, hit: model.GraphBreak, behind: Iterable[FunctionCall]
    ) -> set[int]:
        """Return the inputs of graphs behind a cut that are the tensor the function knows as
        ``source`` there.

        A rest that does not use the tensor may pass it on to its own rest, as long as it does not
        give the name to another tensor.
        """
        found: set[int] = set()
        passed: set[tuple[str, int]] = set()  # breaks of one line are one cut
        pending = [(cut, hit, behind)]
        while pending:
            cut, hit, behind = pending.pop()
            if not self._is_needed(source, cut, self.root_line(hit)):
                continue
            for rest in (one for one in behind if one.is_resume):
                taken = self._inputs(rest).get(source, set())
                found |= taken
                for inner in rest.breaks if not taken else ():
                    at = rest.frame, self.root_line(inner)
                    if at not in passed and source not in self.handed_over(rest, inner):
                        passed.add(at)
                        pending.append((rest, inner, rest.calls))
        return found

    def inputs_of(self, cut: FunctionCall) -> dict[str, int]:
        """Return source → input of a graph of ``cut``, by the name it came in with; of several
        compilations, the first is used.
        """
        return {source: min(nodes) for source, nodes in self._inputs(cut).items()}

    def _is_needed(self, source: str, cut: FunctionCall, line: int) -> bool:
        local = _LOCAL.match(source)
        own = {row.id for row in cut.compilations}
        resumes = [row for row in self._resumes if row.compilation in own and row.line == line]
        # Values on the stack (``___stack0``) are not among a function's locals, and always come
        # along.
        return local is not None and any(
            local["name"].startswith("___stack") or local["name"] in row.locals for row in resumes
        )

    def _inputs(self, called: FunctionCall) -> dict[str, set[int]]:
        own = {row.id for row in called.compilations}
        taken: dict[str, set[int]] = {}
        for row in self._locals:
            if row.is_input and row.compilation in own:
                taken.setdefault(row.source, set()).add(row.node)
        return taken

    def tensors(self, nodes: set[int]) -> Tensors:
        sizes = [self._size_bytes(node) for node in self._nodes(nodes)]
        return Tensors(len(sizes), sum(one or 0 for one in sizes), sizes.count(None))

    def _nodes(self, ids: Iterable[int]) -> list[model.Node]:
        return self._reader.by_ids(model.Node, ids)

    def writing(self, nodes: set[int]) -> set[int]:
        """Return the kernels that compute what a lowered graph returns of these nodes."""
        returned = returned_nodes(self._reader, self._lowered(nodes))
        return {kernel for node in returned for kernel in self._kernels.get(node, ())}

    def reading(self, inputs: set[int]) -> set[int]:
        """Return the kernels that take these inputs as they come in."""
        users = users_of_inputs(self._reader, self._lowered(inputs))
        return {kernel for node in users for kernel in self._kernels.get(node, ())}

    def _lowered(self, nodes: set[int]) -> list[int]:
        """Return the nodes made of these in the forward (or inference) graphs that kernels were
        made of.
        """
        if not self._kernels or not nodes:
            return []
        return nodes_lowered_forward(self._reader, descendants(self._reader, nodes))

    def _size_bytes(self, node: model.Node) -> int | None:
        owner = self._owners.get(node.graph, 0)
        shape = (
            None
            if node.shape is None
            else [self._symbols.get((owner, dim), dim) for dim in node.shape]
        )
        return size_bytes(node.dtype, shape)


_LOCAL = re.compile(r"L\['(?P<name>[^']+)'\]")
_BITS = re.compile(r"[a-z]+(\d+)")


def size_bytes(dtype: str, shape: Sequence[str] | None) -> int | None:
    """Return the bytes of ``f32[4, 64]``; None for what is not a tensor, and when a size is not a
    number.
    """
    bits = _BITS.match(dtype)
    if bits is None or shape is None or not all(dim.isdecimal() for dim in shape):
        return None
    # A packed dtype (``f4e2m1fnx2``) has less than a byte per value, and one byte per element.
    return math.prod(map(int, shape)) * max(1, int(bits[1]) // 8)
