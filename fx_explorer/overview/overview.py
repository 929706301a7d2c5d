"""The overview: what torch.compile did, without torch-internal words.

Every fact is counted by the module that owns the question, and leads to the place or view that says
more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from fx_explorer import model
from fx_explorer.analysis.documents import Place, artifact_document, place_of_path
from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.lineage import first_variants, graphs_in_use
from fx_explorer.analysis.naming import SizeNames, plain_code, plain_function
from fx_explorer.analysis.other_variants import other_variants
from fx_explorer.analysis.regions.annotated_regions import nested_region_facts
from fx_explorer.analysis.versions import over_versions
from fx_explorer.analysis.whole_session import (
    Totals,
    compiled_without_dynamo,
    is_debug_directory,
    is_log,
    is_provenance,
    is_tritonparse,
    not_decoded,
    not_in_text,
    tells_breaks,
    totals,
)
from fx_explorer.analysis.words import (
    counted,
    first_line,
    listed,
    seconds,
    share,
    size,
    tensor,
)
from fx_explorer.instruments.breaks.call_tree import distinct_fallbacks
from fx_explorer.instruments.breaks.grouped import DistinctBreak, distinct_breaks
from fx_explorer.instruments.compile_time.timing import STAGE_IN_WORDS, stage_times
from fx_explorer.instruments.guards.saved_guards import (
    NO_GUARDS_OF_PRECOMPILE,
    OF_TORCH_ALONE,
    is_of_saved_code,
    is_precompiled,
    saved_guards,
)
from fx_explorer.instruments.kernels.counts import DirectionKernels, kernels_by_direction
from fx_explorer.instruments.kernels.log_tuning import measured_choices
from fx_explorer.instruments.memory.saved_values import (
    SavedValue,
    computed_total,
    kept_bytes,
    saved_total,
    saved_values,
    saving_compilations,
    user_names,
)
from fx_explorer.instruments.recompiles.causes import (
    ExplainedRecompile,
    causes,
    limit_hits,
    reached_limit,
)
from fx_explorer.overview.children import children, children_facts
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
from fx_explorer.overview.ending import run_facts, went_on
from fx_explorer.overview.instrument_facts import (
    backend_facts,
    bench_facts,
    cache_facts,
    front_end_facts,
    is_bench_alone,
    ledger_facts,
    profile_facts,
    support_facts,
)
from fx_explorer.overview.origin_facts import (
    first_question,
    is_package,
    package_facts,
    virtual_gpu_facts,
)
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import check_count, filtered, raised_compilations
from fx_explorer.session.queries.graphs import captured_operations
from fx_explorer.session.queries.kernels import unlinked_kernels

SHOWN_AT_MOST = 5
"""Most breaks and recompiles that are listed one by one. The rest is counted, and shown in a
view.
"""

LAUNCHES_IN = (
    "How often each was launched, with what, and what differed is in the document Launches "
    "beside it."
)

FILTERED = (
    "What a dropped guard looked at is not checked any more. When it changes, the old "
    "compiled code runs on."
)


def overview(reader: SessionReader, waiting: Fact | None = None) -> list[Fact]:
    """Return what happened, in the order a reader asks for it. The last fact says what to look at
    first.

    ``waiting`` describes a compiler that waits for the user, which no session knows.
    """
    if is_bench_alone(reader):
        return list(bench_facts(reader))
    if is_package(reader):
        return list(package_facts(reader))
    figures, broken = totals(reader), distinct_breaks(reader)
    facts = [
        *run_facts(reader, waiting),
        *virtual_gpu_facts(reader),
        *profile_facts(reader),
        *cuda_graph_facts(reader),
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
        *_kernels(reader),
        *regional_facts(reader),
        *_memory(reader),
        *_time(reader),
        *cache_facts(reader),
        *ledger_facts(reader),
        *bench_facts(reader),
        *front_end_facts(reader),
        *stage_facts(reader),
    ]
    look = list(_first_look(reader, facts, broken))
    if look and broken and look[0].text == look_at(break_fact(broken[0])):
        # What to do about it is told there. Said twice, it would push the other breaks off the
        # screen.
        facts = [
            break_fact(broken[0], advises=False) if fact == break_fact(broken[0]) else fact
            for fact in facts
        ]
    return [*facts, *look]


# graphs


def _graphs(
    reader: SessionReader, figures: Totals, broken: Sequence[DistinctBreak]
) -> Iterator[Fact]:
    """Yield what was not compiled, and how many graphs the code became."""
    compilations = first_variants(reader)
    raised = {compilation.id for compilation in raised_compilations(reader)}
    not_compiled = Counter(
        _not_compiled(reader, compilation, compilation.id in raised)
        for compilation in compilations
        # What was refused at the limit is told with the recompiles.
        if compilation.status in ("failed", "skipped") and not reached_limit(compilation)
    )
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
    operations = captured_operations(reader, graphs_in_use(reader))
    found = f"{counted(figures.graphs, 'graph')} with {counted(operations, 'operation')}"
    compiled = [
        compilation
        for compilation in compilations
        if compilation.status not in ("failed", "skipped")
        and compilation.name.partition("/")[0] not in _DIRECT
    ]
    functions = [
        (compilation.frame, compilation.function, compilation.file, compilation.line)
        for compilation in compiled
    ]
    frames = len(set(functions))
    after_reset = sum(
        "#" in compilation.name and not compilation.recompile and functions[i] in functions[:i]
        for i, compilation in enumerate(compiled)
    )
    if figures.graphs == 1 and not figures.graph_breaks:
        what = "Everything became one graph" if _all_was_compiled(reader) else "One graph was made"
        yield Fact("graphs", "good", f"{what}: {counted(operations, 'operation')}.", view="graphs")
    elif broken and all(graph_break.is_wrappers for graph_break in broken):
        text = (
            f"The code became {found}. None of your lines breaks it: torch's "
            "DistributedDataParallel breaks around it."
        )
        yield Fact("graphs", "good", text, _names_in_words(compilations), view="graphs")
    elif figures.graph_breaks:
        lines = counted(figures.graph_breaks, "line")
        text = f"The code became {found}: it breaks at {lines}, listed below.{_lost_rests(broken)}"
        yield Fact("graphs", "notice", text, _names_in_words(compilations), view="graphs")
    else:
        reason = f"{counted(frames, 'function')} compiled"
        reason += (
            f", {counted(figures.recompiles, 'time')} again for other inputs"
            if figures.recompiles
            else ""
        )
        if after_reset:
            reason += f", {counted(after_reset, 'time')} again after torch._dynamo.reset()"
        text = f"The code became {found} ({reason}), without a graph break."
        yield Fact("graphs", "good", text, _names_in_words(compilations), view="graphs")


def _lost_rests(broken: Sequence[DistinctBreak]) -> str:
    """Say how many functions are compiled in part alone; empty where none is."""
    functions = {rest.function for hit in broken for rest in hit.eager_rests}
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
"""First part of the name of what the program gave to a compiler itself → to whom."""


def _given_directly(compilations: Sequence[model.Compilation]) -> str:
    """Say what the program gave to torch's compilers itself, without torch.compile; empty for
    nothing.
    """
    prefixes = [row.name.partition("/")[0] for row in compilations]
    given = [
        f"{counted(prefixes.count(prefix), 'graph' if prefix == 'inductor' else 'function')} {to}"
        for prefix, to in _DIRECT.items()
        if prefix in prefixes
    ]
    return f"The program itself gave {listed(given)}, without Dynamo" if given else ""


def _names_in_words(compilations: Sequence[model.Compilation]) -> str:
    """Return what torch's names of these compilations mean; empty where there is only one."""
    if len(compilations) < 2:
        return ""
    return (
        "[1/0] is torch's name: function 1, compiled the first time; [1/1] is the same "
        "function, compiled again."
    )


