"""The conditions of a check: each is judged by the numbers that the overview and the reports show,
and names the lines that violate it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from fx_explorer import model
from fx_explorer.analysis.lineage import first_variants
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.whole_session import (
    Subject,
    is_log,
    totals,
    why_not_in_text,
    why_saved_unknown,
)
from fx_explorer.analysis.words import counted, listed, size
from fx_explorer.findings import every_kind
from fx_explorer.findings.finding import Finding
from fx_explorer.findings.slow_operators import fallback_lines
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.instruments.kernels.costs import kernel_costs
from fx_explorer.instruments.memory.report import known_memory
from fx_explorer.instruments.memory.saved_values import saved_total, saved_values
from fx_explorer.instruments.numerics.figures import numerics_of
from fx_explorer.instruments.numerics.verdict import is_wrong, verdict
from fx_explorer.overview.check_findings import (
    break_findings,
    is_in,
    is_own_break,
    left_findings,
    recompile_findings,
)
from fx_explorer.overview.checks import Check, CheckFinding, placed
from fx_explorer.overview.child_processes import children
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import check_count

_IN_BYTES = ("max-saved-bytes", "max-peak")

Judge = Callable[[SessionReader, int, "Path | None"], Check]
"""Judges a condition, given its limit and the folder of the user's own code; None for any code."""


def checks(
    reader: SessionReader, wanted: Mapping[str, int], own: Path | None = None
) -> list[Check]:
    """Judge the conditions in ``wanted`` (name → limit), in the order of CONDITIONS. With ``own``,
    breaks, recompiles and functions in eager mode count that lie in files below it.
    """
    judged = []
    for name, judge in CONDITIONS.items():
        if name not in wanted:
            continue
        check = _unknown(reader, name, wanted[name]) or judge(reader, wanted[name], own)
        if not check.is_met:
            check = placed(reader, check)
        judged.append(check)
    return judged


_SUBJECTS: dict[str, Subject] = {
    "max-graph-breaks": "graph breaks",
    "max-break-sites": "graph breaks",
    "max-recompiles": "recompiles",
    "max-guards": "guards",
    "expect-graphs": "graphs",
}
"""Condition → the subject of a text log that it needs."""


def _unknown(reader: SessionReader, condition: str, limit: int) -> Check | None:
    """Return a condition as not met where the log does not have its figure, with the reason; None
    where it has.
    """
    if condition not in _SUBJECTS:
        return None
    why = why_not_in_text(reader, _SUBJECTS[condition])
    if not why:
        return None
    return Check(condition, limit, why.removesuffix("."), is_met=False, is_known=False)


# what is asked for


def _graph_breaks(reader: SessionReader, limit: int, own: Path | None) -> Check:
    hits = totals(reader).graph_break_hits + children(reader).graph_breaks
    if own:
        hits = sum(row.count for row in distinct_breaks(reader) if is_own_break(reader, row, own))
        hits += sum(child.count for child in children(reader).of("break") if is_in(child, own))
    if hits:
        measured = f"graph breaks hit {counted(hits, 'time')}"
    else:
        measured = "0 graph breaks"
    return _at_most("max-graph-breaks", limit, hits, measured, break_findings(reader, own))


def _break_sites(reader: SessionReader, limit: int, own: Path | None) -> Check:
    """Judge the number of lines with breaks. A line that breaks in the program and in a child
    process is one place.
    """
    in_children = {
        (finding.file, finding.line, finding.cause or finding.text)
        for finding in children(reader).of("break")
        if is_in(finding, own)
    }
    in_program = {
        (graph_break.file, graph_break.line, graph_break.registry_id or graph_break.reason)
        for graph_break in distinct_breaks(reader)
        if is_own_break(reader, graph_break, own)
    }
    sites = len(in_program | in_children) if own else totals(reader).graph_breaks
    if not own:
        sites += len(in_children - in_program)
    measured = f"graph breaks in {counted(sites, 'place')}"
    return _at_most("max-break-sites", limit, sites, measured, break_findings(reader, own))


def _recompiles(reader: SessionReader, limit: int, own: Path | None) -> Check:
    findings = list(recompile_findings(reader, own))
    number = totals(reader).recompiles + children(reader).recompiles
    if own:
        number = len(findings)
    return _at_most("max-recompiles", limit, number, counted(number, "recompile"), iter(findings))


