"""This module makes directories of ranks from recorded logs."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from pathlib import Path

DATA = Path(__file__).parents[1] / "data"

H200 = DATA / "torch_trace"

TLPARSE = DATA / "tlparse_ranks"


def text_of(log: Path) -> bytes:
    return gzip.decompress(log.read_bytes()) if log.suffix == ".gz" else log.read_bytes()


def write_rank(folder: Path, rank: int, log: bytes) -> Path:
    """Write a log as torch names that of a rank."""
    folder.mkdir(exist_ok=True)
    path = folder / f"dedicated_log_torch_trace_rank_{rank}.log"
    path.write_bytes(log)
    return path


def as_rank(log: bytes, rank: int) -> bytes:
    """Return a log in which every record says that it is of this rank."""
    return re.sub(rb'"rank": \d+', b'"rank": %d' % rank, log)


def with_texts(log: bytes, old: bytes, new: bytes, record: bytes = b"") -> bytes:
    """Return a log with its texts changed, and their hashes with them; of records whose first line
    holds ``record``.
    """
    changed = []
    for head, below in _records(log):
        text = b"\n".join(line[1:] for line in below)
        if old not in text or record not in head:
            changed += [head, *below]
            continue
        text = text.replace(old, new)
        start, brace, rest = head.partition(b"{")
        fields = json.loads(brace + rest)
        fields["has_payload"] = hashlib.md5(text, usedforsecurity=False).hexdigest()
        changed += [
            start + json.dumps(fields).encode(),
            *(b"\t" + line for line in text.split(b"\n")),
        ]
    return b"\n".join(changed) + b"\n"


def _records(log: bytes) -> list[tuple[bytes, list[bytes]]]:
    found: list[tuple[bytes, list[bytes]]] = []
    for line in log.splitlines():
        if line.startswith(b"\t"):
            found[-1][1].append(line)
        else:
            found.append((line, []))
    return found
