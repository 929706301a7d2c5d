"""Ranks as JSON: ``fx-explorer/ranks/1``. Fields are only added."""

from __future__ import annotations

from fx_explorer.instruments.ranks.compared import ComparedRanks
from fx_explorer.instruments.ranks.finding import RankFinding
from fx_explorer.instruments.ranks.groups import RankGroup, agreement, known_aspects
from fx_explorer.instruments.ranks.sentences import first_of_group, first_sentence, headline
from fx_explorer.instruments.ranks.waiting import waits

SCHEMA = "fx-explorer/ranks/1"


def ranks_json(ranks: ComparedRanks) -> dict[str, object]:
    """Return the whole answer; every finding, and every rank."""
    first = ranks.first
    return {
        "schema": SCHEMA,
        "summary": " ".join(filter(None, (headline(ranks), first_sentence(ranks)))),
        "diverges": first is not None,
        "differing_ranks": list(ranks.differing),
        "first_divergence": _finding(first) if first else None,
        "findings": [_finding(one) for one in ranks.findings],
        "groups": [_group(ranks, group) for group in ranks.groups],
        "agreement": {
            aspect: [list(one) for one in groups]
            for aspect, groups in agreement(ranks.summaries).items()
            if aspect in known_aspects(ranks.summaries)
        },
        "ranks": [
            {
                "rank": one.rank,
                "file": one.path,
                "torch": one.torch,
                "compilations": len(one.compilations),
                "compile_seconds": round(one.compile_s, 6),
                "unknown_end": one.unknown_end,
                "damage": list(one.notes),
            }
            for one in ranks.summaries
        ],
        "waits": [
            {
                "compilation": one.compilation,
                "function": one.function,
                "file": one.file,
                "line": one.line,
                "last_ranks": list(one.last),
                "first_rank": one.first,
                "longest_seconds": round(one.longest_s, 6),
                "ranks_that_may_never_come": list(one.never),
                "words": one.in_words,
            }
            for one in waits(ranks.summaries)
        ],
        "notes": list(ranks.notes),
        "not_compared": [{"file": str(one.path), "why": one.why} for one in ranks.left_out],
    }


def _finding(one: RankFinding) -> dict[str, object]:
    return {
        "aspect": one.aspect,
        "is_divergence": one.is_divergence,
        "ranks": list(one.ranks),
        "others": list(one.others),
        "words": one.words,
        "compilation": one.compilation,
        "other_compilation": one.other_compilation,
        "function": one.function,
        "file": one.file,
        "line": one.line,
    }


def _group(ranks: ComparedRanks, group: RankGroup) -> dict[str, object]:
    first = first_of_group(ranks.findings, group)
    return {
        "ranks": list(group.ranks),
        "first_divergence": _finding(first) if first else None,
        "compilations": [
            {
                "name": one.name,
                "function": one.function,
                "file": one.file,
                "line": one.line,
                "status": one.status,
                "cache": list(one.cache),
            }
            for one in group.first.compilations
        ],
    }
