"""The questions that were asked of torch's caches, with what each answered."""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.session import SessionReader
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
