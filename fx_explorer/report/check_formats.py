"""A check in the formats of CI systems: JUnit XML, one test case per condition; workflow commands
of GitHub Actions, annotations at the lines of a pull request; SARIF, whose alerts are opened and
closed by their fingerprints; and markdown for the summary of a step.

JUnit XML has no standard; this keeps to what Jenkins, GitLab and pytest's ``--junitxml`` (family
``xunit1``) have in common. Format and escapes of the annotations: docs.github.com, "Workflow
commands for GitHub Actions"; actions/toolkit, ``packages/core/src/command.ts``. SARIF:
docs.oasis-open.org/sarif/sarif/v2.1.0.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree

from fx_explorer import __version__
from fx_explorer.analysis.words import counted
from fx_explorer.highlight import printable
from fx_explorer.model import Outcome
from fx_explorer.overview.checks import Check, CheckFinding, relative_to
from fx_explorer.overview.ci_rows import CiRow

SUITE = "fx-explorer check"


@dataclass(frozen=True, slots=True)
class CheckedTarget:
    """A target, or a session, with its judged conditions."""

    name: str
    checks: tuple[Check, ...]
    outcome: Outcome | None = None
    """How its capture ended; None for one that has not ended."""
    duration_s: float = 0.0
    row: CiRow | None = None
    """Its row of a CSV file; None for a target that could not be started."""

    @property
    def problem(self) -> str:
        """Return why its numbers cover only a part of the program; empty for a program that ran to
        its end.
        """
        if self.outcome is None:
            return "the capture has not ended: the session is incomplete"
        # A script that ends with ``sys.exit(0)`` has ended well.
        if self.outcome.went_well:
            return ""
        kind = self.outcome.kind.replace("_", " ")
        return f"{kind}: {self.outcome.message}".removesuffix(": ")

    def relative_to(self, folder: Path) -> CheckedTarget:
        """Return the same with files below ``folder`` named relative to it."""
        return replace(self, checks=tuple(relative_to(check, folder) for check in self.checks))


def junit_xml(targets: Sequence[CheckedTarget]) -> str:
    """Return the document: a suite for each target. A run that did not end well is a further test
    case, with an error: its numbers are partial.
    """
    counts = [_junit_counts(target) for target in targets]
    together = {name: sum(each[name] for each in counts) for name in counts[0]}
    root = ElementTree.Element("testsuites", {"name": SUITE, **_attributes(together)})
    for target, count in zip(targets, counts, strict=True):
        _add_suite(root, target, _attributes(count))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False).join(
        (DECLARATION, "\n")
    )


def _junit_counts(target: CheckedTarget) -> dict[str, float]:
    is_partial = bool(target.problem)
    return {
        "tests": len(target.checks) + is_partial,
        "failures": sum(not check.is_met for check in target.checks),
        "errors": int(is_partial),
        "skipped": 0,
        "time": target.duration_s,
    }


def _attributes(counts: dict[str, float]) -> dict[str, str]:
    return {
        name: f"{value:.3f}" if name == "time" else str(int(value))
        for name, value in counts.items()
    }


def _add_suite(
    root: ElementTree.Element, target: CheckedTarget, attributes: dict[str, str]
) -> None:
    suite = ElementTree.SubElement(root, "testsuite", {"name": xml_safe(target.name), **attributes})
    for check in target.checks:
        _add_case(suite, check, target.name)
    if target.problem:
        problem = xml_safe(target.problem)
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": xml_safe(target.name), "name": "run", "time": "0.000"}
        )
        kind = target.outcome.kind if target.outcome else "incomplete"
        error = ElementTree.SubElement(case, "error", {"message": problem, "type": kind})
        error.text = problem


DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'


def _add_case(suite: ElementTree.Element, check: Check, target: str) -> None:
    if check.findings:
        place = {"file": xml_safe(check.findings[0].file), "line": str(check.findings[0].line)}
    else:
        place = {}
    attributes = {"classname": xml_safe(target), "name": check.option, "time": "0.000", **place}
    case = ElementTree.SubElement(suite, "testcase", attributes)
    if not check.is_met:
        lines = [
            ": ".join(filter(None, (finding.where, finding.text))) for finding in check.findings
        ]
        failure = ElementTree.SubElement(
            case, "failure", {"message": xml_safe(check.description), "type": check.condition}
        )
        failure.text = xml_safe("\n".join([f"{check.measured} ({check.option})", *lines]))


_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Matches characters that XML 1.0 cannot contain in any form (W3C, production [2] Char)."""


def xml_safe(text: str) -> str:
    """Return a text with control characters and lone surrogates as their Python escapes:
    ``\\x1b``.
    """
    return _NOT_XML.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def annotation_lines(check: Check) -> Iterator[str]:
    """Yield one line for each place of a failed check. GitHub shows the first ten of a step."""
    for finding in check.findings:
        message = f"{check.measured} ({check.option})"
        if finding.text:
            message += f": {finding.text}"
        properties = {**_place(finding), "title": f"torch.compile: {check.condition}"}
        yield workflow_command("error", message, properties)


