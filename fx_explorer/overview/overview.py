"""The overview says what torch.compile did, without torch-internal words.

Every fact is counted by the module that owns the question, and leads to the place or view that says
more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from fx_explorer import model
from fx_explorer.analysis.documents import Place, artifact_document
from fx_explorer.analysis.facts import Fact, Severity
from fx_explorer.analysis.lineage import first_variants, graphs_in_use
from fx_explorer.analysis.naming import plain_code
from fx_explorer.analysis.nested_regions import nested_region_facts
from fx_explorer.analysis.other_variants import other_variants
from fx_explorer.analysis.whole_session import (
    Totals,
    compiled_graphs,
    compiled_without_dynamo,
    is_debug_directory,
    is_log,
    is_profile_alone,
    is_provenance,
    is_snapshot_alone,
    is_tritonparse,
    knows_breaks,
    not_decoded,
    not_in_text,
    totals,
)
from fx_explorer.analysis.words import (
    counted,
    listed,
    seconds,
)
from fx_explorer.findings.every_kind import findings, search
from fx_explorer.findings.finding import Finding
from fx_explorer.instruments.breaks.call_tree import distinct_fallbacks
from fx_explorer.instruments.breaks.grouped import DistinctBreak, distinct_breaks
from fx_explorer.instruments.guards.kinds import (
    NO_GUARDS_OF_PRECOMPILE,
    OF_TORCH_ALONE,
    capture_summaries,
    is_of_saved_code,
    is_precompiled,
    saved_guards,
)
from fx_explorer.overview.child_processes import children, children_facts
from fx_explorer.overview.compiled_facts import (
    bucket_facts,
    cuda_graph_facts,
    look_at,
    regional_facts,
    stage_facts,
)
from fx_explorer.overview.device_facts import device_copy_facts, stays_on_the_cpu_facts
from fx_explorer.overview.ending import run_facts
from fx_explorer.overview.origin_facts import (
    first_question,
    is_package,
    package_facts,
    virtual_gpu_facts,
)
from fx_explorer.overview.result_facts import (
    backend_facts,
    bench_facts,
    cache_facts,
    front_end_facts,
    is_bench_alone,
    kernel_facts,
    ledger_facts,
    memory_facts,
    profile_facts,
    snapshot_facts,
    study_facts,
    support_facts,
    time_facts,
)
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import (
    check_count,
    filtered,
)
from fx_explorer.session.queries.graphs import captured_operations
from fx_explorer.session.redacting import META as REDACTED

SHOWN_AT_MOST = 5
"""Maximum number of breaks and recompiles that are listed one by one. The others are counted, and
shown in a view.
"""

LAUNCHES_IN = (
    "The document Launches next to it has how often each was launched, its arguments, and their "
    "differences."
)

JOIN = (
    "With a session or a log of the same program, each line also has its operations: fx-explorer "
    "memory SESSION SNAPSHOT."
)

FILTERED = (
    "The condition of a dropped guard is no longer checked: when it changes, the old compiled "
    "code keeps running."
)


def overview(reader: SessionReader, waiting: Fact | None = None) -> list[Fact]:
    """Return what happened, in the order a reader asks for it. The last fact says what to look at
    first.

    ``waiting`` describes a compiler that waits for the user, which no session knows. It comes after
    whatever was found.
    """
    if is_bench_alone(reader):
        return list(bench_facts(reader))
    if is_package(reader):
        return list(package_facts(reader))
    facts = _facts(reader, waiting)
    look = list(_first_look(reader, facts))
    of_findings = [finding_fact(finding) for finding in findings(reader)]
    for worst in look:
        for at, fact in enumerate(facts):
            # What to do about it is in the last fact. Twice, it would push others off the screen.
            if worst.text == look_at(fact) and fact in of_findings:
                facts[at] = replace(fact, detail="")
    return [*facts, *look]


def page_facts(reader: SessionReader, waiting: Fact | None = None) -> list[Fact]:
    """Return the facts of the app's first page: those of the overview, each once. Where there is no
    problem, a fact says so in place of what to look at first: the page has the problems on top.
    """
    if is_bench_alone(reader) or is_package(reader):
        return overview(reader)
    facts = _facts(reader, waiting)
    if any(fact.severity == "problem" for fact in facts):
        return facts
    looked_for = search(reader)
    in_short = f"{looked_for.summary}: i lists them."
    if waiting and reader.count(model.Graph):
        return [*facts, Fact("next", "good", "No problem was found so far.", in_short)]
    look = list(_first_look(reader, facts))
    if look and look[0].severity == "notice":
        return [*facts, Fact("next", "good", "No problem was found.", in_short)]
    for at, fact in enumerate(look):
        if fact.detail == looked_for.description:
            look[at] = replace(fact, detail=in_short)
    return [*facts, *look]


def _facts(reader: SessionReader, waiting: Fact | None) -> list[Fact]:
    """Return what happened, without what to look at first."""
    figures = totals(reader)
    return [
        *_redacted(reader),
        *run_facts(reader, waiting),
        *virtual_gpu_facts(reader),
        *_findings(reader),
        *stays_on_the_cpu_facts(reader),
        *profile_facts(reader),
        *snapshot_facts(reader),
        *cuda_graph_facts(reader),
        *device_copy_facts(reader),
        *_graphs(reader, figures, distinct_breaks(reader)),
        *bucket_facts(reader),
        *children_facts(reader),
        *nested_region_facts(reader),
        *_changed_by_hand(reader),
        *_other_variants(reader),
        *_no_breaks(reader),
        *_guards(reader, figures),
        *support_facts(reader),
        *backend_facts(reader),
        *kernel_facts(reader),
        *regional_facts(reader),
        *memory_facts(reader),
        *time_facts(reader),
        *cache_facts(reader),
        *ledger_facts(reader),
        *bench_facts(reader),
        *study_facts(reader),
        *front_end_facts(reader),
        *stage_facts(reader),
        *([waiting] if waiting else ()),
    ]


def _redacted(reader: SessionReader) -> Iterator[Fact]:
    """Yield a note that the session is redacted, because its names are not the program's."""
    if reader.meta(REDACTED):
        yield Fact(
            "run",
            "notice",
            "Redacted: names and files are replaced, and source code and values are left out.",
        )


