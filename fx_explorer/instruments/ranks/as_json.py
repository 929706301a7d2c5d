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
        "findings": [_finding(finding) for finding in ranks.findings],
        "groups": [_group(ranks, group) for group in ranks.groups],
        "agreement": {
            aspect: [list(group) for group in groups]
            for aspect, groups in agreement(ranks.summaries).items()
            if aspect in known_aspects(ranks.summaries)
        },
        "ranks": [
            {
                "rank": rank.rank,
                "file": rank.path,
                "torch": rank.torch,
                "compilations": len(rank.compilations),
                "compile_seconds": round(rank.compile_s, 6),
                "unknown_end": rank.unknown_end,
                "damage": list(rank.notes),
            }
            for rank in ranks.summaries
        ],
        "waits": [
            {
                "compilation": wait.compilation,
                "function": wait.function,
                "file": wait.file,
                "line": wait.line,
                "last_ranks": list(wait.last),
                "first_rank": wait.first,
                "longest_seconds": round(wait.longest_s, 6),
                "ranks_that_may_never_come": list(wait.never),
                "words": wait.in_words,
            }
            for wait in waits(ranks.summaries)
        ],
        "notes": list(ranks.notes),
        "not_compared": [
            {"file": str(other_file.path), "why": other_file.why} for other_file in ranks.left_out
        ],
    }


def _finding(finding: RankFinding) -> dict[str, object]:
    return {
        "aspect": finding.aspect,
        "is_divergence": finding.is_divergence,
        "ranks": list(finding.ranks),
        "others": list(finding.others),
        "words": finding.words,
        "compilation": finding.compilation,
        "other_compilation": finding.other_compilation,
        "function": finding.function,
        "file": finding.file,
        "line": finding.line,
    }


def _group(ranks: ComparedRanks, group: RankGroup) -> dict[str, object]:
    first = first_of_group(ranks.findings, group)
    return {
        "ranks": list(group.ranks),
        "first_divergence": _finding(first) if first else None,
        "compilations": [
            {
                "name": compilation.name,
                "function": compilation.function,
                "file": compilation.file,
                "line": compilation.line,
                "status": compilation.status,
                "cache": list(compilation.cache),
            }
            for compilation in group.first.compilations
        ],
    }