def _place(finding: CheckFinding) -> dict[str, str]:
    place = {"file": finding.file, "line": str(finding.line or "")}
    # An empty ``line=`` would not be read as none.
    return {name: value for name, value in place.items() if value}


def workflow_command(name: str, message: str, properties: dict[str, str]) -> str:
    """Return ``::error file=model.py,line=3,title=…::message``, whatever the values hold."""
    text = ",".join(f"{key}={_escaped_property(value)}" for key, value in properties.items())
    space = " " if text else ""
    return f"::{name}{space}{text}::{_escaped(printable(message))}"


def _escaped(text: str) -> str:
    # The percent sign first: the others are written with one.
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escaped_property(text: str) -> str:
    return _escaped(printable(text)).replace(":", "%3A").replace(",", "%2C")


# SARIF


SARIF_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


def sarif(checks: Sequence[Check]) -> str:
    """Return the violations as a SARIF log. Paths must be relative to the repository.

    A rule is the registry id of a graph break (``GB0059``), or the name of the condition. A
    fingerprint names rule, file and text, and no line or count: what only moves stays one alert.
    """
    rules: dict[str, str] = {}
    results = []
    seen: Counter[str] = Counter()
    for check in checks:
        if check.is_met:
            continue
        for finding in check.findings or (CheckFinding("", 0, ""),):
            rule = finding.rule or check.condition
            rules.setdefault(rule, finding.text if finding.rule else check.measured)
            results.append(_result(check, finding, rule, seen))
    described = [
        {"id": rule, "shortDescription": {"text": text or rule}} for rule, text in rules.items()
    ]
    tool = {"name": "fx-explorer", "version": __version__, "rules": described}
    run = {"tool": {"driver": tool}, "results": results, "columnKind": "unicodeCodePoints"}
    log = {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2) + "\n"


def _result(
    check: Check, finding: CheckFinding, rule: str, seen: Counter[str]
) -> dict[str, object]:
    message = printable(": ".join(filter(None, (finding.text, check.measured))))
    subject = f"{rule}\n{finding.file}\n{_NUMBER.sub('#', finding.text)}"
    seen[subject] += 1
    digest = hashlib.sha256(f"{subject}\n{seen[subject]}".encode(errors="backslashreplace"))
    result: dict[str, object] = {
        "ruleId": rule,
        "level": "error",
        "message": {"text": message},
        "partialFingerprints": {"fxExplorer/v1": digest.hexdigest()[:32]},
    }
    if finding.file:
        uri = quote(finding.file.replace("\\", "/"), errors="surrogateescape")
        place: dict[str, object] = {"artifactLocation": {"uri": uri}}
        if finding.line:
            place["region"] = {"startLine": finding.line}
        result["locations"] = [{"physicalLocation": place}]
    return result


_NUMBER = re.compile(r"\d+")


# Markdown


def summary(targets: Sequence[CheckedTarget]) -> str:
    """Return checks as markdown: for each target the verdict, and a row for each condition; above
    several targets, how many meet their conditions.
    """
    parts = []
    if len(targets) > 1:
        failed = [target for target in targets if not is_met(target)]
        verdict = f"{len(failed)} of {len(targets)} targets failed" if failed else "all met"
        parts.append(f"## torch.compile: {verdict}\n")
    parts += map(_summary_of, sorted(targets, key=is_met))
    return "\n".join(parts)


def is_met(target: CheckedTarget) -> bool:
    """Return whether a target ran to its end and meets its conditions."""
    return not target.problem and all(check.is_met for check in target.checks)


def _summary_of(target: CheckedTarget) -> str:
    checks = target.checks
    failed = [check for check in checks if not check.is_met]
    conditions = counted(len(checks), "condition")
    verdict = f"{len(failed)} of {conditions} not met" if failed else "all met"
    lines = [f"### torch.compile: {_cell(target.name)}: {verdict}", ""]
    if target.problem:
        lines += [_cell(target.problem), ""]
    lines += ["| | condition | measured | where |", "| --- | --- | --- | --- |"]
    for check in sorted(checks, key=lambda check: check.is_met):
        where = "<br>".join(_cell(_place_and_text(finding)) for finding in check.findings[:5])
        more = len(check.findings) - 5
        if more > 0:
            where += f"<br>… and {more} more"
        sign = "✓" if check.is_met else "✗"
        lines.append(f"| {sign} | `{check.option}` | {_cell(check.measured)} | {where} |")
    return "\n".join(lines) + "\n"


def _place_and_text(finding: CheckFinding) -> str:
    return ": ".join(filter(None, (finding.where, finding.text)))


def _cell(text: str) -> str:
    """Return a text for a cell of a table, in which nothing is markup and nobody is mentioned."""
    shown = re.sub(r"([\\`*_{}\[\]<>|~])", r"\\\1", printable(text))
    return shown.replace("@", "@\u200b").replace("#", "#\u200b")
