"""This module finds the logs and sessions of ranks among the given files, by their content, and
assigns each to its rank: by the file's name and by its records, which may disagree.

A file that several ranks wrote into becomes a log for each of them. A line is of the rank that
torchrun put in front of it, or that the record names. A record that names none, like those before
the ranks know their numbers, is of the rank of its process, which is in every record. What torch
prints for TORCH_LOGS has the rank in front of every line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from fx_explorer.analysis.words import counted
from fx_explorer.errors import SessionError, UsageError
from fx_explorer.instruments.ranks.rank_finding import format_ranks, rank_numbers
from fx_explorer.instruments.ranks.reading import ReadFile
from fx_explorer.instruments.ranks.summary import RankSummary
from fx_explorer.readers.torch_log_text import rank_printed
from fx_explorer.readers.torch_trace.opened import lines_of, opened
from fx_explorer.readers.torch_trace.records import Damage
from fx_explorer.session.untrusted.kind_of_file import kind_of_file

MOST_FILES = 100_000
"""Maximum number of files of a directory that are examined."""

MOST_RANKS = 1_000_000
"""Largest number that counts as a rank in a name or record."""

_NAMED = re.compile(r"(?:^|[._-])rank[_-]?(?P<rank>\d{1,7})(?=[._-]|$)")
"""Matches the rank in a file's name: ``dedicated_log_torch_trace_rank_3_ab12cd.log`` (torch),
``train.rank3.fxs`` (fx-explorer run).
"""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A log or session."""

    path: Path
    named_rank: int | None
    """The rank in the file's name; None without one."""


@dataclass(frozen=True, slots=True)
class OtherFile:
    """A file that is not compared, and the reason."""

    path: Path
    why: str
    """Words that follow the file's name: ``is an empty file``."""
    is_unread: bool = False
    """Whether the file may be the log of a rank that is otherwise missing."""


@dataclass(frozen=True, slots=True)
class FoundFiles:
    found: tuple[FoundFile, ...]
    others: tuple[OtherFile, ...]


def find_files(given: Sequence[Path]) -> FoundFiles:
    """Return the logs and sessions among the given files, and directly in the given directories,
    together with the other files there.

    Raises UsageError for what is not there, and SessionError for a directory that cannot be read.
    """
    found_files: list[FoundFile] = []
    others: list[OtherFile] = []
    for path in dict.fromkeys(_files(given)):
        kind = kind_of_file(path)
        if kind.kind in ("log", "sqlite") or (kind.kind == "torch_logs" and path in given):
            found_files.append(FoundFile(path, rank_in_name(path.name)))
        else:
            others.append(OtherFile(path, f"is {kind.words}", is_unread=kind.kind == "unreadable"))
    return FoundFiles(tuple(found_files), tuple(others))


def rank_in_name(name: str) -> int | None:
    named = _NAMED.search(name)
    if named and int(named["rank"]) < MOST_RANKS:
        return int(named["rank"])
    return None


def has_logs(directory: Path) -> bool:
    """Return whether a directory holds a log, or the session of a rank, right in it; it stops at
    the first.
    """
    try:
        return any(_may_be_of_a_rank(path) for path in _in_directory(directory))
    except SessionError:
        return False


def _may_be_of_a_rank(path: Path) -> bool:
    kind = kind_of_file(path).kind
    return kind == "log" or (kind == "sqlite" and rank_in_name(path.name) is not None)


def _files(given: Sequence[Path]) -> Iterable[Path]:
    for path in given:
        if not path.exists():
            raise UsageError(
                f"there is no {path}. Give a directory with the logs of a job's ranks, or the logs"
            )
        if path.is_dir():
            yield from _in_directory(path)
        else:
            yield path


def _in_directory(directory: Path) -> Iterable[Path]:
    try:
        names = sorted(directory.iterdir(), key=lambda path: _natural(path.name))
    except OSError as error:
        raise SessionError(f"{directory} cannot be read: {error.strerror or error}") from error
    if len(names) > MOST_FILES:
        raise UsageError(
            f"{directory} has {len(names):,} files, more than {MOST_FILES:,}: give the "
            "logs themselves"
        )
    return [path for path in names if not path.is_dir()]


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts ``rank_10`` after ``rank_9``."""
    key = []
    for part in re.split(r"(\d+)", name):
        if part.isdecimal() and len(part) < 18:
            key.append((int(part), ""))
        else:
            key.append((-1, part))
    return key


# Which rank each file is of.


@dataclass(frozen=True, slots=True)
class Assigned:
    summaries: tuple[RankSummary, ...]
    """Summaries of the ranks, in the order of their numbers."""
    left_out: tuple[OtherFile, ...]
    notes: tuple[str, ...]
    """Sentences on problems in matching files and ranks."""


def assigned(files: Sequence[ReadFile]) -> Assigned:
    """Assign each file to its rank. When a rank has several files, the one that began to compile
    last is used.
    """
    left_out: list[OtherFile] = []
    usable: list[ReadFile] = []
    for read_file in files:
        if read_file.summary is None or is_mixed(read_file):
            why = _why_unread(read_file)
            left_out.append(OtherFile(Path(read_file.path), why, is_unread=True))
        else:
            usable.append(read_file)
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
        why = "has no rank number in its name or in its records"
        left_out += [OtherFile(Path(read_file.path), why) for read_file in unknown]
    elif unknown:
        by_rank = {at: [_with_rank(read_file, at)] for at, read_file in enumerate(unknown)}
        notes.append(
            "No file has a rank number: the files are numbered in the order of their names"
        )
    summaries = []
    for rank, candidates in sorted(by_rank.items()):
        chosen = max(candidates, key=_began)
        summaries.append(chosen)
        why = f"is an earlier file of rank {rank}: {Path(chosen.path).name} is used instead"
        earlier = [candidate for candidate in candidates if candidate is not chosen]
        left_out += [OtherFile(Path(candidate.path), why) for candidate in earlier]
    notes += _disagreements(usable)
    notes += _missing([rank.rank for rank in summaries], any(rank.is_text for rank in summaries))
    return Assigned(tuple(summaries), tuple(left_out), tuple(notes))


def _rank(read_file: ReadFile) -> int | None:
    """Return the rank in the file's name, else in its records; None where neither has one."""
    named = rank_in_name(Path(read_file.path).name)
    recorded = [rank for rank, _ in read_file.told_ranks if rank < MOST_RANKS]
    if named is not None:
        return named
    return next(iter(recorded), None)


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
        f"mixes {counted(len(read_file.told_ranks), 'rank')} in one file ({counts}), so the "
        "records of each rank cannot be separated"
    )


