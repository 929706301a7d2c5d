"""A file that several ranks wrote into becomes a log for each of them.

A line is of the rank that torchrun put in front of it, or that the record names. A record that
names none, like those before the ranks know their numbers, is of the rank of its process, which is
in every record. What torch prints for TORCH_LOGS has the rank in front of every line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fx_explorer.errors import SessionError
from fx_explorer.instruments.ranks.found_files import MOST_RANKS
from fx_explorer.readers.torch_log_messages import rank_printed
from fx_explorer.readers.torch_trace.opened import lines_of, opened
from fx_explorer.readers.torch_trace.records import Damage

MOST_APART = 256
"""Ranks of one file, each of which has an open file meanwhile."""

_HEAD = re.compile(
    rb"(?:\[rank(?P<rank>\d{1,7})\]:\s?)?[VIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ (?P<process>\d+) [^\]]{1,1000}\] \{"
)

_BELOW = re.compile(rb"\[rank(?P<rank>\d{1,7})\]:\s?\t")

_TOLD = re.compile(rb'"rank": ?(\d{1,7})\b')

END = 400
"""Bytes at the end of a record's line, where torch names the rank."""


@dataclass(frozen=True, slots=True)
class SplitLogs:
    """The logs of one file."""

    logs: tuple[Path, ...]
    nobodys: int
    """Lines that are of no rank that is known."""


def taken_apart(log: Path, folder: Path) -> SplitLogs:
    """Write the logs of the ranks into a folder. Raises SessionError for a file that cannot be
    read, or has too many ranks.
    """
    ranks: dict[bytes, list[int]] = {}
    for line in _lines(log):
        head = _HEAD.match(line)
        told = _rank_of(head, line) if head else None
        if head and told is not None:
            known = ranks.setdefault(head["process"], [])
            if told not in known and len(known) <= MOST_APART:
                known.append(told)
    nobodys = 0
    latest: int | None = None
    latest_of: dict[bytes, int] = {process: known[0] for process, known in ranks.items()}
    """The rank of the last record of a process that named one: processes of several machines may
    have one number.
    """
    paths: dict[int, Path] = {}
    with ExitStack() as stack:
        files: dict[int, BinaryIO] = {}
        for line in _lines(log):
            head, below = _HEAD.match(line), _BELOW.match(line)
            if head:
                told = _rank_of(head, line)
                latest = rank = latest_of.get(head["process"]) if told is None else told
                if told is not None:
                    latest_of[head["process"]] = told
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


def _lines(log: Path) -> Iterator[bytes]:
    with opened(log, Damage()) as opened_log:
        yield from lines_of(opened_log.blocks)


def _rank_of(head: re.Match[bytes], line: bytes) -> int | None:
    if head["rank"]:
        return int(head["rank"])
    told = _TOLD.findall(line[-END:]) or _TOLD.findall(line)
    return int(told[0]) if told else None
