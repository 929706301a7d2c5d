"""Results that differ from those of eager mode by PyTorch's own rule, as ``numerics`` located them:
the first operator that differs, with its line and kernel. A capture compares no results, so only a
session with numerics, or ``diagnose --try``, has them.
"""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer.analysis.documents import place_of_path
from fx_explorer.findings.finding import Finding
from fx_explorer.instruments.numerics.figures import numerics_of
from fx_explorer.instruments.numerics.verdict import is_wrong, verdict
from fx_explorer.model import Numerics
from fx_explorer.session import SessionReader


def find_wrong_results(reader: SessionReader) -> Iterator[Finding]:
    """Yield that results differ, where the session has numerics that say so."""
    numerics = numerics_of(reader)
    if numerics is not None:
        yield from numerics_findings(numerics, reader)


def numerics_findings(numerics: Numerics, reader: SessionReader | None = None) -> Iterator[Finding]:
    """Yield the finding of a comparison with eager mode; nothing where results are equal.

    ``reader`` is the session in which the line is looked up; without one the finding has no place.
    """
    if not is_wrong(numerics):
        return
    first, *others = verdict(numerics)
    found = numerics.finding
    place = None
    if found is not None and found.file and reader is not None:
        place = place_of_path(reader, found.file, found.line)
    yield Finding(
        kind="wrong result",
        text=first,
        urgency="wrong",
        topic="call",
        place=place,
        evidence=tuple(others),
    )
