"""What a ledger found, as facts for the overview."""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer import model
from fx_explorer.analysis.facts import Fact
from fx_explorer.session import SessionReader

SHOWN = 2


def ledger_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield the first sentences of the verdict; nothing where no call was accounted for."""
    if not reader.has(model.LedgerCall):
        return
    from fx_explorer.instruments.ledger.figures import (
        ledger_figures,  # not needed for most sessions, both
    )
    from fx_explorer.instruments.ledger.verdict import verdict

    figures = ledger_figures(reader)
    if figures is not None:
        yield from (
            Fact("call", "good", sentence, view="ledger") for sentence in verdict(figures)[:SHOWN]
        )