def _all_was_compiled(reader: SessionReader) -> bool:
    """Return whether the run came to its end, in one process, and nothing that torch was given
    failed or was run in eager mode. Of a log that is not known.
    """
    if is_log(reader):
        return False
    outcome = reader.meta("outcome")
    if outcome is None or not model.Outcome.from_json(outcome).went_well or children(reader).graphs:
        return False
    refused = any(row.status in ("failed", "skipped", "left") for row in first_variants(reader))
    return not refused and all(
        fallback.has_nothing_to_compile for fallback in distinct_fallbacks(reader)
    )


def _no_graph(reader: SessionReader) -> Fact:
    """Return the fact that there is no graph. Graph breaks that caused it are the problem, and this
    is only a notice; otherwise it names the function that was run in eager mode.
    """
    if reader.count(model.GraphBreak):
        return Fact(
            "graphs",
            "notice",
            "No graph was made. The graph breaks are listed below.",
            view="graphs",
        )
    if is_debug_directory(reader):
        graphs = reader.count(model.Graph, stage="forward", parent=0) + reader.count(
            model.Graph, stage="backward", parent=0
        )
        return Fact(
            "graphs", "good", f"Inductor compiled {counted(graphs, 'graph')}.", view="graphs"
        )
    if is_provenance(reader):
        named = counted(int((reader.meta("log") or {}).get("records", 0)), "call")
        return Fact(
            "graphs",
            "good",
            f"It says of {named} of kernels and libraries what each computes.",
            view="source",
        )
    if is_tritonparse(reader):
        found = counted(reader.count(model.Kernel), "Triton kernel")
        text = f"{found} compiled, in {counted(reader.count(model.KernelBuild), 'configuration')}."
        return Fact(
            "graphs",
            "good",
            text,
            LAUNCHES_IN if reader.count(model.KernelLaunch) else "",
            view="kernels",
        )
    others = compiled_without_dynamo(reader)
    if others:
        text = (
            f"The log tells of {listed(others)}, and of nothing that torch.compile was called for."
        )
        return Fact("graphs", "good", text, view="graphs")
    text = "No graph was made: nothing of this program was compiled."
    if children(reader).graphs:
        return Fact(
            "graphs", "notice", "No graph was made in the program's own process.", view="graphs"
        )
    for left in distinct_fallbacks(reader):
        if not left.has_nothing_to_compile:
            return Fact(
                "graphs",
                "problem",
                text,
                f"{plain_function(left.function)}: {left.in_words}",
                left.place,
                "breaks",
            )
    return Fact("graphs", "problem", text, view="graphs")


