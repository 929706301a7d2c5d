"""This module computes the cost of a graph break, counted from the capture, and timed if requested.
No figure here is an estimate.

*Graphs*: without the cut, the graph before it and the functions compiled behind it would be one
graph. These functions are the rest of the cut function, once per branch of an ``if``, and what
Python called at that line. The graphs beyond one are what the break adds. Every compiled function
counts once, however many inputs it was compiled for. So all breaks of a program together add the
number of its compiled functions that have a graph, less those it began with.

*Rests*: torch cannot resume from every break (one inside a ``with`` that it does not restore, or
one that another break follows on the same line). Then it compiles what is before, and the rest of
the function runs in eager mode. What that calls is compiled by itself where torch looks into it.

*Tensors*: what the graph before computes and Python holds at the cut must be written to memory, and
what a graph behind takes of that is read again. Inside one graph it might have stayed in registers.
What is passed to a function that Python calls at the cut counts only as handed over, since the
compiler does not tell which argument it is.

*Kernels*: those that write and read just these tensors; with no cut they might be fused.

*Saved*: those of the tensors that a graph behind keeps for its backward, because it cannot compute
what comes in from outside. Bytes are those of the example inputs.

*Run time*: see ``RunTime``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.measured_times import RunTime
from fx_explorer.analysis.words import counted
from fx_explorer.instruments.breaks.call_tree import FunctionCall
from fx_explorer.instruments.breaks.cut_tensors import (
    NO_TENSORS,
    CutTensors,
    KeptAcross,
    Tensors,
    kept_across,
)


@dataclass(frozen=True, slots=True)
class BreakCost:
    """The cost that one break adds, over all functions it splits. Costs compare by the most
    important part first: greater is worse.
    """

    functions_in_python: int = 0
    """Number of functions that the break leaves entirely uncompiled."""
    rests_in_python: int = 0
    """Number of functions that were compiled only up to the break, because torch cannot resume from
    it.
    """
    extra_graphs: int = 0
    read_again: Tensors = NO_TENSORS
    """Tensors that the graph before the break writes and a graph after it reads."""
    handed_over: Tensors = NO_TENSORS
    """All tensors that the graph before the break had to write for Python: ``read_again``, and
    those that only Python uses or returns.
    """
    saved: Tensors = NO_TENSORS
    """Tensors of ``read_again`` that a graph after the break saves for its backward, because it
    cannot recompute them.
    """
    kept_twice: Tensors = NO_TENSORS
    """Tensors that are saved for the backward on both sides of the break, as inputs of both graphs
    or computed before it. Each is one tensor, saved twice.
    """
    kept_across: tuple[KeptAcross, ...] = ()
    """The values in ``saved`` and ``kept_twice``, one by one."""
    kernels: int = 0
    """Number of kernels that write or read tensors of ``read_again``; 0 also when no kernels were
    generated.
    """
    run: RunTime | None = None
    """The time of a call at the break; None when it was not measured. It is not part of sums."""
    is_known: bool = True
    """Whether the session has a graph on either side. A text that torch printed has none."""

    def __add__(self, other: BreakCost) -> BreakCost:
        return BreakCost(
            self.functions_in_python + other.functions_in_python,
            self.rests_in_python + other.rests_in_python,
            self.extra_graphs + other.extra_graphs,
            self.read_again + other.read_again,
            self.handed_over + other.handed_over,
            self.saved + other.saved,
            self.kept_twice + other.kept_twice,
            self.kept_across + other.kept_across,
            self.kernels + other.kernels,
        )

    @property
    def run_s(self) -> float | None:
        """Return the seconds at the break in one call; None when they were not measured."""
        return self.run.median_s if self.run else None

    @property
    def rank(self) -> tuple[int, int, float, int, int, int, int]:
        """Return the sort key. Breaks that leave functions uncompiled come before any time, and
        measured times before counts.
        """
        moved = self.read_again.size_bytes + self.saved.size_bytes
        graphs_and_bytes = (self.extra_graphs, moved, self.handed_over.size_bytes, self.kernels)
        uncompiled = (self.functions_in_python, self.rests_in_python)
        return *uncompiled, self.run_s or 0.0, *graphs_and_bytes

    @property
    def in_short(self) -> str:
        """Return the cost in a column's few cells: ``+1 graph``."""
        if not self.is_known:
            return "not known"
        if self.functions_in_python:
            return "not compiled"
        if self.rests_in_python:
            return "rest not compiled"
        if self.extra_graphs:
            return f"+{counted(self.extra_graphs, 'graph')}"
        return "no graph"

    @property
    def description(self) -> str:
        """Return ``1 more graph, 2 tensors (256 B) written and read back, 2 kernels at the
        break``."""
        if not self.is_known:
            return "not in this text"
        parts = []
        if self.functions_in_python:
            parts.append(f"{counted(self.functions_in_python, 'function')} not compiled")
        if self.rests_in_python:
            parts.append(f"the rest of {counted(self.rests_in_python, 'function')} in eager mode")
        if self.extra_graphs:
            parts.append(counted(self.extra_graphs, "more graph"))
        if self.read_again.count:
            parts.append(self._written_and_read)
        if self.kept_twice.count:
            parts.append(f"{self.kept_twice.description} saved on both sides of the break")
        if self.kernels:
            parts.append(f"{counted(self.kernels, 'kernel')} at the break")
        return ", ".join(parts) or "same number of graphs, and no tensor crosses"

    @property
    def _written_and_read(self) -> str:
        """Return ``3 tensors (384 B) written and read back, of which 1 (128 B) is saved for the
        backward``.
        """
        crossing = f"{self.read_again.description} written and read back"
        if not self.saved.count:
            return crossing
        if self.saved == self.read_again:
            return f"{crossing}, and saved for the backward"
        verb = "is" if self.saved.count == 1 else "are"
        part = f"{self.saved.count} ({self.saved.description_of_size}) {verb}"
        return f"{crossing}, of which {part} saved for the backward"


