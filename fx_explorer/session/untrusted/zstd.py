"""zstd is unpacked by Python's own ``compression.zstd`` (3.14), else by the package
``zstandard``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class PackedFrame(Protocol):
    """One of zstd's frames that is being unpacked. After its end comes nothing, another frame, or
    what is none.
    """

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Unpacker:
    begin_frame: Callable[[], PackedFrame]
    error: type[Exception]
    """What is raised for what zstd did not write."""


def unpacker() -> Unpacker | None:
    """Return what unpacks zstd here; None where nothing does."""
    try:
        # From Python 3.14 on.
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        try:
            import zstandard
        except ImportError:
            return None
        return Unpacker(lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError)
    return Unpacker(zstd.ZstdDecompressor, zstd.ZstdError)
