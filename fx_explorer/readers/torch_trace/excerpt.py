"""This module writes the part of a log by which ranks are compared: a tenth of it, as a log of its
own, which ``read_log`` reads.

It is made for each of hundreds of ranks. The spans of phases, generated code and the graphs after
Dynamo's are most of a log, and left out unread.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from fx_explorer.errors import SessionError
from fx_explorer.outside_file import open_outside
from fx_explorer.readers.torch_trace.opened import CutOffError, Unpacked

_KINDS = (
    b"str",
    b"dynamo_start",
    b"dynamo_output_graph",
    b"dynamo_graph_break_reason",
    b"recompile_reasons",
    b"dynamo_error",
    b"dynamo_cpp_guards_str",
    b"compilation_metrics",
    b"torch_version",
)

_ARTIFACTS = (
    rb"recompile_reasons",
    rb"dynamo_graph_break_reason",
    rb"dynamo_error",
    rb"\w+_cache_\w+",
    rb"inductor_collective_schedule",
    rb"inductor_runtime_and_tensor_meta",
    rb"graph_execution",
    rb"inductor_graph_execution",
)

_KEPT = re.compile(
    rb'[^{]{0,1200}\{(?:"(?:'
    + rb"|".join(_KINDS)
    + rb')":|"artifact": ?\{"name": ?"(?:'
    + rb"|".join(_ARTIFACTS)
    + rb')")'
)
"""Matches the beginning of a record that is kept; the part before its JSON has no brace."""

_BEGINS = re.compile(rb"(?:\[rank(?P<rank>\d+)\]:\s?)?[VIWEC]\d{4} \d\d:\d\d:\d\d")

_BELOW = re.compile(rb"(?:\[rank\d+\]:\s?)?\t")

_RANK = re.compile(rb'"rank": ?(\d{1,7})\b')

_GZIP = b"\x1f\x8b"

_ZSTD = b"\x28\xb5\x2f\xfd"

BEGINNING = 64
"""Number of bytes at the beginning of a file by which a log is distinguished from a packed one."""

MOST_READ = 1 << 24
"""Maximum number of bytes of a line that are read at once."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A log that was shortened for comparing ranks: whose records it has, and whether it is
    complete.
    """

    ranks: tuple[tuple[int, int], ...]
    """(rank, records that say so), in the order of their numbers."""
    unknown_end: str
    """Why its end is not known: it was cut off. Empty where the last record is whole."""
    keeps_last: bool
    """Whether the last record is in the excerpt."""


def write_excerpt(log: Path, excerpt: IO[bytes]) -> Excerpt | None:
    """Write the part of a log that is compared; returns None if the file is not a log.

    Raises SessionError for a file that cannot be read.
    """
    try:
        with open_outside(log) as raw:
            start = raw.read(BEGINNING)
            raw.seek(0)
            if start.startswith(_GZIP):
                return _Writing(excerpt).all_of(gzip.GzipFile(fileobj=raw))
            if start.startswith(_ZSTD):
                return _Writing(excerpt).all_of(Unpacked(raw, log).as_file())
            if not _BEGINS.match(start):
                return None
            return _Writing(excerpt).all_of(raw)
    except OSError as error:
        raise SessionError(f"{log} cannot be read: {error.strerror or error}") from error


class _Writing:
    def __init__(self, excerpt: IO[bytes]) -> None:
        self._excerpt = excerpt
        self._ranks = Counter[bytes]()
        self._is_cut_off = False
        self._head = b""
        """First line of the last record; the fields below belong to it."""
        self._below: list[bytes] = []

    def all_of(self, log: BinaryIO | gzip.GzipFile) -> Excerpt:
        is_kept = False
        for line in self._lines(log):
            if _BELOW.match(line):
                self._below.append(line)
                if is_kept:
                    self._excerpt.write(line)
                continue
            self._head, self._below = line, []
            begins = _BEGINS.match(line)
            is_kept = begins is not None and _KEPT.match(line) is not None
            if is_kept:
                self._excerpt.write(line)
            if begins:
                rank = begins["rank"] or next(
                    iter(_RANK.findall(line[-400:]) or _RANK.findall(line)), b""
                )
                self._ranks[rank] += 1
        ranks = sorted((int(rank), count) for rank, count in self._ranks.items() if rank)
        return Excerpt(tuple(ranks), self._unknown_end(), is_kept)

    def _lines(self, log: BinaryIO | gzip.GzipFile) -> Iterator[bytes]:
        while True:
            try:
                line = log.readline(MOST_READ)
            except (EOFError, zlib.error, gzip.BadGzipFile, CutOffError):
                self._is_cut_off = True
                return
            if not line:
                return
            yield line

    def _unknown_end(self) -> str:
        if self._is_cut_off:
            return "the packed log ends in the middle"
        if self._head and not _is_whole(self._head, self._below):
            return "the log ends in the middle of a record"
        return ""


def _is_whole(head: bytes, below: list[bytes]) -> bool:
    """Return whether a record is as torch wrote it, by its JSON and the hash of its text."""
    try:
        fields = json.loads(head[head.index(b"{") :])
    except (ValueError, RecursionError):
        return False
    if isinstance(fields, dict):
        expected = fields.get("has_payload")
    else:
        expected = None
    text = b"".join(_BELOW.sub(b"", line, count=1) for line in below).removesuffix(b"\n")
    return expected is None or hashlib.md5(text, usedforsecurity=False).hexdigest() == expected