def _findings(reader: SessionReader) -> Iterator[Fact]:
    """Yield the findings, the worst first. Of one kind that has many, the first are listed, and the
    others counted.
    """
    shown: Counter[str] = Counter()
    more: dict[str, Finding] = {}
    for finding in findings(reader):
        shown[finding.kind] += 1
        if shown[finding.kind] <= SHOWN_AT_MOST:
            yield finding_fact(finding)
        else:
            more.setdefault(finding.kind, finding)
    for kind, finding in more.items():
        others = counted(shown[kind] - SHOWN_AT_MOST, f"more {kind}")
        yield Fact(finding.topic, finding.severity, f"… and {others}.", view=finding.view)


def finding_fact(finding: Finding) -> Fact:
    """Return a finding as a line of the overview."""
    return Fact(
        finding.topic,
        finding.severity,
        finding.text,
        finding.detail,
        finding.place,
        finding.view,
        cost=finding.cost,
        brief=finding.brief,
        can_try=finding.can_try,
        version=finding.version,
    )


# graphs


def _graphs(
    reader: SessionReader, figures: Totals, broken: Sequence[DistinctBreak]
) -> Iterator[Fact]:
    """Yield which functions were not compiled, and how many graphs the code became."""
    compilations = first_variants(reader)
    direct = _given_directly(compilations)
    if direct:
        detail = NO_GUARDS_OF_PRECOMPILE if is_precompiled(reader) else ""
        yield Fact("graphs", "good", f"{direct}.", detail, view="graphs")
    if not figures.graphs:
        if direct:
            return
        # While the capture continues, a graph may still come.
        is_known = "graphs" not in not_in_text(reader)
        if reader.meta("outcome") is not None and not not_decoded(reader) and is_known:
            fact = _no_graph(reader)
            if fact:
                yield fact
        return
    yield _graph_fact(reader, figures, broken)


