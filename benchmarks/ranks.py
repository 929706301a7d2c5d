"""How long it takes until the divergence among many ranks is named, and how that grows with their
number.

The logs are those of real ranks, repeated and varied: each rank has its own number, device,
process, clock and ids of objects, and the texts their hashes. One rank near the end diverges.
``python -m benchmarks.ranks``.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

LOGS = Path(__file__).resolve().parent.parent / "tests" / "data" / "torch_trace"

_HEAD = re.compile(
    rb"^(?P<start>[VIWEC]\d{4} [\d:.]+ )(?P<thread>\d+)(?P<where> [^\]]*\] )(?P<json>\{.*)$", re.S
)

_LONG_NUMBER = re.compile(rb"\b[1-9]\d{7,14}\b")

JOBS = {
    "ddp": ("h200_ranks_ddp/rank_0.log.gz", ""),
    "branch": ("h200_ranks_diverge/rank_0.log.gz", "h200_ranks_diverge/rank_1.log.gz"),
}
"""Job → the log that is repeated, and that of the rank that diverges; without one, an operation of
it is changed.
"""


def write_ranks(folder: Path, job: str, count: int) -> int:
    """Write the logs, and return which rank diverges."""
    alike, other = JOBS[job]
    odd = count * 3 // 4 if count > 2 else count - 1
    records = list(_records(gzip.decompress((LOGS / alike).read_bytes())))
    others = list(_records(gzip.decompress((LOGS / other).read_bytes()))) if other else records
    for rank in range(count):
        is_odd = rank == odd
        lines = b"".join(
            _varied(head, text, rank, changed=is_odd and not other)
            for head, text in (others if is_odd else records)
        )
        with gzip.open(
            folder / f"dedicated_log_torch_trace_rank_{rank}_{rank:08x}.log.gz",
            "wb",
            compresslevel=1,
        ) as file:
            file.write(lines)
    return odd


def _records(log: bytes) -> Iterator[tuple[bytes, list[bytes]]]:
    head, below = b"", list[bytes]()
    for line in log.splitlines():
        if line.startswith(b"\t"):
            below.append(line[1:])
            continue
        if head:
            yield head, below
        head, below = line, []
    yield head, below


def _varied(head: bytes, below: list[bytes], rank: int, *, changed: bool) -> bytes:
    found = _HEAD.match(head)
    assert found is not None
    fields = json.loads(found["json"])
    text = b"\n".join(below)
    text = re.sub(rb"cuda:\d", b"cuda:%d" % (rank % 8), text).replace(
        b"device=0", b"device=%d" % (rank % 8)
    )
    if "dynamo_cpp_guards_str" in fields:
        text = _LONG_NUMBER.sub(lambda number: b"%d" % (int(number[0]) + 4096 * rank), text)
    if changed:
        text = text.replace(b"torch._C._nn.gelu(linear_3)", b"torch.relu(linear_3)")
    if "rank" in fields:
        fields["rank"] = rank
    if "has_payload" in fields:
        fields["has_payload"] = hashlib.md5(text, usedforsecurity=False).hexdigest()
    line = b"%s%d%s%s\n" % (
        found["start"],
        int(found["thread"]) + rank,
        found["where"],
        json.dumps(fields).encode(),
    )
    return (
        line + b"".join(b"\t%s\n" % part for part in text.split(b"\n"))
        if "has_payload" in fields
        else line
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", metavar="N", type=int, nargs="+", default=[2, 16, 64, 256, 1024])
    parser.add_argument("--jobs", choices=sorted(JOBS), nargs="+", default=sorted(JOBS))
    parser.add_argument(
        "--keep", metavar="DIR", type=Path, help="write the logs here, and leave them"
    )
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} processors; logs as gzip, the directory read before")
    for job in arguments.jobs:
        for count in arguments.ranks:
            with tempfile.TemporaryDirectory(prefix="fx-explorer-ranks-") as temporary:
                folder = arguments.keep / f"{job}-{count}" if arguments.keep else Path(temporary)
                folder.mkdir(parents=True, exist_ok=True)
                odd = write_ranks(folder, job, count)
                print(_measured(job, count, odd, folder), flush=True)


def _measured(job: str, count: int, odd: int, folder: Path) -> str:
    size_mb = sum(len(gzip.decompress(path.read_bytes())) for path in folder.iterdir()) / 1e6
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-m", "fx_explorer", "ranks", str(folder), "--format", "json"],
        capture_output=True,
        check=True,
    )
    took_s = time.monotonic() - began
    found = json.loads(ended.stdout)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    figures = f"{size_mb:>7.0f} MB  {took_s:>6.2f} s  {cpu_s:>6.2f} s of CPU  peak so far {used.ru_maxrss / 1000:>4.0f} MB"
    named = (
        "named"
        if found["differing_ranks"] == [odd]
        else f"NOT NAMED: {found['differing_ranks']}, and it is {odd}"
    )
    return f"{job:<7} {count:>5} ranks  {figures}  {named}: {found['summary']}"


if __name__ == "__main__":
    main()
