"""Which rank each file is of: by its name and by its records, which may disagree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fx_explorer.analysis.words import counted
from fx_explorer.instruments.ranks.finding import rank_numbers, rank_words
from fx_explorer.instruments.ranks.found_files import MOST_RANKS, OtherFile, rank_in_name
from fx_explorer.instruments.ranks.reading import ReadFile
from fx_explorer.instruments.ranks.summary import RankSummary


@dataclass(frozen=True, slots=True)
class Assigned:
    summaries: tuple[RankSummary, ...]
    """One for each rank, in the order of their numbers."""
    left_out: tuple[OtherFile, ...]
    notes: tuple[str, ...]
    """What is to be known of how files and ranks were matched, in sentences."""


def assigned(files: Sequence[ReadFile]) -> Assigned:
    """Give each file its rank. Of several files of one rank, that which began to compile last is
    taken.
    """
    left_out = [
        OtherFile(Path(read_file.path), _why_unread(read_file), is_unread=True)
        for read_file in files
        if read_file.summary is None or is_mixed(read_file)
    ]
    usable = [
        read_file
        for read_file in files
        if read_file.summary is not None and not is_mixed(read_file)
    ]
    notes: list[str] = []
    by_rank: dict[int, list[RankSummary]] = {}
    unknown: list[ReadFile] = []
    for read_file in usable:
        rank = _rank(read_file)
        if rank is None:
            unknown.append(read_file)
        else:
            by_rank.setdefault(rank, []).append(_with_rank(read_file, rank))
    if by_rank:
        left_out += [
            OtherFile(
                Path(read_file.path), "says neither in its name nor in its records which rank it is"
            )
            for read_file in unknown
        ]
    elif unknown:
        by_rank = {at: [_with_rank(read_file, at)] for at, read_file in enumerate(unknown)}
        notes.append("No file says which rank it is: they are numbered in the order of their names")
    summaries = []
    for rank, candidates in sorted(by_rank.items()):
        chosen = max(candidates, key=_began)
        summaries.append(chosen)
        left_out += [
            OtherFile(
                Path(candidate.path),
                f"is an earlier file of rank {rank}: {Path(chosen.path).name} is taken",
            )
            for candidate in candidates
            if candidate is not chosen
        ]
    notes += _disagreements(usable)
    notes += _missing([rank.rank for rank in summaries], any(rank.is_text for rank in summaries))
    return Assigned(tuple(summaries), tuple(left_out), tuple(notes))


def _rank(read_file: ReadFile) -> int | None:
    """Return the rank that the name says, else the records; None where neither does."""
    named = rank_in_name(Path(read_file.path).name)
    told = [rank for rank, _ in read_file.told_ranks if rank < MOST_RANKS]
    return named if named is not None else next(iter(told), None)


def _with_rank(read_file: ReadFile, rank: int) -> RankSummary:
    assert read_file.summary is not None
    return replace(read_file.summary, rank=rank)


def is_mixed(read_file: ReadFile) -> bool:
    """Return whether several ranks wrote into a file."""
    return len(read_file.told_ranks) > 1


def _why_unread(read_file: ReadFile) -> str:
    if read_file.summary is None:
        return f"cannot be read: {read_file.error}"
    counts = ", ".join(
        f"{counted(count, 'record')} of rank {rank}" for rank, count in read_file.told_ranks[:4]
    )
    return (
        f"mixes {counted(len(read_file.told_ranks), 'rank')} in one file ({counts}), so that it "
        "cannot be told what each did"
    )


def _began(rank: RankSummary) -> tuple[bool, float]:
    return bool(rank.compilations), rank.compilations[0].start_s if rank.compilations else 0.0


def _disagreements(files: Iterable[ReadFile]) -> list[str]:
    wrong = [
        (named, read_file.told_ranks[0][0])
        for read_file in files
        if (named := rank_in_name(Path(read_file.path).name)) is not None
        and read_file.told_ranks
        and read_file.told_ranks[0][0] != named
    ]
    if not wrong:
        return []
    told = sorted({told for _, told in wrong})
    names = rank_words(named for named, _ in wrong)
    return [
        (
            f"The files named as {names} have records that say {rank_words(told)}: the names "
            "are believed"
        )
    ]


def _missing(ranks: Sequence[int], are_of_a_text: bool) -> list[str]:
    missing = sorted(set(range(max(ranks, default=-1) + 1)) - set(ranks))
    if not missing:
        return []
    if are_of_a_text:
        return [f"Not in this text: {rank_words(missing)}"]
    if len(missing) == 1:
        return [f"Rank {missing[0]} is missing: no file of it is here"]
    return [f"Ranks {rank_numbers(missing)} are missing: no files of them are here"]
