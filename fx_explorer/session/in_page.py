"""A session inside of an HTML page: the page of a report carries the session it was made from, byte
for byte, so that it opens in the terminal too.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import zlib
from collections.abc import Callable
from pathlib import Path

from fx_explorer.errors import SessionError

SIGN = b'<meta name="generator" content="fx-explorer/page/1">'
"""Text near the beginning of every page of ours."""

_START = b'<script type="application/octet-stream" id="session" data-encoding="gzip;base64">'
_END = b"</script>"

MOST_BYTES = 4 << 30
"""Maximum size of a session that is taken out of a page."""

_STEP = 1 << 20


def compressed(content: bytes) -> str:
    """Return content as a page carries it: gzip, then base64. The same content gives the same
    text.
    """
    return base64.b64encode(gzip.compress(content, mtime=0)).decode("ascii")


def write_session(page: Path, session: Path) -> None:
    """Write the session that a page carries. Raises SessionError where the page was cut or edited
    so that it carries none.
    """
    content = page.read_bytes()
    start = content.find(_START)
    end = content.find(_END, start) if start >= 0 else -1
    if start < 0 or end < 0:
        raise SessionError(
            f"{page} is an fx-explorer page that was cut off or edited: its session is missing. "
            "Save the page again from its original location."
        )
    try:
        packed = base64.b64decode(content[start + len(_START) : end].strip(), validate=True)
        with session.open("wb") as file:
            _decompress(packed, file.write, page)
    except (binascii.Error, zlib.error) as error:
        raise SessionError(
            f"{page} was edited or damaged: the session in it cannot be read ({error})."
        ) from error


def _decompress(packed: bytes, write: Callable[[bytes], object], page: Path) -> None:
    decompressor = zlib.decompressobj(wbits=31)
    written = 0
    pending = packed
    while pending and not decompressor.eof:
        part = decompressor.decompress(pending, _STEP)
        pending = decompressor.unconsumed_tail
        written += len(part)
        if written > MOST_BYTES:
            raise SessionError(f"{page} contains a session of more than {MOST_BYTES >> 30} GiB")
        write(part)
    if not decompressor.eof:
        raise zlib.error("it ends too early")
