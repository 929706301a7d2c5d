"""The overview says what torch.compile did, without torch-internal words.

Every fact is counted by the module that owns the question, and leads to the place or view that says
more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from fx_explorer import model
from fx_explorer.analysis.annotated_regions import nested_region_facts
from fx_explorer.analysis.documents import Place, artifact_document, place_of_path
from fx_explorer.analysis.facts import Fact, Severity
from fx_explorer.analysis.lineage import first_variants, graphs_in_use
from fx_explorer.analysis.naming import plain_code, plain_function
from fx_explorer.analysis.other_variants import other_variants
from fx_explorer.analysis.whole_session import (
    Totals,
    compiled_without_dynamo,
    is_debug_directory,
    is_log,
    is_provenance,
    is_tritonparse,
    knows_breaks,
    not_decoded,
    not_in_text,
    totals,
)
from fx_explorer.analysis.words import (
    counted,
    first_line,
    listed,
    seconds,
)
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
from fx_explorer.instruments.recompiles.causes import (
    ExplainedRecompile,
    causes,
    limit_hits,
    reached_limit,
)
from fx_explorer.overview.child_processes import children, children_facts
from fx_explorer.overview.compiled_facts import (
    break_fact,
    bucket_facts,
    costliest_fact,
    cuda_graph_facts,
    look_at,
    regional_facts,
    stage_facts,
    stopped_by,
)
from fx_explorer.overview.device_facts import device_copy_facts, stays_on_the_cpu_facts
from fx_explorer.overview.ending import run_facts, went_on
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
    support_facts,
    time_facts,
)
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import (
    check_count,
    compilation_ids,
    compile_seconds,
    filtered,
    raised_compilations,
)
from fx_explorer.session.queries.graphs import captured_operations

SHOWN_AT_MOST = 5
"""Maximum number of breaks and recompiles that are listed one by one. The others are counted, and
shown in a view.
"""

LAUNCHES_IN = (
    "How often each was launched, with what, and what differed is in the document Launches "
    "beside it."
)

FILTERED = (
    "What a dropped guard looked at is not checked any more. When it changes, the old compiled "
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
    broken = distinct_breaks(reader)
    facts = _facts(reader, broken, waiting)
    look = list(_first_look(reader, facts, broken))
    if look and broken and look[0].text == look_at(break_fact(broken[0])):
        # What to do about it is in the last fact. Twice, it would push the other breaks off the
        # screen.
        _take_out_advice(facts, broken[0])
    return [*facts, *look]


def page_facts(reader: SessionReader, waiting: Fact | None = None) -> list[Fact]:
    """Return the facts of the app's first page: those of the overview, each once. Where there is no
    problem, a fact says so in place of what to look at first: the page has the problems on top.
    """
    if is_bench_alone(reader) or is_package(reader):
        return overview(reader)
    broken = distinct_breaks(reader)
    facts = _facts(reader, broken, waiting)
    if any(fact.severity == "problem" for fact in facts):
        return facts
    if waiting and reader.count(model.Graph):
        return [*facts, Fact("next", "good", "No problem was found so far.")]
    look = list(_first_look(reader, facts, broken))
    if look and look[0].severity == "notice":
        return [*facts, Fact("next", "good", "No problem was found.")]
    return [*facts, *look]


def _facts(
    reader: SessionReader, broken: Sequence[DistinctBreak], waiting: Fact | None
) -> list[Fact]:
    """Return what happened, without what to look at first."""
    figures = totals(reader)
    return [
        *run_facts(reader, waiting),
        *virtual_gpu_facts(reader),
        *stays_on_the_cpu_facts(reader),
        *profile_facts(reader),
        *cuda_graph_facts(reader),
        *device_copy_facts(reader),
        *_graphs(reader, figures, broken),
        *bucket_facts(reader),
        *children_facts(reader),
        *nested_region_facts(reader),
        *_changed_by_hand(reader),
        *_other_variants(reader),
        *_breaks(reader, broken),
        *_recompiles(reader, figures),
        *support_facts(reader),
        *backend_facts(reader),
        *kernel_facts(reader),
        *regional_facts(reader),
        *memory_facts(reader),
        *time_facts(reader),
        *cache_facts(reader),
        *ledger_facts(reader),
        *bench_facts(reader),
        *front_end_facts(reader),
        *stage_facts(reader),
        *([waiting] if waiting else ()),
    ]


def _take_out_advice(facts: list[Fact], graph_break: DistinctBreak) -> None:
    """Remove the advice about a graph break from its fact."""
    with_advice = break_fact(graph_break)
    for at, fact in enumerate(facts):
        if fact == with_advice:
            facts[at] = break_fact(graph_break, advises=False)


# graphs


def _graphs(
    reader: SessionReader, figures: Totals, broken: Sequence[DistinctBreak]
) -> Iterator[Fact]:
    """Yield which functions were not compiled, and how many graphs the code became."""
    compilations = first_variants(reader)
    raised = {compilation.id for compilation in raised_compilations(reader)}
    not_compiled: Counter[Fact] = Counter()
    for compilation in compilations:
        if compilation.status not in ("failed", "skipped"):
            continue
        # What was refused at the limit is among the recompiles.
        if not reached_limit(compilation):
            fact = _not_compiled(reader, compilation, compilation.id in raised)
            not_compiled[fact] += 1
    for fact, count in not_compiled.items():
        times = f" ({counted(count, 'time')})." if count > 1 else "."
        yield replace(fact, text=fact.text.removesuffix(".") + times)
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
            yield _no_graph(reader)
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
    if figures.graph_breaks:
        lines = counted(figures.graph_breaks, "line")
        text = f"The code became {graphs}: it breaks at {lines}.{_lost_rests(broken)}"
        return Fact("graphs", "notice", text, _describe_names(compilations), view="graphs")
    frames, after_reset = _frames_and_resets(compilations)
    reason = f"{counted(frames, 'function')} compiled"
    if figures.recompiles:
        reason += f", {counted(figures.recompiles, 'time')} again for other inputs"
    if after_reset:
        reason += f", {counted(after_reset, 'time')} again after torch._dynamo.reset()"
    text = f"The code became {graphs} ({reason}), without a graph break."
    return Fact("graphs", "good", text, _describe_names(compilations), view="graphs")


def _frames_and_resets(compilations: Sequence[model.Compilation]) -> tuple[int, int]:
    """Return how many functions Dynamo compiled, and how often one was compiled again because
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
        "function, compiled again."
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


