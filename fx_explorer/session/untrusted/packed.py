"""This module unpacks data of unknown authors within limits: the members of a zip archive, and zstd
little by little. Nothing is unpacked to disk.

zstd is unpacked by Python's own ``compression.zstd`` (3.14), else by the package ``zstandard``.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fx_explorer.errors import UnreadableProgramError

MOST_MEMBERS = 100_000
MOST_TEXT = 64 << 20
"""Maximum number of bytes of one text; a wrapper of a large model has some MB."""

MOST_INFLATED = 100
"""How many times larger a member may be than in the file: source code inflates ten times."""


@dataclass(frozen=True, slots=True)
class Member:
    """One file in the archive."""

    name: str
    """Its path in the archive, without the common top folder."""
    stored_name: str
    size_bytes: int
    stored_bytes: int


def opened(path: Path) -> zipfile.ZipFile:
    """Open a file that begins as a zip archive. Raises UnreadableProgramError."""
    cut_off = UnreadableProgramError(
        f"{path} begins like a zip archive, but its table of contents is missing or damaged. It "
        "may have been cut off; save or copy it again"
    )
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise cut_off from error
    except (
        OSError,
        ValueError,
        NotImplementedError,
        struct.error,
        EOFError,
        OverflowError,
    ) as error:
        raise UnreadableProgramError(f"{path} cannot be read: {error}") from error
    # Where the end of an archive is gone, zipfile finds that of one which lies in it, as example
    # inputs do.
    if min((entry.header_offset for entry in archive.filelist), default=0):
        archive.close()
        raise cut_off
    return archive


def check_archive(path: Path) -> None:
    """Raise UnreadableProgramError with the problem if the archive is invalid."""
    with opened(path) as archive:
        members_of(path, archive)


def members_of(path: Path, archive: zipfile.ZipFile) -> tuple[Member, ...]:
    """Return the files in it. Raises UnreadableProgramError for names that no honest archive
    has.
    """
    listed = [entry for entry in archive.infolist() if not entry.is_dir()]
    if len(listed) > MOST_MEMBERS:
        raise UnreadableProgramError(
            f"{path} contains {len(listed):,} files; at most {MOST_MEMBERS:,} are read"
        )
    names = [entry.filename for entry in listed]
    if len(set(names)) != len(names):
        raise UnreadableProgramError(
            f"{path} contains two files with the same name, so its kind is ambiguous"
        )
    for name in names:
        if name.startswith("/") or ".." in name.split("/") or "\\" in name:
            raise UnreadableProgramError(
                f"{path} names a file outside itself, {name!r}: it was not written by torch"
            )
    tops = {name.partition("/")[0] for name in names if "/" in name}
    top = ""
    if len(tops) == 1 and all("/" in name for name in names):
        top = f"{next(iter(tops))}/"
    members = []
    for entry in listed:
        name = entry.filename.removeprefix(top)
        members.append(Member(name, entry.filename, entry.file_size, entry.compress_size))
    return tuple(members)


def content_of(path: Path, archive: zipfile.ZipFile, member: Member) -> bytes:
    """Return the content of a member. Raises UnreadableProgramError when it is damaged or too
    large.
    """
    if member.size_bytes > MOST_TEXT:
        raise UnreadableProgramError(
            f"{path}: {member.name} has {member.size_bytes:,} bytes; at most {MOST_TEXT:,} are read"
        )
    if member.size_bytes > MOST_INFLATED * member.stored_bytes + 4096:
        raise UnreadableProgramError(
            f"{path}: {member.name} inflates more than {MOST_INFLATED} times: it was not written "
            "by torch"
        )
    try:
        with archive.open(member.stored_name) as file:
            content = file.read(member.size_bytes + 1)
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        OSError,
        RuntimeError,
        NotImplementedError,
        ValueError,
    ) as error:
        raise UnreadableProgramError(
            f"{path} is damaged: {member.name} cannot be read ({error})"
        ) from error
    if len(content) != member.size_bytes:
        raise UnreadableProgramError(
            f"{path} is damaged: {member.name} does not have its declared size"
        )
    return content


class PackedFrame(Protocol):
    """A zstd frame that is being unpacked. After its end comes nothing, another frame, or other
    data.
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
    """The exception for data that zstd did not write."""


def unpacker() -> Unpacker | None:
    """Return the available zstd unpacker; None without one."""
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
