"""The questions that can be asked about a session, by name; ``ask`` answers one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fx_explorer.errors import UsageError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from fx_explorer.answers.answer import Answer
    from fx_explorer.session import SessionReader


@dataclass(frozen=True, slots=True)
class Question:
    """A question: its name, what it takes after the name, and what it is answered with."""

    name: str
    does: str
    takes: str = ""
    """What follows the name: ``NAME``; empty for nothing, ``[NAME]`` where it may be left out."""

    @property
    def usage(self) -> str:
        return f"{self.name} {self.takes}".strip()


QUESTIONS = (
    Question("overview", "what happened, the worst first, with totals and versions"),
    Question("findings", "what is wrong, where, what it costs, what to do, and whether it helped"),
    Question("breaks", "graph breaks: reason, line, code, how often, hints"),
    Question("eager", "functions that run entirely in eager mode, and why"),
    Question("calls", "the functions torch.compile looked at, in call order"),
    Question("compilations", "each compilation: function, status, guards, kernels, seconds"),
    Question("recompiles", "why code was recompiled: the guard that failed, and the remedy"),
    Question("guards", "what must stay true for compiled code to be reused; cost of each check"),
    Question("sizes", "dynamic and specialized sizes, and which line specialized them"),
    Question("graphs", "every FX graph, with its operations"),
    Question("graph", "a graph by module, repeated layers once, and what differs", "GRAPH"),
    Question("nodes", "the nodes of a graph", "GRAPH"),
    Question(
        "node",
        "one node: value, line, what it was made from, and what later stages made from it",
        "NAME",
    ),
    Question(
        "line", "what torch made of a line: graph breaks, kernels, saved tensors, nodes", "FILE:N"
    ),
    Question(
        "lines",
        "each line of a function: its graphs, operations and kernels, or why it is eager",
        "[FILE[:FROM-TO] or FUNCTION]",
    ),
    Question(
        "nested",
        "graphs called by other graphs (shared regions, branches, loops): calls, lines, kernels",
        "[NAME]",
    ),
    Question("kernels", "kernels and library calls: lines, operations, bytes, time"),
    Question("kernel", "one kernel: code, lines, configurations, registers, launches", "NAME"),
    Question(
        "fusion",
        "kernels that were not fused: why, and the bytes and time that fusion would save",
        "[NAME]",
    ),
    Question(
        "why",
        "why kernels are as they are: library calls, copies, splits, tiles, vectors, threads",
        "[NAME]",
    ),
    Question("code", "lines of a source file, a graph or generated code", "[NAME[:FROM-TO]]"),
    Question(
        "find", "nodes, nested graphs, kernels, lines, breaks that contain these words", "TEXT"
    ),
    Question("stages", "what each stage did to the operations"),
    Question(
        "trace",
        "what Dynamo did line by line: calls, nodes, guards; at a line, all of it",
        "[FILE:LINE]",
    ),
    Question(
        "side_effects", "what compiled code changes after its graphs: attributes, lists, dicts"
    ),
    Question("values", "inputs that are changed or overlap, outputs that are views, DTensors"),
    Question("collectives", "collectives: order, bytes, group, line, and what runs meanwhile"),
    Question("passes", "Inductor's passes, and each node that one made, changed or removed"),
    Question(
        "patterns",
        "patterns that did not match: how much of each is present, and the check that failed",
        "[NAME]",
    ),
    Question(
        "memory",
        "tensors saved for the backward: bytes, line, why, which kernels read them",
        "[NAME]",
    ),
    Question("step_memory", "predicted peak of a training step, and what it consists of"),
    Question("modules", "the modules, with operations, kernels, saved bytes and time of each"),
    Question(
        "phases",
        "seconds of each phase of a compile under torch's own names, forward and backward "
        "separately",
        "[NAME]",
    ),
    Question("flame", "where compile time went"),
    Question("caches", "torch's compile caches: hit, miss, bypassed or off, and why"),
    Question("cuda_graphs", "which graphs were captured as CUDA graphs, and why not"),
    Question("options", "options of torch.compile in force, and who set them"),
    Question("failures", "exceptions: stage, message, traceback"),
    Question("children", "processes that the program started"),
    Question("console", "what the program printed"),
    Question("ledger", "where the time of one call went (measured by fx-explorer ledger)"),
    Question("bench", "backends and modes beside eager mode (measured by fx-explorer bench)"),
    Question("numerics", "whether results equal eager mode's (compared by fx-explorer numerics)"),
    Question("profile", "kernels and idle times of a torch.profiler trace"),
    Question("roofline", "kernels compared with the limits of the GPU"),
    Question("regions", "regions that were annotated, and their kernels"),
    Question("support", "which operators of the graphs a backend supports"),
    Question("memory_snapshot", "a CUDA memory snapshot: peak, and who held it"),
    Question("variants", "compilations that were continued with something changed"),
    Question("front_ends", "the graphs of other front ends (captured with --frontend)"),
    Question("study", "the parts of a study, and how each ended"),
    Question("diff", "what changed between this session and another", "OTHER"),
)

BY_NAME = {question.name: question for question in QUESTIONS}

Opener = Callable[[str], "AbstractContextManager[SessionReader]"]
"""Opens the other session of ``diff``."""


def ask(reader: SessionReader, name: str, about: str, open_other: Opener) -> Answer:
    """Return the answer to a question. Raises UsageError for an unknown one, or one that lacks
    what it is about.
    """
    question = find_question(name)
    if question.takes and not question.takes.startswith("[") and not about:
        raise UsageError(f"{name} needs a subject: {question.usage}")
    if about and not question.takes:
        raise UsageError(f"{name} takes no subject; --match TEXT chooses rows")
    from fx_explorer.answers import (
        graphs_and_kernels,
        of_fusion,
        of_graph,
        of_line,
        of_lines,
        of_nested,
        of_node,
        of_patterns,
        of_phases,
        of_text,
        of_trace,
    )

    if name == "diff":
        from fx_explorer.answers.compared_sessions import of_difference

        with open_other(about) as other:
            return of_difference(reader, other)
    one_thing: dict[str, Callable[[SessionReader, str], Answer]] = {
        "graph": of_graph.of_graph,
        "nodes": of_node.of_nodes,
        "node": of_node.of_node,
        "line": of_line.of_line,
        "lines": of_lines.of_lines,
        "nested": of_nested.of_nested,
        "kernel": of_text.of_kernel,
        "code": of_text.of_code,
        "find": of_text.of_search,
        "fusion": of_fusion.of_fusion,
        "memory": graphs_and_kernels.of_saved_tensors,
        "phases": of_phases.of_phases,
        "trace": of_trace.of_trace,
        "why": graphs_and_kernels.of_decisions,
        "patterns": of_patterns.of_patterns,
    }
    if name in one_thing:
        return one_thing[name](reader, about)
    return ask_whole(reader, name)


def ask_whole(reader: SessionReader, name: str) -> Answer:
    """Return the answer to a question that takes nothing after its name."""
    from fx_explorer.answers import graphs_and_kernels, of_numerics, others, what_was_compiled

    whole: dict[str, Callable[[SessionReader], Answer]] = {
        "overview": what_was_compiled.of_overview,
        "findings": what_was_compiled.of_findings,
        "breaks": what_was_compiled.of_breaks,
        "eager": what_was_compiled.of_eager_functions,
        "calls": what_was_compiled.of_calls,
        "compilations": what_was_compiled.of_compilations,
        "recompiles": what_was_compiled.of_recompiles,
        "guards": what_was_compiled.of_guards,
        "sizes": what_was_compiled.of_sizes,
        "graphs": graphs_and_kernels.of_graphs,
        "kernels": graphs_and_kernels.of_kernels,
        "stages": graphs_and_kernels.of_stages,
        "passes": graphs_and_kernels.of_passes,
        "step_memory": graphs_and_kernels.of_step_memory,
        "caches": others.of_caches,
        "cuda_graphs": others.of_cuda_graphs,
        "options": others.of_options,
        "flame": others.of_flame,
        "side_effects": others.of_side_effects,
        "values": others.of_values,
        "collectives": others.of_collectives,
        "failures": others.of_failures,
        "children": others.of_child_processes,
        "variants": others.of_variants,
        "front_ends": others.of_front_ends,
        "numerics": of_numerics.of_numerics,
        "study": others.of_study,
        "memory_snapshot": others.of_memory_snapshot,
    }
    if name in whole:
        return whole[name](reader)
    return others.of_section(reader, name)


def find_question(name: str) -> Question:
    """Return the question of this name. Raises UsageError, with the nearest ones."""
    if name in BY_NAME:
        return BY_NAME[name]
    import difflib

    near = difflib.get_close_matches(name, BY_NAME, n=3, cutoff=0.5)
    meant = f"; did you mean {' or '.join(near)}?" if near else "."
    raise UsageError(f"there is no question {name!r}{meant} There are: {', '.join(BY_NAME)}")
