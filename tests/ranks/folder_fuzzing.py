"""Directories of damaged logs and of what else may lie in one, made by a seed; and what comparing
the ranks in them may do.

``python -m tests.ranks.folder_fuzzing --rounds 10000`` (``make fuzz-folders``) goes on for longer
than a test may.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

from fx_explorer.errors import FxExplorerError
from fx_explorer.instruments.ranks.compared import compare
from fx_explorer.instruments.ranks.report import ranks_json, ranks_text
from tests.readers.torch_trace.mutating import mutated, small_log
from tests.session.limits import HungError, limited

NAMES = (
    "dedicated_log_torch_trace_rank_{}_ab12cd.log", "rank_{}.log", "train.rank{}.fxs", "rank-{}.txt", "rank_0.log",
    "rank_9999999.log", "rank_{}.log.gz", "\x1b[31mrank_{}.log", "rank_{}\n.log", "\udcffrank_{}.log", "-rank_{}", "r" * 200 + "{}",
)  # fmt: skip

KINDS = (
    "damaged", "damaged", "damaged", "whole", "empty", "junk", "folder", "fifo", "link", "no permission",
    "of several ranks",
)  # fmt: skip


def make_folder(folder: Path, chance: random.Random) -> None:
    """Put one to five things into a folder."""
    for number in range(chance.randint(1, 5)):
        path = folder / chance.choice(NAMES).format(number)
        if not os.path.lexists(path):
            _make(path, chance.choice(KINDS), chance)


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
    damaged = mutated(chance.randrange(1 << 30))
    if kind == "of several ranks":
        lines = damaged.split(b"\n")
        return b"\n".join(b"[rank%d]:%s" % (chance.randrange(3), line) for line in lines)
    return damaged


def problem(seed: int) -> str:
    """Compare the ranks of a folder, and return what is wrong with how that went; empty where
    nothing is.
    """
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(dir=shared))
    try:
        make_folder(folder, random.Random(seed))
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
    finally:
        shutil.rmtree(folder)
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=" ".join(__doc__.partition("\n\n")[0].split()))
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    asked = parser.parse_args()
    began, found = time.process_time(), 0
    for seed in range(asked.seed, asked.seed + asked.rounds):
        if wrong := problem(seed):
            found += 1
            print(f"seed {seed}: {wrong}", flush=True)
    print(f"{asked.rounds:,} folders, {found} problems, {time.process_time() - began:.0f} s")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
