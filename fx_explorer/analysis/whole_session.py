"""This module has the facts about a session as a whole: its totals, its figures, and whether it was
made from a log.

A session of a log has what torch wrote there, and nothing that only a capture finds out.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.lineage import in_use
from fx_explorer.analysis.words import first_line, listed
from fx_explorer.session import SessionReader, answered_once
from fx_explorer.session.queries.compilations import (
    break_count,
    check_count,
    compilation_count,
    compile_seconds,
    recompile_count,
)
from fx_explorer.session.queries.graphs import captured_graph_count, captured_operations
from fx_explorer.session.queries.kernels import kernel_count
from fx_explorer.torch_texts import OTHER_LINES

NOTHING_SAVED = (
    "This file does not say which values the forward saves for the backward. Capture the program "
    "to see it."
)

NO_PROGRAM = (
    "This was read from a log, which has no program to run. Open the program itself: "
    "FILE.py:OBJECT."
)

NOT_BELOW = (
    "A log has the source of a kernel, but not what it was compiled to. Capture the program with "
    "--build to see that."
)


WITHOUT_DYNAMO = ("debug_directory", "tritonparse", "provenance", "memory_snapshot", "profile")
"""Origins of sessions without any data of Dynamo's."""


@answered_once
def is_log(reader: SessionReader) -> bool:
    """Return whether the session was made from a TORCH_TRACE log, and not by a run."""
    return (reader.meta("target") or {}).get("kind") == "log"


_NOT_SAID = "a log does not say how the program ended, or whether it is complete"


@answered_once
def end_of_log(reader: SessionReader) -> str:
    """Return what a log says at its end: how its last compile ended. A log says nothing of the
    program.
    """
    compilations = reader.rows(model.Compilation, variant_of="")
    if not compilations:
        return f"not recorded: {_NOT_SAID}"
    last = compilations[-1]
    if last.status == "failed":
        error = first_line(last.error)
        what = f"the last compile in the log, [{last.name}], failed: {error}."
        return f"{what}{_handled(reader)} {_capital(_NOT_SAID)}"
    if is_text(reader):
        errors = reader.rows(model.Failure, where="compiler")
        if errors:
            error = first_line(errors[-1].message)
            what = f"the text contains a compiler error: {error}."
            return f"{what}{_handled(reader)} {_capital(_NOT_SAID)}"
    elif last.status == "running":
        return (
            f"the log ends while [{last.name}] is being compiled: the process was ended, or the "
            f"log is incomplete. {_capital(_NOT_SAID)}"
        )
    return f"not recorded: {_NOT_SAID}"


def _handled(reader: SessionReader) -> str:
    """Return that a text has no traceback of Python's, which a program prints that an exception
    ends; empty where it has one, and for a structured log, which has none.
    """
    if not is_text(reader):
        return ""
    for row in reader.rows(model.Artifact, title=OTHER_LINES):
        if _TRACEBACK in reader.text(row.text):
            return ""
    return (
        " Python printed no traceback: the error did not end the program, or the text is "
        "incomplete."
    )


_TRACEBACK = "Traceback (most recent call last):"


def is_cut_in_a_compile(reader: SessionReader) -> bool:
    """Return whether a TORCH_TRACE log has the beginning of its last compile, and not the end."""
    compilations = reader.rows(model.Compilation, variant_of="")
    return not is_text(reader) and bool(compilations) and compilations[-1].status == "running"


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def is_debug_directory(reader: SessionReader) -> bool:
    """Return whether the session was made from the files of TORCH_COMPILE_DEBUG."""
    return (reader.meta("log") or {}).get("format") == "debug_directory"


def is_tritonparse(reader: SessionReader) -> bool:
    """Return whether the session was made from a log of tritonparse, which has Triton's kernels and
    no data of torch's stages.
    """
    return (reader.meta("log") or {}).get("format") == "tritonparse"


def is_provenance(reader: SessionReader) -> bool:
    """Return whether the session was made from one of torch's tables of the nodes that each kernel
    computes.
    """
    return (reader.meta("log") or {}).get("format") == "provenance"


def is_snapshot_alone(reader: SessionReader) -> bool:
    """Return whether the session was made from a CUDA memory snapshot, without a program."""
    return (reader.meta("log") or {}).get("format") == "memory_snapshot"


def is_profile_alone(reader: SessionReader) -> bool:
    """Return whether the session was made from a profile of torch.profiler, without a program."""
    return (reader.meta("log") or {}).get("format") == "profile"


def is_text(reader: SessionReader) -> bool:
    """Return whether the session was made from torch's printed logs, which contain only what was
    requested.
    """
    return is_log(reader) and (reader.meta("log") or {}).get("format") == "torch_logs"


