"""This module reads, within limits, the files saved by torch.export and AOTInductor. No part of
them is loaded, run, unpickled or unpacked to disk.

Both are zip archives, and are called ``.pt2``: an ``ExportedProgram`` (``torch.export.save``) and a
package of AOTInductor (``torch._inductor.aoti_compile_and_package``). The layout is that of
torch/export/pt2_archive/constants.py.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fx_explorer.errors import UnreadableProgramError
from fx_explorer.session.untrusted.kind_of_file import AOT_FOLDER, kind_of_file, program_of
from fx_explorer.session.untrusted.packed import (
    Member,
    check_archive,
    content_of,
    members_of,
    opened,
)

MOST_JSON_NAMES = 40
"""Maximum number of characters of a version that are shown."""

PackageKind = Literal["exported_program", "aot_inductor"]


@dataclass(frozen=True, slots=True)
class Pt2Archive:
    path: Path
    kind: PackageKind
    members: tuple[Member, ...]
    torch_release: str = ""
    """For an exported program: the release that saved it."""
    schema_version: str = ""
    has_example_inputs: bool = False

    def models(self) -> list[str]:
        """Return the names of the compiled models of an AOTInductor package."""
        names = [member.name for member in self.members if member.name.startswith(AOT_FOLDER)]
        return list(dict.fromkeys(name.split("/")[2] for name in names if name.count("/") >= 3))

    def of_model(self, model: str) -> list[Member]:
        folder = f"{AOT_FOLDER}{model}/"
        return [member for member in self.members if member.name.startswith(folder)]

    def texts(self, members: Iterable[Member]) -> Iterator[str]:
        """Yield the text of each member. The file is opened once, because its table of contents may
        be long. Raises UnreadableProgramError for a damaged or too large one.
        """
        with opened(self.path) as archive:
            for member in members:
                yield content_of(self.path, archive, member).decode("utf-8", "replace")


def read_pt2(path: Path) -> Pt2Archive:
    """Return the content of a ``.pt2`` archive. Raises UnreadableProgramError for any other file,
    and for a damaged one.
    """
    kind = kind_of_file(path)
    if kind.kind == "broken_archive":
        check_archive(path)
    if not kind.is_of_export:
        raise UnreadableProgramError(
            f"{path} is {kind.words}, and neither an ExportedProgram nor a package of "
            f"AOTInductor. {kind.advice_for(path)}"
        )
    with opened(path) as archive:
        members = members_of(path, archive)
        names = {member.name: member for member in members}
        if kind.kind == "aot_inductor":
            return Pt2Archive(path, "aot_inductor", members)
        written = _json_of(path, archive, names[program_of({*names})])
        for member in members:
            if member.name.endswith(".json"):
                _json_of(path, archive, member)
        return Pt2Archive(
            path,
            "exported_program",
            members,
            str(written.get("torch_version", ""))[:MOST_JSON_NAMES],
            _version(written.get("schema_version")),
            any(
                name.startswith("data/sample_inputs/") or name == "serialized_example_inputs.pt"
                for name in names
            ),
        )


def _json_of(path: Path, archive: zipfile.ZipFile, member: Member) -> dict[str, Any]:
    try:
        content = json.loads(content_of(path, archive, member))
    except (ValueError, RecursionError) as error:
        raise UnreadableProgramError(
            f"{path} is damaged: {member.name} is not JSON ({error})"
        ) from error
    return content if isinstance(content, dict) else {}


def _version(version: object) -> str:
    if isinstance(version, dict):
        return f"{version.get('major', '?')}.{version.get('minor', '?')}"[:MOST_JSON_NAMES]
    return str(version or "")[:MOST_JSON_NAMES]
