"""Recompiles: functions that were recompiled, one finding for each thing that varies. Those of
functions that reached the recompile limit are part of its finding (recompile_limits.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fx_explorer import model
from fx_explorer.analysis.documents import Place, place_of_path
from fx_explorer.analysis.lineage import first_variants
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.whole_session import is_text
from fx_explorer.analysis.words import first_line, listed, seconds
from fx_explorer.findings.finding import Finding
from fx_explorer.findings.framework_hooks import is_of_hooks
from fx_explorer.findings.frameworks import FrameworkCaller, caller_of
from fx_explorer.findings.global_settings import lines_that_set
from fx_explorer.findings.growing_containers import GROWS, is_filled_inside
from fx_explorer.findings.recompile_remedies import (
    SIZES,
    alternates,
    group_remedies,
    is_of_a_loop,
    steers,
    why_it_steers,
)
from fx_explorer.findings.source_lines import SourceLines
from fx_explorer.findings.transformers_breaks import installs_hooks
from fx_explorer.instruments.recompiles.avoided_recompiles import BOTH_STAY, NO_MORE
from fx_explorer.instruments.recompiles.causes import (
    SHARED,
    ExplainedRecompile,
    causes,
    limit_hits,
    reached_limit,
)
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import compilation_ids, compile_seconds

MOST_VALUES = 6
"""Maximum number of values of one thing that are listed."""

_ASPECTS = {
    "rank": "the number of dimensions",
    "dtype": "the dtype",
    "device": "the device",
    "length": "the length",
    "requires_grad": "requires_grad",
}
"""Kind of change → what of the named value varies, where that is not its value."""

_Key = tuple[object, ...]


def find_recompiles(reader: SessionReader) -> Iterator[Finding]:
    """Yield one finding for each function and thing that varies, those that go on without end
    before those that happened once.
    """
    at_limit = {hit.function for hit in limit_hits(reader)}
    of_hooks = {
        row.name
        for row in first_variants(reader)
        if is_of_hooks(row.file) or installs_hooks(row.file)
    }
    groups = [
        group
        for group in recompile_groups(reader)
        if group[0].function not in at_limit
        and group[0].compilation not in of_hooks
        and not is_of_a_loop(reader, group)
    ]
    for together in _of_one_call(groups):
        if len(together) == 1:
            yield _finding(reader, together[0])
        else:
            yield _finding_of_pieces(reader, together)


def recompile_groups(reader: SessionReader) -> list[list[ExplainedRecompile]]:
    """Return the recompiles of each function for each thing that varies; without those that were
    refused at the limit.
    """
    refused = {row.name for row in first_variants(reader) if reached_limit(row)}
    groups: dict[_Key, list[ExplainedRecompile]] = {}
    for recompile in causes(reader):
        if recompile.compilation not in refused:
            groups.setdefault(_key(recompile), []).append(recompile)
    return list(groups.values())


def _of_one_call(
    groups: Sequence[list[ExplainedRecompile]],
) -> list[list[list[ExplainedRecompile]]]:
    """Put those groups together whose sizes took the same values one after the other: graph breaks
    split one function into several, and each is recompiled for the one new size.
    """
    together: dict[_Key, list[list[ExplainedRecompile]]] = {}
    for at, group in enumerate(groups):
        key: _Key = (at,)
        if group[0].change.kind == "size" and group[0].remedy != SHARED:
            key = tuple((row.change.old, row.change.new) for row in group)
        together.setdefault(key, []).append(group)
    return list(together.values())


def _key(recompile: ExplainedRecompile) -> _Key:
    change = recompile.change
    if recompile.remedy == SHARED:
        return recompile.function, SHARED
    if not change.name and change.kind == "other":
        return recompile.function, recompile.description
    return recompile.function, change.kind, change.name, change.index, recompile.is_another_object


def _finding(reader: SessionReader, group: Sequence[ExplainedRecompile]) -> Finding:
    first = group[0]
    cost_s = group_cost_s(reader, group)
    caller = group_caller(reader, first)
    is_size = first.change.kind in SIZES
    expected = caller.framework.expected if caller.framework and not is_size else ""
    is_shared = first.remedy == SHARED
    remedies = group_remedies(reader, group, caller)
    may_stay = is_shared or expected or alternates(group)
    nothing_to_do = may_stay or (_is_harmless(group) and not remedies)
    return Finding(
        kind="recompile",
        text=f"{describe_group(group)}.",
        urgency="minor" if _is_harmless(group) or expected or is_shared else "again",
        severity="notice" if nothing_to_do else "problem",
        topic="recompiles",
        place=_place(reader, first, caller),
        view="guards",
        evidence=(_evidence(reader, group), *lines_that_set(reader, first), *_below(caller)),
        explanation=SHARED if is_shared else expected or _why(reader, group),
        remedies=remedies,
        count=len(group),
        cost=f"{seconds(cost_s)} compiling" if cost_s else "",
        cost_s=cost_s,
        brief=_in_short(group),
        version=first.compilation,
    )


def _in_short(group: Sequence[ExplainedRecompile]) -> str:
    """Return ``score recompiled: size 0 of x was 8 and now is 12``."""
    first = group[0]
    function = plain_function(first.function)
    if first.remedy == SHARED:
        return describe_group(group)
    if len(group) == 1:
        return f"{function} recompiled: {first_line(first.description)}"
    return f"{function} recompiled {len(group)} times: {_values_of(group)}"


def group_caller(reader: SessionReader, recompile: ExplainedRecompile) -> FrameworkCaller:
    rows = reader.rows(model.Compilation, name=recompile.compilation, limit=1)
    return caller_of(reader, rows[0]) if rows else FrameworkCaller(None, None)


def _place(
    reader: SessionReader, recompile: ExplainedRecompile, caller: FrameworkCaller
) -> Place | None:
    """Return the user's own line: the one that depends on the value, else the one that calls."""
    users = {row.path for row in reader.rows(model.SourceFile) if row.is_user}
    if recompile.file not in users and caller.frame:
        return place_of_path(reader, caller.frame.file, caller.frame.line) or recompile.place
    return recompile.place


