"""This module checks a session against conditions, for CI. Each is judged by the numbers that the
overview and the reports show. Some requirements hold for every check: without them, conditions
could be met only because the program did not run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fx_explorer import model
from fx_explorer.analysis.lineage import first_variants
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.whole_session import (
    Subject,
    damage,
    is_log,
    not_in_text,
    totals,
    why_not_in_text,
)
from fx_explorer.analysis.words import counted, first_line, listed
from fx_explorer.findings import every_kind
from fx_explorer.findings.finding import Finding
from fx_explorer.instruments.breaks.call_tree import distinct_fallbacks
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.instruments.recompiles.causes import causes, limit_hits
from fx_explorer.overview.child_processes import children, describe_finding
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import check_count, raised_compilations

OTHERS_NAMED = 5
"""How many places a failure names after the first; the others are counted."""


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """A CheckFinding is a single violation of a condition, at the user's line."""

    file: str
    """Path of the file; empty (and ``line`` 0) when neither torch nor the session knows it."""
    line: int
    text: str

    @property
    def where(self) -> str:
        if self.file and self.line:
            return f"{self.file}:{self.line}"
        return self.file


@dataclass(frozen=True, slots=True)
class Check:
    """A Check is a condition and whether the session meets it."""

    condition: str
    """The condition's name on the command line: ``max-graph-breaks``."""
    limit: int
    measured: str
    """``3 graph breaks, 0 allowed``."""
    findings: tuple[CheckFinding, ...] = ()
    """The violations of the condition, in the order of the overview; empty when the condition is
    met.
    """
    is_met: bool = True
    allowed_by: str = ""
    """The option that drops this condition, if every check has it by default; else empty."""

    @property
    def option(self) -> str:
        if self.allowed_by:
            return f"if that is meant: --{self.allowed_by}"
        if self.condition == "no-skipped-frames":
            return f"--{self.condition}"
        return f"--{self.condition} {self.limit}"

    @property
    def description(self) -> str:
        """Return the check as one line: the first finding, the measured value and the option, and
        the places of the other findings.
        """
        first, *others = self.findings or (CheckFinding("", 0, ""),)
        text = f"{self.measured} ({self.option})"
        if first.text:
            text += f": {first.text}"
        elsewhere = dict.fromkeys(other.where for other in others if other.where != first.where)
        if elsewhere:
            text += f"; also {listed(elsewhere, OTHERS_NAMED)}"
        if first.where:
            return f"{first.where}: {text}"
        return text


Judge = Callable[[SessionReader, int], Check]


def checks(reader: SessionReader, wanted: Mapping[str, int]) -> list[Check]:
    """Judge the conditions in ``wanted`` (name → limit), in the order of CONDITIONS."""
    judged = []
    for name, judge in CONDITIONS.items():
        if name not in wanted:
            continue
        check = _unknown(reader, name, wanted[name]) or judge(reader, wanted[name])
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
    return Check(condition, limit, why.removesuffix("."), is_met=False)


def relative_to(check: Check, folder: Path) -> Check:
    """Return the check with files below ``folder`` named relative to it, as compilers name them."""
    return replace(
        check,
        findings=tuple(replace(f, file=relative_path(f.file, folder)) for f in check.findings),
    )


def relative_path(file: str, folder: Path) -> str:
    path = Path(file)
    # As they are first, so that a file that is a link keeps its own name; resolved, where a link
    # leads to the folder.
    for child, parent in ((path, folder), (path.resolve(), folder.resolve())):
        if path.is_absolute() and child.is_relative_to(parent):
            return str(child.relative_to(parent))
    return file


# what is asked for


def _graph_breaks(reader: SessionReader, limit: int) -> Check:
    hits = totals(reader).graph_break_hits + children(reader).graph_breaks
    if hits:
        measured = f"graph breaks hit {counted(hits, 'time')}"
    else:
        measured = "0 graph breaks"
    return _at_most("max-graph-breaks", limit, hits, measured, _break_findings(reader))


def _break_sites(reader: SessionReader, limit: int) -> Check:
    """Judge the number of lines with breaks. A line that breaks in the program and in a child
    process is one place.
    """
    in_children = {
        (finding.file, finding.line, finding.cause or finding.text)
        for finding in children(reader).of("break")
    }
    in_program = {
        (graph_break.file, graph_break.line, graph_break.registry_id or graph_break.reason)
        for graph_break in distinct_breaks(reader)
    }
    sites = totals(reader).graph_breaks + len(in_children - in_program)
    return _at_most(
        "max-break-sites",
        limit,
        sites,
        f"graph breaks in {counted(sites, 'place')}",
        _break_findings(reader),
    )


def _recompiles(reader: SessionReader, limit: int) -> Check:
    number = totals(reader).recompiles + children(reader).recompiles
    return _at_most(
        "max-recompiles", limit, number, counted(number, "recompile"), _recompile_findings(reader)
    )


def _guards(reader: SessionReader, limit: int) -> Check:
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