Subject = Literal["graphs", "graph breaks", "recompiles", "guards", "kernels"]

_PRINTED_BY: dict[Subject, tuple[str, ...]] = {
    "graphs": ("graph_code", "graph", "aot_graphs", "post_grad_graphs", "pre_grad_graphs"),
    "graph breaks": ("graph_breaks",),
    "recompiles": ("recompiles", "recompiles_verbose"),
    "guards": ("guards",),
    "kernels": ("output_code", "kernel_code"),
}
"""Subject → the artifacts of TORCH_LOGS about it."""


def not_in_text(reader: SessionReader) -> list[Subject]:
    """Return the subjects that torch was not asked to print, so that their absence from the text
    means nothing: all of them for a memory snapshot or a profile alone. Empty for any other
    session.
    """
    if is_snapshot_alone(reader) or is_profile_alone(reader):
        return [*_PRINTED_BY]
    if not is_text(reader):
        return []
    printed = set((reader.meta("log") or {}).get("kinds") or {})
    return [subject for subject, kinds in _PRINTED_BY.items() if printed.isdisjoint(kinds)]


def why_not_in_text(reader: SessionReader, *subjects: Subject) -> str:
    """Return why a view of these subjects is empty, if the text has nothing about one of them."""
    absent = [subject for subject in subjects if subject in not_in_text(reader)]
    if not absent:
        return ""
    if is_profile_alone(reader):
        return f"A profile does not have: {' and '.join(absent)}."
    if is_snapshot_alone(reader):
        return f"A memory snapshot does not have: {' and '.join(absent)}."
    settings = ",".join(_PRINTED_BY[subject][0] for subject in absent)
    return f"This text does not have: {' and '.join(absent)}. TORCH_LOGS={settings} prints them."


@answered_once
def why_saved_unknown(reader: SessionReader) -> str:
    """Return why a log may not have all that forwards save for their backwards; empty where it has,
    and for a capture. It has what AOTAutograd's graphs of every compilation show.
    """
    log = reader.meta("log") or {}
    if not is_log(reader):
        return ""
    if log.get("format") in WITHOUT_DYNAMO:
        return NOTHING_SAVED
    if is_text(reader) and "aot_graphs" not in (log.get("kinds") or {}):
        return (
            "This text does not say which values the forward saves for the backward. "
            "TORCH_LOGS=aot_graphs prints the graphs that show it."
        )
    captured = {graph.compilation for graph in reader.rows(model.Graph, stage="dynamo")}
    split = {graph.compilation for graph in reader.rows(model.Graph, stage="forward")}
    lacking = []
    for row in reader.rows(model.Compilation):
        has_graph = row.id in captured and row.status not in ("restarted", "skipped")
        if has_graph and row.id not in split:
            lacking.append(f"[{row.name}]")
    if not lacking:
        return ""
    return (
        "This log does not say which values the forward saves for the backward of "
        f"{listed(lacking, 4)}: it has no AOTAutograd graph for it."
    )


def knows_breaks(reader: SessionReader) -> bool:
    """Return whether a session without graph breaks proves that the program has none. It does not
    if breaks were not written to its source.
    """
    log = reader.meta("log") or {}
    is_of_inductor = is_log(reader) and log.get("format") in WITHOUT_DYNAMO
    return not is_of_inductor and "graph breaks" not in not_in_text(reader)


def compiled_without_dynamo(reader: SessionReader) -> list[str]:
    """Return the parts of a log that were compiled or exported without a frame of Dynamo's:
    ``AOTInductor``, ``torch.export``.
    """
    if not is_log(reader) or (reader.meta("log") or {}).get("format") in WITHOUT_DYNAMO:
        return []
    names = [row.name for row in reader.rows(model.Compilation) if "/" not in row.name]
    return list(dict.fromkeys(name.partition("#")[0] for name in names))


def not_decoded(reader: SessionReader) -> str:
    """Return why there may be more in a log than in its session; empty for a log that was read
    completely, and for any other session.
    """
    outcome = reader.meta("outcome")
    if not is_log(reader) or (outcome is not None and outcome["kind"] == "finished"):
        return ""
    if outcome is None:
        return "None so far; the log is still being read."
    return "The log was not read to its end."


def damage(reader: SessionReader) -> list[str]:
    """Return descriptions of the parts of a log that could not be read, or differ from torch's own
    text; empty for an undamaged log, and for any other session.
    """
    if not is_log(reader):
        return []
    log = reader.meta("log") or {}
    counts = (
        (reader.meta("skipped_records", 0), "lines and records that could not be read"),
        (
            log.get("wrong_hashes", 0),
            "texts that were changed since torch wrote them, or are mixed with other output",
        ),
        (log.get("unread_graph_lines", 0), "lines of printed graphs that could not be read"),
    )
    damages = [f"{what}: {count:,}" for count, what in counts if count]
    if log.get("is_cut_off"):
        damages.append("the packed file ends in the middle")
    if not_decoded(reader):
        damages.append("it was not read to its end")
    return damages


