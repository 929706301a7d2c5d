"""What a backend supports, as facts for the overview."""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer import model
from fx_explorer.analysis.facts import Fact
from fx_explorer.session import SessionReader


def support_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield how much each backend supports that says what it does; nothing of others, such as
    torch's own ``eager``.
    """
    if not reader.has(model.SupportReport):
        return
    from fx_explorer.instruments.backends.amounts import (
        summaries,  # not needed for most sessions, both
    )
    from fx_explorer.instruments.backends.verdict import short_verdict

    for one in summaries(reader):
        if not one.is_said:
            continue
        is_all = one.supported.count == one.whole.count
        for sentence in short_verdict(one):
            yield Fact("backend", "good" if is_all else "notice", sentence, view="support")
