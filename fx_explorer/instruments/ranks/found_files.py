"""What of the files that are given is the log or session of a rank, by content, and what is not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.errors import SessionError, UsageError
from fx_explorer.session.untrusted.kind_of_file import kind_of_file

MOST_FILES = 100_000
"""Files of a directory that are looked at."""

MOST_RANKS = 1_000_000
"""A larger number in a name or record is no rank."""

_NAMED = re.compile(r"(?:^|[._-])rank[_-]?(?P<rank>\d{1,7})(?=[._-]|$)")
"""``dedicated_log_torch_trace_rank_3_ab12cd.log`` (torch), ``train.rank3.fxs`` (fx-explorer run).
"""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A log or session."""

    path: Path
    named_rank: int | None
    """The rank that its name says."""


@dataclass(frozen=True, slots=True)
class OtherFile:
    """A file that is not compared."""

    path: Path
    why: str
    """In words that follow its name: ``is an empty file``."""
    is_unread: bool = False
    """Whether it may be the log of a rank that nothing is known of."""


@dataclass(frozen=True, slots=True)
class FoundFiles:
    found: tuple[FoundFile, ...]
    others: tuple[OtherFile, ...]


def find_files(given: Sequence[Path]) -> FoundFiles:
    """Return what is in the directories and files that are given; of a directory, the files right
    in it.

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
    return int(named["rank"]) if named and int(named["rank"]) < MOST_RANKS else None


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
    return [
        (int(part), "") if part.isdecimal() and len(part) < 18 else (-1, part)
        for part in re.split(r"(\d+)", name)
    ]
