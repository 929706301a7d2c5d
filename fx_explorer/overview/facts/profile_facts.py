"""What a profile found, as facts for the overview."""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer import model
from fx_explorer.analysis.facts import Fact, Severity
from fx_explorer.session import SessionReader


def profile_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield the verdict in short; nothing where no profile was read."""
    if not reader.has(model.Profile):
        return
    from fx_explorer.instruments.profile.figures import (
        profile_figures,  # not needed for most sessions, both
    )
    from fx_explorer.instruments.profile.verdict import in_short

    figures = profile_figures(reader)
    if figures is not None:
        severity: Severity = "good" if figures.kernels else "problem"
        yield from (
            Fact("profile", severity, sentence, view="profile") for sentence in in_short(figures)
        )