def _not_compiled(reader: SessionReader, compilation: model.Compilation, raised: bool) -> Fact:
    """Say what happened to a function without code. ``raised``: its error reached the program, or
    would have without ``suppress_errors``.
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
    done = reader.rows(model.Intervention)
    if not done:
        return
    gates = listed(
        dict.fromkeys(
            f"after {model.GATE_WORDS[intervention.gate]}"
            for intervention in done
            if intervention.gate
        )
    )
    where = f" {gates}" if gates else ""
    text = (
        f"This was changed by hand{where}: {listed(intervention.title for intervention in done)}."
    )
    detail = "From there on it is not what torch alone would have done."
    if any(intervention.kind == "setting" for intervention in done):
        detail += " Compile again without it to see what it changed."
    yield Fact("graphs", "notice", text, detail, view="graphs")


def _other_variants(reader: SessionReader) -> Iterator[Fact]:
    variants = other_variants(reader)
    if not variants:
        return
    saved = sum(variant.variant.saved_s for variant in variants)
    text = (
        f"{counted(len(variants), 'other variant')} {'was' if len(variants) == 1 else 'were'} tried "
        "from a pause"
    )
    text += f", which saved {seconds(saved)} of compiling again." if saved else "."
    parts = [
        f"[{variant.variant.name}] from {variant.gate_in_words}: {listed(variant.changes) or 'as before'}"
        for variant in variants
    ]
    detail = listed(parts, SHOWN_AT_MOST)
    used = [variant.variant.name for variant in variants if variant.variant.in_use]
    detail += f"; the program uses [{'], ['.join(used)}]" if used else ""
    yield Fact("graphs", "notice", text, detail, view="graphs")


def _breaks(reader: SessionReader, graph_breaks: Sequence[DistinctBreak]) -> Iterator[Fact]:
    if not graph_breaks:
        if reader.count(model.Graph) and tells_breaks(reader):
            never = ": Python never had to step in" if _all_was_compiled(reader) else ""
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
        refused = f"[{hit.compilation}] was refused" + (f": {hit.change}" if hit.change else "")
        detail = f"{refused}.\nWhat to do: {hit.remedy}" if hit.remedy else f"{refused}."
        yield Fact("recompiles", "problem", f"{hit.in_words}.", detail, hit.place, "breaks")
    # Told above, with the limit.
    refused_ones = {
        compilation.name for compilation in first_variants(reader) if reached_limit(compilation)
    }
    recompiles = [
        recompile for recompile in causes(reader) if recompile.compilation not in refused_ones
    ]
    for recompile in islice(recompiles, SHOWN_AT_MOST):
        text = f"{plain_function(recompile.function)} was compiled again: {first_line(recompile.in_words)}."
        yield Fact(
            "recompiles", "problem", text, _about_recompile(recompile), recompile.place, "guards"
        )
    if len(recompiles) > SHOWN_AT_MOST:
        more = counted(len(recompiles) - SHOWN_AT_MOST, "more recompile")
        yield Fact("recompiles", "problem", f"… and {more}.", view="breaks")
    for drop in filtered(reader):
        if not is_of_saved_code(drop.filter):
            guards_dropped = f"{drop.dropped:,} of {counted(drop.guards, 'guard')}"
            text = f"The guard filter {drop.filter} dropped {guards_dropped}."
            yield Fact("recompiles", "notice", text, FILTERED, view="guards")
    for saved in saved_guards(reader):
        if saved.unchecked:
            detail = f"{saved.unchecked} {FILTERED}"
            yield Fact("recompiles", "notice", saved.in_words, detail, view="guards")
        else:
            yield Fact("recompiles", "good", saved.in_words, OF_TORCH_ALONE, view="guards")
    guards = check_count(reader)
    if guards:
        times = figures.compilations
        among = f", {guards:,} in all, each compilation its own" if times > 1 else f": {guards:,}"
        text = f"The compiled code is used again as long as its guards hold{among}."
        yield Fact("recompiles", "good", text, _dynamic_sizes(reader), view="guards")


def _about_recompile(recompile: ExplainedRecompile) -> str:
    file, line = recompile.called_from
    caller = f", called from {in_file(file, line)}" if file else ""
    graphs = f": {recompile.graphs}" if recompile.graphs else ""
    told = (
        f"[{recompile.compilation}] after [{recompile.of}]{caller}{graphs}.",
        f"What to do: {recompile.remedy}" if recompile.remedy else "",
    )
    return "\n".join(part for part in told if part)


def _dynamic_sizes(reader: SessionReader) -> str:
    """Return ``sizes that may change: size 0 of x (now 4)``; empty when every size is fixed."""
    symbols = {symbol.source: symbol for symbol in reader.rows(model.Symbol) if symbol.source}
    owners = {
        row.id: row
        for row in reader.by_ids(
            model.Compilation, {symbol.compilation for symbol in symbols.values()}
        )
    }
    parts = [
        f"{plain_code(source, owners.get(symbol.compilation))} (now {symbol.hint or 'unknown'})"
        for source, symbol in symbols.items()
    ]
    return f"sizes that may change: {listed(parts)}" if parts else ""


# the result


def _kernels(reader: SessionReader) -> Iterator[Fact]:
    directions = kernels_by_direction(reader)
    for direction_kernels in (
        directions if not is_tritonparse(reader) else ()
    ):  # told above, with their configurations
        yield Fact(
            "kernels",
            "good",
            _kernels_text(direction_kernels),
            _summed(reader, direction_kernels.compilations),
            view="kernels",
        )
    for choice in islice(measured_choices(reader), SHOWN_AT_MOST):
        yield Fact(
            "kernels", "good", f"{choice.in_words}.", choice.best_description, view="kernels"
        )
    if is_log(reader) and (count := unlinked_kernels(reader, "cpp")):
        text = (
            f"Nothing in the log leads to its {counted(count, 'C++ kernel')}: torch wrote no "
            "table of what they compute."
        )
        yield Fact("kernels", "notice", text, "INDUCTOR_PROVENANCE=1 makes it write one.")
    is_known = reader.meta("outcome") is not None and "kernels" not in not_in_text(reader)
    if not directions and is_known:
        reasons = {
            ((c.missing_stages or {}).get("kernel", ""), c.status == "failed")
            for c in reader.rows(model.Compilation)
        }
        for reason, has_failed in sorted(pair for pair in reasons if pair[0]):
            yield Fact(
                "kernels",
                "notice" if has_failed else "good",
                f"No kernels were generated: {reason}.",
                view="kernels",
            )


def _summed(reader: SessionReader, compilations: Iterable[int]) -> str:
    """Say that a number is of no single call; empty where it is."""
    added = over_versions(reader, compilations)
    return f"a sum {added}, of which a call runs one" if added else ""


def _kernels_text(direction_kernels: DirectionKernels) -> str:
    parts = []
    if direction_kernels.generated:
        if direction_kernels.operations_fused:
            fused = f" doing {counted(direction_kernels.operations_fused, 'operation')}"
        else:
            fused = ""
        parts.append(f"{counted(direction_kernels.generated, 'generated kernel')}{fused}")
    if direction_kernels.library_calls:
        parts.append(
            f"{counted(direction_kernels.library_calls, 'library call')} "
            f"({listed(map(plain_library, direction_kernels.libraries))})"
        )
    parts += [counted(number, kind) for kind, number in Counter(direction_kernels.control).items()]
    return f"{(direction_kernels.direction or 'all').capitalize()}: {listed(parts, len(parts))}."


def plain_library(name: str) -> str:
    """Return ``addmm`` for ``extern_kernels.addmm``, and ``convolution`` for
    ``torch.ops.aten.convolution.default``.
    """
    return (
        name.removeprefix("extern_kernels.")
        .removeprefix("torch.ops.")
        .removeprefix("aten.")
        .removesuffix(".default")
    )


def _memory(reader: SessionReader) -> Iterator[Fact]:
    """Yield how much the forward keeps for the backward; nothing where it keeps nothing."""
    every, computed, copies = (
        saved_total(reader),
        computed_total(reader),
        saved_total(reader, "copy"),
    )
    if not every.count:
        return
    biggest = saved_values(reader)[0]
    detail = "; ".join(
        filter(
            None,
            (_summed(reader, saving_compilations(reader)), f"biggest: {_biggest(reader, biggest)}"),
        )
    )
    if copies.count:
        detail += (
            f"; {size(copies.size_bytes)} of it are copies of parameters or inputs, in "
            "another layout"
        )
    if every.unknown_sizes:
        detail += f"; {counted(every.unknown_sizes, 'size')} not known"
    kept = f"{size(computed.size_bytes)} it computed ({counted(computed.count, 'tensor')})"
    text = f"For the backward the forward saves {kept if computed.count else 'nothing it computed'}"
    others = every.size_bytes - computed.size_bytes
    # With a graph break a graph's input may be what an earlier graph computed.
    which = "parameters and inputs of the graphs" if reader.has(model.GraphBreak) else ""
    which = which or "parameters and inputs that are there anyway"
    text += f", and {size(others)} of {which}." if others else "."
    yield Fact("memory", "good", text, detail, biggest.place, "memory")


def _biggest(reader: SessionReader, value: SavedValue) -> str:
    """Return ``fc1.weight f32[64, 32] 8.2 kB``; of what was computed, the line and module that did."""
    saved = value.saved
    shape = SizeNames(reader).in_text(saved.compilation, tensor(saved.dtype, saved.shape))
    text = f"{shape} {size(kept_bytes(saved) or 0)}"
    if not value.producer:
        return f"{user_names(reader, [value]).get(saved.id, saved.name)} {text}"
    where = f", computed by {in_file(value.file, value.line)}" if value.file else ""
    return f"{saved.name} {text}{where}" + (f" ({value.module})" if value.module else "")


def _time(reader: SessionReader) -> Iterator[Fact]:
    times = stage_times(reader)
    if not times.total_s:
        return
    most = sorted(times.by_stage.items(), key=lambda item: -item[1])[:3]
    parts = [
        f"{STAGE_IN_WORDS[stage]} {seconds(spent)} ({share(spent, times.total_s)})"
        for stage, spent in most
    ]
    least = "at least " if reader.count(model.Compilation, status="running") else ""
    yield Fact(
        "time",
        "good",
        f"Compiling took {least}{seconds(times.total_s)}.",
        "; ".join(parts),
        view="time",
    )


def _first_look(
    reader: SessionReader, facts: Sequence[Fact], broken: Sequence[DistinctBreak]
) -> Iterator[Fact]:
    """Yield the worst problem, else a question about the device, else the first notice, else what
    is worth seeing.

    Where a run that went well compiled nothing, the fact on its ending says what to do. "No problem
    was found" is said only where no fact above is a problem, and as the only sentence only where
    none is a notice either.
    """
    outcome = reader.meta("outcome")
    if outcome is None:
        return
    problems = [fact for fact in facts if fact.severity == "problem"]
    notices = [fact for fact in facts if fact.severity == "notice" and fact.topic != "front_ends"]
    if problems and broken and problems[0] == break_fact(broken[0]):
        yield costliest_fact(broken[0], len(broken))
    elif problems:
        worst, said = problems[0], model.Outcome.from_json(outcome).message
        said = "" if said in worst.text else said
        yield replace(worst, topic="next", text=look_at(worst), detail=worst.detail or said)
    elif asked := first_question(list(facts)):
        yield Fact("next", "notice", look_at(asked), asked.detail, asked.place, asked.view)
    elif notices:
        first = notices[0]
        yield Fact(
            "next",
            "notice",
            f"No problem was found. Notice: {first.text}",
            first.detail,
            first.place,
            first.view,
        )
    elif is_provenance(reader):
        table = next(iter(reader.rows(model.Artifact, limit=1)))
        place = Place(artifact_document(table, "table"))
        yield Fact(
            "next",
            "good",
            "See which operations and lines of your program each kernel computes.",
            "",
            place,
            "source",
        )
    elif is_tritonparse(reader):
        yield Fact(
            "next",
            "good",
            "No problem was found. See the kernels, and each of them down to its PTX.",
            view="kernels",
        )
    elif reader.count(model.Kernel):
        yield Fact(
            "next",
            "good",
            "No problem was found. See which of your lines became which kernel.",
            view="source",
        )
    elif reader.count(model.Graph):
        yield Fact(
            "next", "good", "No problem was found. See the graphs your code became.", view="graphs"
        )
