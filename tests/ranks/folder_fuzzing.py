"""This module makes directories of damaged logs, and of other files among them, from a seed, and
checks a comparison of their ranks.

``python -m tests.ranks.folder_fuzzing --logs 10000`` (``make fuzz-folders``) goes on for longer
than a test may: until so many damaged logs have been read.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fx_explorer.errors import FxExplorerError
from fx_explorer.instruments.ranks import reading
from fx_explorer.instruments.ranks.compared import compare
from fx_explorer.instruments.ranks.report import ranks_json, ranks_text
from fx_explorer.readers.torch_trace.read_log import read_log
from fx_explorer.session import SessionWriter
from fx_explorer.session.writer import finish_session
from tests.readers.torch_trace.mutating import mutated, small_log
from tests.session.limits import HungError, limited

NAMES = (
    "dedicated_log_torch_trace_rank_{}_ab12cd.log", "rank_{}.log", "train.rank{}.fxs", "rank-{}.txt", "rank_0.log",
    "rank_9999999.log", "rank_{}.log.gz", "\x1b[31mrank_{}.log", "rank_{}\n.log", "\udcffrank_{}.log", "-rank_{}", "r" * 200 + "{}",
)  # fmt: skip

DAMAGED = ("damaged", "of several ranks", "no permission")
"""Kinds of logs with a damage that the seed chooses. Who may read everything reads the last,
too.
"""

KINDS = 16 * ["damaged"] + 4 * ["of several ranks"]
KINDS += ["no permission", "whole", "empty", "junk", "folder", "fifo", "link"]

SHARES = (0.05, 0.05, 0.05, 0.15)
"""Of the records of the small log, so many are in a log here: to read one takes as long as its
records. ``tests.readers.torch_trace.mutating`` reads longer ones.
"""


def make_folder(folder: Path, chance: random.Random) -> int:
    """Put one to nine things into a folder, and return how many of them are damaged logs."""
    damaged = 0
    for number in range(chance.randint(1, 9)):
        path = folder / chance.choice(NAMES).format(number)
        if not os.path.lexists(path):
            kind = chance.choice(KINDS)
            damaged += kind in DAMAGED
            _make(path, kind, chance)
    return damaged


def _make(path: Path, kind: str, chance: random.Random) -> None:
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(chance.choice((path.name, "..", "/dev/zero", "nothing")))
    else:
        path.write_bytes(_content(kind, chance))
    if kind == "no permission":
        path.chmod(0)


def _content(kind: str, chance: random.Random) -> bytes:
    if kind == "empty":
        return b""
    if kind == "junk":
        return chance.randbytes(chance.choice((1, 100, 10_000)))
    if kind == "whole":
        return b"".join(small_log())
    damaged = mutated(chance.randrange(1 << 30), chance.choice(SHARES))
    if kind == "of several ranks":
        lines = damaged.split(b"\n")
        return b"\n".join(b"[rank%d]:%s" % (chance.randrange(3), line) for line in lines)
    return damaged


@contextlib.contextmanager
def quick_sessions() -> Iterator[Path]:
    """Begin the session of each log as a copy of an empty one: to make one takes as long as to read
    a small log. Gives a folder in memory for what is read.
    """
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=shared) as path, pytest.MonkeyPatch.context() as patch:
        empty = Path(path, "empty.fxs")
        with SessionWriter(empty):
            pass
        finish_session(empty)

        def read_copied(log: Path, session: Path) -> None:
            shutil.copyfile(empty, session)
            read_log(log, session)

        patch.setattr(reading, "read_log", read_copied)
        patch.setattr(tempfile, "tempdir", path)
        yield Path(path)


@dataclass(frozen=True, slots=True)
class Round:
    """A Round is the result of comparing one folder."""

    damaged: int
    """How many damaged logs were in it."""
    problem: str
    """The problem with this round; empty where there is none."""


def compare_folder(seed: int, place: Path) -> Round:
    """Compare the ranks of a folder that the seed makes."""
    folder = Path(tempfile.mkdtemp(dir=place))
    damaged = make_folder(folder, random.Random(seed))
    try:
        return Round(damaged, _problem(folder))
    finally:
        shutil.rmtree(folder)


def _problem(folder: Path) -> str:
    try:
        with limited():
            compared = compare([folder])
            json.dumps(ranks_json(compared))
            list(ranks_text(compared, 100))
    except FxExplorerError as error:
        return "" if len(str(error)) < 2_000 else f"a message of {len(str(error)):,} characters"
    except HungError:
        return "hangs\n" + traceback.format_exc(limit=-4)
    except Exception:  # noqa: BLE001 - whatever it is, it is the finding
        return traceback.format_exc(limit=-5)
    return ""


def problems(logs: int, first: int = 0) -> Iterator[str]:
    """Compare folders until a number of damaged logs is reached, and yield the problems."""
    seed, damaged = first, 0
    with quick_sessions() as place:
        while damaged < logs:
            done = compare_folder(seed, place)
            if done.problem:
                yield f"seed {seed}: {done.problem}"
            damaged += done.damaged
            seed += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=" ".join(__doc__.partition("\n\n")[0].split()))
    parser.add_argument("--logs", type=int, default=10_000, help="how many damaged ones")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    asked = parser.parse_args()
    began, wrong = time.process_time(), 0
    for problem in problems(asked.logs, asked.seed):
        wrong += 1
        print(problem, flush=True)
    took_s = time.process_time() - began
    print(f"{asked.logs:,} damaged logs in folders, {wrong} problems, {took_s:.0f} s")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
