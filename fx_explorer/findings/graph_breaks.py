"""Graph breaks: lines at which Dynamo ends a graph and Python runs on, one finding for each line
and cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fx_explorer import model
from fx_explorer.analysis.documents import Place, place_of_path
from fx_explorer.analysis.words import counted, listed, seconds
from fx_explorer.findings.breaks_of_torch import (
    around_models_of_ddp,
    failed_backend,
    is_of_optimizer,
    is_of_scheduler,
    names_left_out,
    steps_of_optimizers,
    steps_of_schedulers,
)
from fx_explorer.findings.classes_in_functions import (
    CLASS_DEFINED,
    BreakAndFinding,
    breaks_of_class,
    local_class_at,
)
from fx_explorer.findings.finding import Finding, Remedy, Urgency
from fx_explorer.findings.framework_hooks import is_of_hooks
from fx_explorer.findings.kept_trials import tried_fixes
from fx_explorer.findings.known_errors import as_remedy, option_in
from fx_explorer.findings.source_lines import SourceLines
from fx_explorer.findings.transformers_breaks import (
    ALWAYS_COMPUTED,
    LAYER_DROP,
    OF_LAYER_DROP,
    loss_type_remedy,
    remedies_in_transformers,
)
from fx_explorer.instruments.breaks.break_cost import NO_COST
from fx_explorer.instruments.breaks.break_owners import (
    NOTHING_INSIDE,
    BreakInLibrary,
    BreakInWrapper,
)
from fx_explorer.instruments.breaks.grouped import DistinctBreak, distinct_breaks
from fx_explorer.instruments.breaks.hints import first_hint
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.torch_texts.reports import BACKEND_FAILED


def find_graph_breaks(reader: SessionReader) -> Iterator[Finding]:
    """Yield a finding for each line that breaks, the costliest first. Those of a framework's hooks
    are a finding of their own, and those with one cause are one.
    """
    lines = SourceLines(reader)
    in_vain: list[DistinctBreak] = []
    around: list[DistinctBreak] = []
    optimizers: list[DistinctBreak] = []
    schedulers: list[DistinctBreak] = []
    of_lines: list[DistinctBreak] = []
    of_backend: dict[str, list[DistinctBreak]] = {}
    for graph_break in distinct_breaks(reader):
        wrapper = graph_break.elsewhere
        if is_of_hooks(graph_break.file):
            continue
        if isinstance(wrapper, BreakInWrapper):
            of_wrapper = around if wrapper.compiles_inside else in_vain
            of_wrapper.append(graph_break)
        elif graph_break.registry_id == BACKEND_FAILED:
            of_backend.setdefault(graph_break.explanation, []).append(graph_break)
        elif is_of_scheduler(graph_break):
            schedulers.append(graph_break)
        elif is_of_optimizer(graph_break):
            optimizers.append(graph_break)
        else:
            of_lines.append(graph_break)
    yield from _of_lines(reader, lines, of_lines)
    for graph_breaks in of_backend.values():
        yield failed_backend(reader, graph_breaks)
    if in_vain:
        yield _wrapped_in_vain(reader, in_vain)
    if schedulers:
        yield steps_of_schedulers(schedulers)
    if optimizers:
        yield steps_of_optimizers(optimizers)
    if around:
        yield around_models_of_ddp(around)


def _of_lines(
    reader: SessionReader, lines: SourceLines, graph_breaks: Sequence[DistinctBreak]
) -> Iterator[Finding]:
    """Yield the finding of each line; those that go with one setting of a package, or with one
    class, as one.
    """
    of_package: dict[str, list[Finding]] = {}
    of_class: dict[tuple[str, int], list[BreakAndFinding]] = {}
    for graph_break in graph_breaks:
        finding = _finding(reader, lines, graph_break)
        setting = next(remedies_in_transformers(reader, lines, graph_break), None)
        local_class = local_class_at(lines, graph_break)
        if local_class:
            of_class.setdefault(local_class, []).append((graph_break, finding))
        elif setting:
            of_package.setdefault(setting.text, []).append(finding)
        else:
            yield finding
    for findings in of_package.values():
        yield _as_one(findings)
    for of_one_class in of_class.values():
        yield from breaks_of_class(of_one_class)


def _as_one(findings: list[Finding]) -> Finding:
    """Return breaks that one setting of a package avoids as one finding, the first with what the
    others show.
    """
    first, *others = findings
    evidence = [*first.evidence]
    for other in others:
        evidence += [other.text, *other.evidence]
    return replace(
        first,
        evidence=tuple(dict.fromkeys(evidence)),
        count=sum(finding.count for finding in findings),
        cost_s=sum(finding.cost_s for finding in findings),
    )


def _wrapped_in_vain(reader: SessionReader, graph_breaks: list[DistinctBreak]) -> Finding:
    """Return that nothing of a model inside a DistributedDataParallel is compiled."""
    where = [in_file(row.file, row.line) for row in graph_breaks if row.file]
    return Finding(
        kind="graph break",
        text="No part of the model inside DistributedDataParallel was compiled.",
        urgency="not compiled",
        topic="breaks",
        place=graph_breaks[0].place,
        view="breaks",
        evidence=(f"DistributedDataParallel breaks the graph itself, at {listed(where)}.",),
        explanation=(
            "After these breaks torch.compile looks at each forward separately, and skips torch's "
            "own, such as the forward of nn.Sequential: it is compiled only as part of one of "
            "your functions."
        ),
        remedies=(
            Remedy(NOTHING_INSIDE),
            Remedy("Put the layers in your own module, whose forward calls them."),
        ),
        count=len(graph_breaks),
    )


def _finding(reader: SessionReader, lines: SourceLines, graph_break: DistinctBreak) -> Finding:
    """Return the finding of one break: its line, its cost and torch's first hint."""
    where = "somewhere"
    if graph_break.file:
        where = in_file(graph_break.file, graph_break.line)
    hits = f" ({counted(graph_break.count, 'time')})" if graph_break.count > 1 else ""
    loss = ""
    if graph_break.loss:
        loss = f". {graph_break.loss[0].upper()}{graph_break.loss[1:]}"
    cost = graph_break.cost
    evidence = [graph_break.code] if graph_break.code else []
    is_known = cost.is_known and cost != NO_COST
    if is_known:
        evidence.append(f"It costs: {cost.description}.")
    elif not cost.is_known:
        evidence.append(f"What it costs: {cost.description}.")
    if cost.functions_in_python:
        evidence += names_left_out(reader, [graph_break])
    options = list(_options(graph_break))
    tried = tried_fixes(reader, graph_break.file, graph_break.line, graph_break.registry_id)
    remedies = (*tried, *_remedies(reader, lines, graph_break), *options)
    is_layer_drop = bool(LAYER_DROP.search(graph_break.code))
    in_package = any(remedies_in_transformers(reader, lines, graph_break))
    hint = "" if options or is_layer_drop or in_package else _hint(lines, graph_break)
    if hint:
        evidence.append(hint)
    if graph_break.registry_id == LOGGER_CALLED:
        logged = _logged(reader, lines, graph_break)
        if logged:
            evidence += [f"It logged: {logged}", SETTLED]
    return Finding(
        kind="graph break",
        text=f"{where} breaks the graph{hits}: {graph_break.description}{loss}.",
        urgency=_urgency(graph_break),
        topic="breaks",
        place=_place(reader, graph_break),
        view="breaks",
        evidence=tuple(evidence),
        explanation=_explanation(lines, graph_break, has_advice=bool(remedies or hint)),
        remedies=remedies,
        count=graph_break.count,
        cost=_in_short(graph_break) if is_known else "",
        cost_s=cost.run_s or 0.0,
        brief=f"{where} graph break{hits}: {graph_break.description}",
    )


