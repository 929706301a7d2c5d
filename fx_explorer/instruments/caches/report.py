"""What torch's compile caches answered, as JSON, in the reports of one session and of two."""

from __future__ import annotations

from fx_explorer.instruments.caches.answers import CacheAnswer, cache_answers
from fx_explorer.instruments.caches.bypasses import bypass_in_words
from fx_explorer.instruments.caches.differences import KeyPair
from fx_explorer.instruments.caches.warm_start import warm_start
from fx_explorer.session import SessionReader

Json = dict[str, object]


def caches_of_report(reader: SessionReader) -> Json:
    """Return every question to a cache, and what a warm start did all the same; None for a cold
    one.
    """
    answers = cache_answers(reader)
    warm = warm_start(reader, answers)
    return {
        "answers": [_answer(one) for one in answers],
        "warm_start": warm
        and {
            "compilations_that_found_code": warm.hits,
            "compilations_that_asked": warm.asked,
            "saved_s": warm.saved_s,
            "done": [{"phase": phase, "seconds": spent} for phase, spent in warm.done],
            "total_s": warm.total_s,
        },
    }


def key_pair(pair: KeyPair) -> Json:
    """Return the parts of the key that differ between two runs; the first with the setting or the
    lines it comes from.
    """
    first = pair.first
    return {
        "cache": pair.cache,
        "compilation": pair.right.compilation.name,
        "left": {"outcome": pair.left.record.outcome, "key": pair.left.record.key},
        "right": {"outcome": pair.right.record.outcome, "key": pair.right.record.key},
        "differing": [one.name for one in pair.components],
        "first": first
        and {
            "what": first.text,
            "left": first.left,
            "right": first.right,
            "left_line": first.left_place or None,
            "right_line": first.right_place or None,
        },
    }


def _answer(one: CacheAnswer) -> Json:
    record = one.record
    return {
        "compilation": one.compilation.name,
        "cache": record.cache,
        "outcome": record.outcome,
        "key": record.key or None,
        "reason": bypass_in_words(record.reason) if record.outcome == "bypass" else None,
        "torch_says": record.reason or None,
        "saved_s": record.saved_s,
    }
