"""The text of a trace, piece by piece, unpacked where it is gzip. A file that ends early, or is damaged
further on, gives what comes before.
"""

from __future__ import annotations

import codecs
import hashlib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from fx_explorer.outside_file import open_outside

PIECE = 1 << 20
"""Bytes that are unpacked at once, so that a small file cannot become a large memory."""

GZIP = b"\x1f\x8b"


class TraceText:
    """Yields the text of a file once, and knows afterwards what was wrong with it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._digest = hashlib.blake2b(digest_size=16)
        self.problem = ""
        """Why the text ends before the file does; empty where it does not."""
        self.packed_bytes = 0
        """Bytes of the file that were read so far."""

    @property
    def digest(self) -> str:
        """Return what tells this file from others, when it was read to its end."""
        return self._digest.hexdigest()

    def pieces(self) -> Iterator[str]:
        """Yield the text. Bytes that are no UTF-8 are replaced. Raises OSError for a file that cannot be read."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for unpacked in self._unpacked():
            yield decoder.decode(unpacked)
        yield decoder.decode(b"", final=True)

    def _unpacked(self) -> Iterator[bytes]:
        with open_outside(self._path) as file:
            first = self._heard(file.read(PIECE))
            if not first.startswith(GZIP):
                while first:
                    yield first
                    first = self._heard(file.read(PIECE))
                return
            yield from self._members(first, file)

    def _members(self, packed: bytes, file: BinaryIO) -> Iterator[bytes]:
        """Yield what the members of a gzip file hold; several may follow each other."""
        unpack = zlib.decompressobj(wbits=31)
        while packed:
            try:
                yield unpack.decompress(packed, PIECE)
            except zlib.error:
                self.problem = "the packed file is damaged"
                return
            packed = unpack.unconsumed_tail
            if unpack.eof:
                packed = unpack.unused_data or self._heard(file.read(PIECE // 4))
                if not packed.startswith(GZIP):
                    return
                unpack = zlib.decompressobj(wbits=31)
            packed = packed or self._heard(file.read(PIECE // 4))
        self.problem = "the packed file ends early"

    def _heard(self, found: bytes) -> bytes:
        self._digest.update(found)
        self.packed_bytes += len(found)
        return found
