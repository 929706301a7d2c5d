"""What a report for people begins with: what was captured, with which versions, and the answer."""

from __future__ import annotations

from collections.abc import Sequence

from fx_explorer.analysis.facts import Fact
from fx_explorer.findings.finding import Finding
from fx_explorer.session import SessionReader


def target_name(reader: SessionReader) -> str:
    """Return what was captured: the target, or the log that was read."""
    request = reader.meta("request") or {}
    target = reader.meta("target") or {}
    log = reader.meta("log") or {}
    return str(target.get("name") or request.get("target") or log.get("name") or reader.path.name)


def versions(reader: SessionReader) -> str:
    """Return ``torch 2.13.0 · triton 3.7.1 · Python 3.11.7 · H100``, as far as it is known."""
    environment = reader.meta("environment") or {}
    parts = []
    for name, title in (("torch", "torch"), ("triton", "triton"), ("python", "Python")):
        if environment.get(name):
            parts.append(f"{title} {str(environment[name]).split()[0]}")
    devices = (environment.get("gpu"), environment.get("virtual_gpu"))
    parts += [str(device) for device in devices if device]
    return " · ".join(parts)


def answer(findings: Sequence[Finding], facts: Sequence[Fact]) -> str:
    """Return the first line: the worst problem, or that there is none."""
    for finding in findings:
        if finding.severity == "problem":
            return finding.brief or finding.text
    return facts[-1].text if facts else ""