NO_COST = BreakCost()

UNKNOWN_COST = BreakCost(is_known=False)


def break_costs(books: CutTensors, roots: Iterable[FunctionCall]) -> dict[int, BreakCost]:
    """Return GraphBreak id → the cost that it adds.

    Where several breaks follow each other at one place, only one has the cost: the one after which
    the function continues, else the last that torch reported. The others are not in the result.
    """
    costs: dict[int, BreakCost] = {}
    for root in roots:
        for call in root.walk():
            if call.breaks:
                costs.update(_costs_of(books, call))
    return costs


def _costs_of(books: CutTensors, cut: FunctionCall) -> Iterable[tuple[int, BreakCost]]:
    lines = _lines_of_cuts(books, cut)
    for line, hit in lines.items():
        # A function called at a line that is no cut counts at the last break, so that each counts
        # once.
        lines_behind = {line}
        if hit == cut.breaks[-1]:
            lines_behind.update(call.called_at for call in cut.calls if call.called_at not in lines)
        behind = [call for call in cut.calls if call.called_at in lines_behind]
        yield hit.id, _cost(books, cut, hit, behind)


def _lines_of_cuts(books: CutTensors, cut: FunctionCall) -> dict[int, model.GraphBreak]:
    """Return the lines of ``cut`` at which a graph break ends it: line → break. Breaks with a
    resume function count; without any, the last break does.
    """
    hits = {books.root_line(hit): hit for hit in cut.breaks}
    resumed = books.resumed_lines(cut)
    resumed_hits = {line: hit for line, hit in hits.items() if line in resumed}
    if resumed_hits:
        return resumed_hits
    last = cut.breaks[-1]
    return {books.root_line(last): last}


def _cost(
    books: CutTensors, cut: FunctionCall, hit: model.GraphBreak, behind: Sequence[FunctionCall]
) -> BreakCost:
    """Return the cost of one break of a call: extra graphs, functions in eager mode, and tensors
    that cross it.
    """
    pieces = bool(cut.graphs) + sum(call.has_graph for call in behind)
    handed_over = books.handed_over(cut, hit)
    taken = {
        local: nodes for local in handed_over if (nodes := books.takers(local, cut, hit, behind))
    }
    crossing = {local: node for local, node in handed_over.items() if local in taken}
    inputs = {node for local in crossing for node in taken[local]}
    both = {local: node for local, node in books.inputs_of(cut).items() if local not in handed_over}
    # Only now: inputs of both sides do not cross, so they are not among what is read again.
    taken |= {local: books.takers(local, cut, hit, behind) for local in both}
    kept = kept_across(books.kept, handed_over, both, taken)
    return BreakCost(
        # A function whose rest was compiled behind the break is not run in eager mode as a whole.
        functions_in_python=int(cut.runs_in_eager and not _goes_on(behind)),
        rests_in_python=int(hit.skips_rest),
        extra_graphs=max(0, pieces - 1),
        read_again=books.tensors(set(crossing.values())),
        handed_over=books.tensors(set(handed_over.values())),
        saved=books.tensors({value.node for value in kept if value.crosses}),
        kept_twice=books.tensors({value.node for value in kept if value.is_kept_twice}),
        kept_across=tuple(kept),
        kernels=len(books.writing(set(crossing.values())) | books.reading(inputs)),
    )


def _goes_on(behind: Iterable[FunctionCall]) -> bool:
    return any(call.is_resume for call in behind)
