"""A log as lines of bytes, whatever it is packed in."""

from __future__ import annotations

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from fx_explorer.errors import SessionError
from fx_explorer.readers.torch_trace.records import Damage

_GZIP = b"\x1f\x8b"

_ZSTD = b"\x28\xb5\x2f\xfd"

MOST_READ = 1 << 26
"""Bytes of one line that are read at once. A longer one comes in pieces, the later of which are no records."""


@contextlib.contextmanager
def lines_of(log: Path, damage: Damage) -> Iterator[Iterator[bytes]]:
    """Open a log, and give its lines one by one; of a packed log that was cut off, those before, and ``damage``
    says so.

    Raises SessionError where the file cannot be read.
    """
    try:
        with log.open("rb") as raw:
            start = raw.read(4)
            raw.seek(0)
            if start == _ZSTD:
                raise SessionError(f"{log} is compressed with zstd. Unpack it first: unzstd {log}")
            yield _lines(gzip.GzipFile(fileobj=raw) if start.startswith(_GZIP) else raw, damage)
    except OSError as error:
        raise SessionError(f"{log} cannot be read: {error.strerror or error}") from error


def _lines(opened: BinaryIO | gzip.GzipFile, damage: Damage) -> Iterator[bytes]:
    while True:
        try:
            line = opened.readline(MOST_READ)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            damage.is_cut_off = True
            return
        if not line:
            return
        yield line
