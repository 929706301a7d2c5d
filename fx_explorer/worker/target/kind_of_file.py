"""Check whether a file is Python by its name, and say what it looks like when it is not. Nothing
else is run as a program unasked.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from fx_explorer.errors import TargetError

_PYTHON = (".py", ".pyw")

_BEGINNING = 4096
"""How many bytes are looked at."""

_TRACE_LINE = re.compile(rb"^[VIWE]\d{4} \d\d:\d\d:\d\d")
"""How torch's structured trace begins a record (torch/_logging/_internal.py,
TorchLogsFormatter).
"""

_BY_BEGINNING: tuple[tuple[bytes, str, str], ...] = (
    (b"SQLite format 3\0", "an SQLite database", "If it is a session, look at it with: fx-explorer {file}"),
    (b"\x1f\x8b", "compressed with gzip", "Unpack it first: gunzip -k {file}"),
    (b"BZh", "compressed with bzip2", "Unpack it first: bunzip2 -k {file}"),
    (b"\xfd7zXZ", "compressed with xz", "Unpack it first: unxz -k {file}"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "Unpack it first: unzstd {file}"),
    (b"\x7fELF", "a program or library for this machine", "Give the Python file that uses it"),
    (b"\x89HDF", "HDF5 data, weights perhaps", "Give the Python file that makes the model"),
)
"""Beginning → what such a file is, and what to do with it."""

_CHECKPOINT = ("a model checkpoint: weights, and no code that computes with them", "Give the Python file that makes the model")


def check_is_python(file: Path) -> None:
    """Raise TargetError for a regular file whose name is not that of a Python file. Without a
    suffix its first line may say so.
    """
    # A link may have any name, and lead to a Python file.
    if not file.is_file() or {file.suffix, file.resolve().suffix} & {*_PYTHON}:
        return
    with file.open("rb") as opened:
        start = opened.read(_BEGINNING)
    first_line = start.partition(b"\n")[0]
    if not file.suffix and first_line.startswith(b"#!") and b"python" in first_line:
        return
    what, advice = _looks_like(file, start)
    raise TargetError(
        f"{file} is no Python file by its name; it looks like {what}. {advice.format(file=file)}. "
        "If it is a Python program all the same, say so with --as-python."
    )


def _looks_like(file: Path, start: bytes) -> tuple[str, str]:
    """Return what the file is, and what to do with it."""
    advice = "Give a target: file.py, file.py:object or package.module:object"
    known = next(((what, do) for beginning, what, do in _BY_BEGINNING if start.startswith(beginning)), None)
    if known:
        return known
    # torch.save writes a zip archive.
    if start.startswith(b"PK\x03\x04"):
        return _CHECKPOINT if b"data.pkl" in start else ("a zip archive", "Unpack it and name a Python file in it")
    # A pickle, or safetensors: eight bytes of length, then JSON.
    if start.startswith(b"\x80") or (start[8:9] == b"{" and b"dtype" in start):
        return _CHECKPOINT
    if _TRACE_LINE.match(start):
        return "a TORCH_TRACE log", f"Reading logs is not supported yet. {advice}"
    if start.lstrip().startswith(b"{") and b'"cells"' in start + file.read_bytes()[-_BEGINNING:]:
        return "a notebook", "Make a script of it first: jupyter nbconvert --to script {file}"
    if not start:
        return "an empty file", advice
    if b"\0" in start:
        return "binary data", advice
    return ("JSON" if _is_json(start) else "text"), advice


def _is_json(start: bytes) -> bool:
    """Return whether the text begins as JSON does. The document may be longer than its
    beginning.
    """
    if not start.lstrip().startswith((b"{", b"[")):
        return False
    try:
        json.loads(start)
    except ValueError as error:
        return isinstance(error, json.JSONDecodeError) and error.pos > len(start) // 2
    return True