OF_PACKAGE = "The line belongs to a package, and no known setting of the package avoids the break."


def _explanation(lines: SourceLines, graph_break: DistinctBreak, *, has_advice: bool) -> str:
    if LAYER_DROP.search(graph_break.code):
        return OF_LAYER_DROP
    if has_advice or not _is_in_package(lines, graph_break):
        return ""
    return OF_PACKAGE


def _is_in_package(lines: SourceLines, graph_break: DistinctBreak) -> bool:
    is_known = bool(graph_break.file)
    return isinstance(graph_break.elsewhere, BreakInLibrary) or (
        is_known and not lines.may_be_users(graph_break.file)
    )


def _place(reader: SessionReader, graph_break: DistinctBreak) -> Place | None:
    """Return the user's own line: the one that breaks, or that calls the package that does."""
    if isinstance(graph_break.elsewhere, BreakInLibrary):
        caller = graph_break.elsewhere.called_from
        return place_of_path(reader, caller.file, caller.line) or graph_break.place
    return graph_break.place


LOGGER_CALLED = "GB0291"
"""torch's id of a break at the call of a logger."""

LEAST_WORDS = 12
"""Number of characters of a message that must stand in the program's output for it to be that."""

MOST_LINES = 2_000


SETTLED = "If the cause of the warning is fixed, the logger is not called."


