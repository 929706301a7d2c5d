"""This module keeps the figures of a CUDA memory snapshot in a session, and joins them to its
graphs: each line of the user's, and each buffer of generated code, with its operations.

Figures are one entry ``memory_snapshot`` of a session's ``meta``, so that the format of sessions
stays.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from fx_explorer import model
from fx_explorer.errors import NotASessionError
from fx_explorer.instruments.memory.snapshot_peak import (
    DevicePeak,
    FailedAllocation,
    HeldAllocation,
    Reserved,
    device_peaks,
    generated_stem,
)
from fx_explorer.model.checked_json import checked
from fx_explorer.readers.memory_snapshot import read_snapshot
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.queries.compilations import source_paths
from fx_explorer.session.queries.kernels import nodes_of_artifacts
from fx_explorer.session.queries.nodes import operations_on_line

META = "memory_snapshot"
"""The key of the entry in ``meta``."""

MOST_LINES = 500
"""Maximum number of lines that are kept of a device; the others are added up."""


@dataclass(frozen=True, slots=True)
class GeneratedLine:
    """A line of generated code that allocated something of the peak."""

    code: str
    """Name of its file, which is the digest of the code."""
    line: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class HeldByLine:
    """What one line of the user's holds at the peak, of one kind."""

    file: str
    """Empty where no line is known."""
    line: int
    function: str
    kind: str
    size_bytes: int
    count: int
    generated: tuple[GeneratedLine, ...] = ()
    """The lines of generated code that allocated it, those with the most bytes first."""


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """An allocation that failed for want of memory."""

    wanted: int
    device_free: int
    allocated: int
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class DeviceFigures:
    """What a snapshot says of one device, in bytes."""

    device: int
    peak_bytes: int
    end_bytes: int
    events: int
    """Events of the recorded history; 0 without one."""
    kinds: dict[str, int]
    """Bytes at the peak by kind, the most first."""
    lines: tuple[HeldByLine, ...]
    """What is held at the peak, the most first."""
    other_lines: int
    """Number of further lines."""
    reserved: Reserved
    failed: tuple[OutOfMemory, ...] = ()


@dataclass(frozen=True, slots=True)
class SnapshotFigures:
    file: str
    """Name of the snapshot's file."""
    devices: tuple[DeviceFigures, ...]
    """The device with the highest peak first."""
    settings: str = ""
    """PYTORCH_CUDA_ALLOC_CONF."""


@dataclass(frozen=True, slots=True)
class JoinedLine:
    """A line of the peak with the session's operations."""

    held: HeldByLine
    operations: tuple[str, ...] = ()
    """Names of the operations, those with the most bytes first."""
    modules: tuple[str, ...] = ()
    graphs: tuple[str, ...] = ()
    """``[0/0] forward``: the compiled graphs whose generated code allocated it."""


def snapshot_figures(file: Path) -> SnapshotFigures:
    """Read a snapshot. Raises SessionError for a file that is none."""
    snapshot = read_snapshot(file)
    devices = tuple(_device(peak) for peak in device_peaks(snapshot))
    return SnapshotFigures(file.name, devices, snapshot.settings)


def add_snapshot(session: Path, figures: SnapshotFigures) -> None:
    """Add a snapshot to a session; it takes the place of an earlier one. Raises
    SessionWriteError.
    """
    with SessionWriter(session) as writer:
        writer.set_meta(META, asdict(figures))


def figures_of(reader: SessionReader) -> SnapshotFigures | None:
    """Return the snapshot that the session has; None without one. Raises NotASessionError for an
    entry that is damaged.
    """
    stored = reader.meta(META)
    if stored is None:
        return None
    try:
        return _figures_from_json(stored)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise NotASessionError(f"its memory snapshot cannot be read: {str(error)[:200]}") from error


def _figures_from_json(stored: Mapping[str, Any]) -> SnapshotFigures:
    devices = tuple(map(_device_from_json, stored["devices"]))
    return checked(SnapshotFigures(stored["file"], devices, stored["settings"]))


def _device_from_json(stored: Mapping[str, Any]) -> DeviceFigures:
    lines = tuple(map(_line_from_json, stored["lines"]))
    reserved = checked(Reserved(**stored["reserved"]))
    failed = tuple(checked(OutOfMemory(**row)) for row in stored["failed"])
    kinds = {str(kind): int(size_bytes) for kind, size_bytes in stored["kinds"].items()}
    row = {**stored, "lines": lines, "reserved": reserved, "failed": failed, "kinds": kinds}
    return checked(DeviceFigures(**row))


def _line_from_json(stored: Mapping[str, Any]) -> HeldByLine:
    generated = tuple(checked(GeneratedLine(**row)) for row in stored["generated"])
    return checked(HeldByLine(**{**stored, "generated": generated}))


def _device(peak: DevicePeak) -> DeviceFigures:
    groups: dict[tuple[str, int, str, str], list[HeldAllocation]] = defaultdict(list)
    for held in peak.held:
        place = held.place
        file, line, function = (place.file, place.line, place.function) if place else ("", 0, "")
        groups[(file, line, function, peak.kind_of(held))].append(held)
    lines = [_line(key, allocations) for key, allocations in groups.items()]
    lines.sort(key=lambda held: (-held.size_bytes, held.file, held.line))
    return DeviceFigures(
        peak.device,
        peak.peak_bytes,
        peak.end_bytes,
        peak.events,
        peak.by_kind,
        tuple(lines[:MOST_LINES]),
        max(0, len(lines) - MOST_LINES),
        peak.reserved,
        tuple(map(_failed, peak.failed[:MOST_LINES])),
    )


