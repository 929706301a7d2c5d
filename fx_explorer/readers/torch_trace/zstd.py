"""What zstd has packed, unpacked little by little."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from fx_explorer.errors import SessionError
from fx_explorer.session.untrusted.zstd import unpacker

if TYPE_CHECKING:
    from typing_extensions import Buffer

PACKED_AT_ONCE = 1 << 10
"""Bytes: zstd can make 32,000 times as much of them."""


class CutOffError(Exception):
    """What is packed ends in the middle, or is not what zstd writes."""


class Unpacked:
    """The content of a file that zstd has packed, in one frame or in several."""

    def __init__(self, raw: BinaryIO, log: Path) -> None:
        """Raises SessionError where nothing unpacks it."""
        found = unpacker()
        if found is None:
            raise SessionError(
                f"{log} is packed with zstd, which needs the package zstandard: pip "
                "install 'fx-explorer[zstd]'. Or unpack it "
                f"first: unzstd {log}"
            )
        self._raw = raw
        self._begin_frame = found.begin_frame
        self._frame = found.begin_frame()
        self._error = found.error
        self._is_within = False
        """Whether the present frame has begun."""

    def read1(self, _size: int, /) -> bytes:
        """Return what comes next, empty at the end. Raises CutOffError."""
        while packed := self._raw.read(PACKED_AT_ONCE):
            if found := self._unpacked(packed):
                return found
        if self._is_within:
            raise CutOffError
        return b""

    def as_file(self) -> io.BufferedReader:
        """Return the same as a file that can be read by lines."""
        return io.BufferedReader(_AsRaw(self))

    def _unpacked(self, packed: bytes) -> bytes:
        found = []
        while packed:
            try:
                found.append(self._frame.decompress(packed))
            except self._error as error:
                raise CutOffError from error
            self._is_within = not self._frame.eof
            packed = self._frame.unused_data if self._frame.eof else b""
            if self._frame.eof:
                self._frame = self._begin_frame()
        return b"".join(found)


class _AsRaw(io.RawIOBase):
    """What is unpacked, as much at once as there is room for."""

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