def _guards(reader: SessionReader, limit: int, own: Path | None) -> Check:
    """Count guards by compilation: they are checked at each call of the function, and each
    compilation has its own.
    """
    sizes: list[tuple[CheckFinding, int]] = []
    for compilation in first_variants(reader):
        size = check_count(reader, compilation.id)
        if size:
            function = f"{plain_function(compilation.function)} [{compilation.name}]"
            sizes.append((CheckFinding(compilation.file, compilation.line, function), size))
    for guards in children(reader).of("guards"):
        function = f"{plain_function(guards.text)} in a child process"
        sizes.append((CheckFinding(guards.file, guards.line, function), guards.count))
    sizes.sort(key=lambda pair: -pair[1])
    most = sizes[0][1] if sizes else 0
    over = []
    for finding, size in sizes:
        if size > limit:
            text = f"{finding.text} has {counted(size, 'guard')}"
            over.append(replace(finding, text=text))
    return _at_most(
        "max-guards", limit, most, f"{counted(most, 'guard')} in one compilation", iter(over)
    )


def _skipped_frames(reader: SessionReader, limit: int, own: Path | None) -> Check:
    if is_log(reader):
        text = (
            "a log does not record every function that runs in eager mode: capture the "
            "program to check it"
        )
        return Check("no-skipped-frames", limit, text, is_met=False, is_known=False)
    left = list(left_findings(reader, own))
    measured = f"{counted(len(left), 'function')} not compiled"
    return _at_most("no-skipped-frames", limit, len(left), measured, iter(left))


def _graphs(reader: SessionReader, expected: int, own: Path | None) -> Check:
    graphs = totals(reader).graphs + children(reader).graphs
    measured = f"{counted(graphs, 'graph')}, {expected:,} expected"
    if graphs == expected:
        return Check("expect-graphs", expected, measured)
    # Fewer graphs: something was run in eager mode. More: something was cut, or compiled again.
    if graphs < expected:
        findings = list(left_findings(reader, own))
    else:
        findings = [*break_findings(reader, own), *recompile_findings(reader, own)]
        if not findings:
            findings = [_compiled(compilation) for compilation in first_variants(reader)]
    return Check("expect-graphs", expected, measured, tuple(findings), is_met=False)


def _compiled(compilation: model.Compilation) -> CheckFinding:
    text = f"{plain_function(compilation.function)} was compiled"
    return CheckFinding(compilation.file, compilation.line, text)


def _at_most(
    condition: str, limit: int, number: float, measured: str, findings: Iterator[CheckFinding]
) -> Check:
    allowed = size(limit) if condition in _IN_BYTES else f"{limit:,}"
    amount = f"{measured}, {allowed} allowed"
    if number <= limit:
        return Check(condition, limit, amount)
    return Check(condition, limit, amount, tuple(findings), is_met=False)


def _findings(reader: SessionReader, limit: int, own: Path | None) -> Check:
    problems = [finding for finding in every_kind.findings(reader) if finding.severity == "problem"]
    measured = counted(len(problems), "finding")
    return _at_most("max-findings", limit, len(problems), measured, map(_of_finding, problems))


def _of_finding(finding: Finding) -> CheckFinding:
    place = finding.place
    if place is None:
        return CheckFinding("", 0, finding.text)
    return CheckFinding(place.document.title, place.line + 1, finding.text)


def _compile_seconds(reader: SessionReader, limit: int, own: Path | None) -> Check:
    took_s = totals(reader).compile_s
    return _at_most(
        "max-compile-seconds", limit, took_s, f"compiling took {took_s:.1f} s", iter(())
    )


def _kernels(reader: SessionReader, limit: int, own: Path | None) -> Check:
    number = totals(reader).kernels
    return _at_most("max-kernels", limit, number, counted(number, "kernel"), iter(()))