def describe_group(group: Sequence[ExplainedRecompile]) -> str:
    first = group[0]
    function = plain_function(first.function)
    objects = " for other objects" if len(group) > 1 else " for another object"
    on = objects if first.is_another_object else ""
    if first.remedy == SHARED:
        compiled = "a compilation" if len(group) == 1 else f"{len(group)} compilations"
        recompile = "a recompile" if len(group) == 1 else "recompiles"
        return f"torch counts {compiled} of {function} as {recompile}: {first.description}"
    if len(group) == 1:
        return f"{function} was recompiled{on}: {first_line(first.description)}"
    return f"{function} was recompiled {len(group)} times{on}: {_values_of(group)}"


def group_cost_s(reader: SessionReader, group: Sequence[ExplainedRecompile]) -> float:
    names = [recompile.compilation for recompile in group]
    return sum(compile_seconds(reader, row) for row in compilation_ids(reader, names))


def _is_harmless(group: Sequence[ExplainedRecompile]) -> bool:
    """Return whether the value has only two values so far, both of which stay in use."""
    change = group[0].change
    values = {change.old, *(recompile.change.new for recompile in group)}
    return len(values) <= 2 and group[-1].remedy.startswith(BOTH_STAY)


def _finding_of_pieces(
    reader: SessionReader, groups: Sequence[list[ExplainedRecompile]]
) -> Finding:
    """Return one finding for several functions that were recompiled for the same new size."""
    first = groups[0]
    caller = group_caller(reader, first[0])
    cost_s = sum(group_cost_s(reader, group) for group in groups)
    functions = listed([plain_function(group[0].function) for group in groups], MOST_VALUES)
    text = f"{len(groups)} functions were recompiled for one reason: {_values_of(first)}."
    evidence = [f"These are {functions}.", *(_evidence(reader, group) for group in groups)]
    return Finding(
        kind="recompile",
        text=text,
        urgency="again",
        topic="recompiles",
        place=_place(reader, first[0], caller),
        view="guards",
        evidence=(*evidence, *_below(caller)),
        explanation=(
            "Graph breaks split a call into several functions, each of which is compiled for the "
            "new size. Without the breaks it is one recompile."
        ),
        remedies=group_remedies(reader, first, caller),
        count=sum(len(group) for group in groups),
        cost=f"{seconds(cost_s)} compiling" if cost_s else "",
        cost_s=cost_s,
        version=first[0].compilation,
    )


