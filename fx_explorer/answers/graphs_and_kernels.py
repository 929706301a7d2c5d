"""Answers about graphs, stages, kernels and memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fx_explorer import model
from fx_explorer.analysis.function_versions import versions
from fx_explorer.analysis.input_names import InputNames
from fx_explorer.analysis.lineage import graphs_in_use
from fx_explorer.analysis.words import listed
from fx_explorer.answers.answer import Answer, Json
from fx_explorer.answers.others import of_section
from fx_explorer.answers.references import graph_documents
from fx_explorer.errors import UsageError
from fx_explorer.findings.source_lines import SourceLines
from fx_explorer.instruments.decisions.figures import (
    Explained,
    decisions_about,
    explained_decisions,
)
from fx_explorer.instruments.decisions.report import (
    decisions_of_report,
    timed_choices_of_report,
)
from fx_explorer.instruments.kernels.costs import KernelCost, kernel_costs
from fx_explorer.instruments.kernels.counts import describe_kind, describe_run
from fx_explorer.instruments.kernels.launched import compile_seconds
from fx_explorer.instruments.kernels.report import kernel_cost
from fx_explorer.instruments.memory.report import memory_of_report, saved_tensors
from fx_explorer.instruments.memory.saved_values import recomputed
from fx_explorer.instruments.passes.figures import passes_by_graph
from fx_explorer.instruments.passes.report import changes_of_report
from fx_explorer.overview.nested_graphs import runs_of_kernels
from fx_explorer.report.json_report import (
    stages_of_report,
)
from fx_explorer.report.sections import section_of
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import compilation_names, source_paths
from fx_explorer.session.queries.graphs import frequent_targets


def of_graphs(reader: SessionReader) -> Answer:
    used = graphs_in_use(reader)
    frequent = frequent_targets(reader)
    rows: list[Json] = []
    for document in graph_documents(reader):
        graph = reader.get(model.Graph, document.id)
        operations = dict(frequent.get(graph.id, []))
        rows.append(
            {
                "graph": document.full_title,
                "number": graph.id,
                "stage": graph.stage,
                "direction": graph.direction,
                "nodes": graph.node_count,
                "calls": graph.call_count,
                "operations": operations,
                "in_use": used is None or graph.id in used,
            }
        )
    return Answer(
        text=section_of(reader, "graphs").answer,
        rows=rows,
        known_from="FX graph modules, read while they were compiled",
        fields=("graph", "number", "nodes", "calls", "operations"),
        next=[f"graph {rows[0]['number']}", f"nodes {rows[0]['number']}", "stages"] if rows else [],
    )


def of_stages(reader: SessionReader) -> Answer:
    rows = stages_of_report(reader)
    if rows is None:
        return of_section(reader, "stages")
    return Answer(
        text=section_of(reader, "stages").answer,
        rows=rows,
        known_from="the graphs and the IR recorded between the stages, and the links between them",
        fields=("compilation", "stage", "direction", "before", "after", "sentence"),
        next=["graphs"],
    )


def of_passes(reader: SessionReader) -> Answer:
    rows = changes_of_report(reader)
    steps = sum(len(passes.steps) for passes in passes_by_graph(reader))
    idle = sum(len(passes.without_effect) for passes in passes_by_graph(reader))
    return Answer(
        text=section_of(reader, "passes").answer,
        rows=rows,
        known_from="the nodes of the graph before and after each pass, compared by identity "
        "during the compile; replaced: the replacements that FX was told of",
        fields=("graph", "pass", "did", "node", "before", "after", "replaced", "lines"),
        figures={"passes_with_effect": steps, "passes_without_effect": idle},
        next=[f"node {rows[0]['node']}"] if rows else ["stages"],
    )


def kernel_row(reader: SessionReader, cost: KernelCost) -> Json:
    """Return a kernel with the lines and nodes that it computes, its bytes and its time."""
    kernel = cost.use.kernel
    figures = kernel_cost(cost)
    version = cost.version
    return {
        "kernel": kernel.name,
        "compilation": version.name if version else "",
        "direction": kernel.direction,
        "in_graph": _graph_of(reader, kernel),
        "language": describe_kind(kernel),
        "lines": [f"{file}:{line}" for file, line in cost.lines],
        "modules": figures["modules"],
        "computes": list(cost.use.nodes),
        "calls": figures["calls"],
        "runs": runs_of_kernels(reader).get(kernel.id),
        "runs_graphs": describe_run(reader, kernel) if kernel.runs else "",
        "bytes": figures["bytes"],
        "seconds": figures["seconds"],
        "seconds_are": figures["seconds_are"],
        "compile_seconds": compile_seconds(reader, kernel),
        "version": version.description if version else "",
        "code_lines": cost.use.line_count or None,
    }


def _graph_of(reader: SessionReader, kernel: model.Kernel) -> str:
    """Return the nested graph of a kernel: ``block (repeated_subgraph0)`` for a region."""
    if not kernel.subgraph:
        return ""
    for graph in reader.rows(model.Graph, compilation=kernel.compilation, name=kernel.subgraph):
        if graph.label:
            return f"{graph.label} ({kernel.subgraph})"
    return kernel.subgraph


def of_kernels(reader: SessionReader) -> Answer:
    costs = kernel_costs(reader)
    if any(cost.time_s for cost in costs):
        costs.sort(key=lambda cost: -cost.time_s)
    rows = [kernel_row(reader, cost) for cost in costs]
    questions = [f"kernel {rows[0]['kernel']}"] if rows else []
    of_each = versions(reader)
    return Answer(
        text=section_of(reader, "kernels").answer,
        rows=rows,
        known_from="Inductor's output code and scheduler; seconds_are: the source of a time",
        fields=(
            "kernel", "compilation", "direction", "in_graph", "language", "lines", "computes",
            "calls", "runs", "bytes", "seconds", "seconds_are", "compile_seconds",
        ),
        figures={
            "kernels": len(rows),
            "compilations": len(of_each),
            "longest_to_compile": _longest_to_compile(rows),
        },
        next=questions,
    )  # fmt: skip


def _longest_to_compile(rows: list[Json]) -> Json | None:
    """Return the kernel that took Triton longest to compile; None where no time is known."""
    longest: Json | None = None
    longest_s = 0.0
    for row in rows:
        seconds = row["compile_seconds"]
        if isinstance(seconds, float) and seconds > longest_s:
            longest, longest_s = row, seconds
    if longest is None:
        return None
    names = ("kernel", "compilation", "direction", "compile_seconds")
    return {name: longest[name] for name in names}


def of_decisions(reader: SessionReader, name: str) -> Answer:
    """Return what Inductor decided about kernels; with a name, about a kernel, node or line with it
    in theirs. Raises UsageError where none has it.
    """
    decisions = explained_decisions(reader)
    text = section_of(reader, "decisions").answer
    if name:
        about = decisions_about(reader, name)
        if decisions and not about:
            raise UsageError(
                f"no decision about a kernel, node or line called {name!r} was recorded; the "
                "answer to why lists all"
            )
        decisions = sorted(about, key=_has_other_kind)
        sentences = dict.fromkeys(explained.reason.text for explained in decisions)
        text = " ".join(list(sentences)[:MOST_SENTENCES])
    else:
        decisions = [e for e in decisions if not e.is_elsewhere]
    timed = timed_choices_of_report(reader, name)
    rows = [*decisions_of_report(decisions), *timed]
    if timed and not decisions:
        text = " ".join(str(row["sentence"]) for row in timed[:MOST_SENTENCES])
    return Answer(
        text=text,
        rows=rows,
        known_from="Inductor's own checks with their answers and numbers, recorded while it "
        "lowered the graph and wrote the kernels; for attention, torch's own choice "
        "for tensors like its arguments; nothing was tried",
        fields=(
            "kernel",
            "node",
            "line",
            "modules",
            "about",
            "why",
            "sentence",
            "may_change_it",
            "times",
        ),
        next=[f"kernel {rows[0]['kernel']}"] if rows else ["kernels"],
    )


def _has_other_kind(explained: Explained) -> bool:
    """Return whether it is neither about an attention nor about a library call."""
    return explained.decision.kind not in ("attention", "library call")


def of_saved_tensors(reader: SessionReader, name: str) -> Answer:
    """Return what is saved for the backward; with a name, the tensors whose name, line or producer
    has it.
    """
    rows: list[Json] = list(saved_tensors(reader))
    rows.sort(key=lambda row: -int(str(row["bytes"] or 0)))
    if not rows:
        return of_section(reader, "memory")
    lines = SourceLines(reader)
    for row in rows:
        row["code"] = lines.code(str(row["file"]), int(str(row["line"]))) if row["file"] else ""
    figures = {
        "inputs_not_saved": _inputs_not_saved(reader),
        "recomputed_in_the_backward": _recomputed_nodes(reader),
    }
    text = " ".join([section_of(reader, "memory").answer, *_saved_totals(rows)])
    if name:
        rows = _saved_called(rows, name)
        text = " ".join(_saved_sentence(row) for row in rows[:MOST_SENTENCES])
    return Answer(
        text=text,
        rows=rows,
        known_from="outputs of the forward graph that are inputs of the backward graph; why: the "
                   "partitioner's own reason; consumers: backward nodes that need the tensor; "
                   "read_by: kernels that take it in the backward; works_in_place: kernels that "
                   "write their result into its memory; is_last: the kernel after which it is "
                   "freed",
        fields=(
            "user_name", "name", "kind", "dtype", "shape", "bytes", "file", "line", "code",
            "module", "producer", "why", "consumers", "read_by", "compilation",
        ),
        figures={name: named for name, named in figures.items() if named},
        next=["step_memory", "node NAME"],
    )  # fmt: skip


MOST_SENTENCES = 5
"""Maximum number of saved tensors that the sentence of an answer is about."""


def _saved_totals(rows: Sequence[Json]) -> Iterator[str]:
    """Yield for each compilation how many bytes all its saved tensors have: activations, and the
    parameters and inputs, which are in memory in any case. Tensors in one storage count once.
    """
    of_compilations: dict[str, dict[str, dict[object, int]]] = {}
    for position, row in enumerate(rows):
        kinds = of_compilations.setdefault(str(row["compilation"]), {})
        size = int(str(row["bytes"] or 0))
        sizes = kinds.setdefault(str(row["kind"]), {})
        key = row["storage"] or position
        sizes[key] = max(size, sizes.get(key, 0))
    for compilation, kinds in list(of_compilations.items())[:MOST_SENTENCES]:
        sums = {kind: sum(sizes.values()) for kind, sizes in kinds.items()}
        parts = ", ".join(f"{size:,} of kind {kind}" for kind, size in sums.items())
        yield f"Saved in {compilation}: {sum(sums.values()):,} bytes ({parts})."


def _saved_called(rows: list[Json], name: str) -> list[Json]:
    """Return the tensors of this name, else those whose name, line or producer has it. Raises
    UsageError without any.
    """
    wanted = name.casefold()
    called = [row for row in rows if wanted in (str(row["name"]), str(row["user_name"]))]
    if called:
        return called
    fitting = []
    for row in rows:
        texts = (row["name"], row["user_name"], row["producer"], f"{row['file']}:{row['line']}")
        if any(wanted in str(text).casefold() for text in texts):
            fitting.append(row)
    if not fitting:
        raise UsageError(
            f"no tensor saved for the backward has {name!r}; the answer to memory lists all"
        )
    return fitting


def _saved_sentence(row: Json) -> str:
    of_line = f" of {row['file']}:{row['line']}" if row["file"] else ""
    text = f"{row['user_name']}{of_line}, {row['bytes']:,} bytes, is"
    if row["read_by"] is None:
        return f"{text} saved; the kernels that read it are not known."
    kernels = listed(dict.fromkeys(str(kernel["kernel"]) for kernel in row["read_by"]))
    text = f"{text} read in the backward by {kernels or 'no kernel'}"
    if row["read_by"] and row["read_by"][-1]["works_in_place"]:
        which = "the last of which" if "," in kernels or " and " in kernels else "which"
        text += f", {which} reuses its memory for a result"
    elif row["read_by"] and row["read_by"][-1]["is_last"]:
        text += ", after which its memory is freed"
    return f"{text}."


def _recomputed_nodes(reader: SessionReader) -> dict[str, list[str]]:
    """Return compilation → the operations of its forward that the backward computes again, biggest
    first, with their lines.
    """
    paths = source_paths(reader)
    graphs = {row.id: row.compilation for row in reader.rows(model.Graph)}
    by_compilation: dict[int, list[str]] = {}
    for operation in recomputed(reader):
        node = operation.node
        line = f" ({in_file(paths[node.file], node.line)})" if node.file in paths else ""
        by_compilation.setdefault(graphs[node.graph], []).append(f"{node.name}{line}")
    return _by_name(reader, by_compilation)


MOST_NAMED = 12
"""Maximum number of inputs or operations that are named of one compilation."""


def _by_name(
    reader: SessionReader, by_compilation: Mapping[int, Sequence[str]]
) -> dict[str, list[str]]:
    """Return name of a compilation → the first of its texts, with the number of the others."""
    names = compilation_names(reader)
    shown = {}
    for compilation, texts in by_compilation.items():
        others = len(texts) - MOST_NAMED
        more = [f"{others} more"] if others > 0 else []
        shown[names[compilation]] = [*texts[:MOST_NAMED], *more]
    return shown


def _inputs_not_saved(reader: SessionReader) -> dict[str, list[str]]:
    """Return compilation → the inputs of its forward graph that no backward needs, with the user's
    names.
    """
    saved = {(row.compilation, row.name) for row in reader.rows(model.SavedTensor)}
    with_saved = {compilation for compilation, _ in saved}
    used = graphs_in_use(reader)
    by_compilation: dict[int, list[str]] = {}
    for graph in reader.rows(model.Graph, stage="forward", direction="forward"):
        if graph.compilation not in with_saved or (used is not None and graph.id not in used):
            continue
        placeholders = reader.rows(model.Node, graph=graph.id, op="placeholder")
        inputs = [row for row in placeholders if (graph.compilation, row.name) not in saved]
        names = InputNames(reader).of(inputs[:MOST_NAMED])
        for node in inputs:
            own = names.get(node.id)
            renamed = f"{node.name} ({own.name})" if own and own.name != node.name else node.name
            by_compilation.setdefault(graph.compilation, []).append(renamed)
    return _by_name(reader, by_compilation)


def of_step_memory(reader: SessionReader) -> Answer:
    memory = memory_of_report(reader)
    if memory is None:
        return of_section(reader, "step_memory")
    figures = {name: value for name, value in memory.items() if name not in _ROWS_OF_MEMORY}
    verdict = memory.get("verdict")
    sentences = verdict if isinstance(verdict, list) else []
    held = memory.get("held_at_peak")
    return Answer(
        text=" ".join(map(str, sentences)),
        rows=held if isinstance(held, list) else [],
        known_from="predicted statement by statement from the wrapper code around the kernels; "
        "nothing was measured. The rows are the biggest tensors at the peak.",
        figures=figures,
        next=["memory"],
    )


_ROWS_OF_MEMORY = ("verdict", "held_at_peak")
