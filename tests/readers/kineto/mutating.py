"""This module makes traces of torch.profiler that are damaged from a seed, out of the first events
of every kind that one run wrote.

``python -m tests.readers.kineto.mutating --rounds 1000000`` (``make fuzz-profiles``) goes on for
longer than a test may.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from fx_explorer.instruments.profile.graph_calls import CompiledGraph, compiled_graphs
from fx_explorer.instruments.profile.join import join
from fx_explorer.readers.kineto_reading import ProfileError, read_trace
from fx_explorer.session import SessionReader
from tests.profiles import DATA
from tests.readers.torch_trace.mutating import JUNK, changed
from tests.session.limits import HungError, limited

OF_EACH_KIND = 3


@cache
def small_trace() -> bytes:
    whole = json.loads(gzip.decompress((DATA / "broken.json.gz").read_bytes()))
    seen: Counter[tuple[object, object]] = Counter()
    few = []
    for event in whole["traceEvents"]:
        kind = event.get("ph"), event.get("cat")
        seen[kind] += 1
        if seen[kind] <= OF_EACH_KIND:
            few.append(event)
    return json.dumps({**whole, "traceEvents": few}).encode()


@cache
def graphs() -> list[CompiledGraph]:
    """Return the compiled graphs of the session that belongs to the trace."""
    with tempfile.TemporaryDirectory() as folder:
        session = Path(folder) / "broken.fxs"
        session.write_bytes(gzip.decompress((DATA / "broken.fxs.gz").read_bytes()))
        with SessionReader(session) as reader:
            return compiled_graphs(reader)


def mutated(seed: int) -> bytes:
    """Return the small trace with damage that the seed chooses: of bytes, of values, or at its end."""
    chance = random.Random(seed)
    kind = chance.choice(("bytes", "values", "values", "end"))
    if kind == "values":
        return _of_values(chance)
    content = bytearray(small_trace())
    if kind == "end":
        return bytes(content[: chance.randrange(len(content))])
    for _ in range(chance.choice((1, 3, 20))):
        at = chance.randrange(len(content))
        content[at : at + chance.choice((0, 1, 40, 500))] = chance.choice(JUNK)
    return bytes(content)


def _of_values(chance: random.Random) -> bytes:
    trace = json.loads(small_trace())
    if chance.random() < 0.2:
        return json.dumps(changed(trace, chance)).encode()
    events: list[Any] = trace["traceEvents"]
    for _ in range(chance.choice((1, 3, 10))):
        at = chance.randrange(len(events))
        events[at] = changed(events[at], chance)
    if chance.random() < 0.2:
        chance.shuffle(events)
    return json.dumps(trace).encode()


def problem(seed: int, file: Path) -> str:
    """Read the trace of a seed, join it to a session, and return the problem; empty where there is
    none.
    """
    file.write_bytes(mutated(seed))
    try:
        with limited():
            join(read_trace(file), graphs(), file.name)
    except ProfileError as error:
        return "" if len(str(error)) < 2_000 else f"a message of {len(str(error)):,} characters"
    except HungError:
        return "hangs\n" + traceback.format_exc(limit=-4)
    except Exception:  # noqa: BLE001 - whatever it is, it is the finding
        return traceback.format_exc(limit=-5)
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=" ".join(__doc__.partition("\n\n")[0].split()))
    parser.add_argument("--rounds", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    asked = parser.parse_args()
    began, found = time.process_time(), 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(asked.seed, asked.seed + asked.rounds):
            if wrong := problem(seed, Path(folder) / "trace.json"):
                found += 1
                print(f"seed {seed}: {wrong}", flush=True)
    print(f"{asked.rounds:,} traces, {found} problems, {time.process_time() - began:.0f} s")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