def _graph_fact(reader: SessionReader, figures: Totals, broken: Sequence[DistinctBreak]) -> Fact:
    """Return the fact on how many graphs the code became, and why it was divided."""
    compilations = first_variants(reader)
    operations = counted(captured_operations(reader, graphs_in_use(reader)), "operation")
    graphs = f"{counted(figures.graphs, 'graph')} with {operations}"
    if figures.graphs == 1 and not figures.graph_breaks:
        if _all_was_compiled(reader):
            what = "Everything became one graph"
        else:
            what = "One graph was made"
        return Fact("graphs", "good", f"{what}: {operations}.", view="graphs")
    if broken and all(graph_break.is_wrappers for graph_break in broken):
        text = (
            f"The code became {graphs}. None of your lines breaks it: torch's "
            "DistributedDataParallel breaks around it."
        )
        return Fact("graphs", "good", text, _describe_names(compilations), view="graphs")
    if figures.graph_breaks and not compiled_graphs(reader):
        text = f"Dynamo captured {graphs}; no graph runs compiled."
        return Fact("graphs", "notice", text, _describe_names(compilations), view="graphs")
    if figures.graph_breaks:
        lines = counted(figures.graph_breaks, "line")
        text = f"The code became {graphs}: it breaks at {lines}.{_lost_rests(broken)}"
        return Fact("graphs", "notice", text, _describe_names(compilations), view="graphs")
    frames, after_reset = _frames_and_resets(compilations)
    reason = f"{counted(frames, 'function')} compiled"
    if figures.recompiles:
        reason += f", recompiled {counted(figures.recompiles, 'time')} for other inputs"
    if after_reset:
        reason += f", recompiled {counted(after_reset, 'time')} after torch._dynamo.reset()"
    text = f"The code became {graphs} ({reason}), without a graph break."
    return Fact("graphs", "good", text, _describe_names(compilations), view="graphs")


def _frames_and_resets(compilations: Sequence[model.Compilation]) -> tuple[int, int]:
    """Return how many functions Dynamo compiled, and how often one was recompiled because
    ``torch._dynamo.reset()`` had dropped its code.
    """
    functions = set()
    after_reset = 0
    for compilation in compilations:
        if compilation.status in ("failed", "skipped"):
            continue
        if compilation.name.partition("/")[0] in _DIRECT:
            continue
        function = (
            compilation.frame,
            compilation.function,
            compilation.file,
            compilation.line,
        )
        if "#" in compilation.name and not compilation.recompile and function in functions:
            after_reset += 1
        functions.add(function)
    return len(functions), after_reset


def _lost_rests(broken: Sequence[DistinctBreak]) -> str:
    """Return how many functions are compiled only in part, as a sentence; empty where there are
    none.
    """
    functions: set[str] = set()
    for graph_break in broken:
        functions.update(rest.function for rest in graph_break.eager_rests)
    if not functions:
        return ""
    if len(functions) == 1:
        return f" The rest of {functions.pop()} runs in eager mode."
    return f" The rests of {len(functions)} functions run in eager mode."


_DIRECT = {
    "inductor": "to Inductor",
    "aot": "to AOTAutograd",
    "make_fx": "to make_fx",
    "precompile": "to torch.compiler.precompile",
}
"""First part of the name of a compilation that the program requested directly → the compiler."""


def _given_directly(compilations: Sequence[model.Compilation]) -> str:
    """Return a sentence on what the program gave to torch's compilers directly, without
    torch.compile; empty for nothing.
    """
    prefixes = [row.name.partition("/")[0] for row in compilations]
    given = []
    for prefix, compiler in _DIRECT.items():
        if prefix in prefixes:
            noun = "graph" if prefix == "inductor" else "function"
            given.append(f"{counted(prefixes.count(prefix), noun)} {compiler}")
    if not given:
        return ""
    return f"The program itself gave {listed(given)}, without Dynamo"


def _describe_names(compilations: Sequence[model.Compilation]) -> str:
    """Return the meaning of torch's names of these compilations; empty for a single one."""
    if len(compilations) < 2:
        return ""
    return (
        "[1/0] is torch's name: function 1, compiled the first time; [1/1] is the same "
        "function, recompiled."
    )


def _all_was_compiled(reader: SessionReader) -> bool:
    """Return whether the run came to its end, in one process, and everything given to torch was
    compiled. For a log this is unknown.
    """
    if is_log(reader):
        return False
    outcome = reader.meta("outcome")
    if outcome is None or not model.Outcome.from_json(outcome).went_well or children(reader).graphs:
        return False
    if any(row.status in ("failed", "skipped", "left") for row in first_variants(reader)):
        return False
    return all(fallback.has_nothing_to_compile for fallback in distinct_fallbacks(reader))


