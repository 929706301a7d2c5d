"""Every check requires some things without being asked. Otherwise its conditions would say nothing
about the program, or hold for the wrong reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from fx_explorer import model
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.whole_session import damage, not_in_text, totals
from fx_explorer.analysis.words import counted, first_line
from fx_explorer.overview.checks import Check, CheckFinding, placed
from fx_explorer.overview.children import children
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import raised_compilations

Requirement = Callable[[SessionReader, str], "Check | None"]


def unmet_requirements(reader: SessionReader, allowed: Collection[str]) -> list[Check]:
    """List the requirements that are not met, but for the ``allowed`` ones (names of
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
    """Require that the program ran to its end. An exit status other than 0 is left out: the exit
    code tells it already.
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
    """Require that nothing is missing from the session. What a release of torch does not offer at
    all is not missing: its view says so.
    """
    damages = damage(reader)
    if damages:
        lines = [CheckFinding("", 0, sentence) for sentence in damages]
        return _unmet(name, "the log is not as torch wrote it", *lines)
    gaps = [
        failure
        for failure in reader.rows(model.Failure, where="recorder")
        if failure.kind != "unavailable"
    ]
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
    return model.Outcome.from_json(outcome) if outcome else None
