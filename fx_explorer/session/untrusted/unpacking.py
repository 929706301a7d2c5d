"""This module unpacks an archive that somebody attached to a report, zip or tar, into a folder of
ours: regular files only, under names inside of it, and no more than an honest archive of logs has.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, cast

from fx_explorer.errors import UnreadableProgramError
from fx_explorer.session.untrusted.packed import opened

MOST_FILES = 20_000

MOST_BYTES = 8 << 30

MOST_INFLATED = 300
"""How many times larger the content may be than the archive: JSON inflates 30 to 60 times."""

ALWAYS_BYTES = 256 << 20
"""Number of bytes that every archive may have."""

LONGEST_NAME = 200
"""Bytes of a file's name; the beginning of a longer one is cut off."""

_STEP = 1 << 20

_BEGINNING = 4096
"""Bytes of an archive that tell what is packed in it."""

_DAMAGED = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError,
    NotImplementedError, ValueError,
)  # fmt: skip


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)
"""Errors of the folder that is written to, not of the archive."""


@dataclass
class _Room:
    """What may still be written."""

    archive: Path
    bytes_left: int
    files_left: int

    def take_file(self) -> None:
        self.files_left -= 1
        if self.files_left < 0:
            raise UnreadableProgramError(
                f"{self.archive} has more than {MOST_FILES:,} files in it. Unpack it, and name the "
                "log or the folder"
            )

    def take_bytes(self, count: int) -> None:
        self.bytes_left -= count
        if self.bytes_left < 0:
            raise UnreadableProgramError(
                f"{self.archive} unpacks to far more than its own size: it is not an archive of "
                "logs, and is not unpacked. If you trust it, unpack it yourself and name a file "
                "in it"
            )


def is_tar(start: bytes) -> bool:
    """Return whether unpacked data begin as a tar archive."""
    return start[257:262] == b"ustar"


def unpacked_start(start: bytes) -> bytes:
    """Return the beginning of data that gzip, bzip2 or xz packed; empty where it cannot be
    unpacked.
    """
    try:
        if start.startswith(b"\x1f\x8b"):
            return zlib.decompressobj(wbits=31).decompress(start, 1024)
        if start.startswith(b"BZh"):
            return bz2.BZ2Decompressor().decompress(start, 1024)
        return lzma.LZMADecompressor().decompress(start, 1024)
    except (OSError, EOFError, zlib.error, lzma.LZMAError):
        return b""


def unpack(
    archive: Path,
    folder: Path,
    choose: Callable[[Sequence[str]], set[str] | None] = lambda names: None,
    tell: Callable[[int], None] = lambda count: None,
) -> None:
    """Unpack an archive into a folder. ``choose`` gets the names of its files, and returns those
    that are unpacked, or None for all; ``tell`` gets the number of files so far. Raises
    UnreadableProgramError for an archive that is damaged, encrypted or too large, and for names
    outside of it.
    """
    most = min(MOST_BYTES, max(ALWAYS_BYTES, MOST_INFLATED * archive.stat().st_size))
    room = _Room(archive, most, MOST_FILES)
    count = 0
    try:
        wanted = choose(_names(archive, _Room(archive, most, MOST_FILES)))
        for name, content in _files(archive):
            room.take_file()
            if wanted is not None and _posix(name) not in wanted:
                content.close()
                continue
            count += 1
            tell(count)
            with content, _place(folder, archive, name).open("wb") as file:
                while part := content.read(_STEP):
                    room.take_bytes(len(part))
                    file.write(part)
    except _DAMAGED as error:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            raise UnreadableProgramError(
                f"{archive} cannot be unpacked into {tempfile.gettempdir()}: {error.strerror}. "
                "TMPDIR names another folder"
            ) from error
        raise UnreadableProgramError(
            f"{archive} is damaged or cut off, and cannot be unpacked: {error}"
        ) from error


def _names(archive: Path, room: _Room) -> list[str]:
    """Return the names of the regular files, within the bounds that unpacking has."""
    names = []
    if zipfile.is_zipfile(archive):
        with opened(archive) as zipped:
            for entry in zipped.infolist():
                room.take_file()
                names.append(_posix(entry.filename))
        return names
    if _is_one_file(archive):
        return [archive.stem]
    with tarfile.open(archive, "r|*") as tar:
        for member in tar:
            room.take_bytes(member.size)
            if member.isreg():
                room.take_file()
                names.append(_posix(member.name))
    return names


def _posix(name: str) -> str:
    """Return a name in an archive with slashes, which some programs of Windows do not write."""
    return str(PurePosixPath(name.replace("\\", "/")))


def _files(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield (name, content) of the regular files."""
    if zipfile.is_zipfile(archive):
        yield from _files_of_zip(archive)
        return
    if _is_one_file(archive):
        with gzip.open(archive) as file:
            yield archive.stem, cast("IO[bytes]", file)
        return
    # As a stream: what stands after the limit is never read.
    with tarfile.open(archive, "r|*") as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isreg() else None
            if content is not None:
                yield member.name, content


def _is_one_file(archive: Path) -> bool:
    """Return whether this is one file packed with gzip, and no archive of several."""
    with archive.open("rb") as file:
        start = file.read(_BEGINNING)
    return start.startswith(b"\x1f\x8b") and not is_tar(unpacked_start(start))


def _files_of_zip(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with opened(archive) as zipped:
        for entry in zipped.infolist():
            if entry.is_dir():
                continue
            if entry.flag_bits & 1:
                raise UnreadableProgramError(
                    f"{archive} is encrypted. Unpack it with its password, and name the log or the "
                    "folder"
                )
            yield entry.filename, zipped.open(entry)


def _place(folder: Path, archive: Path, name: str) -> Path:
    """Return where a file is put, and make the folders for it. Raises UnreadableProgramError for a
    name outside of the folder.
    """
    parts = PurePosixPath(_posix(name)).parts
    if not parts or parts[0] == "/" or ".." in parts:
        raise UnreadableProgramError(
            f"{archive} names a file outside itself, {name!r}, and is not unpacked"
        )
    place = folder.joinpath(*[_short_name(part) for part in parts])
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _short_name(name: str) -> str:
    """Return a name that a file system takes, with its suffix."""
    encoded = name.encode("utf-8", "surrogateescape")
    return (
        encoded[-LONGEST_NAME:].decode("utf-8", "ignore") if len(encoded) > LONGEST_NAME else name
    )
