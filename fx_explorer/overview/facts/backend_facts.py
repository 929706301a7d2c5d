"""What backends beside Inductor published and ran, as facts for the overview."""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer import model
from fx_explorer.analysis.documents import Place
from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.published import backend_summaries
from fx_explorer.session import SessionReader

SHOWN_AT_MOST = 3
"""Most things that are wrong with what was published that are listed one by one."""


def backend_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield a fact for each backend that published a stage or told a run, and what was wrong with
    it. A backend that did neither has nothing to say here.
    """
    for one in backend_summaries(reader):
        if one.stages or one.runs:
            place = Place(one.stages[0].document) if one.stages else None
            yield Fact(
                "backend",
                "good",
                f"Backend {one.backend}: {one.in_words}.",
                one.called,
                place,
                "backend",
            )
    wrong = [one for one in reader.rows(model.Failure, where="backend") if one.kind != "remark"]
    for failure in wrong[:SHOWN_AT_MOST]:
        yield Fact(
            "backend",
            "notice",
            f"{failure.message[:1].upper()}{failure.message[1:]}.",
            view="backend",
        )
    if len(wrong) > SHOWN_AT_MOST:
        yield Fact(
            "backend",
            "notice",
            f"… and {len(wrong) - SHOWN_AT_MOST:,} more things are wrong with it.",
            view="console",
        )
