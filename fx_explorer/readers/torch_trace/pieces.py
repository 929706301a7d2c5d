"""A log cut into pieces, each of which begins like a record, whatever lies in it.

To find where records begin is the only thing that is done with every byte of a log, so it is one regular expression over
large blocks. What is longer than any record of torch's is cut, so that whatever a file holds, little memory is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

MOST_OF_A_PIECE = 32 << 20
"""Bytes; a session has no longer texts (``session/bounds.py``)."""

_NEXT = re.compile(rb"\n(?=(?:\[rank\d{1,9}\]:\s?)?[VIWEC]\d{4} \d\d:\d\d:\d\d)")

_LONGEST_BEGINNING = 64
"""Bytes that ``_NEXT`` looks at, and a few more: where it was sought in the last block of bytes is sought once more."""


class Piece(NamedTuple):
    """What lies between two beginnings of records."""

    raw: bytes
    offset: int
    """Where it begins in the log."""
    line: int
    """Its first line, from 1."""
    lines_left_out: int = 0
    """Lines at its end that were not kept, since it is too long."""


def pieces(
    blocks: Iterable[bytes], is_whole: Callable[[bytes], bool] = lambda _: False
) -> Iterator[Piece | None]:
    """Yield the pieces of a log. The first one begins where the log does, be that a record or not.

    Of a log that grows, an empty block says that it has not grown further. Then the last piece comes, too, if it
    ``is_whole``, and after it None.
    """
    rest, offset, line = b"", 0, 1
    cut: Piece | None = None
    """A piece that is too long, whose end has not come yet."""
    for block in blocks:
        if not block:
            if rest and cut is None and is_whole(rest):
                yield Piece(rest, offset, line)
                rest, offset, line = b"", offset + len(rest), line + rest.count(b"\n")
            yield None
            continue
        looked_at = max(0, len(rest) - _LONGEST_BEGINNING)
        known, start = rest + block, 0
        for found in _NEXT.finditer(known, looked_at):
            end = found.end()
            piece = Piece(known[start:end], offset + start, line)
            line += piece.raw.count(b"\n")
            yield piece if cut is None else _ended(cut, piece.raw)
            cut, start = None, end
        rest = known[start:]
        offset += start
        if cut is None and len(rest) > MOST_OF_A_PIECE:
            kept = rest[:MOST_OF_A_PIECE]
            cut = Piece(kept, offset, line)
            line += kept.count(b"\n")
            rest, offset = rest[len(kept) :], offset + len(kept)
        if cut is not None and len(rest) > _LONGEST_BEGINNING:
            gone = rest[:-_LONGEST_BEGINNING]
            cut = _ended(cut, gone)
            line += gone.count(b"\n")
            rest, offset = rest[len(gone) :], offset + len(gone)
    if cut is not None:
        yield _ended(cut, rest, is_end=True)
    elif rest:
        yield Piece(rest, offset, line)


def _ended(cut: Piece, gone: bytes, *, is_end: bool = False) -> Piece:
    """Return a piece that is too long with what else belongs to it, of which only the lines are counted."""
    lines = gone.count(b"\n") + (is_end and not gone.endswith(b"\n"))
    return cut._replace(lines_left_out=cut.lines_left_out + lines)
