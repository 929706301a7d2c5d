"""What torch's compile caches did, as facts for the overview."""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.words import counted
from fx_explorer.instruments.caches.answers import cache_answers
from fx_explorer.session import SessionReader


def cache_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield what was found, what was looked for in vain, and why a cache was not asked; nothing
    where none was.
    """
    answers = cache_answers(reader)  # once: a record can be 100 KB
    if not answers:
        return
    from fx_explorer.instruments.caches.sentences import (
        COMPARE,
        bypass_sentences,
        done_sentence,
        warm_sentence,
    )
    from fx_explorer.instruments.caches.warm_start import (
        warm_start,  # not needed for most sessions, both
    )

    warm = warm_start(reader, answers)
    if warm:
        yield Fact("caches", "good", warm_sentence(warm), done_sentence(warm), view="time")
    missed = {one.compilation.id for one in answers if one.record.outcome == "miss"}
    if missed:
        text = (
            f"{counted(len(missed), 'compilation')} found nothing in torch's caches, and was "
            "compiled again."
        )
        yield Fact("caches", "notice", text, COMPARE, view="time")
    for sentence in bypass_sentences(answers):
        yield Fact("caches", "notice", sentence, view="time")
