"""This module describes the activity of torch's compile caches, as sentences and as JSON, for one
session and for two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fx_explorer.analysis.words import counted, listed, seconds
from fx_explorer.instruments.compile_time.caches import (
    CACHE_NAMES,
    CacheAnswer,
    KeyPair,
    WarmStart,
    cache_answers,
    describe_bypass,
    key_pairs,
    warm_start,
)
from fx_explorer.instruments.compile_time.caches_off import (
    CacheOff,
    autotuning_answers,
    caches_off,
)
from fx_explorer.session import SessionReader

Json = dict[str, object]


def caches_of_report(reader: SessionReader) -> Json:
    """Return every look-up in a cache as JSON, with the remaining work of a warm start (None for a
    cold one), the caches that were off, and what that of autotuning answered.
    """
    answers = cache_answers(reader)
    warm = warm_start(reader, answers)
    return {
        "answers": [_answer(answer) for answer in answers],
        "warm_start": warm
        and {
            "compilations_that_found_code": warm.hits,
            "compilations_that_asked": warm.asked,
            "saved_s": warm.saved_s,
            "done": [{"phase": phase, "seconds": spent} for phase, spent in warm.done],
            "total_s": warm.total_s,
        },
        "off": [_off(cache) for cache in caches_off(reader)],
        "autotuning": [
            {
                "compilation": answer.compilation,
                "outcome": answer.outcome,
                "kernels": list(answer.kernels),
            }
            for answer in autotuning_answers(reader)
        ],
    }


def _off(cache: CacheOff) -> Json:
    return {
        "cache": cache.cache,
        "reason": cache.reason,
        "option": cache.option or None,
        "compilations": list(cache.compilations),
    }


def key_pair(pair: KeyPair) -> Json:
    """Return the parts of the key that differ between two runs; the first with its setting or
    lines.
    """
    first = pair.first
    return {
        "cache": pair.cache,
        "compilation": pair.right.compilation.name,
        "left": {"outcome": pair.left.record.outcome, "key": pair.left.record.key},
        "right": {"outcome": pair.right.record.outcome, "key": pair.right.record.key},
        "differing": [component.name for component in pair.components],
        "first": first
        and {
            "what": first.text,
            "left": first.left,
            "right": first.right,
            "left_line": first.left_place or None,
            "right_line": first.right_place or None,
        },
    }


def _answer(cache_answer: CacheAnswer) -> Json:
    record = cache_answer.record
    reason = describe_bypass(record.reason) if record.outcome == "bypass" else None
    return {
        "compilation": cache_answer.compilation.name,
        "cache": record.cache,
        "outcome": record.outcome,
        "key": record.key or None,
        "reason": reason,
        "torch_says": record.reason or None,
        "saved_s": record.saved_s,
    }


COMPARE = (
    "fx-explorer diff EARLIER THIS names the first part of the key that changed since an earlier "
    "run."
)

MOST_PHASES = 4


def warm_sentence(warm: WarmStart) -> str:
    if warm.saved_s:
        saved = f", which saved {seconds(warm.saved_s)} by torch's estimate"
    else:
        saved = ""
    return (
        f"{warm.hits} of {counted(warm.asked, 'compilation')} found code in torch's caches{saved}."
    )


def done_sentence(warm: WarmStart) -> str:
    """Return a sentence on the phases that ran although the start was warm."""
    phases = ", ".join(
        f"{words} {seconds(spent)}" for words, spent in warm.done[:MOST_PHASES] if spent >= 0.001
    )
    if phases:
        return f"These phases ran nevertheless, in {seconds(warm.total_s)}: {phases}."
    return ""


def bypass_sentences(answers: list[CacheAnswer]) -> list[str]:
    """Say why a cache was not asked, each reason once."""
    bypasses = (answer.record for answer in answers if answer.record.outcome == "bypass")
    reasons = Counter((record.cache, describe_bypass(record.reason)) for record in bypasses)
    sentences = []
    for (cache, reason), count in reasons.items():
        times = f", {count} times" if count > 1 else ""
        sentences.append(f"{CACHE_NAMES[cache]} was not asked{times}: {reason}.")
    return sentences


def difference_sentences(
    left: SessionReader, right: SessionReader, names: tuple[str, str]
) -> Iterator[str]:
    """Yield why the caches had results for one run and not for the other: the first part of the key
    that differs, with its line or its setting; then the remaining work of a warm start, and why a
    cache was bypassed.
    """
    pairs = key_pairs(left, right)
    explained = {pair.right.compilation.id for pair in pairs if pair.first}
    for pair in pairs:
        yield from _pair_sentences(pair, names, is_explained=pair.right.compilation.id in explained)
    for name, reader in zip(names, (left, right), strict=True):
        answers = cache_answers(reader)
        warm = warm_start(reader, answers)
        if warm:
            yield f"{name}: {warm_sentence(warm)} {done_sentence(warm)}"
        yield from (f"{name}: {sentence}" for sentence in bypass_sentences(answers))


def _pair_sentences(pair: KeyPair, names: tuple[str, str], *, is_explained: bool) -> Iterator[str]:
    where = f"[{pair.right.compilation.name}] {CACHE_NAMES[pair.cache]}"
    outcomes = [side.record.outcome for side in (pair.left, pair.right)]
    if pair.is_same_key:
        if outcomes == ["hit", "miss"]:
            yield (
                f"{where}: the key is the same, but {names[1]} did not find it: it used another "
                "cache, or the cache was emptied"
            )
        return
    if pair.first is None:
        if not is_explained:
            yield f"{where}: the keys differ, but torch did not log their parts"
        return
    first = pair.first
    yield f"{where}: the keys differ. First in: {first.text}"
    for name, value, place in (
        (names[0], first.left, first.left_place),
        (names[1], first.right, first.right_place),
    ):
        if place:
            yield f"    {name}: {value}   {place}"
        elif value:
            yield f"    {name}: {value}"
    others = [component.name for component in pair.components[1:]]
    if others:
        yield f"    {counted(len(others), 'further part')} of the key: {listed(others)}"
