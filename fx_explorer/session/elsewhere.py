"""This module reads texts of a session that are in another file: those of a log, which is not
copied.

The session has the place of such a text, but not its file: otherwise a session written by somebody
else could name any file of the user's. The process that makes such a session tells the processes
that read it.

Texts of one kind (the output code of 2,000 versions of a function) differ in a few characters. Such
a text is packed with an earlier one as zlib's dictionary, its base. A base has none itself, so that
reading a text never needs more than one other.
"""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from fx_explorer.session.bounds import FREELY, MOST_INFLATED

BASE = -1
"""The base, in the table ``text``, of a text in another file."""

_PLACE = struct.Struct("<QQ")

_DIGESTS = b"elsewhere "
"""Beginning of the digests of such texts. Digests of texts in the session are made differently, and
are shorter.
"""


class TextPlace(NamedTuple):
    """The place of a text in another file: its offset and size there, in bytes, and its digest."""

    offset: int
    size: int
    digest: bytes
    """Digest by which a reader can check whether the text has changed."""

    @property
    def body(self) -> bytes:
        return _PLACE.pack(self.offset, self.size)

    @property
    def stored_digest(self) -> bytes:
        return _DIGESTS + self.digest


ReadText = Callable[[TextPlace], str]
"""Returns a text, or a sentence that says why it is missing."""

_READ: dict[Path, ReadText] = {}


def register_texts_elsewhere(session: Path, read: ReadText) -> None:
    """Register ``read`` for the texts of a session that are in another file, in this process."""
    _READ[session.absolute()] = read


def what_reads_texts(session: Path) -> ReadText | None:
    return _READ.get(session.absolute())


def read_elsewhere(session: Path, body: object, digest: object) -> str:
    """Return a text from another file. Raises ValueError if no reader is registered, or the place
    is invalid.
    """
    read = what_reads_texts(session)
    if read is None:
        raise ValueError(
            "one of its texts is in another file, and no reader for that file is registered"
        )
    if not isinstance(body, bytes) or not isinstance(digest, bytes) or len(body) != _PLACE.size:
        raise ValueError("the place of one of its texts is invalid")
    return read(_place(body, digest))


def _place(body: bytes, digest: bytes) -> TextPlace:
    offset, size = _PLACE.unpack(body)
    return TextPlace(offset, size, digest.removeprefix(_DIGESTS))


def bring_texts(copy: sqlite3.Connection, read: ReadText) -> None:
    """Copy the texts from other files into the copy of a session, so that it needs no other
    file.
    """
    texts = copy.execute("SELECT id, body, digest FROM text WHERE base=?", (BASE,)).fetchall()
    with copy:
        for number, body, digest in texts:
            raw = read(_place(body, digest)).encode("utf-8", "surrogatepass")
            packed = AlikeTexts().packed(raw, "").body
            copy.execute(
                "UPDATE text SET body=?, base=0, size=? WHERE id=?", (packed, len(raw), number)
            )


# How texts are packed.

LEVEL = 3

SHORT = 4_000
"""Maximum size of a short text, in bytes. It is packed with a window of 4 KB instead of 32, with
the same result: zlib takes 50 µs to set up the large one and 3 µs for the small one, and most texts
are names and lines of code.
"""

_SHORT_WINDOW_BITS, _SHORT_MEMORY = 12, 6

LARGEST_ALIKE = 32_000
"""Maximum size of a base, in bytes: zlib looks back no farther (RFC 1950), so a larger base is not
seen whole.
"""

MOST_BASES = 64
"""Maximum number of bases that are kept; they take two megabytes of the user's process at most."""

WORTH_IT = 0.5
"""Largest size of a packed text, relative to packing it alone, at which it still counts as similar
to its base. Otherwise it becomes the next base.
"""


class Packed(NamedTuple):
    body: bytes
    base: int
    """Id of the text that is needed to read it; 0 for none."""


class AlikeTexts:
    """The latest text of each kind that was packed alone."""

    def __init__(self) -> None:
        self._bases: OrderedDict[str, tuple[int, bytes]] = OrderedDict()

    def packed(self, raw: bytes, like: str) -> Packed:
        alone = _packed_alone(raw)
        if len(raw) <= LARGEST_ALIKE:
            base, known = self._bases.get(like, (0, b""))
        else:
            base, known = (0, b"")
        if base:
            body = _packed_beside(raw, known)
            if len(body) < WORTH_IT * len(alone):
                return Packed(body, base)
        return Packed(alone, 0)

    def stored(self, text_id: int, raw: bytes, like: str, packed: Packed) -> None:
        """Note which id the text that was packed has now."""
        if like and not packed.base and len(raw) <= LARGEST_ALIKE:
            self._bases[like] = (text_id, raw)
        if like in self._bases:
            self._bases.move_to_end(like)
        if len(self._bases) > MOST_BASES:
            self._bases.popitem(last=False)

    def forget(self) -> None:
        self._bases.clear()


def _packed_alone(raw: bytes) -> bytes:
    """Return a text packed without another. A text that repeats itself so much that readers would
    refuse it is packed by the frequency of its bytes alone, with at least a bit for each byte.
    """
    if len(raw) <= SHORT:
        packed = _packed_short(raw)
    else:
        packed = zlib.compress(raw, LEVEL)
    if len(raw) <= max(FREELY, MOST_INFLATED * len(packed)):
        return packed
    packer = zlib.compressobj(LEVEL, strategy=zlib.Z_HUFFMAN_ONLY)
    return packer.compress(raw) + packer.flush()


def _packed_short(raw: bytes) -> bytes:
    packer = zlib.compressobj(LEVEL, wbits=_SHORT_WINDOW_BITS, memLevel=_SHORT_MEMORY)
    return packer.compress(raw) + packer.flush()


def _packed_beside(raw: bytes, base: bytes) -> bytes:
    """Return a text packed with its base, which the window has to reach."""
    if len(raw) + len(base) <= SHORT:
        packer = zlib.compressobj(
            LEVEL, wbits=_SHORT_WINDOW_BITS, memLevel=_SHORT_MEMORY, zdict=base
        )
    else:
        packer = zlib.compressobj(LEVEL, zdict=base)
    return packer.compress(raw) + packer.flush()
