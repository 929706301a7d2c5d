"""What torch's caches were asked and answered, why they were not asked at all, and whether a start
found code in them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.instruments.compile_time.timing import STAGE_IN_WORDS, stage_times
from fx_explorer.session import SessionReader
from fx_explorer.torch_texts import bounded
from fx_explorer.torch_texts.cache_record import (
    CacheRecord,
    Outcome,
    is_cache_record,
    parse_cache_record,
)

CACHE_NAMES = {"aotautograd": "AOTAutograd's cache", "fx_graph": "Inductor's cache of graphs"}

MOST_READ = 2_000
"""Records that are read: each can be 100 KB."""


@dataclass(frozen=True, slots=True)
class CacheAnswer:
    """One question, and the compilation that asked."""

    compilation: model.Compilation
    record: CacheRecord


def cache_answers(reader: SessionReader, *outcomes: Outcome) -> list[CacheAnswer]:
    """Return the questions in the order they were asked; with ``outcomes`` those that were answered
    so.
    """
    titles = {
        row.id: row.title.partition(" · ")[0] for row in reader.rows(model.Artifact, kind="listing")
    }
    wanted = [
        one for one, title in titles.items() if is_cache_record(title) and _is_of(title, outcomes)
    ]
    compilations = {row.id: row for row in reader.rows(model.Compilation)}
    rows = sorted(reader.by_ids(model.Artifact, wanted[:MOST_READ]), key=lambda row: row.id)
    found = []
    for row, text in reader.texts_of(rows):
        record = parse_cache_record(titles[row.id], text)
        if record is not None and row.compilation in compilations:
            found.append(CacheAnswer(compilations[row.compilation], record))
    return found


def _is_of(title: str, outcomes: tuple[Outcome, ...]) -> bool:
    return not outcomes or any(title.endswith(f"_{outcome}") for outcome in outcomes)


_REASONS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (
            r"Unsupported call_(?:function|method) (?:target|method) (?P<what>\S+?)[.:,]?(?: |$)",
            lambda found: (
                f"the graph calls {found['what']}, which torch does not know to be safe to keep"
            ),
        ),
        (
            r"Unsupported node op (?P<what>\w+)",
            lambda found: f"the graph has a node that torch cannot keep ({found['what']})",
        ),
        (
            r".*freezing",
            lambda _: (
                "weights are frozen into the code (torch._inductor.config.freezing), and "
                "would be kept with it"
            ),
        ),
        (
            r"FX graph cache is not enabled",
            lambda _: "Inductor's cache of graphs is off, on which AOTAutograd's builds",
        ),
        (r".*compiled autograd", lambda _: "the graph is one of compiled autograd"),
        (
            r".*fakify_first_call",
            lambda _: "the first call is made with fake tensors (fakify_first_call)",
        ),
        (
            r"SAC context_fn",
            lambda _: (
                "a context_fn of selective checkpointing is a function torch cannot "
                "compare: give it a cache_hash"
            ),
        ),
        (
            r"(?:Can't|Cannot) cache HigherOrderOperator:? ?(?P<what>\S+)",
            lambda found: (
                f"the graph has the operator {found['what']}, which holds graphs of its own"
            ),
        ),
        (
            r"Cannot produce stable cache key for unpicklable type (?P<what>\S+)",
            lambda found: (
                f"the key would need an object that cannot be written down ({found['what']})"
            ),
        ),
        (
            r"Failed to pickle cache key",
            lambda _: "the key would need an object that cannot be written down",
        ),
        (
            r".*(?:custom pass|Unsupported .*pass)",
            lambda _: "a pass of your own has no uuid(), so torch cannot tell it from another one",
        ),
        (
            r".*uuid\(\)",
            lambda _: (
                "a function of your own has no uuid(), so torch cannot tell it from another one"
            ),
        ),
        (
            r"Can't cache (?:a )?graph.* with .*const",
            lambda _: "the graph holds constants that torch cannot write down",
        ),
        (
            r"Cannot cache a torchbind|.*ScriptObject|.*torchbind",
            lambda _: "the graph holds an object of TorchScript",
        ),
        (r".*mkldnn", lambda _: "an input is a tensor of MKLDNN"),
        (r"AOTAutogradCache requires triton", lambda _: "Triton is older than 3.2"),
    )
)


def bypass_in_words(reason: str) -> str:
    """Return torch's reason in plain words; what is not known here as torch says it."""
    for pattern, words in _REASONS:
        match = pattern.match(bounded(reason))
        if match:
            return words(match)
    return reason or "torch gives no reason"


@dataclass(frozen=True, slots=True)
class WarmStart:
    """What the caches answered, and where the time went."""

    hits: int
    """Compilations that found something."""
    asked: int
    """Compilations that asked."""
    saved_s: float
    """As torch reckons."""
    done: tuple[tuple[str, float], ...]
    """Phases, in words, with their seconds; the longest first."""
    total_s: float


def warm_start(reader: SessionReader, answers: list[CacheAnswer]) -> WarmStart | None:
    """Return what is known of a warm start; None where no cache answered with code. ``answers`` are
    all of the session.
    """
    found = {answer.compilation.id for answer in answers if answer.record.outcome == "hit"}
    if not found:
        return None
    times = stage_times(reader)
    done = sorted(
        ((STAGE_IN_WORDS.get(stage, stage), spent) for stage, spent in times.by_stage.items()),
        key=lambda one: -one[1],
    )
    asked = {answer.compilation.id for answer in answers}
    return WarmStart(len(found), len(asked), _saved(answers), tuple(done), times.total_s)


def _saved(answers: list[CacheAnswer]) -> float:
    """Add up what the hits saved. A hit of AOTAutograd's cache takes in those of Inductor's below
    it.
    """
    outer: dict[int, float] = {}
    inner: dict[int, float] = {}
    for answer in answers:
        if answer.record.outcome == "hit":
            of = outer if answer.record.cache == "aotautograd" else inner
            of[answer.compilation.id] = of.get(answer.compilation.id, 0.0) + answer.record.saved_s
    return sum(outer.get(key) or inner.get(key, 0.0) for key in {*outer, *inner})