def _logged(reader: SessionReader, lines: SourceLines, graph_break: DistinctBreak) -> str:
    """Return what was logged, where the program's output has it; empty where it has not."""
    parts = lines.texts_near(graph_break.file, graph_break.line)
    known = [part for part in parts if len(part) >= LEAST_WORDS]
    if not known:
        return ""
    for row in reader.rows(model.ConsoleLine, limit=MOST_LINES):
        if any(part in row.text for part in known):
            return row.text.strip()
    return ""


def _remedies(
    reader: SessionReader, lines: SourceLines, graph_break: DistinctBreak
) -> Iterator[Remedy]:
    """Yield what to do about a break, where torch's own hint does not say it."""
    for text in _WHAT_TO_DO.get(graph_break.registry_id, ()):
        yield Remedy(text)
    yield from remedies_in_transformers(reader, lines, graph_break)
    if graph_break.registry_id == LOGGER_CALLED:
        yield from loss_type_remedy(reader, lines, _logged(reader, lines, graph_break))
    if LAYER_DROP.search(graph_break.code) and lines.is_users(graph_break.file):
        yield ALWAYS_COMPUTED


_OUTSIDE = "Define the class outside of the function, at the top level of the module."

_IMPORT = (
    "Import it once, outside of the compiled code: at the top of the module, in try and except "
    "ImportError if it may be missing. A cache around the function that imports does not help: "
    "Dynamo looks through functools.cache."
)

IMPORT_FAILS = "GB0069"

_WHAT_TO_DO = {**dict.fromkeys(CLASS_DEFINED, (_OUTSIDE,)), IMPORT_FAILS: (_IMPORT,)}
"""torch's id of a break → what to do, where torch's own hint does not say it."""


def _options(graph_break: DistinctBreak) -> Iterator[Remedy]:
    """Yield the options that torch's hints name, each of which a trial can set."""
    for hint in graph_break.hints:
        name = option_in(hint)
        if name:
            yield as_remedy(f"Set torch._dynamo.config.{name} = True (torch's hint).")


FOR_DEVELOPERS = "It may be possible to write Dynamo tracing rules"
"""Beginning of torch's hint to its own developers."""


OF_OWN_CODE = ("Remove the ", "Avoid using ", "For the common pattern ")
"""Beginnings of torch's hints to change the line, which nobody can follow in a package."""


def _hint(lines: SourceLines, graph_break: DistinctBreak) -> str:
    """Return the first hint that the user can follow; empty without one."""
    followable = [hint for hint in graph_break.hints if _is_followable(lines, graph_break, hint)]
    return first_hint(replace(graph_break, hints=tuple(followable)))


def _is_followable(lines: SourceLines, graph_break: DistinctBreak, hint: str) -> bool:
    # detach() would cut the gradient, and the hint does not say so.
    if hint.startswith(FOR_DEVELOPERS) or ".detach()" in hint:
        return False
    if graph_break.registry_id == IMPORT_FAILS:
        return False
    is_elsewhere = graph_break.elsewhere is not None or _is_in_package(lines, graph_break)
    return not (is_elsewhere and hint.startswith(OF_OWN_CODE))


def _urgency(graph_break: DistinctBreak) -> Urgency:
    cost = graph_break.cost
    if graph_break.eager_rests or cost.functions_in_python:
        return "not compiled"
    costs_nothing = cost.is_known and not cost.extra_graphs and not cost.handed_over.count
    return "minor" if costs_nothing else "slow"


def _in_short(graph_break: DistinctBreak) -> str:
    """Return ``+1 graph``, and the time of a call at the break where that was measured."""
    if graph_break.cost.run_s:
        return f"{graph_break.cost.in_short}, {seconds(graph_break.cost.run_s)}"
    return graph_break.cost.in_short
