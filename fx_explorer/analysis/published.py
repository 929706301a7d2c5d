"""This module reads the publications of backends other than Inductor: their own stages, how often
each compiled function was called, and the instructions of its last published run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.documents import (
    Document,
    Place,
    artifact_document,
    graph_document,
    place_of_node,
)
from fx_explorer.analysis.words import counted, how_often
from fx_explorer.session import SessionReader

# Published stages as documents, in the order of publishing.

PROGRAM = "program"
"""Name of the published stage whose lines are the instructions that run."""


@dataclass(frozen=True, slots=True)
class ShownStage:
    stage: model.PublishedStage
    backend: str
    document: Document

    @property
    def size(self) -> str:
        """Return ``14 lines`` or ``8 nodes``."""
        noun = "node" if self.document.kind == "graph" else "line"
        return counted(self.document.line_count, noun)


def published_stages(reader: SessionReader) -> list[ShownStage]:
    """Return the published stages, compilation by compilation."""
    rows = reader.rows(model.PublishedStage)
    if not rows:
        return []
    compilations = {row.id: row for row in reader.rows(model.Compilation)}
    graph_ids = {row.graph for row in rows if row.graph}
    graphs = {row.id: row for row in reader.by_ids(model.Graph, graph_ids)}
    text_ids = {row.artifact for row in rows if row.artifact}
    texts = {row.id: row for row in reader.by_ids(model.Artifact, text_ids)}
    stages = []
    for stage in sorted(rows, key=lambda stage: (stage.compilation, stage.position)):
        compilation = compilations.get(stage.compilation)
        owner = compilation.name if compilation else ""
        backend = compilation.backend if compilation else ""
        if stage.graph in graphs:
            document = graph_document(graphs[stage.graph], owner)
        elif stage.artifact in texts:
            document = artifact_document(texts[stage.artifact], owner)
        else:  # a damaged session
            continue
        stages.append(ShownStage(stage, backend, document))
    return stages


def stage_names(stages: Iterable[ShownStage]) -> list[str]:
    """Return the names of the stages, each once, in the order in which they were first
    published.
    """
    return list(dict.fromkeys(stage.stage.name for stage in stages))


# Runs of what a backend compiled.

MOST_ENTRIES = 4
"""Maximum number of compiled functions whose calls one sentence lists; the view has all."""


def times_called(entry: model.BackendEntry) -> str:
    """Return ``called twice, made once``."""
    if not entry.calls:
        return "made once, not called"
    return f"called {how_often(entry.calls)}, made once"


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """One run with its instructions."""

    run: model.BackendRun
    compilation: str
    instructions: list[model.BackendInstruction]
    program: Document | None
    """The program with the lines; None if none was published."""

    @property
    def fell_back(self) -> int:
        return sum(instruction.fell_back for instruction in self.instructions)

    @property
    def seconds(self) -> float:
        return sum(instruction.seconds for instruction in self.instructions)


def last_runs(reader: SessionReader) -> list[PublishedRun]:
    """Return the last run that was published of every entry, in the order of the first runs."""
    last: dict[tuple[int, str, str], model.BackendRun] = {}
    for run in reader.rows(model.BackendRun):
        last[run.compilation, run.entry, run.direction] = run
    if last:
        names = {row.id: row.name for row in reader.rows(model.Compilation)}
    else:
        names = {}
    return [_published_run(reader, run, names.get(run.compilation, "")) for run in last.values()]


def _published_run(reader: SessionReader, run: model.BackendRun, compilation: str) -> PublishedRun:
    instructions = sorted(
        reader.rows(model.BackendInstruction, run=run.id),
        key=lambda instruction: instruction.position,
    )
    program = None
    ids = [run.program] if run.program else []
    programs = reader.by_ids(model.Artifact, ids)
    if programs:
        program = artifact_document(programs[0], compilation)
    return PublishedRun(run, compilation, instructions, program)


def place_of_instruction(
    reader: SessionReader, run: PublishedRun, instruction: model.BackendInstruction
) -> Place | None:
    """Return the instruction's line of the program, else its node."""
    if run.program is not None and 0 < instruction.line <= run.program.line_count:
        return Place(run.program, instruction.line - 1)
    ids = [instruction.node] if instruction.node else []
    nodes = reader.by_ids(model.Node, ids)
    return place_of_node(reader, nodes[0]) if nodes else None


@dataclass(frozen=True, slots=True)
class BackendSummary:
    """A session's facts about one backend."""

    backend: str
    stages: list[ShownStage]
    entries: list[model.BackendEntry]
    runs: list[PublishedRun]

    @property
    def description(self) -> str:
        """Return ``5 stages published; its program has 14 instructions, 3 fell back to PyTorch in
        the last run``.
        """
        names = stage_names(self.stages)
        parts = [f"{counted(len(names), 'stage')} published"] if names else []
        documents = [stage.document for stage in self.stages if stage.stage.name == PROGRAM]
        programs = [document for document in documents if document.kind == "artifact"]
        instructions = sum(len(run.instructions) for run in self.runs)
        fell_back = sum(run.fell_back for run in self.runs)
        if instructions:
            size = counted(instructions, "instruction")
            fallbacks = f"{fell_back or 'none'} ran in PyTorch instead, in the last run"
            parts.append(f"its program has {size}, {fallbacks}")
        elif programs:
            size = counted(sum(program.line_count for program in programs), "line")
            parts.append(f"its program has {size}")
        return "; ".join(parts)

    @property
    def called(self) -> str:
        """Return how often each of its compiled functions was called; empty without any."""
        sentences: dict[str, None] = {}
        for entry in self.entries:
            function = entry.direction or "the compiled function"
            sentences[f"{function} {times_called(entry)}"] = None
        return "; ".join(list(sentences)[:MOST_ENTRIES])


def backend_summaries(reader: SessionReader) -> list[BackendSummary]:
    """Return the facts about every backend that published something or whose calls were counted, in
    the order of the compilations.
    """
    owners = {row.id: row.backend for row in reader.rows(model.Compilation)}
    stages = published_stages(reader)
    # While inspecting, Dynamo's graph is called in place of what Inductor made.
    entries = [
        entry
        for entry in reader.rows(model.BackendEntry)
        if entry.direction or entry.backend != "inductor"
    ]
    runs = last_runs(reader)
    compilations = [stage.stage.compilation for stage in stages]
    compilations += [entry.compilation for entry in entries]
    compilations += [run.run.compilation for run in runs]
    backends = dict.fromkeys(owners.get(number, "") for number in sorted(compilations))
    summaries = []
    for backend in backends:
        its_stages = [stage for stage in stages if stage.backend == backend]
        its_entries = [entry for entry in entries if entry.backend == backend]
        its_runs = [run for run in runs if owners.get(run.run.compilation, "") == backend]
        summaries.append(BackendSummary(backend, its_stages, its_entries, its_runs))
    return summaries
