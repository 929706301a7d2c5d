"""What was found by running the program in other ways is kept in its session: findings that no
capture shows, such as results that differ without torch.compile, and the fixes that were tried.

It is one entry of the session's ``meta``. A stranger may have written it, so each field is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fx_explorer.errors import NotASessionError
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.model.checked_json import checked
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.reader import answered_once

META = "kept_trials"


@dataclass(frozen=True, slots=True)
class TriedFix:
    """A fix of a graph break that was tried, with its results compared."""

    file: str
    line: int
    registry_id: str
    """torch's number of the graph break, as ``GB0059``; empty where it has none."""
    title: str
    verdict: str
    """A verdict of ``instruments/fixes/trial.py``: ``good``, ``refused`` …"""
    reason: str
    diff: str
    """The change of the source; empty for one of options."""
    instruction: str
    """The lines that set its options; empty for a change of the source."""

    @property
    def remedy(self) -> Remedy:
        text = f"{self.title} (line {self.line})."
        result = f"{self.verdict}: {self.reason}."
        return Remedy(text, "tried", result, has_helped=self.verdict != "refused")


@dataclass(frozen=True, slots=True)
class KeptTrials:
    looked_for: tuple[str, ...] = ()
    """Names of the kinds of findings (``FindingKind.name``) that were looked for."""
    findings: tuple[Finding, ...] = ()
    fixes: tuple[TriedFix, ...] = ()


def add_to_kept(
    session: Path,
    looked_for: Sequence[str] = (),
    findings: Sequence[Finding] = (),
    fixes: Sequence[TriedFix] = (),
) -> None:
    """Add to what a session keeps. Findings take the place of earlier ones, as do fixes of the same
    title and line. Raises SessionWriteError, and NotASessionError where the entry is damaged.
    """
    with SessionReader(session) as reader:
        kept = kept_trials(reader)
    if looked_for:
        kept = replace(kept, looked_for=tuple(looked_for), findings=tuple(findings))
    new = {(fix.file, fix.line, fix.title) for fix in fixes}
    others = [fix for fix in kept.fixes if (fix.file, fix.line, fix.title) not in new]
    kept = replace(kept, fixes=(*others, *fixes))
    with SessionWriter(session) as writer:
        writer.set_meta(META, _to_json(kept))


@answered_once
def kept_trials(reader: SessionReader) -> KeptTrials:
    """Return what a session keeps. Raises NotASessionError for an entry that is damaged."""
    stored = reader.meta(META)
    if stored is None:
        return KeptTrials()
    try:
        return KeptTrials(
            tuple(str(name) for name in stored["looked_for"]),
            tuple(_finding(entry) for entry in stored["findings"]),
            tuple(checked(TriedFix(**entry)) for entry in stored["fixes"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise NotASessionError(f"its trials cannot be read: {str(error)[:200]}") from error


def tried_fixes(reader: SessionReader, file: str, line: int, registry_id: str) -> Iterator[Remedy]:
    """Yield the fixes of a graph break that were tried, good ones first."""
    of_break = [
        fix
        for fix in kept_trials(reader).fixes
        if (fix.file, fix.line, fix.registry_id) == (file, line, registry_id)
    ]
    for fix in sorted(of_break, key=lambda fix: fix.verdict != "good"):
        yield fix.remedy


def _to_json(kept: KeptTrials) -> dict[str, Any]:
    return {
        "looked_for": list(kept.looked_for),
        "findings": [_finding_json(finding) for finding in kept.findings],
        "fixes": [asdict(fix) for fix in kept.fixes],
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    """Return a finding without its place and view, which are those of the session it came from."""
    fields = asdict(replace(finding, place=None, view=None))
    del fields["place"], fields["view"]
    return fields


def _finding(entry: dict[str, Any]) -> Finding:
    remedies = tuple(checked(Remedy(**remedy)) for remedy in entry["remedies"])
    evidence = tuple(entry["evidence"])
    return checked(Finding(**{**entry, "remedies": remedies, "evidence": evidence}))
