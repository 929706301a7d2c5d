"""A check as JUnit XML, the form in which CI systems show tests: one test case a condition.

The format has no standard; this keeps to what Jenkins, GitLab and pytest's ``--junitxml`` (family
``xunit1``) have in common.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from fx_explorer.model import Outcome
from fx_explorer.overview.checks import Check

SUITE = "fx-explorer check"


def junit_xml(
    checks: Sequence[Check], target: str, outcome: Outcome | None, duration_s: float
) -> str:
    """Return the document. A run that did not end well is one more test case, with an error: the
    numbers are of a part of it then.
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
            ": ".join(part for part in (found.where, found.text) if part)
            for found in check.findings
        ]
        failure = ElementTree.SubElement(
            case, "failure", {"message": xml_safe(check.in_words), "type": check.condition}
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
"""What XML 1.0 cannot hold, in any way of writing it (W3C, production [2] Char)."""


def xml_safe(text: str) -> str:
    """Return a text with control characters and lone surrogates as their Python escapes: ``\\x1b``."""
    return _NOT_XML.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
