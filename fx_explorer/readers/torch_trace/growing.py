"""This module reads a log while a job is writing it: its bytes as they come, the log of a directory
to follow, and the progress in words.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fx_explorer.errors import SessionError
from fx_explorer.outside_file import open_outside
from fx_explorer.readers.torch_trace.opened import BLOCK
from fx_explorer.session.untrusted.kind_of_file import kind_of_file

LOOKED_AFTER_S = 0.2
"""Seconds between two checks whether the log has grown."""

TOLD_AFTER_S = 1.0
"""Seconds between two messages that the log has not grown."""

COMPARED = 256
"""Bytes before the present position that are compared with the log: a truncated log may have grown
beyond that position again.
"""

_RANK = re.compile(r"_rank_(\d+)_")


class GrowingLog:
    """One log, from its beginning on. A context manager."""

    def __init__(self, log: Path) -> None:
        """Raises SessionError where it cannot be read, or is packed: a job writes plain text."""
        self._log = log
        self._file = opened_to_follow(log)
        self._read = 0
        self._last = b""
        self._is_over = False
        self._is_named_still = True
        self._grew_at = time.monotonic()

    @property
    def idle_s(self) -> float:
        """Return the seconds since the log last grew."""
        return time.monotonic() - self._grew_at

    @property
    def file(self) -> BinaryIO:
        """Return the log, whatever name it has by now."""
        return self._file

    def end(self) -> None:
        """Ignore further additions: ``blocks`` ends."""
        self._is_over = True

    def blocks(self) -> Iterator[bytes]:
        """Yield the log in blocks, and then the additions. An empty block means that everything so
        far has been read.
        """
        while not self._is_over:
            block = self._file.read(BLOCK)
            self._read += len(block)
            self._last = (self._last + block[-COMPARED:])[-COMPARED:]
            yield block

    def wait(self, tell: Callable[[], None]) -> bool:
        """Wait for more content, and return whether there is more. ``tell`` is called now and then.
        Returns False if the log was removed or replaced, and was read completely.

        Raises SessionError when the log was cut: what comes then is no continuation.
        """
        last_told_at = time.monotonic()
        while not (has_grown := self._has_grown()) and self._is_named_still:
            time.sleep(LOOKED_AFTER_S)
            if time.monotonic() - last_told_at >= TOLD_AFTER_S:
                last_told_at = time.monotonic()
                tell()
        self._grew_at = time.monotonic()
        return has_grown

    def _has_grown(self) -> bool:
        self._is_named_still = (
            self._is_named()
        )  # first: what is added before it loses its name is seen below
        size = os.fstat(self._file.fileno()).st_size
        if size < self._read or not self._is_as_read():
            raise SessionError(
                f"{self._log} was truncated while it was followed. What was read before is kept; "
                "follow it again to read the new content."
            )
        return size > self._read

    def _is_named(self) -> bool:
        """Return whether the name of the log is still that of the file that is read."""
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), self._log.stat())
        except OSError:
            return False

    def _is_as_read(self) -> bool:
        """Return whether the file still has, at their place, the bytes that were read last."""
        return (
            os.pread(self._file.fileno(), len(self._last), self._read - len(self._last))
            == self._last
        )

    def __enter__(self) -> GrowingLog:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def opened_to_follow(log: Path) -> BinaryIO:
    """Open a log that may lose its name. Raises SessionError where it cannot be read."""
    try:
        return open_outside(log)
    except OSError as error:
        raise SessionError(f"{log} cannot be read: {error.strerror or error}") from error


def log_to_follow(directory: Path) -> Path | None:
    """Return the log of a directory to follow: of the lowest rank, the newest; None without one.

    Raises SessionError where the directory cannot be read.
    """
    try:
        entries = list(directory.iterdir())
    except OSError as error:
        raise SessionError(f"{directory} cannot be read: {error.strerror or error}") from error
    files = []
    for entry in entries:
        changed = _changed_at(entry)
        if changed is not None:
            files.append((_rank(entry), -changed, entry))
    for _, _, entry in sorted(files):
        if kind_of_file(entry).kind == "log":
            return entry
    return None


def _changed_at(entry: Path) -> float | None:
    """Return when a file was last written; None for an empty file, and if it is not a file, or no
    longer exists.
    """
    try:
        status = entry.stat()
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode) or not status.st_size:
        return None
    return status.st_mtime


def _rank(log: Path) -> int:
    match = _RANK.search(log.name)
    return int(match[1]) if match else 0


# How far the reading is.


SILENT_FROM_S = 3.0
"""Seconds without additions after which a followed log counts as silent."""

CELLS = 12
"""Width of the progress bar, in cells."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the reading of a log is."""

    share_found: float
    """Share of the log that was searched, from 0 to 1; 1 if every record was found."""
    compilations: int
    """Number of compilations found so far."""
    decoded: int = 0
    """Number of these whose graphs, guards and code are in the session."""
    idle_s: float | None = None
    """Seconds since a followed log last grew; None for a log that is not followed."""


def describe_progress(progress: Progress) -> str:
    """Return ``finding records ▰▰▰▱▱▱▱▱▱▱▱▱ 25 %, 812 compilations``; without a bar if the length
    of the log is not known.
    """
    number = progress.compilations
    if number == 1:
        compilations = f"{number:,} compilation"
    else:
        compilations = f"{number:,} compilations"
    if progress.idle_s is not None:
        return f"following the log, {compilations}, {_since(progress.idle_s)}"
    if progress.share_found < 1:
        if progress.share_found:
            how_far = f"{bar(progress.share_found)}, "
        else:
            how_far = ""
        return f"finding records {how_far}{compilations}"
    return f"decoding graphs {bar(progress.decoded / max(1, number))} of {compilations}"


def _since(idle_s: float) -> str:
    if idle_s < SILENT_FROM_S:
        return "being written"
    if idle_s < 120:
        return f"nothing new for {int(idle_s)} s"
    return f"nothing new for {int(idle_s) // 60} min"


def bar(share: float) -> str:
    full = int(share * CELLS)
    return f"{'▰' * full}{'▱' * (CELLS - full)} {share:.0%}".replace("%", " %")
