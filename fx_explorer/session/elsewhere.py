"""Texts of a session that lie in another file: those of a log, which is not copied.

Of such a text the session has a place. In which file it lies the session does not say, or one that somebody else has
written could name any file of the user's: whoever makes such a session tells the processes that read it.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from fx_explorer.session.packing import AlikeTexts

BASE = -1
"""What the table ``text`` has as the base of a text that lies elsewhere."""

_PLACE = struct.Struct("<QQ")

_DIGESTS = b"elsewhere "
"""Digests of texts in the file are made in another way, and shorter."""


class TextPlace(NamedTuple):
    """Where a text lies, in the terms of whoever can read it."""

    offset: int
    size: int
    digest: bytes
    """By which it is known whether it is still that text."""

    @property
    def body(self) -> bytes:
        return _PLACE.pack(self.offset, self.size)

    @property
    def stored_digest(self) -> bytes:
        return _DIGESTS + self.digest


ReadText = Callable[[TextPlace], str]
"""Returns a text, or a sentence that says why it is not there any more."""

_READ: dict[Path, ReadText] = {}


def tell_where_texts_lie(session: Path, read: ReadText) -> None:
    """Read the texts of a session that lie elsewhere by ``read``, in this process."""
    _READ[session.absolute()] = read


def what_reads_texts(session: Path) -> ReadText | None:
    return _READ.get(session.absolute())


def read_elsewhere(session: Path, body: object, digest: object) -> str:
    """Return a text that lies elsewhere. Raises ValueError where nobody has said where that is, or there is no place."""
    read = what_reads_texts(session)
    if read is None:
        raise ValueError("a text of it lies in another file, and nobody says which")
    if not isinstance(body, bytes) or not isinstance(digest, bytes) or len(body) != _PLACE.size:
        raise ValueError("a text of it has no place")
    return read(_place(body, digest))


def _place(body: bytes, digest: bytes) -> TextPlace:
    offset, size = _PLACE.unpack(body)
    return TextPlace(offset, size, digest.removeprefix(_DIGESTS))


def bring_texts(copy: sqlite3.Connection, read: ReadText) -> None:
    """Put into the copy of a session the texts that lie elsewhere, so that it needs no other file."""
    found = copy.execute("SELECT id, body, digest FROM text WHERE base=?", (BASE,)).fetchall()
    with copy:
        for number, body, digest in found:
            raw = read(_place(body, digest)).encode("utf-8", "surrogatepass")
            packed = AlikeTexts().packed(raw, "").body
            copy.execute(
                "UPDATE text SET body=?, base=0, size=? WHERE id=?", (packed, len(raw), number)
            )