def _saved_bytes(reader: SessionReader, limit: int, own: Path | None) -> Check:
    if unknown := why_saved_unknown(reader):
        text = unknown.removesuffix(".")
        return Check("max-saved-bytes", limit, text, is_met=False, is_known=False)
    saved = saved_total(reader)
    if saved.unknown_sizes:
        text = f"{counted(saved.unknown_sizes, 'saved tensor')} of unknown size"
        return Check("max-saved-bytes", limit, text, is_met=False, is_known=False)
    biggest = sorted(saved_values(reader), key=lambda value: -value.saved.size_bytes)
    findings = (
        CheckFinding(
            value.file, value.line, f"{value.saved.name} takes {size(value.saved.size_bytes)}"
        )
        for value in biggest
        if not value.shares_with
    )
    measured = f"{size(saved.size_bytes)} saved for the backward"
    return _at_most("max-saved-bytes", limit, saved.size_bytes, measured, findings)


def _peak(reader: SessionReader, limit: int, own: Path | None) -> Check:
    memory = known_memory(reader)
    if memory is None:
        text = "the peak of a step cannot be predicted (fx-explorer memory says why)"
        return Check("max-peak", limit, text, is_met=False, is_known=False)
    peak = memory.used.peak.total_bytes
    return _at_most("max-peak", limit, peak, f"predicted peak memory of {size(peak)}", iter(()))


def _fallbacks(reader: SessionReader, limit: int, own: Path | None) -> Check:
    findings = [
        CheckFinding(file, line, f"{operator} is a library call, which is not fused")
        for operator, file, line in fallback_lines(reader)
    ]
    measured = f"{counted(len(findings), 'operator')} without generated code"
    return _at_most("no-fallbacks", limit, len(findings), measured, iter(findings))


def _close_to_eager(reader: SessionReader, limit: int, own: Path | None) -> Check:
    """Judge by PyTorch's own rule. The command compares before it judges."""
    numerics = numerics_of(reader)
    if numerics is None:
        text = "results were not compared with eager mode"
        return Check("close-to-eager", limit, text, is_met=False, is_known=False)
    first, *others = verdict(numerics)
    if not is_wrong(numerics):
        return Check("close-to-eager", limit, first)
    found = numerics.finding
    place = (found.file, found.line) if found is not None else ("", 0)
    finding = CheckFinding(*place, others[0] if others else first)
    return Check("close-to-eager", limit, first, (finding,), is_met=False)


def judge_fused(reader: SessionReader, first: str, second: str) -> Check:
    """Judge whether one generated kernel computes both operators, as ``aten.relu`` and
    ``aten.add``, or ``relu`` and ``add``.
    """
    condition = f"expect-fused {first} {second}"
    kernels = [cost.use for cost in kernel_costs(reader) if cost.use.kernel.language != "extern"]
    have_first, have_second = [], []
    for use in kernels:
        operators = {_operator(node.target) for node in reader.by_ids(model.Node, use.node_ids)}
        # Inductor names a kernel after the operators before their decomposition.
        name = f"{use.kernel.name}_"
        is_first = _operator(first) in operators or f"_{_operator(first)}_" in name
        is_second = _operator(second) in operators or f"_{_operator(second)}_" in name
        if is_first and is_second:
            return Check(condition, 0, f"{first} and {second} are in {use.kernel.name}")
        have_first += [use.kernel.name] if is_first else []
        have_second += [use.kernel.name] if is_second else []
    where = [
        f"{name} in {listed(dict.fromkeys(kernels))}"
        if kernels
        else f"{name} in no generated kernel"
        for name, kernels in ((first, have_first), (second, have_second))
    ]
    return placed(reader, Check(condition, 0, "; ".join(where), is_met=False))


def _operator(target: str) -> str:
    """Return ``relu`` for ``aten.relu.default``, ``torch.ops.aten.relu`` and ``relu``."""
    parts = target.removeprefix("torch.ops.").split(".")
    return parts[1] if len(parts) > 1 else parts[0]


CONDITIONS: dict[str, Judge] = {
    "max-graph-breaks": _graph_breaks,
    "max-break-sites": _break_sites,
    "max-recompiles": _recompiles,
    "max-guards": _guards,
    "no-skipped-frames": _skipped_frames,
    "expect-graphs": _graphs,
    "max-findings": _findings,
    "max-compile-seconds": _compile_seconds,
    "max-kernels": _kernels,
    "max-saved-bytes": _saved_bytes,
    "max-peak": _peak,
    "no-fallbacks": _fallbacks,
    "close-to-eager": _close_to_eager,
}
"""Name → the function that judges the condition."""
