"""Findings in the JSON report, and as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.highlight import printable
from fx_explorer.output.terminal import Hanging, Line


def finding_lines(findings: Iterable[Finding]) -> Iterator[Line]:
    """Yield findings as a numbered list, each with its cost, its detail and an empty line."""
    for number, finding in enumerate(findings, start=1):
        cost = f"  [{finding.cost}]" if finding.cost else ""
        yield Hanging(f"{number}. ", printable(f"{finding.text}{cost}"))
        for line in finding.detail.splitlines():
            yield Hanging("   ", printable(line))
        yield ""


def finding_object(finding: Finding) -> dict[str, object]:
    """Return a finding as the report has it."""
    place = finding.place
    return {
        "kind": finding.kind,
        "severity": finding.severity,
        "urgency": finding.urgency,
        "text": finding.text,
        "file": place.document.title if place else None,
        "line": place.line + 1 if place else None,
        "evidence": list(finding.evidence),
        "explanation": finding.explanation or None,
        "count": finding.count,
        "cost": finding.cost or None,
        "cost_s": finding.cost_s or None,
        "remedies": [_remedy(remedy) for remedy in finding.remedies],
    }


def _remedy(remedy: Remedy) -> dict[str, object]:
    has_helped = remedy.has_helped if remedy.state == "tried" else None
    return {
        "text": remedy.text,
        "state": remedy.state,
        "result": remedy.result or None,
        "helped": has_helped,
    }