def _skipped_frames(reader: SessionReader, limit: int) -> Check:
    if is_log(reader):
        text = (
            "a log does not record every function that runs in eager mode: capture the "
            "program to check it"
        )
        return Check("no-skipped-frames", limit, text, is_met=False)
    left = list(_left_findings(reader))
    measured = f"{counted(len(left), 'function')} not compiled"
    return _at_most("no-skipped-frames", limit, len(left), measured, iter(left))


def _graphs(reader: SessionReader, expected: int) -> Check:
    graphs = totals(reader).graphs + children(reader).graphs
    measured = f"{counted(graphs, 'graph')}, {expected:,} expected"
    if graphs == expected:
        return Check("expect-graphs", expected, measured)
    # Fewer graphs: something was run in eager mode. More: something was cut, or compiled again.
    if graphs < expected:
        findings = list(_left_findings(reader))
    else:
        findings = [*_break_findings(reader), *_recompile_findings(reader)]
        if not findings:
            findings = [_compiled(compilation) for compilation in first_variants(reader)]
    return Check("expect-graphs", expected, measured, tuple(findings), is_met=False)


def _compiled(compilation: model.Compilation) -> CheckFinding:
    text = f"{plain_function(compilation.function)} was compiled"
    return CheckFinding(compilation.file, compilation.line, text)


def _at_most(
    condition: str, limit: int, number: int, measured: str, findings: Iterator[CheckFinding]
) -> Check:
    amount = f"{measured}, {limit:,} allowed"
    if number <= limit:
        return Check(condition, limit, amount)
    return Check(condition, limit, amount, tuple(findings), is_met=False)


def _findings(reader: SessionReader, limit: int) -> Check:
    problems = [finding for finding in every_kind.findings(reader) if finding.severity == "problem"]
    measured = counted(len(problems), "finding")
    return _at_most("max-findings", limit, len(problems), measured, map(_of_finding, problems))


def _of_finding(finding: Finding) -> CheckFinding:
    place = finding.place
    if place is None:
        return CheckFinding("", 0, finding.text)
    return CheckFinding(place.document.title, place.line + 1, finding.text)


CONDITIONS: dict[str, Judge] = {
    "max-graph-breaks": _graph_breaks,
    "max-break-sites": _break_sites,
    "max-recompiles": _recompiles,
    "max-guards": _guards,
    "no-skipped-frames": _skipped_frames,
    "expect-graphs": _graphs,
    "max-findings": _findings,
}
"""Name → the function that judges the condition."""


# where it is


def _break_findings(reader: SessionReader) -> Iterator[CheckFinding]:
    for graph_break in distinct_breaks(reader):
        if graph_break.count > 1:
            times = f" ({counted(graph_break.count, 'time')})"
        else:
            times = ""
        yield CheckFinding(
            graph_break.file, graph_break.line, first_line(graph_break.description) + times
        )
    yield from _findings_of_children(reader, "break")


def _findings_of_children(reader: SessionReader, kind: model.FindingKind) -> Iterator[CheckFinding]:
    processes = children(reader)
    findings = processes.left if kind == "left" else processes.of(kind)
    for finding in findings:
        if finding.count > 1:
            times = f" ({counted(finding.count, 'time')})"
        else:
            times = ""
        yield CheckFinding(finding.file, finding.line, describe_finding(finding) + times)


def _recompile_findings(reader: SessionReader) -> Iterator[CheckFinding]:
    for recompile in causes(reader):
        function = f"{plain_function(recompile.function)} [{recompile.compilation}]"
        text = f"{function}: {first_line(recompile.description)}"
        yield CheckFinding(recompile.file, recompile.line, text)
    yield from _findings_of_children(reader, "recompile")


def _left_findings(reader: SessionReader) -> Iterator[CheckFinding]:
    """Yield the functions that run in eager mode, including those that failed to compile. Functions
    with nothing to compile are left out.
    """
    limits = {(hit.file, hit.line): hit.description for hit in limit_hits(reader)}
    left = distinct_fallbacks(reader)
    for fallback in left:
        if fallback.has_nothing_to_compile:
            continue
        why = first_line(fallback.description)
        text = f"{plain_function(fallback.function)} was not compiled: {why}"
        if fallback.kind == "limit":
            text = limits.get((fallback.file, fallback.line), text)
        yield CheckFinding(fallback.file, fallback.line, text)
    # The same function may be a row of both tables.
    lines_of_fallbacks = {(fallback.file, fallback.line) for fallback in left}
    seen: set[CheckFinding] = set()
    for row in first_variants(reader):
        if row.status not in ("skipped", "failed"):
            continue
        finding = _skipped(reader, row)
        if finding not in seen and (finding.file, finding.line) not in lines_of_fallbacks:
            seen.add(finding)
            yield finding
    yield from _findings_of_children(reader, "left")


def _skipped(reader: SessionReader, compilation: model.Compilation) -> CheckFinding:
    for hit in limit_hits(reader):
        if hit.compilation == compilation.name:
            return CheckFinding(hit.file, hit.line, hit.description)
    function = plain_function(compilation.function) or "a function"
    error = first_line(compilation.error)
    text = f"{function} [{compilation.name}] was not compiled: {error}"
    return CheckFinding(compilation.file, compilation.line, text.removesuffix(": "))


