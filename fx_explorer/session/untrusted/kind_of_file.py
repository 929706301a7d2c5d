"""This module decides what kind of file something is, by its content and never by its name. No
other code decides that.

Of a zip archive the table of contents is read, under bounds; of any other file the beginning.
Nothing is loaded, run or unpickled.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fx_explorer.errors import UnreadableProgramError
from fx_explorer.output_file import kind_of
from fx_explorer.outside_file import open_outside
from fx_explorer.session.in_page import SIGN
from fx_explorer.session.untrusted.packed import unpacker
from fx_explorer.session.untrusted.unpacking import is_tar, unpacked_start

Kind = Literal[
    "missing", "directory", "special", "unreadable", "empty", "sqlite", "exported_program",
    "aot_inductor", "archive",
    "broken_archive", "binary", "log", "torch_logs", "tritonparse", "provenance", "page", "packed",
    "memory_snapshot", "profile", "notebook", "text",
]  # fmt: skip
"""Kind of a file. ``special`` is a FIFO, a device or a socket; ``archive`` is a zip archive with
other content, ``packed`` one that may have logs in it.
"""

BEGINNING = 4096
"""Number of bytes that are read."""

SQLITE_HEADER = b"SQLite format 3\0"

_GZIP = b"\x1f\x8b"

_ZSTD = b"\x28\xb5\x2f\xfd"

_PACKED = (_GZIP, b"BZh", b"\xfd7zXZ")

_ZIP = b"PK\x03\x04"

_EMPTY_ZIP = b"PK\x05\x06"

_LOG_LINE = re.compile(rb"^(?:\[rank\d+\]:\s?)?[VIWE]\d{4} \d\d:\d\d:\d\d")
"""Matches the beginning of a record in torch's structured trace (torch/_logging/_internal.py,
TorchLogsFormatter).
"""

_RECORD = re.compile(
    rb"^(?:\[rank\d{1,9}\]:\s?)?[VIWEC]\d{4} \d\d:\d\d:\d\d[^\n{]{0,1200}\] \{", re.M
)
"""Matches the first line of a record."""

GIVE_A_TARGET = "Give a target: file.py, file.py:object or package.module:object"

_THE_PYTHON_FILE = "Give the Python file that makes the model"


@dataclass(frozen=True, slots=True)
class FileKind:
    """The kind of a file, and the words for it in messages."""

    kind: Kind
    words: str
    """The kind as a phrase after "it is": ``a notebook``."""
    advice: str = GIVE_A_TARGET
    """A sentence on what the user can do with the file. ``{file}`` is replaced by its name."""

    def advice_for(self, file: Path) -> str:
        return self.advice.replace("{file}", shlex.quote(str(file)))

    @property
    def may_be_python(self) -> bool:
        """Return whether the file may be a Python program."""
        return self.kind in (
            "text",
            "log",
            "torch_logs",
            "tritonparse",
            "provenance",
            "notebook",
            "empty",
        )

    @property
    def is_of_export(self) -> bool:
        """Return whether torch.export or AOTInductor saves files of this kind."""
        return self.kind in ("exported_program", "aot_inductor")


_BINARY: tuple[tuple[bytes, str, str], ...] = (
    (_GZIP, "compressed with gzip", "Decompress it first: gunzip -k {file}"),
    (b"BZh", "compressed with bzip2", "Decompress it first: bunzip2 -k {file}"),
    (b"\xfd7zXZ", "compressed with xz", "Decompress it first: unxz -k {file}"),
    (b"\x7fELF", "a program or library for this machine", "Give the Python file that uses it"),
    (b"\x89HDF", "HDF5 data, weights perhaps", _THE_PYTHON_FILE),
    (b"\xff\xfe", "text in UTF-16, which Python cannot read", "Save it in UTF-8"),
    (b"\xfe\xff", "text in UTF-16, which Python cannot read", "Save it in UTF-8"),
)
"""(beginning of a binary file, its kind, what to do with it)."""

_PRINTED = re.compile(
    rb"^[ >]{0,40}(?:\x1b\[[\d;]{0,20}m){0,8}(?:\[rank\d{1,9}\]:\s?)?[VIWEC]\d{4} "
    rb"\d\d:\d\d:\d\d\.\d{1,9} \d{1,20} "
    rb"(?:[^\]\n]{1,1000}\] (?!\{)(?:\[[^\]\n]{0,200}\] ?){0,8}\[__\w{1,100}\]"
    rb"|[^\]\n]{0,1000}torch/(?:_dynamo|_inductor|_functorch|_export|fx)/[^\]\n]{1,1000}\] (?!\{))"
    rb"|^[ >]{0,40}(?:\[rank\d{1,9}\]:\s?)?\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{1,9}\] "
    rb"(?:\[[\d/_]{1,40}\] )?"
    rb"torch\._(?:dynamo|inductor|functorch|export)[\w.]{0,200}: \[[A-Z]{1,20}\]"
    rb"|^[^\n]{0,400}torch\._dynamo hit config\.\w{1,100} \(\d{1,9}\)"
    rb"|^[^\n]{0,60}torch\._(?:dynamo|inductor|functorch)\.exc\.\w{1,100}: ",
    re.M,
)
"""Matches a line that torch prints for TORCH_LOGS (up to 2.2 with a date), a warning of its
compiler, or the last line of a traceback of its compiler's; the warning about the recompile limit
also where another logger printed it. Other text may stand before it, since people paste such lines.
"""

PASTED = 1 << 20
"""Number of bytes of a text in which a record's first line is searched: a job may print much of its
own before.
"""

_PRINTED_LOG = FileKind(
    "torch_logs", "what torch prints for TORCH_LOGS", "Look at it with: fx-explorer {file}"
)

_TRITONPARSE = FileKind(
    "tritonparse", "a log of tritonparse", "Look at it with: fx-explorer {file}"
)

_OF_PACKED = "Look at the log or session in it with: fx-explorer {file}"

_OTHER_ZIP = FileKind("packed", "a zip archive", _OF_PACKED)
_TAR = FileKind("packed", "a tar archive", _OF_PACKED)
_PACKED_SESSION = FileKind("packed", "a session packed with gzip", _OF_PACKED)

_PAGE = FileKind("page", "a page of fx-explorer", "Look at it with: fx-explorer {file}")

_LOG = FileKind("log", "a TORCH_TRACE log", "Look at it with: fx-explorer {file}")

_EVENT = re.compile(rb'\s*\{\s*"event_type"\s*:\s*"\w+"')
"""Matches the beginning of a line of tritonparse (tritonparse/structured_logging.py,
``TritonJsonFormatter``).
"""

_PROVENANCE = FileKind(
    "provenance",
    "torch's table of what each kernel computes",
    "Look at it with: fx-explorer {file}",
)

_TABLE = re.compile(
    rb'\s*\{\s*(?:"version"\s*:\s*[\d.]+\s*,\s*)?'
    rb'(?:"(?:preToPost|postToPre|cppCodeToPost|postToCppCode)"\s*:|'
    rb'"[^"\n]+"\s*:\s*\{\s*"(?:stack_traces|post_grad_nodes|pre_grad_nodes)"\s*:\s*\[)'
)
"""Matches the beginning of ``kernel_information.json`` and
``inductor_provenance_tracking_node_mappings.json`` (torch/_inductor/debug.py).
"""

_PROGRAMS = (".py", ".pyi", ".pyw", ".ipynb", ".json", ".toml")
"""Suffixes of files that may quote such a line and are something else."""

_MEMORY_SNAPSHOT = FileKind(
    "memory_snapshot", "a CUDA memory snapshot", "Look at it with: fx-explorer {file}"
)

_PROFILE = FileKind("profile", "a profile of torch.profiler", "Look at it with: fx-explorer {file}")

_TRACE = re.compile(rb'\s*\{[^{}]{0,200}"(?:schemaVersion|deviceProperties|traceEvents)"\s*:')
"""Matches the beginning of what torch.profiler writes with export_chrome_trace (pytorch/kineto,
``output_json.cpp``).
"""

_SNAPSHOT = re.compile(
    rb"\x80[\x02-\x05].{0,60}(?:segments|device.{1,60}address.{1,60}total_size)", re.S
)
"""Matches the pickle that torch.cuda.memory._dump_snapshot writes (torch/cuda/memory.py), or that
of the list that torch.cuda.memory_snapshot returns.
"""

_CHECKPOINT = "a model checkpoint: weights without code"


def kind_of_file(file: Path) -> FileKind:
    """Return the kind of the file. An unreadable file has a kind, too: nothing is raised."""
    try:
        mode = file.stat().st_mode
    except (OSError, ValueError):
        return FileKind("missing", "not there")
    if stat.S_ISDIR(mode):
        return FileKind("directory", "a directory", "Name a file in it")
    if not stat.S_ISREG(mode):  # reading a FIFO would wait for whoever writes to it
        advice = (
            "Write it to a file first; a log may come from the standard input: … | fx-explorer -"
        )
        return FileKind("special", kind_of(mode), advice)
    try:
        with open_outside(file) as opened:
            start = opened.read(BEGINNING)
    except OSError as error:
        return FileKind(
            "unreadable", f"a file that cannot be read ({error.strerror})", "Make it readable"
        )
    return _by_beginning(file, start)


def _by_beginning(file: Path, start: bytes) -> FileKind:
    if not start:
        return FileKind("empty", "an empty file")
    if start.startswith(SQLITE_HEADER):
        return FileKind(
            "sqlite",
            "an SQLite database",
            "If it is a session, look at it with: fx-explorer {file}",
        )
    if start.startswith((_ZIP, _EMPTY_ZIP)):
        return _archive(file)
    if start.startswith(_GZIP) and (packed := _kind_inside(_unpacked(start))):
        return packed
    if start.startswith(_ZSTD):
        return _packed_with_zstd(file)
    if is_tar(start) or (start.startswith(_PACKED) and is_tar(unpacked_start(start))):
        return _TAR
    for beginning, description, advice in _BINARY:
        if start.startswith(beginning):
            return FileKind("binary", description, advice)
    if _SNAPSHOT.match(start):
        return _MEMORY_SNAPSHOT
    # A pickle, or safetensors: eight bytes of length, then JSON.
    if start.startswith(b"\x80") or (start[8:9] == b"{" and b"dtype" in start):
        return FileKind("binary", _CHECKPOINT, _THE_PYTHON_FILE)
    if b"\0" in start:
        return _binary(start)
    return _text(file, start)


def _binary(start: bytes) -> FileKind:
    if start.startswith(b"#!") and _ZIP in start:
        return FileKind(
            "binary", "a zip archive for Python to run", "Unpack it and name its directory"
        )
    return FileKind("binary", "binary data")


def _kind_inside(start: bytes) -> FileKind | None:
    """Return the kind of a gzip file that is opened without unpacking; None for any other."""
    if start.startswith(SQLITE_HEADER):
        return _PACKED_SESSION
    if _SNAPSHOT.match(start):
        return _MEMORY_SNAPSHOT
    if _TRACE.match(start):
        return _PROFILE
    return _kind_of_log(start)


def _kind_of_log(start: bytes) -> FileKind | None:
    """Return the kind of log that a text begins with; None for any other text."""
    if _EVENT.match(start):
        return _TRITONPARSE
    if _PRINTED.search(start):
        return _PRINTED_LOG
    if not _LOG_LINE.match(start):
        return None
    # What torchrun and others print begins like a record, and has no JSON: a whole line of it
    # tells.
    if b"\n" not in start or _RECORD.search(start):
        return _LOG
    return None


def _unpacked(start: bytes) -> bytes:
    """Return the beginning of a file packed with gzip; empty where it cannot be unpacked."""
    import zlib  # here, since few targets are packed

    try:
        return zlib.decompressobj(wbits=31).decompress(start, BEGINNING)
    except zlib.error:
        return b""


FIRST_BLOCK = 160 << 10
"""Bytes within which the first block of zstd data ends (RFC 8878): nothing can be unpacked before.
"""


def _packed_with_zstd(file: Path) -> FileKind:
    zstd = unpacker()
    if zstd is None:
        advice = (
            "If it is a TORCH_TRACE log: pip install 'fx-explorer[zstd]', or decompress it first: "
            "unzstd {file}"
        )
        return FileKind("binary", "compressed with zstd, which needs the package zstandard", advice)
    frame = zstd.begin_frame()
    with file.open("rb") as opened, contextlib.suppress(zstd.error):
        while (packed := opened.read(1024)) and opened.tell() <= FIRST_BLOCK:
            unpacked = frame.decompress(packed)
            if unpacked:
                other = FileKind("binary", "compressed with zstd", "Unpack it: unzstd {file}")
                return _kind_of_log(unpacked[:BEGINNING]) or other
    return FileKind("binary", "compressed with zstd, and damaged", "Unpack it: unzstd {file}")


def _archive(file: Path) -> FileKind:
    """Return the kind of a zip archive. The layouts are those of
    torch/export/pt2_archive/constants.py.
    """
    # Here, since zipfile takes 10 ms and few targets are archives.
    from fx_explorer.session.untrusted.packed import members_of, opened

    try:
        with opened(file) as archive:
            if any("\\" in name for name in archive.namelist()):
                return _OTHER_ZIP  # some programs of Windows write such names, and torch never does
            names = {member.name for member in members_of(file, archive)}
    except UnreadableProgramError:
        return FileKind(
            "broken_archive", "a zip archive that is damaged or cut off", "Save or copy it again"
        )
    if program_of(names):
        return FileKind(
            "exported_program",
            "an ExportedProgram (torch.export.save)",
            "Capture it with: fx-explorer {file}",
        )
    if any(name.startswith(AOT_FOLDER) for name in names):
        return FileKind(
            "aot_inductor", "an AOTInductor package", "Look at it with: fx-explorer {file}"
        )
    if any(name.startswith("code/") for name in names):
        return FileKind("archive", "a TorchScript archive (torch.jit.save)", _THE_PYTHON_FILE)
    if "data.pkl" in names:
        return FileKind("archive", _CHECKPOINT, _THE_PYTHON_FILE)
    return _OTHER_ZIP


AOT_FOLDER = "data/aotinductor/"

_FORMER_PROGRAM = "serialized_exported_program.json"
"""Name in the layout of torch.export.save up to torch 2.7."""


def program_of(names: set[str]) -> str:
    """Return the member with the graph of an ExportedProgram; empty without one."""
    programs = sorted(
        name for name in names if name.startswith("models/") and name.endswith(".json")
    )
    if programs and "archive_format" in names:
        return programs[0]
    if _FORMER_PROGRAM in names:
        return _FORMER_PROGRAM
    return ""


def _text(file: Path, start: bytes) -> FileKind:
    if log := _kind_of_log(start):
        return log
    if _TABLE.match(start):
        return _PROVENANCE
    if _TRACE.match(start):
        return _PROFILE
    if SIGN in start:
        return _PAGE
    if file.suffix not in _PROGRAMS and _PRINTED.search(_beginning(file)):
        return _PRINTED_LOG
    if start.lstrip().startswith(b"{") and b'"cells"' in start + _end_of(file):
        return FileKind("notebook", "a notebook", "Run its code cells with: fx-explorer {file}")
    if _is_json(start):
        return FileKind("text", "JSON")
    return FileKind("text", "text")


def _beginning(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(PASTED)


def _end_of(file: Path) -> bytes:
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - BEGINNING))
        return opened.read(BEGINNING)


def _is_json(start: bytes) -> bool:
    """Return whether the text begins like JSON. The document may be longer than this beginning."""
    if not start.lstrip().startswith((b"{", b"[")):
        return False
    try:
        json.loads(start)
    except ValueError as error:
        return isinstance(error, json.JSONDecodeError) and error.pos > len(start) // 2
    except RecursionError:
        return True
    return True
