"""This module makes logs that are damaged from a seed, out of the smallest record of every kind
that torch wrote, and checks the reading of them.

``python -m tests.readers.torch_trace.mutating --rounds 1000000`` (``make fuzz-logs``) goes on for
longer than a test may.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import os
import random
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from fx_explorer.overview.overview import overview
from fx_explorer.readers.torch_trace.read_log import read_log
from fx_explorer.readers.torch_trace.records import Damage, pieces, records
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.writer import finish_session

LOGS = Path(__file__).parents[2] / "data" / "torch_trace"

JUNK = (
    b"\x1b[31m",
    b"<script>",
    b"\0",
    b"\xff\xfe",
    b"{" * 2000,
    b"[[[[",
    b"null",
    b"-1",
    b"1e999",
    b'"',
    b"\n",
    b"\t",
    b"]",
    b"NaN",
    b"9" * 30,
    b"[rank3]:",
    b"''",
    b"[rank0]:\t",
    b"\n\t",
    b"\r\n",
    b"\n\n",
    b'{"str": [1]}',
    b"V1121 03:15:04",
)

VALUES: tuple[Any, ...] = (
    None,
    -1,
    0,
    "x",
    "",
    [],
    {},
    1e308,
    float("nan"),
    True,
    [[1]],
    {"a": 1},
    10**30,
    "\x1b[2J",
    ["x", 0],
    "9" * 4000,
    "0/0",
    "\ud800",
    2**63,
    -0.5,
    [None],
    {"0": []},
)

LONGEST = 9_000
"""Bytes of a record that is in the small log. Of a kind with longer ones only, there is none."""

LOOKED_AT = 25
"""Of so many logs, one is looked at as the app does."""


@cache
def small_log() -> tuple[bytes, ...]:
    """The smallest record of every kind, and the strings that they name, in the order of a log."""
    smallest: dict[str, bytes] = {}
    for packed in sorted(LOGS.glob("*.log.gz")):
        data = gzip.decompress(packed.read_bytes())
        for piece, record in zip(pieces([data]), records([data], Damage()), strict=True):
            known = smallest.get(record.name)
            if len(piece.raw) <= LONGEST and (known is None or len(piece.raw) < len(known)):
                smallest[record.name] = piece.raw
    found = list(smallest.values())
    # One graph and its code follow one another, of one compilation.
    return tuple(sorted(found, key=lambda raw: raw[1:24]))


def changed(value: Any, chance: random.Random) -> Any:
    """Replace one value at random somewhere in ``value``."""
    if not isinstance(value, dict | list) or not value or chance.random() < 0.2:
        return copy.deepcopy(chance.choice(VALUES))  # or the next damage is done to VALUES
    key: Any = chance.choice(list(value) if isinstance(value, dict) else range(len(value)))
    value[key] = changed(value[key], chance)
    return value


def of_bytes(found: list[bytes], chance: random.Random) -> bytes:
    data = bytearray(b"".join(found))
    for _ in range(chance.choice((1, 1, 3, 30))):
        at = chance.randrange(len(data) + 1)
        if chance.random() < 0.5:
            data[at:at] = chance.choice(JUNK)
        elif chance.random() < 0.5:
            del data[at : at + chance.choice((1, 10, 1000))]
        else:
            other = chance.randrange(len(data) + 1)
            data[at:at] = data[other : other + chance.choice((50, 5000))]
    return bytes(data)


def of_values(found: list[bytes], chance: random.Random) -> bytes:
    for i in chance.sample(range(len(found)), min(len(found), chance.choice((1, 3, 10)))):
        head, _, below = found[i].partition(b"\n")
        before, _, content = head.partition(b"] ")
        value = changed(json.loads(content), chance)
        found[i] = before + b"] " + json.dumps(value).encode() + b"\n" + below
    return b"".join(found)


def of_lines(found: list[bytes], chance: random.Random) -> bytes:
    """Return lines as if two processes wrote into one another, or in another order."""
    lines = b"".join(found).splitlines(keepends=True)
    start = chance.randrange(len(lines))
    some = lines[start : start + chance.choice((2, 10, 100))]
    if chance.random() < 0.5:
        chance.shuffle(some)
    else:
        some = [line for pair in zip(some, reversed(some), strict=True) for line in pair]
    return b"".join([*lines[:start], *some, *lines[start + len(some) :]])


def of_end(found: list[bytes], chance: random.Random) -> bytes:
    """A log that ends at any byte."""
    data = b"".join(found)
    return data[: chance.randrange(len(data))]


MUTATIONS: tuple[Callable[[list[bytes], random.Random], bytes], ...] = (
    of_bytes,
    of_values,
    of_lines,
    of_end,
)


def mutated(seed: int, share: float = 0.25) -> bytes:
    """A share of the records of the small log, with damage that the seed chooses."""
    chance = random.Random(seed)
    whole = small_log()
    found = [record for record in whole if chance.random() < share] or list(whole[:1])
    return chance.choice(MUTATIONS)(found, chance)


class Folder:
    """A Folder is where the logs of one process are read. An empty session is copied: making a
    session takes longer than reading a log.
    """

    def __init__(self, path: Path) -> None:
        self.log, self.session, self._empty = path / "x.log", path / "x.fxs", path / "empty.fxs"
        with SessionWriter(self._empty):
            pass
        finish_session(self._empty)

    def problem(self, seed: int) -> str:
        """Read the log of a seed, and return the problem; empty where there is none."""
        data = mutated(seed)
        self.log.write_bytes(data)
        shutil.copyfile(self._empty, self.session)
        try:
            read_log(self.log, self.session)
            with SessionReader(self.session) as reader:
                told = reader.meta("log")
                if seed % LOOKED_AT == 0:
                    overview(reader)
                counted = told["records"] + reader.meta("skipped_records")
                ended = reader.meta("outcome")
        except Exception:  # noqa: BLE001 - whatever it is, it is the finding
            return traceback.format_exc(limit=-4)
        if ended is None or (data.strip() and not counted):
            return f"{told}, {ended}: neither records nor lines were counted"
        return ""


def problems(seeds: range) -> list[tuple[int, str]]:
    """Return the seeds whose logs are read otherwise than they may be."""
    with tempfile.TemporaryDirectory(
        dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    ) as path:
        folder = Folder(Path(path))
        return [(seed, problem) for seed in seeds if (problem := folder.problem(seed))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1_000_000, help="the first one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    chunk, found = 1_000, 0
    starts = range(arguments.seed, arguments.seed + arguments.rounds, chunk)
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for number, some in enumerate(
            pool.map(problems, (range(start, start + chunk) for start in starts)), 1
        ):
            found += len(some)
            for seed, problem in some:
                print(f"seed {seed}: {problem}")
            if number % 20 == 0:
                print(f"{number * chunk:,} logs, {found} problems", file=sys.stderr)
    print(f"{arguments.rounds:,} logs, {found} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