# Figures: those that a screen always shows, which are cheap, and those by which captures are
# compared.


@dataclass(frozen=True, slots=True)
class Totals:
    """The figures that a screen always shows. They are cheap to count."""

    compilations: int
    graphs: int
    """How many graphs Dynamo gave to the backend."""
    graph_breaks: int
    """Distinct graph breaks, by the user's line and the cause."""
    graph_break_hits: int
    recompiles: int
    kernels: int
    """Number of generated functions and library calls, without rows that run other graphs
    (conditionals, loops, calls of a region).
    """
    compile_s: float
    skipped_records: int
    """How many records could not be read or understood. They are shown, never hidden."""


@dataclass(frozen=True, slots=True)
class SessionFigures(Totals):
    """The figures by which two captures are compared: the totals, and others that take longer to
    count.
    """

    compiled: int
    """Number of compilations that produced code, in full or up to a graph break."""
    eager_functions: int
    """Number of functions that Dynamo looked at and did not compile."""
    operations: int
    """Number of call nodes of Dynamo's graphs."""
    guards: int
    free_sizes: int
    """Number of sizes and numbers that stay dynamic."""
    fixed_sizes: int
    """Number of sizes and numbers that were dynamic and became a constant."""
    failed: tuple[str, ...] = ()
    """Type of the error for each time that the compiler failed. The program may have caught it."""


def totals(reader: SessionReader) -> Totals:
    """Count the figures. Kernels are those of the variants in use."""
    used = in_use(reader)
    graphs = used.graphs if used else None
    kernels = used.kernels if used else None
    return Totals(
        compilations=compilation_count(reader),
        graphs=captured_graph_count(reader, graphs),
        graph_breaks=break_count(reader),
        graph_break_hits=reader.count(model.GraphBreak),
        recompiles=recompile_count(reader),
        kernels=kernel_count(reader, kernels),
        compile_s=compile_seconds(reader),
        skipped_records=_skipped_records(reader),
    )


def compiled_graphs(reader: SessionReader) -> int:
    """Return how many of the graphs that Dynamo captured were compiled: not those of functions that
    were skipped afterwards, because the backend raised for their graph.
    """
    used = in_use(reader)
    graphs = used.graphs if used else None
    in_vain = [
        compilation.id
        for status in ("skipped", "failed")
        for compilation in reader.rows(model.Compilation, status=status)
    ]
    captured = captured_graph_count(reader, graphs)
    for compilation in in_vain:
        for graph in reader.rows(model.Graph, compilation=compilation, stage="dynamo"):
            captured -= not graph.parent and (graphs is None or graph.id in graphs)
    return max(0, captured)


def session_figures(reader: SessionReader) -> SessionFigures:
    """Count the figures of a session."""
    symbols = [row for row in reader.rows(model.Symbol) if row.final_range]
    return SessionFigures(
        **asdict(totals(reader)),
        compiled=sum(reader.count(model.Compilation, status=status) for status in ("ok", "broke")),
        eager_functions=reader.count(model.Compilation, status="skipped"),
        operations=captured_operations(reader),
        guards=check_count(reader),
        free_sizes=sum(not row.became for row in symbols),
        fixed_sizes=sum(bool(row.became) for row in symbols),
        failed=tuple(row.kind for row in reader.rows(model.Failure, where="compiler")),
    )


def _skipped_records(reader: SessionReader) -> int:
    """Return the number of records that the producer skipped, and of views it failed to record."""
    return int(reader.meta("skipped_records", 0)) + reader.count(model.Failure, where="recorder")


def went_on(reader: SessionReader) -> bool:
    """Return whether the program ran to its end. If compiling raised, the program has then caught
    the error, or torch was told to ignore it (``suppress_errors``). A log does not say it.
    """
    outcome = reader.meta("outcome")
    if is_log(reader):
        return False
    return outcome is not None and model.Outcome.from_json(outcome).went_well


def types_of_inputs(reader: SessionReader) -> list[str]:
    """Return ``f32[4, 8]`` for each tensor that the first graph takes, without parameters and
    buffers. Later graphs begin where an earlier one was broken.
    """
    types = []
    for graph in reader.rows(model.Graph, stage="dynamo")[:1]:
        for node in reader.nodes(graph):
            is_of_module = "_parameters_" in node.name or "_buffers_" in node.name
            if node.op == "placeholder" and node.shape is not None and not is_of_module:
                types.append(f"{node.dtype}[{', '.join(node.shape)}]")
    return types
