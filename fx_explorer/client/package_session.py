"""This module makes a session of an AOTInductor package: its code as documents, its binaries in a
list. No part of it is loaded or run.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from fx_explorer import __version__
from fx_explorer.model import Artifact, Compilation, Kernel, KernelCall, Outcome
from fx_explorer.readers.provenance_table import (
    KERNEL_INFORMATION,
    TITLE,
    format_provenance,
    read_provenance,
)
from fx_explorer.session import SessionWriter
from fx_explorer.session.untrusted.given_program import Pt2Archive
from fx_explorer.session.untrusted.packed import Member
from fx_explorer.torch_texts.output_code import read_wrapper

LANGUAGES = {
    ".cpp": "cpp",
    ".cu": "cpp",
    ".h": "cpp",
    ".hpp": "cpp",
    ".py": "python",
    ".json": "json",
    ".txt": "text",
    ".ptx": "text",
}
"""Suffix → language. A member with another suffix is a binary (``.so``, ``.o``, ``.cubin``,
weights), and only listed.
"""

MOST_SHOWN = 2_000
"""Maximum number of texts of one package that become documents."""

NOT_THERE = "an AOTInductor package has no graphs, only the code compiled from them"


def write_package_session(archive: Pt2Archive, session: Path) -> None:
    """Write the session. Raises UnreadableProgramError when a text of the package is damaged or too
    large.
    """
    with SessionWriter(session) as writer:
        writer.set_meta("fx_explorer", __version__)
        writer.set_meta("environment", {})
        name = archive.path.name
        target = {
            "name": name,
            "kind": "package",
            "file": str(archive.path.absolute()),
            "object": "",
            "train": False,
        }
        writer.set_meta("target", {**target, "parameters": 0})
        writer.set_meta("build", True)  # whoever made the package built it
        for model in archive.models():
            _add_model(writer, archive, model)
        writer.set_meta("outcome", Outcome("finished").to_json())


def _add_model(writer: SessionWriter, archive: Pt2Archive, model: str) -> None:
    members = archive.of_model(model)
    missing = dict.fromkeys(
        ("dynamo", "pre_grad", "joint", "forward", "backward", "post_grad", "schedule"), NOT_THERE
    )
    file = str(archive.path.absolute())
    row = Compilation(
        0, model, 0, 0, model, file, 0, status="ok", backend="aot_inductor", missing_stages=missing
    )
    compilation = writer.add(row)
    shown = sorted((member for member in members if _suffix(member) in LANGUAGES), key=_order)[
        :MOST_SHOWN
    ]
    code = PackagedCode()
    for member, text in zip(shown, archive.texts(shown), strict=True):
        artifact = _add_text(writer, compilation, _title(member), text, _suffix(member))
        code.take(member, artifact, text)
    code.write(writer, compilation)
    _add_text(writer, compilation, "Files of the package", _listing(archive, members), ".txt")


@dataclass(slots=True)
class PackagedCode:
    """The wrapper of a model with its kernels, and torch's table of the nodes that each
    computes.
    """

    artifact: int = 0
    wrapper: str = ""
    kernels: str = ""
    table: str = ""

    def take(self, member: Member, artifact: int, text: str) -> None:
        name = PurePosixPath(member.name).name
        if name.endswith(".wrapper.cpp") and not self.artifact:
            self.artifact, self.wrapper = artifact, text
        elif name.endswith(".kernel.cpp"):
            self.kernels += text
        elif name == KERNEL_INFORMATION:
            self.table = text

    def write(self, writer: SessionWriter, compilation: int) -> None:
        """Write the kernels, each with its calls in the wrapper, and torch's table of them
        as a text.
        """
        called_in: dict[str, int] = {}
        for position, printed_kernel in enumerate(read_wrapper(self.wrapper, self.kernels)):
            source = 0
            if printed_kernel.source:
                lines = printed_kernel.source.removesuffix("\n").count("\n") + 1
                row = Artifact(
                    0,
                    compilation,
                    "kernel",
                    "kernel",
                    "",
                    printed_kernel.name,
                    printed_kernel.language,
                    writer.text(printed_kernel.source),
                    lines,
                )
                source = writer.add(row)
            kernel = Kernel(
                0,
                compilation,
                "",
                position,
                printed_kernel.name,
                printed_kernel.language,
                source,
                self.artifact,
                printed_kernel.first_line,
            )
            number = writer.add(kernel)
            writer.add_all(
                KernelCall(0, number, i, call.line) for i, call in enumerate(printed_kernel.calls)
            )
            called_in |= {call.handle: call.line for call in printed_kernel.calls if call.handle}
        if self.table:
            with contextlib.suppress(ValueError):  # the JSON is among the texts, as it is
                _add_text(
                    writer,
                    compilation,
                    TITLE,
                    format_provenance(read_provenance(self.table), called_in),
                    ".txt",
                )


def _suffix(member: Member) -> str:
    return PurePosixPath(member.name).suffix.lower()


def _order(member: Member) -> tuple[int, str]:
    """Return the sort key of a file of the package: the wrapper first, then the kernels, then their
    descriptions.
    """
    name = PurePosixPath(member.name).name
    kinds = [
        ".wrapper." in name and not name.endswith(".json"),
        ".kernel." in name and not name.endswith(".json"),
        True,
    ]
    return kinds.index(True), name


def _title(member: Member) -> str:
    """Return ``Wrapper · c4mw….cpp``: the names begin with a hash, which is shortened."""
    name = PurePosixPath(member.name).name
    stem, _, rest = name.partition(".")
    if len(stem) > 16 and name != KERNEL_INFORMATION:
        short = f"{stem[:8]}….{rest}"
    else:
        short = name
    if name.endswith(".json"):
        kind = "Metadata"
    elif ".wrapper." in name:
        kind = "Wrapper"
    elif ".kernel." in name:
        kind = "Kernels"
    else:
        kind = ""
    return f"{kind} · {short}" if kind else short


def _add_text(writer: SessionWriter, compilation: int, title: str, text: str, suffix: str) -> int:
    if suffix == ".json":
        text = _indented(text)
    lines = text.removesuffix("\n").count("\n") + 1
    language = LANGUAGES[suffix]
    return writer.add(
        Artifact(
            0, compilation, "listing", "output_code", "", title, language, writer.text(text), lines
        )
    )


def _indented(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"
    except (ValueError, RecursionError):
        return text


def _listing(archive: Pt2Archive, members: list[Member]) -> str:
    """Return every file of the package with its size; those of the model first."""
    own = {member.name for member in members}
    ordered = [*members, *(member for member in archive.members if member.name not in own)]
    return "".join(f"{member.size_bytes:>14,}  {member.name}\n" for member in ordered)
