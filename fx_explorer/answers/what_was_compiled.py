"""Answers about what was compiled: what happened, what is wrong, breaks, recompiles, guards, sizes.

Where the JSON report has an object for a thing, it is the row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from fx_explorer import model
from fx_explorer.analysis.compiled_calls import (
    call_numbers,
    calls_of_compilations,
    failed_guards_of,
)
from fx_explorer.analysis.measured_times import call_time
from fx_explorer.analysis.naming import function_of, plain_function
from fx_explorer.analysis.whole_session import compiled_graphs, not_in_text
from fx_explorer.analysis.words import counted, first_line, listed
from fx_explorer.answers.answer import Answer, Json
from fx_explorer.answers.others import continues_after_errors, of_section
from fx_explorer.answers.references import place_text
from fx_explorer.findings.every_kind import findings, search
from fx_explorer.findings.report import finding_object
from fx_explorer.instruments.breaks.call_tree import FunctionCall, call_trees, distinct_fallbacks
from fx_explorer.instruments.breaks.grouped import DistinctBreak, distinct_breaks
from fx_explorer.instruments.compile_time.timing import stage_times
from fx_explorer.instruments.guards.guard_tree import CHANCE_WORDS, explained_checks
from fx_explorer.instruments.guards.symbols import symbols
from fx_explorer.instruments.numerics.left_out_rounding import REMEDY, left_out_rounding
from fx_explorer.instruments.recompiles.causes import (
    ExplainedRecompile,
    limit_hits,
    recompiles,
)
from fx_explorer.overview.compiled_lines import why_in_eager_mode
from fx_explorer.overview.overview import overview
from fx_explorer.report.compilation_entries import total_figures
from fx_explorer.report.heading import answer as first_line_of_report
from fx_explorer.report.instrument_entries import (
    fallback,
    graph_break,
    limit_hit,
    measured_call,
    recompile,
)
from fx_explorer.report.json_report import (
    environment,
    symbol,
    target,
)
from fx_explorer.report.sections import section_of
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import check_count
from fx_explorer.torch_texts.printed_guard_tree import noted_lines
from fx_explorer.torch_texts.reports import version_of

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
        known_from="what was recorded while the program ran, and the findings derived from it",
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
    rounding = left_out_rounding(reader)
    return Answer(
        text=first_line_of_report(every_finding, overview(reader)),
        rows=[finding_object(finding) for finding in every_finding],
        known_from="the rows of the session; each remedy says whether it was tried in the program",
        figures={
            "looked_for": list(looked.looked_for),
            "not_looked_for": list(looked.not_looked_for),
            "rounding": f"{rounding.description} {REMEDY}" if rounding else "",
        },
        next=list(dict.fromkeys(questions)),
    )


def of_breaks(reader: SessionReader) -> Answer:
    breaks = distinct_breaks(reader)
    hits = sum(distinct.count for distinct in breaks)
    if breaks:
        answer = section_of(reader, "breaks").answer
        text = (
            f"{counted(len(breaks), 'place')} with a graph break, hit {counted(hits, 'time')}; "
            f"{_compiled_graphs(reader)}. {answer}"
        )
    else:
        text = "No graph break was recorded."
    return Answer(
        text=text,
        rows=_in_order_of_hits(reader, breaks),
        known_from="Dynamo's own records of graph breaks",
        fields=(
            "order", "reason", "file", "line", "code", "callers", "count", "explanation", "hints",
            "torch_hints", "id", "compilations", "goes_on_in", "eager_rests",
            "not_resumed",
        ),
        figures={
            "measured_call": measured_call(call_time(reader)),
            "remedies_tried": _tried_remedies(reader),
        },
        next=["findings", "eager", "calls"] if breaks else ["findings"],
    )  # fmt: skip


def _compiled_graphs(reader: SessionReader) -> str:
    """Return ``2 graphs were compiled``."""
    count = compiled_graphs(reader)
    captured = int(str(total_figures(reader)["graphs"]))
    if not count and captured:
        what = "graph" if captured == 1 else f"{captured:,} graphs"
        return f"no compiled graph runs, although Dynamo captured {'a ' * (captured == 1)}{what}"
    return f"{counted(count, 'graph')} {'was' if count == 1 else 'were'} compiled"


def _in_order_of_hits(reader: SessionReader, breaks: Sequence[DistinctBreak]) -> list[Json]:
    """Return the rows of breaks, the costliest first, each with its place in the order in which
    Dynamo met them.
    """
    causes = dict.fromkeys(hit.cause for hit in reader.rows(model.GraphBreak))
    order = {cause: number for number, cause in enumerate(causes, 1)}
    rows = []
    for distinct in breaks:
        row = _break_row(reader, distinct)
        cause = (distinct.file, distinct.line, distinct.registry_id or distinct.reason)
        row["order"] = order[cause]
        rows.append(row)
    return rows


def _break_row(reader: SessionReader, distinct: DistinctBreak) -> Json:
    """Return a break; its line is the innermost one of the user's, ``callers`` those that led to
    it, the nearest first.
    """
    row = graph_break(reader, distinct)
    at = (distinct.file, distinct.line)
    frames = [frame for frame in reversed(distinct.chain) if (frame.file, frame.line) != at]
    row["callers"] = [
        f"{frame.file}:{frame.line} in {plain_function(frame.function)}" for frame in frames
    ]
    return row


def _tried_remedies(reader: SessionReader) -> list[str]:
    """Return what was tried against graph breaks, with the breaks and graphs that were left."""
    tried = []
    for finding in findings(reader):
        if finding.topic == "breaks":
            tried += [each.description for each in finding.remedies if each.state == "tried"]
    return list(dict.fromkeys(tried))


def of_eager_functions(reader: SessionReader) -> Answer:
    rows = [fallback(distinct) for distinct in distinct_fallbacks(reader)]
    places = {(row["file"], row["line"]) for row in rows}
    for call in chain.from_iterable(tree.walk() for tree in call_trees(reader)):
        if call.runs_in_eager and (call.file, call.line) not in places:
            rows += [_given_up(reader, call)]
    if rows:
        text = f"{counted(len(rows), 'function')} that torch.compile did not compile at all."
        if any(row["kind"] == "failed" for row in rows):
            text += continues_after_errors(reader)
    else:
        text = (
            "Dynamo skipped no whole function. Functions that are called at a graph break, or "
            "disabled, are in the answer to breaks; lines has them line by line."
        )
    return Answer(
        text=text,
        rows=rows,
        known_from="Dynamo's own records of frames that it skipped, and the status of each compile",
        next=["lines", "breaks", "calls"],
    )


def _given_up(reader: SessionReader, call: FunctionCall) -> Json:
    """Return the row of a function that Dynamo traced, and of which nothing was compiled."""
    return {
        "kind": call.compilations[-1].status,
        "function": call.function,
        "file": call.file,
        "line": call.line,
        "reason": why_in_eager_mode(reader, call),
        "count": len(call.compilations),
        "nothing_to_compile": False,
    }


def of_calls(reader: SessionReader) -> Answer:
    rows: list[Json] = []
    for tree in call_trees(reader):
        rows.extend(_call_rows(tree))
    return Answer(
        text=f"torch.compile looked at {counted(len(rows), 'function')}; functions that Python "
        "calls between the graphs of another function are listed below it.",
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
    "skipped": "not compiled",
    "failed": "failed",
}
"""Status of a compilation → how it ended, in words."""


def of_compilations(reader: SessionReader) -> Answer:
    rows: list[Json] = []
    calls = calls_of_compilations(reader)
    failed = failed_guards_of(reader)
    numbers = call_numbers(reader)
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
                "made_by_call": numbers.get(row.id),
                "calls": calls.get(row.id),
                "calls_that_failed": failed.get(row.id, []),
                "compile_s": round(times.total_s, 3),
                "seconds": {
                    stage or "other": round(spent, 3) for stage, spent in times.by_stage.items()
                },
                "missing_stages": _stages_by_reason(row.missing_stages or {}),
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
        are = "is" if given_up == 1 else "are"
        text += f" {counted(given_up, 'restarted attempt')} of Dynamo {are} listed, too."
    return Answer(
        text=text,
        rows=rows,
        known_from="torch's own compile ids and timed phases",
        figures={"totals": total_figures(reader)},
        next=["recompiles", "graphs", "phases", "flame"],
    )


def _stages_by_reason(missing: Mapping[str, str]) -> dict[str, str]:
    """Return ``joint, forward`` → why these stages have no result, each reason once."""
    by_reason: dict[str, list[str]] = {}
    for stage, reason in missing.items():
        by_reason.setdefault(reason, []).append(stage)
    return {", ".join(stages): reason for reason, stages in by_reason.items()}


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
    named = _named_by_torch(every_recompile)
    numbers = {row.name: call_numbers(reader).get(row.id) for row in reader.rows(model.Compilation)}
    for row in rows:
        row["made_by_call"] = numbers.get(str(row["compilation"]))
        row["torch_named"] = named[str(row["compilation"])]
        row["is_refused"] = True if row["compilation"] in refused else None
        change = row["change"]
        if isinstance(change, dict) and change["old"] and not change["new"]:
            change["new"] = "not recorded"
    if every_recompile:
        causes = [explained for explained in every_recompile if explained.is_cause]
        text = f"{counted(count, 'recompile')}. "
        text += " ".join(
            _cause_sentence(cause, every_recompile, numbers) for cause in causes[:MOST_CAUSES]
        )
        if len(causes) > MOST_CAUSES:
            text += f" {len(causes) - MOST_CAUSES} more are among the rows."
        if len(causes) < len(rows):
            text += (
                f" Each row is a guard that failed: {len(causes)} of {len(rows)} are the cause "
                "(compared with the nearest earlier version), the others failed as well."
            )
    else:
        text = "Nothing was recompiled."
    if limits:
        text += (
            f" The recompile limit was hit {counted(len(limits), 'time')}: calls with is_refused "
            "were not compiled and run in eager mode."
        )
    elif every_recompile:
        text += " The recompile limit was not reached."
    rows.sort(key=lambda row: not row["is_cause"])
    return Answer(
        text=text,
        rows=rows,
        known_from="the guards that torch reported as failed; called_from: the user's line; "
        "made_by_call: the calls of earlier versions were counted; torch_named: "
        "torch's own reason for each version, newest first",
        figures={"limits": limits},
        next=["guards --match NAME", "sizes", "findings"] if every_recompile else ["guards"],
    )


MOST_OTHERS = 2
"""Maximum number of earlier versions for which a sentence tells what else failed."""

MOST_CAUSES = 8
"""Maximum number of recompiles that the sentence of an answer tells."""


def _cause_sentence(
    cause: ExplainedRecompile,
    rows: Sequence[ExplainedRecompile],
    numbers: Mapping[str, int | None],
) -> str:
    """Return ``0/2 (call 3 of step): size 1 of ids was 32 and now is 48 (against 0/1; in 0/0 the
    guard on k failed).``
    """
    number = numbers.get(cause.compilation)
    by_call = f"call {number:,} of " if number else ""
    function = plain_function(cause.function)
    sentence = f"{cause.compilation} ({by_call}{function}): {cause.description.removesuffix('.')}"
    others = [
        f"in {row.of}, {row.description.removesuffix('.')}"
        for row in rows
        if row.compilation == cause.compilation and not row.is_cause
    ]
    if not others:
        return f"{sentence}."
    return f"{sentence} (against {cause.of}; {'; '.join(others[:MOST_OTHERS])})."


def _named_by_torch(rows: Sequence[ExplainedRecompile]) -> dict[str, list[str]]:
    """Return compilation → the version and guard of each failure that torch reported, the newest
    version first, as its list is (``get_and_maybe_log_recompilation_reasons``).
    """
    by_compilation: dict[str, list[ExplainedRecompile]] = {}
    for row in rows:
        by_compilation.setdefault(row.compilation, []).append(row)
    named = {}
    for compilation, failed in by_compilation.items():
        failed.sort(key=lambda row: version_of(row.reason), reverse=True)
        named[compilation] = [_torchs_words(row) for row in failed]
    return named


def _torchs_words(row: ExplainedRecompile) -> str:
    text = first_line(row.reason)
    if row.times > 1:
        text += f" (and in {counted(row.times - 1, 'earlier version')})"
    return text


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
                "asked_for_by": _asked_for_by(check),
                "kind": explained.guard_kind or check.kind,
                "cost_ns": round(check.cost_ns) if check.cost_ns >= 0 else None,
                "source": check.source,
                "code": check.code,
                "remark": check.note,
            }
        )
    return Answer(
        text=section.answer,
        rows=rows,
        known_from="torch's guard manager, one row per check; costs are measured per check",
        fields=("compilation", "guards_on", "must_stay", "fails_when", "asked_for_by", "cost_ns"),
        next=["guards --match NAME", "recompiles"],
    )


def _asked_for_by(check: model.GuardCheck) -> str:
    """Return the lines that asked for a check: the one that was recorded, then those that torch's
    remark names, where torch may have cut off the beginning of a path.
    """
    places = []
    if check.file:
        places.append(f"{check.file}:{check.line}")
    for file, line in noted_lines(check.note):
        is_recorded = check.line == line and check.file.endswith(file)
        if not is_recorded:
            places.append(f"{file}:{line}")
    return " and ".join(dict.fromkeys(places))


def of_sizes(reader: SessionReader) -> Answer:
    return Answer(
        text=section_of(reader, "sizes").answer,
        rows=[symbol(explained) for explained in symbols(reader)],
        known_from="torch's ShapeEnv and its structured records",
        next=["recompiles", "guards"],
    )
