"""What a ``.pt2`` file is, read as a zip archive under bounds. Nothing of it is loaded, run, unpickled or unpacked to disk.

Two things have this name: an ``ExportedProgram`` (``torch.export.save``) and a package of AOTInductor
(``torch._inductor.aoti_compile_and_package``). The layout is that of torch/export/pt2_archive/constants.py.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fx_explorer.errors import UnreadableProgramError

SUFFIX = ".pt2"

MOST_MEMBERS = 100_000
MOST_TEXT = 64 << 20
"""Bytes of one text; a wrapper of a large model has some MB."""

MOST_INFLATED = 100
"""How many times its size in the file a member may have: source code inflates ten times."""

MOST_JSON_NAMES = 40
"""Characters of a version that are shown."""

PackageKind = Literal["exported_program", "aot_inductor"]


@dataclass(frozen=True, slots=True)
class Member:
    """One file in the archive."""

    name: str
    """Its path in the archive, without the folder that holds everything."""
    stored_name: str
    size_bytes: int
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class Pt2Archive:
    path: Path
    kind: PackageKind
    members: tuple[Member, ...]
    torch_release: str = ""
    """Of an exported program: the release that saved it."""
    schema_version: str = ""
    has_example_inputs: bool = False

    def models(self) -> list[str]:
        """Return the names of the compiled models of an AOTInductor package."""
        found = (one.name.split("/")[2] for one in self.members if one.name.startswith(AOT_FOLDER) and one.name.count("/") >= 3)
        return list(dict.fromkeys(found))

    def of_model(self, model: str) -> list[Member]:
        return [one for one in self.members if one.name.startswith(f"{AOT_FOLDER}{model}/")]

    def texts(self, members: Iterable[Member]) -> Iterator[str]:
        """Yield the text of each member. The file is opened once: its table of contents may be long. Raises
        UnreadableProgramError when one is damaged or too large.
        """
        with _opened(self.path) as archive:
            for member in members:
                yield _read(self.path, archive, member).decode("utf-8", "replace")


AOT_FOLDER = "data/aotinductor/"
MODELS_FOLDER = "models/"
_FORMER_PROGRAM = "serialized_exported_program.json"
"""The layout that torch.export.save wrote up to torch 2.7."""


def read_pt2(path: Path) -> Pt2Archive:
    """Return what the file is. Raises UnreadableProgramError, which says what is wrong with it."""
    with _opened(path) as archive:
        members = _members(path, archive)
        names = {one.name: one for one in members}
        if any(name.startswith(AOT_FOLDER) for name in names) and not _program_of(names):
            return Pt2Archive(path, "aot_inductor", members)
        program = _program_of(names)
        if program is None:
            raise UnreadableProgramError(
                f"{path} is {_what_it_is(names)}, and neither an ExportedProgram nor a package of AOTInductor"
            )
        written = _json_of(path, archive, program)
        for member in members:
            if member.name.endswith(".json"):
                _json_of(path, archive, member)
        return Pt2Archive(
            path,
            "exported_program",
            members,
            str(written.get("torch_version", ""))[:MOST_JSON_NAMES],
            _version(written.get("schema_version")),
            any(name.startswith("data/sample_inputs/") or name == "serialized_example_inputs.pt" for name in names),
        )


def _program_of(names: dict[str, Member]) -> Member | None:
    programs = [one for name, one in names.items() if name.startswith(MODELS_FOLDER) and name.endswith(".json")]
    return programs[0] if programs else names.get(_FORMER_PROGRAM)


def _opened(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise UnreadableProgramError(
            f"{path} is no .pt2 file: {_beginning(path)}. It may have been cut off; save or copy it again"
        ) from error
    except (OSError, ValueError, NotImplementedError) as error:
        raise UnreadableProgramError(f"cannot read {path}: {error}") from error


def _beginning(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(4)
    if not start:
        return "it is empty"
    return (
        "it begins as a zip archive, and its table of contents is missing" if start == b"PK\x03\x04" else "it is no zip archive"
    )


def _members(path: Path, archive: zipfile.ZipFile) -> tuple[Member, ...]:
    listed = [one for one in archive.infolist() if not one.is_dir()]
    if len(listed) > MOST_MEMBERS:
        raise UnreadableProgramError(f"{path} has {len(listed):,} files in it, and at most {MOST_MEMBERS:,} are read")
    names = [one.filename for one in listed]
    if len(set(names)) != len(names):
        raise UnreadableProgramError(f"{path} has two files of one name in it, so it cannot be said what it is")
    for one in listed:
        if one.filename.startswith("/") or ".." in one.filename.split("/") or "\\" in one.filename:
            raise UnreadableProgramError(f"{path} names a file outside itself, {one.filename!r}: it was not written by torch")
    tops = {name.partition("/")[0] for name in names if "/" in name}
    top = f"{next(iter(tops))}/" if len(tops) == 1 and all("/" in name for name in names) else ""
    return tuple(Member(one.filename.removeprefix(top), one.filename, one.file_size, one.compress_size) for one in listed)


def _read(path: Path, archive: zipfile.ZipFile, member: Member) -> bytes:
    if member.size_bytes > MOST_TEXT:
        raise UnreadableProgramError(
            f"{path}: {member.name} has {member.size_bytes:,} bytes, and at most {MOST_TEXT:,} are read"
        )
    if member.size_bytes > MOST_INFLATED * member.stored_bytes + 4096:
        raise UnreadableProgramError(
            f"{path}: {member.name} inflates more than {MOST_INFLATED} times: it is no text of torch's"
        )
    try:
        with archive.open(member.stored_name) as file:
            content = file.read(member.size_bytes + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError, ValueError) as error:
        raise UnreadableProgramError(f"{path} is damaged: {member.name} cannot be read ({error})") from error
    if len(content) != member.size_bytes:
        raise UnreadableProgramError(f"{path} is damaged: {member.name} does not have the size that it says")
    return content


def _json_of(path: Path, archive: zipfile.ZipFile, member: Member) -> dict[str, Any]:
    try:
        found = json.loads(_read(path, archive, member))
    except (ValueError, RecursionError) as error:
        raise UnreadableProgramError(f"{path} is damaged: {member.name} is no JSON ({error})") from error
    return found if isinstance(found, dict) else {}


def _version(found: object) -> str:
    if isinstance(found, dict):
        return f"{found.get('major', '?')}.{found.get('minor', '?')}"[:MOST_JSON_NAMES]
    return str(found or "")[:MOST_JSON_NAMES]


def _what_it_is(names: dict[str, Member]) -> str:
    if any(name.startswith("code/") for name in names):
        return "a TorchScript archive (torch.jit.save)"
    if "data.pkl" in names:
        return "a checkpoint (torch.save): weights or objects, and no graph"
    return "a zip archive"