def placed(reader: SessionReader, check: Check) -> Check:
    """Return the check with a line for a failure: where torch names no line, that of the first
    compiled function, else the target.
    """
    somewhere = _somewhere(reader)
    findings = []
    for finding in check.findings or (CheckFinding("", 0, ""),):
        if not finding.file:
            finding = replace(somewhere, text=finding.text)
        findings.append(finding)
    return replace(check, findings=tuple(findings))


def _somewhere(reader: SessionReader) -> CheckFinding:
    for compilation in first_variants(reader):
        if compilation.file and compilation.line:
            return CheckFinding(compilation.file, compilation.line, "")
    file = (reader.meta("target") or {}).get("file") or ""
    line = 1 if file else 0
    return CheckFinding(file, line, "")


Requirement = Callable[[SessionReader, str], "Check | None"]


def unmet_requirements(reader: SessionReader, allowed: Collection[str]) -> list[Check]:
    """List the requirements that are not met, except the ``allowed`` ones (names of
    REQUIREMENTS).
    """
    checks = []
    for name, require in REQUIREMENTS.items():
        if name in allowed:
            continue
        check = require(reader, name)
        if check:
            checks.append(placed(reader, check))
    return checks


def has_graphs(reader: SessionReader) -> bool:
    """Return whether Dynamo made a graph, in the program or in one of its processes."""
    return bool(totals(reader).graphs or children(reader).graphs)


def _something(reader: SessionReader, name: str) -> Check | None:
    if has_graphs(reader) or "graphs" in not_in_text(reader):
        return None
    outcome = _outcome(reader)
    # With compilations in the session, the message of a run that ended otherwise is about something
    # else.
    if outcome and (outcome.kind == "finished" or reader.count(model.Compilation) == 0):
        why = outcome.message
    else:
        why = ""
    return _unmet(
        name, "nothing was compiled, so every limit is kept", CheckFinding("", 0, first_line(why))
    )


def _whole_run(reader: SessionReader, name: str) -> Check | None:
    """Require that the program ran to its end. An exit status other than 0 is accepted here: the
    exit code reports it already.
    """
    outcome = _outcome(reader)
    if outcome is None or not outcome.is_early or outcome.exit_code:
        return None
    return _unmet(
        name,
        "the program left before its end",
        CheckFinding(outcome.file, outcome.line, first_line(outcome.message)),
    )


def _seen(reader: SessionReader, name: str) -> Check | None:
    unseen = children(reader).unseen
    if not unseen:
        return None
    processes = counted(len(unseen), "child process")
    findings: dict[CheckFinding, None] = {}
    for process in unseen:
        command = process.command or f"process {process.pid}"
        findings[CheckFinding("", 0, f"{command}: {process.unseen}")] = None
    return _unmet(name, f"what {processes} compiled, if anything, is not known", *findings)


def _no_errors(reader: SessionReader, name: str) -> Check | None:
    findings = list(dict.fromkeys(_errors(reader)))
    if not findings:
        return None
    return _unmet(name, f"compiling raised an error {counted(len(findings), 'time')}", *findings)


def _no_gaps(reader: SessionReader, name: str) -> Check | None:
    """Require that nothing is missing from the session. Data that this release of torch never
    offers does not count as missing: its view says so.
    """
    damages = damage(reader)
    if damages:
        lines = [CheckFinding("", 0, sentence) for sentence in damages]
        return _unmet(name, "parts of the log are damaged", *lines)
    failures = reader.rows(model.Failure, where="recorder")
    gaps = [failure for failure in failures if failure.kind != "unavailable"]
    if not gaps:
        return None
    findings = dict.fromkeys(CheckFinding("", 0, first_line(gap.message)) for gap in gaps)
    return _unmet(name, f"{counted(len(gaps), 'record')} of torch's could not be taken", *findings)


def _errors(reader: SessionReader) -> Iterator[CheckFinding]:
    for compilation in raised_compilations(reader):
        function = plain_function(compilation.function) or "a function"
        text = f"{function} [{compilation.name}]: {first_line(compilation.error)}"
        yield CheckFinding(compilation.file, compilation.line, text)
    for finding in children(reader).of("error"):
        yield CheckFinding(
            finding.file, finding.line, f"{first_line(finding.text)}, in a child process"
        )


REQUIREMENTS: dict[str, Requirement] = {
    "nothing": _something,
    "early-exit": _whole_run,
    "unseen-children": _seen,
    "compile-errors": _no_errors,
    "gaps": _no_gaps,
}
"""NAME of ``--allow-NAME`` → the function that judges the requirement."""


def _unmet(name: str, measured: str, *findings: CheckFinding) -> Check:
    return Check(f"allow-{name}", 0, measured, findings, is_met=False, allowed_by=f"allow-{name}")


def _outcome(reader: SessionReader) -> model.Outcome | None:
    outcome = reader.meta("outcome")
    if outcome:
        return model.Outcome.from_json(outcome)
    return None
