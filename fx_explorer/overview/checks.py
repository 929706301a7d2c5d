"""This module checks a session against conditions, for CI. Each is judged by the numbers that the
overview and the reports show. Some requirements hold for every check: without them, conditions
could be met only because the program did not run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from fx_explorer import model
from fx_explorer.analysis.lineage import first_variants
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.whole_session import (
    damage,
    not_in_text,
    totals,
)
from fx_explorer.analysis.words import counted, first_line, listed
from fx_explorer.overview.child_processes import children
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import raised_compilations

OTHERS_NAMED = 5
"""How many places a failure names after the first; the others are counted."""


BASELINE = "baseline-"
"""Beginning of the conditions of a baseline's figures."""

EXPECTED = "expected-"
"""Beginning of the conditions of the columns of an expected CSV file."""


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """A CheckFinding is a single violation of a condition, at the user's line."""

    file: str
    """Path of the file; empty (and ``line`` 0) when neither torch nor the session knows it."""
    line: int
    text: str
    rule: str = ""
    """torch's registry id of a graph break, ``GB0059``; empty where there is none."""

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
    is_known: bool = True
    """Whether the figure is known. One that is not known does not meet the condition."""
    allowed_by: str = ""
    """The option that drops this condition, if every check has it by default; else empty."""

    @property
    def option(self) -> str:
        if self.condition.startswith(BASELINE):
            return "--baseline" if self.is_met else "--baseline; --update accepts it"
        if self.condition.startswith(EXPECTED):
            return "--expected"
        if self.allowed_by:
            return f"if this is intended: --{self.allowed_by}"
        if self.condition.startswith(("no-", "expect-fused", "close-to-eager")):
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
        name,
        "nothing was compiled, so no limit was really tested",
        CheckFinding("", 0, first_line(why)),
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
    return _unmet(name, f"it is not known what {processes} compiled", *findings)


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
    return _unmet(name, f"{counted(len(gaps), 'record')} of torch could not be read", *findings)


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
