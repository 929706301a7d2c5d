"""This module opens a log as blocks of bytes or as lines, in any packing: zstd is unpacked little
by little. Its long texts are read in place when they are needed.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from fx_explorer.errors import SessionError
from fx_explorer.outside_file import open_outside
from fx_explorer.readers.torch_trace.records import Damage, Record, text_below
from fx_explorer.session.bounds import shortened_text
from fx_explorer.session.elsewhere import TextPlace
from fx_explorer.session.untrusted.packed import unpacker

if TYPE_CHECKING:
    from typing_extensions import Buffer


PACKED_AT_ONCE = 1 << 10
"""Number of packed bytes that are unpacked at once: zstd can make 32,000 times as many of them."""


class CutOffError(Exception):
    """Raised when packed data end in the middle, or are not zstd."""


class Unpacked:
    """The content of a file packed with zstd, in one frame or in several."""

    def __init__(self, raw: BinaryIO, log: Path) -> None:
        """Raises SessionError if no unpacker is installed."""
        zstd = unpacker()
        if zstd is None:
            raise SessionError(
                f"{log} is compressed with zstd, which needs the package zstandard: pip install "
                f"'fx-explorer[zstd]'. Or decompress it first: unzstd {log}"
            )
        self._raw = raw
        self._begin_frame = zstd.begin_frame
        self._frame = zstd.begin_frame()
        self._error = zstd.error
        self._is_within = False
        """Whether the present frame has begun."""

    def read1(self, _size: int, /) -> bytes:
        """Return the next bytes, empty at the end. Raises CutOffError."""
        while packed := self._raw.read(PACKED_AT_ONCE):
            unpacked = self._unpacked(packed)
            if unpacked:
                return unpacked
        if self._is_within:
            raise CutOffError
        return b""

    def as_file(self) -> io.BufferedReader:
        """Return the unpacked data as a file that can be read by lines."""
        return io.BufferedReader(_AsRaw(self))

    def _unpacked(self, packed: bytes) -> bytes:
        parts = []
        while packed:
            try:
                parts.append(self._frame.decompress(packed))
            except self._error as error:
                raise CutOffError from error
            self._is_within = not self._frame.eof
            packed = self._frame.unused_data if self._frame.eof else b""
            if self._frame.eof:
                self._frame = self._begin_frame()
        return b"".join(parts)


class _AsRaw(io.RawIOBase):
    """The unpacked data as a raw stream."""

    def __init__(self, unpacked: Unpacked) -> None:
        super().__init__()
        self._unpacked = unpacked
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, room: Buffer, /) -> int:
        """Fill the room. Raises CutOffError."""
        if not self._rest:
            self._rest = memoryview(self._unpacked.read1(0))
        target = memoryview(room).cast("B")
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


# A log, packed or not.


_GZIP = b"\x1f\x8b"

_ZSTD = b"\x28\xb5\x2f\xfd"

BLOCK = 1 << 20

MOST_OF_A_LINE = 32 << 20

STANDARD_INPUT = Path("-")


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """A log that is being read from its beginning on."""

    blocks: Iterator[bytes]
    raw: BinaryIO
    size: int
    """Bytes of the file; 0 if it is not a file."""
    is_plain: bool
    """Whether the file is not packed, so that texts can be read again in place."""

    @property
    def share_read(self) -> float:
        """Return how much of it was read, from 0 to 1; 0 where that cannot be known."""
        if not self.size:
            return 0.0
        return min(1.0, self.raw.tell() / self.size)


def is_packed(log: Path) -> bool:
    """Return whether a log is compressed. Raises OSError if it cannot be read."""
    with open_outside(log) as raw:
        return raw.read(4).startswith((_GZIP, _ZSTD))


@contextlib.contextmanager
def opened(log: Path, damage: Damage) -> Iterator[OpenedLog]:
    """Open a log, ``-`` for the standard input. A packed log that was cut off can be read up to
    there, and ``damage`` records that.

    Raises SessionError where the file cannot be read.
    """
    try:
        with _raw(log) as raw:
            status = os.fstat(raw.fileno())
            start = raw.peek(4)[:4]
            is_file = stat.S_ISREG(status.st_mode)
            size = status.st_size if is_file else 0
            if start == _ZSTD:
                blocks, is_plain = _blocks(Unpacked(raw, log), damage), False
            elif start[:2] == _GZIP:
                blocks, is_plain = _blocks(gzip.GzipFile(fileobj=raw), damage), False
            else:
                blocks, is_plain = _blocks(raw, damage), is_file and log != STANDARD_INPUT
            yield OpenedLog(blocks, raw, size, is_plain=is_plain)
    except OSError as error:
        raise SessionError(f"{log} cannot be read: {error.strerror or error}") from error


def lines_of(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a text log; a line of more than ``MOST_OF_A_LINE`` comes in pieces."""
    rest = b""
    for block in blocks:
        *whole, rest = (rest + block).split(b"\n")
        yield from whole
        if len(rest) > MOST_OF_A_LINE:
            yield rest
            rest = b""
    if rest:
        yield rest


def _raw(log: Path) -> io.BufferedReader:
    if log != STANDARD_INPUT:
        return open_outside(log)
    number = sys.__stdin__.fileno() if sys.__stdin__ else 0
    return os.fdopen(os.dup(number), "rb")


class _Readable(Protocol):
    def read1(self, size: int, /) -> bytes: ...


def _blocks(readable: _Readable, damage: Damage) -> Iterator[bytes]:
    while True:
        try:
            block = readable.read1(
                BLOCK
            )  # not read(): what was unpacked before the end of a log that is cut off would be lost
        except (EOFError, zlib.error, gzip.BadGzipFile, CutOffError):
            damage.is_cut_off = True
            return
        if not block:
            return
        yield block


CHANGED = (
    "This text is no longer in {log}: the log was changed or removed after it was opened. Open it "
    "again."
)


class ChangedLogError(LookupError):
    """Raised when the log has other bytes at a place than when it was read."""


class TextsOfLog:
    """Reads texts of a log that is not packed."""

    def __init__(self, log: Path, opened: BinaryIO | None = None) -> None:
        """``opened`` is the log. It stays open while it is followed, because it may lose
        its name.
        """
        self._log = log
        self._opened = opened

    def __call__(self, place: TextPlace) -> str:
        """Return the text at a place, or a sentence if it is no longer there."""
        try:
            return self.text(place)
        except ChangedLogError:
            return CHANGED.format(log=self._log)

    def with_text(self, record: Record) -> Record:
        """Return a record whose text was left out with the text. Raises ChangedLogError."""
        return replace(record, payload=self.text(record.place))

    def text(self, place: TextPlace) -> str:
        """Return the text at a place. Raises ChangedLogError."""
        try:
            text = text_below(self._read(place))
        except OSError as error:
            raise ChangedLogError(str(error)) from error
        if hashlib.md5(text, usedforsecurity=False).digest() != place.digest:
            raise ChangedLogError
        return shortened_text(text.decode("utf-8", "replace"))

    def _read(self, place: TextPlace) -> bytes:
        if self._opened is not None:
            return os.pread(self._opened.fileno(), place.size, place.offset)
        with open_outside(self._log) as opened:  # each time: several threads may ask
            opened.seek(place.offset)
            return opened.read(place.size)
