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
from urllib.parse import quote
from xml.etree import ElementTree

from fx_explorer import __version__
from fx_explorer.highlight import printable
from fx_explorer.model import Outcome
from fx_explorer.overview.checks import Check, CheckFinding

SUITE = "fx-explorer check"


def junit_xml(
    checks: Sequence[Check], target: str, outcome: Outcome | None, duration_s: float
) -> str:
    """Return the document. A run that did not end well is a further test case, with an error: its
    numbers are partial.
    """
    problem = _problem(outcome)
    counts = {
        "tests": len(checks) + bool(problem),
        "failures": sum(not check.is_met for check in checks),
        "errors": int(bool(problem)),
        "skipped": 0,
        "time": f"{duration_s:.3f}",
    }
    attributes = {name: str(value) for name, value in counts.items()}
    root = ElementTree.Element("testsuites", {"name": SUITE, **attributes})
    suite = ElementTree.SubElement(root, "testsuite", {"name": xml_safe(target), **attributes})
    for check in checks:
        _add_case(suite, check, target)
    if problem:
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": xml_safe(target), "name": "run", "time": "0.000"}
        )
        kind = outcome.kind if outcome else "incomplete"
        ElementTree.SubElement(
            case, "error", {"message": xml_safe(problem), "type": kind}
        ).text = xml_safe(problem)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False).join(
        (DECLARATION, "\n")
    )


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


def _problem(outcome: Outcome | None) -> str:
    if outcome is None:
        return "the capture has not ended: the session is a part of it"
    # A script that ends with ``sys.exit(0)`` has ended well.
    if outcome.kind == "finished" or (outcome.kind == "exited" and outcome.exit_code == 0):
        return ""
    return f"{outcome.kind.replace('_', ' ')}: {outcome.message}".removesuffix(": ")


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
        uri = quote(finding.file.replace("\\", "/"))
        place: dict[str, object] = {"artifactLocation": {"uri": uri}}
        if finding.line:
            place["region"] = {"startLine": finding.line}
        result["locations"] = [{"physicalLocation": place}]
    return result


_NUMBER = re.compile(r"\d+")


# Markdown


def summary(checks: Sequence[Check], target: str) -> str:
    """Return the check as markdown: the verdict, and a row for each condition."""
    failed = [check for check in checks if not check.is_met]
    verdict = f"{len(failed)} of {len(checks)} conditions are not met" if failed else "all met"
    lines = [f"### torch.compile: {_cell(target)}: {verdict}", ""]
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