def _no_graph(reader: SessionReader) -> Fact | None:
    """Return what there is in place of graphs; None where a finding says why there are none."""
    if reader.count(model.GraphBreak):
        text = "No graph was made, because of the graph breaks."
        return Fact("graphs", "notice", text, view="graphs")
    if is_debug_directory(reader):
        graphs = reader.count(model.Graph, stage="forward", parent=0)
        graphs += reader.count(model.Graph, stage="backward", parent=0)
        text = f"Inductor compiled {counted(graphs, 'graph')}."
        return Fact("graphs", "good", text, view="graphs")
    if is_provenance(reader):
        calls = counted(int((reader.meta("log") or {}).get("records", 0)), "call")
        text = f"For {calls} of kernels and libraries it has the operations each computes."
        return Fact("graphs", "good", text, view="source")
    if is_tritonparse(reader):
        kernels = counted(reader.count(model.Kernel), "Triton kernel")
        configurations = counted(reader.count(model.KernelBuild), "configuration")
        text = f"{kernels} compiled, in {configurations}."
        detail = LAUNCHES_IN if reader.count(model.KernelLaunch) else ""
        return Fact("graphs", "good", text, detail, view="kernels")
    others = compiled_without_dynamo(reader)
    if others:
        text = f"The log has {listed(others)}, and no compilation by torch.compile."
        return Fact("graphs", "good", text, view="graphs")
    if children(reader).graphs:
        text = "No graph was made in the program's own process."
        return Fact("graphs", "notice", text, view="graphs")
    return None


def _changed_by_hand(reader: SessionReader) -> Iterator[Fact]:
    """Yield the user's changes at gates; nothing where nothing was changed."""
    interventions = reader.rows(model.Intervention)
    if not interventions:
        return
    gates = dict.fromkeys(
        model.GATE_WORDS[intervention.gate] for intervention in interventions if intervention.gate
    )
    where = listed(f"after {gate}" for gate in gates)
    changes = listed(intervention.title for intervention in interventions)
    text = "This was changed by hand"
    if where:
        text += f" {where}"
    detail = "From there on it differs from what torch alone would have done."
    if any(intervention.kind == "setting" for intervention in interventions):
        detail += " Compile again without it to see its effect."
    yield Fact("graphs", "notice", f"{text}: {changes}.", detail, view="graphs")


def _other_variants(reader: SessionReader) -> Iterator[Fact]:
    """Yield a fact on the other variants that were compiled from a pause; nothing when there are
    none.
    """
    variants = other_variants(reader)
    if not variants:
        return
    saved = sum(variant.variant.saved_s for variant in variants)
    if len(variants) == 1:
        verb, them = "was", "it"
    else:
        verb, them = "were", "them"
    text = f"{counted(len(variants), 'other variant')} {verb} compiled from a pause."
    if saved:
        text += f" The stages before {them} ({seconds(saved)}) did not run again."
    parts = []
    for variant in variants:
        changes = listed(variant.changes) or "as before"
        parts.append(f"[{variant.variant.name}] from {variant.gate_name}: {changes}")
    detail = listed(parts, SHOWN_AT_MOST)
    used = [variant.variant.name for variant in variants if variant.variant.in_use]
    if used:
        detail += f"; the program uses [{'], ['.join(used)}]"
    yield Fact("graphs", "notice", text, detail, view="graphs")


def _no_breaks(reader: SessionReader) -> Iterator[Fact]:
    """Yield that there are no graph breaks, where that is known."""
    if distinct_breaks(reader) or not reader.count(model.Graph) or not knows_breaks(reader):
        return
    never = ": Python never had to step in" if _all_was_compiled(reader) else ""
    yield Fact("breaks", "good", f"No graph breaks{never}.", view="breaks")


def _guards(reader: SessionReader, figures: Totals) -> Iterator[Fact]:
    """Yield how many guards there are, and which were dropped."""
    for drop in filtered(reader):
        if not is_of_saved_code(drop.filter):
            guards_dropped = f"{drop.dropped:,} of {counted(drop.guards, 'guard')}"
            text = f"The guard filter {drop.filter} dropped {guards_dropped}."
            yield Fact("recompiles", "notice", text, FILTERED, view="guards")
    yield from _saved_code(reader)
    guards = check_count(reader)
    if guards:
        times = figures.compilations
        if times > 1:
            among = f", {guards:,} in total over all compilations"
        else:
            among = f": {guards:,}"
        text = f"The compiled code is reused as long as its guards hold{among}."
        yield Fact("recompiles", "good", text, _dynamic_sizes(reader), view="guards")


