"""Findings in the JSON report."""

from __future__ import annotations

from fx_explorer.findings.finding import Finding, Remedy


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
    return {"text": remedy.text, "state": remedy.state, "result": remedy.result or None}