def _line(key: tuple[str, int, str, str], allocations: Sequence[HeldAllocation]) -> HeldByLine:
    generated: Counter[tuple[str, int]] = Counter()
    for held in allocations:
        frame = held.generated
        if frame:
            generated[generated_stem(frame.file), frame.line] += held.size_bytes
    buffers = [
        GeneratedLine(stem, line, size_bytes)
        for (stem, line), size_bytes in generated.most_common(MOST_LINES)
    ]
    whole = sum(held.size_bytes for held in allocations)
    return HeldByLine(*key, whole, len(allocations), tuple(buffers))


def _failed(failed: FailedAllocation) -> OutOfMemory:
    frame = failed.frame
    place = (frame.file, frame.line) if frame else ("", 0)
    return OutOfMemory(failed.wanted, failed.device_free, failed.allocated, *place)


# The session's operations.


def joined_lines(reader: SessionReader, device: DeviceFigures) -> list[JoinedLine]:
    """Return the lines of the peak with the session's operations: those that the buffers of
    generated code are for, where the session has this code; else those of Dynamo's graphs on the
    line.
    """
    stems: set[str] = set()
    for held in device.lines:
        stems.update(generated.code for generated in held.generated)
    codes = _GeneratedCodes(reader, stems) if stems else None
    files = _Files(reader)
    joined = []
    for held in device.lines:
        row = codes.joined(held) if codes else JoinedLine(held)
        if not row.operations and held.line:
            row = JoinedLine(held, *files.operations(held), row.graphs)
        joined.append(row)
    return joined


def digest_of(code: str) -> str:
    """Return the name that Inductor gives the file of a text (torch/_inductor/codecache.py,
    ``code_hash``).
    """
    digest = hashlib.sha256(code.strip().encode("utf-8", "surrogateescape")).digest()
    return "c" + base64.b32encode(digest)[:51].decode("ascii").lower()


@dataclass
class _GeneratedCodes:
    """The session's generated codes that a snapshot names."""

    reader: SessionReader
    stems: Iterable[str]
    codes: dict[str, model.Artifact] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    nodes: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    """(artifact, line) → nodes that it computes."""

    def __post_init__(self) -> None:
        wanted = set(self.stems)
        for artifact in self.reader.rows(model.Artifact, kind="output_code"):
            text = self.reader.text(artifact.text)
            stem = digest_of(text)
            if stem in wanted:
                self.codes[stem], self.texts[stem] = artifact, text.split("\n")
        artifacts = [artifact.id for artifact in self.codes.values()]
        for artifact_id, line, _, node in nodes_of_artifacts(self.reader, artifacts):
            self.nodes.setdefault((artifact_id, line), []).append(node)
        names = {row.id: row.name for row in self.reader.rows(model.Compilation)}
        self._names = names

    def joined(self, held: HeldByLine) -> JoinedLine:
        found: dict[int, None] = {}
        graphs: dict[str, None] = {}
        for generated in held.generated:
            artifact = self.codes.get(generated.code)
            if artifact is None:
                continue
            name = self._names.get(artifact.compilation, "")
            graphs[f"[{name}] {artifact.direction}".rstrip()] = None
            found |= dict.fromkeys(self._made_in(artifact, generated))
        rows = self.reader.by_ids(model.Node, found)
        by_id = {node.id: node for node in rows}
        nodes = [by_id[number] for number in found if number in by_id]
        operations, modules = _names_and_modules(nodes)
        return JoinedLine(held, operations, modules, tuple(graphs))

    def _made_in(self, artifact: model.Artifact, generated: GeneratedLine) -> list[int]:
        """Return the nodes of the first call of a kernel that writes the buffer of a line."""
        text, line = self.texts[generated.code], generated.line
        if not 0 < line <= len(text):
            return []
        buffer = text[line - 1].strip().partition(" = ")[0]
        if not buffer.isidentifier():
            return []
        for at in range(line, min(len(text), line + MOST_LINES)):
            nodes = self.nodes.get((artifact.id, at + 1))
            if nodes and buffer in _words(text[at]):
                return nodes
        return self.nodes.get((artifact.id, line), [])


def _words(code: str) -> set[str]:
    separated = "".join(char if char.isalnum() or char == "_" else " " for char in code)
    return set(separated.split())


class _Files:
    """Finds the operations of Dynamo's graphs on a line, in the file of that path, or in the only
    one whose path ends alike.
    """

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader
        self._paths = {path: number for number, path in source_paths(reader).items()}

    def operations(self, held: HeldByLine) -> tuple[tuple[str, ...], tuple[str, ...]]:
        file = self._paths.get(held.file) or self._alike(held.file)
        if not file:
            return (), ()
        nodes = self._reader.by_ids(model.Node, operations_on_line(self._reader, file, held.line))
        return _names_and_modules(nodes)

    def _alike(self, path: str) -> int:
        """Return the only file with the same name in a folder of the same name; 0 for none."""
        ending = PurePosixPath(path).parts[-2:]
        alike = [
            number
            for other, number in self._paths.items()
            if PurePosixPath(other).parts[-2:] == ending
        ]
        return alike[0] if len(alike) == 1 else 0


def _names_and_modules(
    nodes: Iterable[model.Node],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    nodes = list(nodes)
    names = dict.fromkeys(node.name for node in nodes)
    modules = dict.fromkeys(node.module for node in nodes if node.module)
    return tuple(names), tuple(modules)