def _saved_code(reader: SessionReader) -> Iterator[Fact]:
    """Yield what code that is saved lacks, and torch's messages about captures that are saved."""
    for saved in saved_guards(reader):
        if saved.unchecked:
            detail = f"{saved.unchecked} {FILTERED}"
            yield Fact("recompiles", "notice", saved.description, detail, view="guards")
        else:
            yield Fact("recompiles", "good", saved.description, OF_TORCH_ALONE, view="guards")
    for summary in capture_summaries(reader):
        severity: Severity = "good"
        if summary.gaps:
            severity = "problem"
        elif summary.risky or summary.wont_generalize:
            severity = "notice"
        detail = "\n".join(summary.details)
        yield Fact("recompiles", severity, summary.description, detail, view="guards")


def _dynamic_sizes(reader: SessionReader) -> str:
    """Return ``dynamic sizes: size 0 of x (now 4)``; empty when every size is specialized."""
    symbols = {symbol.source: symbol for symbol in reader.rows(model.Symbol) if symbol.source}
    if not symbols:
        return ""
    compilations = {symbol.compilation for symbol in symbols.values()}
    owners = {row.id: row for row in reader.by_ids(model.Compilation, compilations)}
    sizes = []
    for source, symbol in symbols.items():
        code = plain_code(source, owners.get(symbol.compilation))
        sizes.append(f"{code} (now {symbol.hint or 'unknown'})")
    of_tensors = [size.startswith("size ") for size in sizes]
    kinds = []
    if any(of_tensors):
        kinds.append("sizes")
    if not all(of_tensors):
        kinds.append("numbers")
    return f"dynamic {listed(kinds)}: {listed(sizes)}"


def _first_look(reader: SessionReader, facts: Sequence[Fact]) -> Iterator[Fact]:
    """Yield the worst problem, else a question about the device, else the first notice, else a view
    worth opening.

    Where a run that went well compiled nothing, the fact on its ending says what to do. "No problem
    was found" is said only where no fact above is a problem, and as the only sentence only where
    none is a notice either.
    """
    outcome = reader.meta("outcome")
    if outcome is None:
        return
    problems = [fact for fact in facts if fact.severity == "problem"]
    if problems:
        of_findings = [finding_fact(finding) for finding in findings(reader)]
        worst = next((fact for fact in of_findings if fact in problems), problems[0])
        message = model.Outcome.from_json(outcome).message
        detail = worst.detail
        if not detail and message not in worst.text:
            detail = message
        yield replace(worst, topic="next", text=look_at(worst), detail=detail)
        return
    question = first_question(list(facts))
    if question:
        text = look_at(question)
        yield Fact("next", "notice", text, question.detail, question.place, question.view)
        return
    notices = [fact for fact in facts if fact.severity == "notice" and fact.topic != "front_ends"]
    if notices:
        first = notices[0]
        text = f"No problem was found. Notice: {first.text}"
        yield Fact("next", "notice", text, first.detail, first.place, first.view)
    elif is_snapshot_alone(reader):
        text = "See the memory of each line at the peak."
        document = artifact_document(reader.rows(model.Artifact, limit=1)[0], "snapshot")
        yield Fact("next", "good", text, JOIN, Place(document), "source")
    elif is_profile_alone(reader):
        text = "See where the time went."
        yield Fact("next", "good", text, view="profile")
    elif is_provenance(reader):
        table = reader.rows(model.Artifact, limit=1)[0]
        place = Place(artifact_document(table, "table"))
        text = "See which operations and lines of your program each kernel computes."
        yield Fact("next", "good", text, "", place, "source")
    elif is_tritonparse(reader):
        text = "No problem was found. See the kernels, and each of them down to its PTX."
        yield Fact("next", "good", text, search(reader).description, view="kernels")
    elif reader.count(model.Kernel):
        text = "No problem was found. See which of your lines became which kernel."
        yield Fact("next", "good", text, search(reader).description, view="source")
    elif reader.count(model.Graph):
        text = "No problem was found. See the graphs your code became."
        yield Fact("next", "good", text, search(reader).description, view="graphs")