def _began(rank: RankSummary) -> tuple[bool, float]:
    if not rank.compilations:
        return False, 0.0
    return True, rank.compilations[0].start_s


def _disagreements(files: Iterable[ReadFile]) -> list[str]:
    wrong = []
    for read_file in files:
        named = rank_in_name(Path(read_file.path).name)
        if named is None or not read_file.told_ranks:
            continue
        recorded, _ = read_file.told_ranks[0]
        if recorded != named:
            wrong.append((named, recorded))
    if not wrong:
        return []
    names = format_ranks(named for named, _ in wrong)
    records = format_ranks(recorded for _, recorded in wrong)
    return [f"The files named as {names} have records that say {records}: the names are used"]


def _missing(ranks: Sequence[int], are_of_a_text: bool) -> list[str]:
    missing = sorted(set(range(max(ranks, default=-1) + 1)) - set(ranks))
    if not missing:
        return []
    if are_of_a_text:
        return [f"Not in this text: {format_ranks(missing)}"]
    if len(missing) == 1:
        return [f"Rank {missing[0]} is missing: none of the files is from it"]
    return [f"Ranks {rank_numbers(missing)} are missing: their files are not here"]


# A file that several ranks wrote into.


MOST_APART = 256
"""Maximum number of ranks of one mixed file, each of which needs an open file during the split."""

_HEAD = re.compile(
    rb"(?:\[rank(?P<rank>\d{1,7})\]:\s?)?[VIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ (?P<process>\d+) "
    rb"[^\]]{1,1000}\] \{"
)

_BELOW = re.compile(rb"\[rank(?P<rank>\d{1,7})\]:\s?\t")

_TOLD = re.compile(rb'"rank": ?(\d{1,7})\b')

END = 400
"""Number of bytes at the end of a record's line in which torch names the rank."""


@dataclass(frozen=True, slots=True)
class SplitLogs:
    """The logs that a file of several ranks was split into."""

    logs: tuple[Path, ...]
    nobodys: int
    """Number of lines that could not be assigned to a rank."""


def split_by_rank(log: Path, folder: Path) -> SplitLogs:
    """Write the logs of the ranks into a folder. Raises SessionError for a file that cannot be
    read, or has too many ranks.
    """
    ranks: dict[bytes, list[int]] = {}
    for line in _lines(log):
        head = _HEAD.match(line)
        recorded = _rank_of(head, line) if head else None
        if head and recorded is not None:
            known = ranks.setdefault(head["process"], [])
            if recorded not in known and len(known) <= MOST_APART:
                known.append(recorded)
    nobodys = 0
    latest: int | None = None
    latest_of: dict[bytes, int] = {process: known[0] for process, known in ranks.items()}
    """Process id → the rank in the last record that named one. Processes of several machines may
    have the same id.
    """
    paths: dict[int, Path] = {}
    with ExitStack() as stack:
        files: dict[int, BinaryIO] = {}
        for line in _lines(log):
            head, below = _HEAD.match(line), _BELOW.match(line)
            if head:
                recorded = _rank_of(head, line)
                latest = rank = latest_of.get(head["process"]) if recorded is None else recorded
                if recorded is not None:
                    latest_of[head["process"]] = recorded
            elif below:
                rank = int(below["rank"])
            else:
                printed = rank_printed(line)
                rank = latest if printed is None else printed
            if rank is None or rank >= MOST_RANKS:
                nobodys += bool(line.strip())
                continue
            if rank not in files:
                if len(files) == MOST_APART:
                    raise SessionError(
                        f"{log} has the records of more than {MOST_APART} ranks in one file"
                    )
                paths[rank] = (
                    folder / f"rank{rank}.{log.name.removesuffix('.gz').removesuffix('.zst')}"
                )
                files[rank] = stack.enter_context(paths[rank].open("wb"))
            files[rank].write(line + b"\n")
    return SplitLogs(tuple(paths[rank] for rank in sorted(paths)), nobodys)


def is_of_several_ranks(log: Path) -> bool:
    """Return whether records of more than one rank are in a log. Raises SessionError for one that
    cannot be read.
    """
    if kind_of_file(log).kind != "log":
        return False
    ranks: set[int | None] = set()
    for line in _lines(log):
        head = _HEAD.match(line)
        if head:
            ranks.add(_rank_of(head, line))
        if len(ranks - {None}) > 1:
            return True
    return False


def _lines(log: Path) -> Iterator[bytes]:
    with opened(log, Damage()) as opened_log:
        yield from lines_of(opened_log.blocks)


def _rank_of(head: re.Match[bytes], line: bytes) -> int | None:
    if head["rank"]:
        return int(head["rank"])
    numbers = _TOLD.findall(line[-END:]) or _TOLD.findall(line)
    return int(numbers[0]) if numbers else None