def _no_graph(reader: SessionReader) -> Fact:
    """Return the fact that there is no graph. Graph breaks that caused it are the problem, and this
    is only a notice; otherwise it names the function that was run in eager mode.
    """
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
        text = f"It says of {calls} of kernels and libraries what each computes."
        return Fact("graphs", "good", text, view="source")
    if is_tritonparse(reader):
        kernels = counted(reader.count(model.Kernel), "Triton kernel")
        configurations = counted(reader.count(model.KernelBuild), "configuration")
        text = f"{kernels} compiled, in {configurations}."
        detail = LAUNCHES_IN if reader.count(model.KernelLaunch) else ""
        return Fact("graphs", "good", text, detail, view="kernels")
    others = compiled_without_dynamo(reader)
    if others:
        text = (
            f"The log tells of {listed(others)}, and of nothing that torch.compile was called for."
        )
        return Fact("graphs", "good", text, view="graphs")
    if children(reader).graphs:
        text = "No graph was made in the program's own process."
        return Fact("graphs", "notice", text, view="graphs")
    text = "No graph was made: nothing of this program was compiled."
    for fallback in distinct_fallbacks(reader):
        if not fallback.has_nothing_to_compile:
            detail = f"{plain_function(fallback.function)}: {fallback.description}"
            return Fact("graphs", "problem", text, detail, fallback.place, "breaks")
    return Fact("graphs", "problem", text, view="graphs")


def _not_compiled(reader: SessionReader, compilation: model.Compilation, raised: bool) -> Fact:
    """Return the fact about a function without compiled code. ``raised``: its error reached the
    program, or would have without ``suppress_errors``.
    """
    name = plain_function(compilation.function)
    place = place_of_path(reader, compilation.file, compilation.line)
    if raised and went_on(reader):
        text = f"Compiling {name} raised an error, and the program continued."
        why = compilation.error or stopped_by(reader, compilation)
        return Fact("graphs", "notice", text, why, place, "graphs")
    if compilation.status == "failed":
        return Fact(
            "graphs",
            "problem",
            f"{name} could not be compiled.",
            compilation.error,
            place,
            "graphs",
        )
    why = stopped_by(reader, compilation) or compilation.error
    return Fact(
        "graphs", "notice", f"{name} was not compiled, it runs in eager mode.", why, place, "graphs"
    )


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
    detail = "From there on it is not what torch alone would have done."
    if any(intervention.kind == "setting" for intervention in interventions):
        detail += " Compile again without it to see what it changed."
    yield Fact("graphs", "notice", f"{text}: {changes}.", detail, view="graphs")


def _other_variants(reader: SessionReader) -> Iterator[Fact]:
    """Yield a fact on the other variants that were compiled from a pause; nothing when there are
    none.
    """
    variants = other_variants(reader)
    if not variants:
        return
    saved = sum(variant.variant.saved_s for variant in variants)
    verb = "was" if len(variants) == 1 else "were"
    text = f"{counted(len(variants), 'other variant')} {verb} tried from a pause"
    text += f", which saved {seconds(saved)} of compiling again." if saved else "."
    parts = []
    for variant in variants:
        changes = listed(variant.changes) or "as before"
        parts.append(f"[{variant.variant.name}] from {variant.gate_name}: {changes}")
    detail = listed(parts, SHOWN_AT_MOST)
    used = [variant.variant.name for variant in variants if variant.variant.in_use]
    if used:
        detail += f"; the program uses [{'], ['.join(used)}]"
    yield Fact("graphs", "notice", text, detail, view="graphs")