def _values_of(group: Sequence[ExplainedRecompile]) -> str:
    """Return what varied and its values: ``size 0 of x was 8, 16, 24``."""
    if len(group) == 1:
        return first_line(group[0].description)
    change = group[0].change
    values = dict.fromkeys([change.old, *(recompile.change.new for recompile in group)])
    known = [value for value in values if value]
    if not change.name or len(known) < 2:
        return first_line(group[0].description)
    what = change.name if change.index is None else f"size {change.index} of {change.name}"
    if change.kind not in ("size", "range") and change.index is not None:
        return first_line(group[0].description)
    if change.kind in _ASPECTS:
        what = f"{_ASPECTS[change.kind]} of {change.name}"
    shown = ", ".join(known[:MOST_VALUES])
    more = f" and {len(known) - MOST_VALUES} more" if len(known) > MOST_VALUES else ""
    return f"{what} was {shown}{more}"


def _evidence(reader: SessionReader, group: Sequence[ExplainedRecompile]) -> str:
    """Return which compilations, after which, called from where, and how the graphs differ. Of a
    text, which has no source to lead to, the place of the function.
    """
    first = group[0]
    names = listed([f"[{recompile.compilation}]" for recompile in group], MOST_VALUES)
    after = f" after [{first.of}]" if len(group) == 1 and first.of else ""
    file, line = first.called_from
    caller = f", called from {in_file(file, line)}" if file else ""
    graphs = f": {first.graphs}" if first.graphs and len(group) == 1 else ""
    function = _place_of_function(reader, first) if is_text(reader) else ""
    return f"{names}{after}{caller}{function}{graphs}."


def _place_of_function(reader: SessionReader, recompile: ExplainedRecompile) -> str:
    """Return ``, model of model.py:9``; nothing where the text does not say it."""
    for row in reader.rows(model.Compilation, name=recompile.compilation):
        if row.file:
            return f", {plain_function(row.function)} of {row.file}:{row.line}"
    return ""


def _below(caller: FrameworkCaller) -> Iterator[str]:
    """Yield who calls the function, where that is not the user."""
    if caller.framework and caller.frame:
        where = in_file(caller.frame.file, caller.frame.line)
        yield f"It is called by {caller.framework.name}, which your line {where} calls."


def _why(reader: SessionReader, group: Sequence[ExplainedRecompile]) -> str:
    """Return why it is recompiled, or why that may stay; empty where the remedies say it."""
    if is_filled_inside(SourceLines(reader), group):
        return GROWS
    if steers(group):
        return why_it_steers(group[0])
    return _why_it_may_stay(group)


def _why_it_may_stay(group: Sequence[ExplainedRecompile]) -> str:
    """Return why nothing need be done, or why it does not happen again; empty without a reason.
    That torch made the value dynamic counts only where it was not compiled again after that.
    """
    text = group[-1].remedy
    if len(group) == 1 and NO_MORE in text:
        return NO_MORE
    why, stays, _ = text.partition(BOTH_STAY)
    if stays:
        which = "Both" if len(group) == 1 else "All"
        stay = f"{which} compilations stay in use: if no other values occur, no change is needed."
        return f"{why}{stay}"
    return ""
