"""The rows of answers about a whole session: breaks, recompiles, guards, graphs, kernels, tensors
saved for the backward … Where the JSON report has an object for a thing, it is the row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from fx_explorer import model
from fx_explorer.analysis.cuda_graphs import cuda_graphs
from fx_explorer.analysis.documents import (
    ARTIFACT_TITLES,
    Document,
    Place,
    documents,
    graph_document,
)
from fx_explorer.analysis.function_versions import versions
from fx_explorer.analysis.lineage import graphs_in_use
from fx_explorer.analysis.measured_times import call_time
from fx_explorer.analysis.naming import function_of, plain_function
from fx_explorer.analysis.other_variants import other_variants
from fx_explorer.analysis.whole_session import is_log, not_in_text
from fx_explorer.analysis.words import counted, listed
from fx_explorer.answers.answer import Answer, Json
from fx_explorer.findings.every_kind import findings, search
from fx_explorer.findings.report import finding_object
from fx_explorer.instruments.breaks.call_tree import FunctionCall, call_trees, distinct_fallbacks
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.instruments.compile_time.cache_report import caches_of_report
from fx_explorer.instruments.compile_time.timing import stage_times
from fx_explorer.instruments.guards.guard_tree import CHANCE_WORDS, explained_checks
from fx_explorer.instruments.guards.symbols import symbols
from fx_explorer.instruments.kernels.costs import KernelCost, kernel_costs
from fx_explorer.instruments.kernels.report import kernel_cost
from fx_explorer.instruments.memory.report import memory_of_report, saved_tensors
from fx_explorer.instruments.memory.snapshot_figures import figures_of
from fx_explorer.instruments.memory.snapshot_report import snapshot_object
from fx_explorer.instruments.options.explained_options import explained_options
from fx_explorer.instruments.options.report import compile_option
from fx_explorer.instruments.recompiles.causes import limit_hits, recompiles
from fx_explorer.model.study import META, parts_as_json, parts_from_json
from fx_explorer.overview.child_processes import children
from fx_explorer.overview.ending import failures
from fx_explorer.overview.overview import overview
from fx_explorer.report.compilation_entries import other_variant, total_figures
from fx_explorer.report.heading import answer as first_line_of_report
from fx_explorer.report.instrument_entries import (
    fallback,
    front_ends,
    graph_break,
    limit_hit,
    measured_call,
    recompile,
)
from fx_explorer.report.json_report import (
    child_process,
    cuda_graphs_of_report,
    environment,
    failure,
    stages_of_report,
    symbol,
    target,
)
from fx_explorer.report.sections import section_of
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import check_count, compilation_names
from fx_explorer.session.queries.graphs import frequent_targets


def place_text(reader: SessionReader, place: Place | None) -> str:
    """Return ``model.py:12`` or ``[0/0] Forward graph:4``; empty for no place."""
    if place is None or not place.document.title:
        return ""
    return f"{document_name(place.document)}:{place.line + 1}"


def document_name(document: Document) -> str:
    """Return ``model.py``, or ``[0/0] Forward graph`` for what belongs to a compilation."""
    if document.owner:
        return f"[{document.owner}] {document.title}"
    return document.title


def describe_session(reader: SessionReader, name: str) -> dict[str, str]:
    """Return what every answer says of its session: its name, the program, torch, the device."""
    environment = reader.meta("environment") or {}
    program = reader.meta("target") or {}
    return {
        "session": name,
        "program": str(program.get("file") or program.get("name") or ""),
        "torch": str(environment.get("torch") or ""),
        "device": str(
            environment.get("virtual_gpu")
            or environment.get("gpu")
            or environment.get("device")
            or ""
        ),
        "ended": _ending(reader),
    }


def _ending(reader: SessionReader) -> str:
    """Return how the program ended; a log says nothing of it."""
    if is_log(reader):
        return "not recorded: a log does not say how the program ended, or whether it is complete"
    outcome = reader.meta("outcome") or {}
    return str(outcome.get("kind") or "not recorded")


# What happened, and what is wrong.


_WORST_FIRST = ("problem", "notice", "changed", "running", "good")


def of_overview(reader: SessionReader) -> Answer:
    facts = overview(reader)
    shown = [fact for fact in facts if fact.topic != "next"]
    shown.sort(key=lambda fact: _WORST_FIRST.index(fact.severity))
    rows: list[Json] = [
        {
            "severity": fact.severity,
            "text": fact.text,
            "detail": fact.detail,
            "cost": fact.cost,
            "at": place_text(reader, fact.place),
        }
        for fact in shown
    ]
    return Answer(
        text=first_line_of_report(findings(reader), facts),
        rows=rows,
        known_from="what was recorded while the program ran, and the findings made of it",
        figures={
            "totals": total_figures(reader),
            "target": target(reader),
            "environment": environment(reader),
            "not_in_text": not_in_text(reader),
        },
        next=["findings", *_recorded(reader)],
    )


def _recorded(reader: SessionReader) -> list[str]:
    """Return the questions to which the session has something to say."""
    is_recorded = {
        "breaks": reader.has(model.GraphBreak),
        "recompiles": bool(recompiles(reader)),
        "guards": reader.has(model.GuardCheck),
        "kernels": reader.has(model.Kernel),
        "profile": reader.has(model.Profile),
        "failures": reader.has(model.Failure),
    }
    return [name for name, is_there in is_recorded.items() if is_there]


def of_findings(reader: SessionReader) -> Answer:
    every_finding = findings(reader)
    places = [finding.place for finding in every_finding if finding.place]
    of_source = [place for place in places if place.document.kind == "source"]
    questions = [f"line {place_text(reader, place)}" for place in of_source[:3]]
    looked = search(reader)
    return Answer(
        text=first_line_of_report(every_finding, overview(reader)),
        rows=[finding_object(finding) for finding in every_finding],
        known_from="the rows of the session; a remedy says whether it was tried in the program",
        figures={
            "looked_for": list(looked.looked_for),
            "not_looked_for": list(looked.not_looked_for),
        },
        next=list(dict.fromkeys(questions)),
    )


def of_breaks(reader: SessionReader) -> Answer:
    breaks = distinct_breaks(reader)
    hits = sum(distinct.count for distinct in breaks)
    if breaks:
        answer = section_of(reader, "breaks").answer
        text = f"{counted(len(breaks), 'place')} with a graph break, hit {hits} times. {answer}"
    else:
        text = "No graph break was recorded."
    return Answer(
        text=text,
        rows=[graph_break(reader, distinct) for distinct in breaks],
        known_from="Dynamo's own records of graph breaks",
        fields=(
            "reason", "file", "line", "code", "count", "explanation", "hints", "id", "chain",
            "compilations", "goes_on_in", "eager_rests",
        ),
        figures={"measured_call": measured_call(call_time(reader))},
        next=["findings", "eager", "calls"] if breaks else ["findings"],
    )  # fmt: skip


def of_eager_functions(reader: SessionReader) -> Answer:
    functions = distinct_fallbacks(reader)
    if functions:
        text = f"{counted(len(functions), 'function')} left to eager mode as a whole."
    else:
        text = (
            "Dynamo skipped no function as a whole. A function that is called at a graph break, "
            "or disabled, is named by breaks."
        )
    return Answer(
        text=text,
        rows=[fallback(distinct) for distinct in functions],
        known_from="Dynamo's own records of frames that it skipped",
        next=["breaks", "calls"],
    )


def of_calls(reader: SessionReader) -> Answer:
    rows: list[Json] = []
    for tree in call_trees(reader):
        rows.extend(_call_rows(tree))
    return Answer(
        text=f"torch.compile looked at {counted(len(rows), 'function')}; a function that Python "
        "calls between the graphs of another stands below it.",
        rows=rows,
        known_from="Dynamo's frames, and the lines that called them",
        next=["compilations", "breaks"],
    )


def _call_rows(call: FunctionCall) -> Iterator[Json]:
    pending = [(call, 0)]
    while pending:
        each, depth = pending.pop()
        yield {
            "function": plain_function(each.function),
            "depth": depth,
            "file": each.file,
            "line": each.line,
            "called_at": each.called_at or None,
            "compilations": [row.name for row in each.compilations],
            "graphs": len(each.graphs),
            "breaks": [f"{hit.reason}" for hit in each.breaks],
            "runs_in_eager_mode": each.runs_in_eager,
        }
        pending += [(inner, depth + 1) for inner in reversed(each.calls)]


_STATES = {
    "ok": "completed",
    "broke": "completed up to a graph break",
    "skipped": "left to eager mode",
    "failed": "failed",
}
"""Status of a compilation → what became of it, in words."""


def of_compilations(reader: SessionReader) -> Answer:
    rows: list[Json] = []
    for row in reader.rows(model.Compilation):
        times = stage_times(reader, row.id)
        graphs = reader.rows(model.Graph, compilation=row.id)
        captured = [graph for graph in graphs if graph.stage == "dynamo" and not graph.parent]
        rows.append(
            {
                "compilation": row.name,
                "function": function_of(row),
                "file": row.file,
                "line": row.line,
                "status": row.status,
                "error": row.error,
                "backend": row.backend,
                "attempts": row.attempts,
                "variant_of": row.variant_of or None,
                "restart_reasons": list(row.restart_reasons),
                "operations": sum(graph.call_count for graph in captured),
                "guards": check_count(reader, row.id),
                "kernels": reader.count(model.Kernel, compilation=row.id),
                "compile_s": round(times.total_s, 3),
                "seconds": {
                    stage or "other": round(spent, 3) for stage, spent in times.by_stage.items()
                },
                "missing_stages": row.missing_stages or {},
            }
        )
    states = Counter(row["status"] for row in rows)
    given_up = states.pop("restarted", 0)
    text = f"{counted(sum(states.values()), 'compilation')}: {_totals(reader)}."
    if states:
        how_many = listed(
            [f"{count} {_STATES.get(state, state)}" for state, count in states.items()]
        )
        text += f" Of them {how_many}."
    if given_up:
        text += f" {counted(given_up, 'attempt')} that Dynamo started again are listed, too."
    return Answer(
        text=text,
        rows=rows,
        known_from="torch's own compile ids and timed phases",
        figures={"totals": total_figures(reader)},
        next=["recompiles", "graphs", "flame"],
    )


def _totals(reader: SessionReader) -> str:
    totals = total_figures(reader)
    nouns = {"graphs": "graph", "graph_breaks": "graph break", "recompiles": "recompile"}
    return listed([counted(int(str(totals[name])), noun) for name, noun in nouns.items()])


def of_recompiles(reader: SessionReader) -> Answer:
    every_recompile = recompiles(reader)
    rows = [recompile(explained) for explained in every_recompile]
    hits = limit_hits(reader)
    limits = [limit_hit(hit) for hit in hits]
    refused = {hit.compilation for hit in hits}
    compiled = {explained.compilation for explained in every_recompile} - refused
    count = len(compiled)
    for row in rows:
        row["is_refused"] = True if row["compilation"] in refused else None
        change = row["change"]
        if isinstance(change, dict) and change["old"] and not change["new"]:
            change["new"] = "not recorded"
    if every_recompile:
        causes = len([explained for explained in every_recompile if explained.is_cause])
        text = (
            f"{counted(count, 'recompile')}. A row is a guard that failed: {causes} of "
            f"{len(rows)} are the cause (the nearest earlier version), the others failed as well."
        )
    else:
        text = "Nothing was compiled again."
    if limits:
        text += (
            f" The recompile limit was hit {counted(len(limits), 'time')}: a call that is_refused "
            "was not compiled, and runs in eager mode."
        )
    rows.sort(key=lambda row: not row["is_cause"])
    return Answer(
        text=text,
        rows=rows,
        known_from="the guards that torch reported as failed; called_from is the user's line",
        figures={"limits": limits},
        next=["guards --match NAME", "sizes", "findings"] if every_recompile else ["guards"],
    )


def of_guards(reader: SessionReader) -> Answer:
    section = section_of(reader, "guards")
    checks = explained_checks(reader)
    if not checks:
        return of_section(reader, "guards")
    rows: list[Json] = []
    for explained in checks:
        check = explained.check
        rows.append(
            {
                "compilation": explained.compilation,
                "guards_on": explained.name,
                "must_stay": explained.asks,
                "fails_when": CHANCE_WORDS.get(explained.chance, explained.chance),
                "why": explained.why,
                "asked_for_by": f"{check.file}:{check.line}" if check.file else "",
                "kind": explained.guard_kind or check.kind,
                "cost_ns": round(check.cost_ns) if check.cost_ns >= 0 else None,
                "source": check.source,
                "code": check.code,
            }
        )
    return Answer(
        text=section.answer,
        rows=rows,
        known_from="torch's guard manager, one row per check; costs are measured per check",
        fields=("compilation", "guards_on", "must_stay", "fails_when", "asked_for_by", "cost_ns"),
        next=["guards --match NAME", "recompiles"],
    )


def of_sizes(reader: SessionReader) -> Answer:
    return Answer(
        text=section_of(reader, "sizes").answer,
        rows=[symbol(explained) for explained in symbols(reader)],
        known_from="torch's ShapeEnv and its structured records",
        next=["recompiles", "guards"],
    )


# Graphs, kernels, memory.


def graph_documents(reader: SessionReader) -> list[Document]:
    """Return every graph that has nodes, in the order torch.compile made them."""
    names = compilation_names(reader)
    graphs = [graph for graph in reader.rows(model.Graph) if graph.node_count]
    return [graph_document(graph, names.get(graph.compilation, "")) for graph in graphs]


def of_graphs(reader: SessionReader) -> Answer:
    used = graphs_in_use(reader)
    frequent = frequent_targets(reader)
    rows: list[Json] = []
    for document in graph_documents(reader):
        graph = reader.get(model.Graph, document.id)
        operations = dict(frequent.get(graph.id, []))
        rows.append(
            {
                "graph": document_name(document),
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
        next=[f"nodes {rows[0]['number']}", "stages"] if rows else [],
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


def kernel_row(reader: SessionReader, cost: KernelCost) -> Json:
    """Return a kernel with the lines and nodes that it computes, its bytes and its time."""
    kernel = cost.use.kernel
    figures = kernel_cost(cost)
    version = cost.version
    return {
        "kernel": kernel.name,
        "compilation": version.name if version else "",
        "direction": kernel.direction,
        "language": "library call" if kernel.language == "extern" else kernel.language,
        "lines": [f"{file}:{line}" for file, line in cost.lines],
        "modules": figures["modules"],
        "computes": list(cost.use.nodes),
        "calls": figures["calls"],
        "bytes": figures["bytes"],
        "seconds": figures["seconds"],
        "seconds_are": figures["seconds_are"],
        "version": version.description if version else "",
        "code_lines": cost.use.line_count or None,
    }


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
        known_from="Inductor's output code and scheduler; seconds_are says where a time is from",
        fields=(
            "kernel", "compilation", "direction", "language", "lines", "computes", "calls",
            "bytes", "seconds", "seconds_are",
        ),
        figures={"kernels": len(rows), "compilations": len(of_each)},
        next=questions,
    )  # fmt: skip


def of_saved_tensors(reader: SessionReader) -> Answer:
    rows: list[Json] = list(saved_tensors(reader))
    rows.sort(key=lambda row: -int(str(row["bytes"] or 0)))
    if not rows:
        return of_section(reader, "memory")
    return Answer(
        text=section_of(reader, "memory").answer,
        rows=rows,
        known_from="outputs of the forward graph that are inputs of the backward graph; why is "
        "the partitioner's own reason; consumers are backward nodes that need it",
        fields=(
            "user_name", "name", "kind", "dtype", "shape", "bytes", "file", "line", "producer",
            "why", "consumers", "compilation",
        ),
        next=["step_memory", "node NAME"],
    )  # fmt: skip


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
        known_from="predicted from the wrappers around the kernels, read statement by statement; "
        "nothing was measured. The rows are the biggest tensors at the peak.",
        figures=figures,
        next=["memory"],
    )


_ROWS_OF_MEMORY = ("verdict", "held_at_peak")


# The rest.


def of_options(reader: SessionReader) -> Answer:
    rows = [compile_option(option) for option in explained_options(reader)]
    texts = [each for each in documents(reader) if _has_options(each)]
    if rows:
        text = f"{counted(len(rows), 'option')} of torch.compile in force in this capture."
    elif texts:
        text = "No option is listed by itself; the text of the settings was recorded: see next."
    else:
        text = "No option was recorded."
    return Answer(
        text=text,
        rows=rows,
        known_from="torch's configuration when the graphs were compiled",
        fields=("name", "in_force", "default", "does"),
        next=["options --match NAME --fields all"] if rows else _code_questions(texts),
    )


def _has_options(document: Document) -> bool:
    """Return whether a text is of settings, as torch wrote them."""
    titles = (ARTIFACT_TITLES["config"], ARTIFACT_TITLES["compile_options"])
    return document.title in titles or "settings" in document.title


def _code_questions(texts: Sequence[Document]) -> list[str]:
    """Return the questions that show some texts."""
    return [f"code {text_number(text)} --match NAME" for text in texts[:3]]


def text_number(document: Document) -> str:
    """Return what stands for a text where several have one name: ``7`` for a graph, ``text7``."""
    return (
        str(document.id)
        if document.kind == "graph"
        else f"{_TEXT_KINDS[document.kind]}{document.id}"
    )


_TEXT_KINDS = {"source": "file", "artifact": "text", "code": "text", "table": "text"}
"""Kind of a document → what its number begins with."""


def of_caches(reader: SessionReader) -> Answer:
    caches = caches_of_report(reader)
    answers = caches["answers"]
    rows = answers if isinstance(answers, list) else []
    if rows:
        text = f"{counted(len(rows), 'look-up')} in torch's compile caches."
    else:
        text = "No look-up in a compile cache was recorded."
    return Answer(
        text=text,
        rows=rows,
        known_from="torch's own records of its caches",
        figures={"warm_start": caches["warm_start"]},
    )


def of_cuda_graphs(reader: SessionReader) -> Answer:
    graphs = cuda_graphs_of_report(reader)
    if graphs is None and is_log(reader):
        return Answer("This log says nothing of CUDA graphs.", known_from=_CUDA_GRAPHS)
    if graphs is None:
        return Answer("No CUDA graph was asked for.", known_from=_CUDA_GRAPHS)
    rows = graphs.pop("graphs")
    states = [graph.state for graph in cuda_graphs(reader).graphs]
    return Answer(
        text=f"CUDA graphs were asked for; {counted(len(states), 'graph')} of torch.compile.",
        rows=rows if isinstance(rows, list) else [],
        known_from=_CUDA_GRAPHS,
        figures=graphs,
    )


_CUDA_GRAPHS = "torch's own checks and records of CUDA graphs"


def of_failures(reader: SessionReader) -> Answer:
    failed = failures(reader)
    if failed:
        text = f"{counted(len(failed), 'failure')}."
    elif is_log(reader):
        text = "No failed compilation is in the log; it says nothing of the program besides."
    else:
        text = "Nothing failed."
    return Answer(
        text=text,
        rows=[failure(explained) for explained in failed],
        known_from="exceptions, as they were raised",
        fields=("compilation", "where", "stage", "kind", "message"),
        figures={"outcome": reader.meta("outcome")},
        next=["failures --fields all --limit 1", "console"] if failed else ["console"],
    )


def of_child_processes(reader: SessionReader) -> Answer:
    processes = children(reader).everyone
    return Answer(
        text=f"{counted(len(processes), 'child process')} of the program.",
        rows=[child_process(process) for process in processes],
        known_from="the program's own calls that start processes",
    )


def of_variants(reader: SessionReader) -> Answer:
    rows = [other_variant(reader, variant) for variant in other_variants(reader)]
    return Answer(
        text=f"{counted(len(rows), 'other variant')} of compilations, made by stepping.",
        rows=rows,
        known_from="compilations that were continued with something changed",
    )


def of_front_ends(reader: SessionReader) -> Answer:
    rows = front_ends(reader)
    return Answer(
        text=f"{counted(len(rows), 'front end')} beside Dynamo (--frontend asks them).",
        rows=rows,
        known_from="each front end, run on the same target",
    )


def of_study(reader: SessionReader) -> Answer:
    rows = parts_as_json(parts_from_json(reader.meta(META) or []))
    return Answer(
        text=f"{counted(len(rows), 'part')} of a study (fx-explorer study makes one).",
        rows=rows,
        known_from="what each part printed at its end",
        next=["findings", "bench", "numerics", "ledger"] if rows else [],
    )


def of_memory_snapshot(reader: SessionReader) -> Answer:
    figures = figures_of(reader)
    if figures is None:
        return Answer("The session has no CUDA memory snapshot.", known_from=_SNAPSHOT)
    content = snapshot_object(reader, figures)
    return Answer("A CUDA memory snapshot.", known_from=_SNAPSHOT, figures=content)


_SNAPSHOT = "torch.cuda.memory._snapshot"


def of_documents(reader: SessionReader) -> Answer:
    """Return what ``code`` can show."""
    rows: list[Json] = [
        {
            "document": document_name(document),
            "number": text_number(document),
            "language": document.language,
            "lines": document.line_count,
        }
        for document in documents(reader)
    ]
    return Answer(
        text=f"{counted(len(rows), 'text')}: source files, graphs, and code that torch wrote.",
        rows=rows,
        known_from="texts that were recorded; source files as they were when they were captured",
        next=["code NAME", "code NAME:LINE"],
    )


def of_section(reader: SessionReader, name: str) -> Answer:
    """Return a view of the app: its answer, and its rows by the titles of its columns."""
    section = section_of(reader, name)
    titles = [field_name(column.title) for column in section.columns]
    rows: list[Json] = []
    is_tree = any(row.depth for row in section.rows)
    for row in section.rows:
        cells: Json = {"depth": row.depth} if is_tree else {}
        for title, cell in zip(titles, row.cells, strict=True):
            if cell.bar is None:
                cells[title] = cell.text.strip().lstrip("▾▸ ")
        cells["at"] = place_text(reader, row.place)
        cells["detail"] = row.detail
        rows.append(cells)
    has_details = len(rows) == 1
    fields = () if has_details else ("depth", *titles, "at")
    return Answer(section.answer, rows, section.origin, fields, next=_NEXT.get(name, ()))


_NEXT = {
    "flame": ("compilations", "caches"),
    "modules": ("kernels", "memory"),
    "ledger": ("kernels", "guards"),
    "profile": ("kernels", "ledger"),
}
"""View → what to ask next."""


def field_name(title: str) -> str:
    """Return the title of a column as the name of a field: ``your line`` is ``your_line``."""
    if title == "#":
        return "number"
    words = title.replace("≈", "").replace("%", "percent").split()
    return "_".join(words)