def _breaks(reader: SessionReader, graph_breaks: Sequence[DistinctBreak]) -> Iterator[Fact]:
    if not graph_breaks:
        if reader.count(model.Graph) and knows_breaks(reader):
            if _all_was_compiled(reader):
                never = ": Python never had to step in"
            else:
                never = ""
            yield Fact("breaks", "good", f"No graph breaks{never}.", view="breaks")
        return
    for graph_break in islice(graph_breaks, SHOWN_AT_MOST):
        yield break_fact(graph_break)
    if len(graph_breaks) > SHOWN_AT_MOST:
        yield Fact(
            "breaks",
            "problem",
            f"… and {counted(len(graph_breaks) - SHOWN_AT_MOST, 'more place')}.",
            view="breaks",
        )


def _recompiles(reader: SessionReader, figures: Totals) -> Iterator[Fact]:
    """Yield the limits that were hit, the first recompiles with their causes, and how many guards
    there are.
    """
    for hit in limit_hits(reader):
        refused = f"[{hit.compilation}] was refused"
        if hit.change:
            refused += f": {hit.change}"
        detail = f"{refused}."
        if hit.remedy:
            detail += f"\nWhat to do: {hit.remedy}"
        yield Fact("recompiles", "problem", f"{hit.description}.", detail, hit.place, "breaks")
    # Those that were refused at the limit are above.
    refused_names = {
        compilation.name for compilation in first_variants(reader) if reached_limit(compilation)
    }
    recompiles = [
        recompile for recompile in causes(reader) if recompile.compilation not in refused_names
    ]
    costs = _seconds_by_name(reader, [recompile.compilation for recompile in recompiles])
    for recompile in recompiles[:SHOWN_AT_MOST]:
        function = plain_function(recompile.function)
        text = f"{function} was compiled again: {first_line(recompile.description)}."
        detail = _about_recompile(recompile)
        cost = costs.get(recompile.compilation, "")
        yield Fact("recompiles", "problem", text, detail, recompile.place, "guards", cost=cost)
    if len(recompiles) > SHOWN_AT_MOST:
        more = counted(len(recompiles) - SHOWN_AT_MOST, "more recompile")
        yield Fact("recompiles", "problem", f"… and {more}.", view="breaks")
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
        text = f"The compiled code is used again as long as its guards hold{among}."
        yield Fact("recompiles", "good", text, _dynamic_sizes(reader), view="guards")


def _seconds_by_name(reader: SessionReader, names: Sequence[str]) -> dict[str, str]:
    """Return how long each of these compilations took, in words: ``1.2 s``."""
    times = {}
    wanted = names[:SHOWN_AT_MOST]
    for name, compilation in zip(wanted, compilation_ids(reader, wanted), strict=False):
        duration_s = compile_seconds(reader, compilation)
        if duration_s:
            times[name] = f"{seconds(duration_s)} compiling"
    return times


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


def _about_recompile(recompile: ExplainedRecompile) -> str:
    """Return sentences on a recompile: the compilation before it, the caller, and the remedy."""
    file, line = recompile.called_from
    caller = f", called from {in_file(file, line)}" if file else ""
    graphs = f": {recompile.graphs}" if recompile.graphs else ""
    text = f"[{recompile.compilation}] after [{recompile.of}]{caller}{graphs}."
    if recompile.remedy:
        text += f"\nWhat to do: {recompile.remedy}"
    return text


def _dynamic_sizes(reader: SessionReader) -> str:
    """Return ``sizes that may change: size 0 of x (now 4)``; empty when every size is fixed."""
    symbols = {symbol.source: symbol for symbol in reader.rows(model.Symbol) if symbol.source}
    if not symbols:
        return ""
    compilations = {symbol.compilation for symbol in symbols.values()}
    owners = {row.id: row for row in reader.by_ids(model.Compilation, compilations)}
    sizes = []
    for source, symbol in symbols.items():
        code = plain_code(source, owners.get(symbol.compilation))
        sizes.append(f"{code} (now {symbol.hint or 'unknown'})")
    return f"sizes that may change: {listed(sizes)}"


def _first_look(
    reader: SessionReader, facts: Sequence[Fact], broken: Sequence[DistinctBreak]
) -> Iterator[Fact]:
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
    if problems and broken and problems[0] == break_fact(broken[0]):
        yield costliest_fact(broken[0], len(broken))
        return
    if problems:
        worst = problems[0]
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
    elif is_provenance(reader):
        table = reader.rows(model.Artifact, limit=1)[0]
        place = Place(artifact_document(table, "table"))
        text = "See which operations and lines of your program each kernel computes."
        yield Fact("next", "good", text, "", place, "source")
    elif is_tritonparse(reader):
        text = "No problem was found. See the kernels, and each of them down to its PTX."
        yield Fact("next", "good", text, view="kernels")
    elif reader.count(model.Kernel):
        text = "No problem was found. See which of your lines became which kernel."
        yield Fact("next", "good", text, view="source")
    elif reader.count(model.Graph):
        text = "No problem was found. See the graphs your code became."
        yield Fact("next", "good", text, view="graphs")
