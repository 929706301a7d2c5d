"""Hold sessions against processes without fx-explorer: the truth lane.

    python -m benchmarks.truth.compare [--only NAME …] [--build] [--jobs N]
        [--setting dynamo.nested_graph_breaks=True …] [--python PYTHON] [--json FILE]

Every program of ``subject.py`` (break patterns, recompiles, models of transformers) runs twice,
each time in a process of its own with a cold cache: once bare (``bare.py``) and once under
``fx-explorer run``. Compared are Dynamo's graphs, the guards, the graph breaks with line, reason
and hits, the recompiles with their failed guards, the generated code, and with ``--build`` the
tensors saved for the backward. Prints what differs and ends with 1 if anything does.
"""

from __future__ import annotations

import argparse
import collections
import json
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT, cold_environment
from fx_explorer.model import Artifact, Graph, GraphBreak, Recompile, SavedTensor
from fx_explorer.session import SessionReader

SUBJECT = ROOT / "benchmarks" / "truth" / "subject.py"
TIME_LIMIT_S = 1200
_LEAF = re.compile(r"^[| ]*\+- ([A-Z_]+): (.*)$")
_IDENTITY = re.compile(r"0x[0-9a-f]{6,}|\b(?<=, )\d{6,}(?=\))|(?<=_)\d{9,}(?=_|\b)")
"""An address, the second argument of ``___check_obj_id(…, 18511344)``, and what torch puts into
names of globals (``_139998860332224_c12``).
"""
_DTYPES = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "i8": "int8",
    "u8": "uint8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "b8": "bool",
}


@dataclass(frozen=True)
class Lane:
    """How all programs of one run are compiled."""

    python: str
    is_built: bool
    settings: tuple[str, ...]

    def options(self) -> list[str]:
        return [word for setting in self.settings for word in ("--setting", setting)]


@dataclass(frozen=True)
class Comparison:
    """What differs for one program; nothing when all facts are equal."""

    name: str
    differences: dict[str, str]
    counts: dict[str, int]
    """How many facts of each kind the bare process has."""
    seconds: float


class ProcessFailed(Exception):
    """One of the two processes did not do its work; the message ends with its last lines."""


def compare(name: str, lane: Lane) -> Comparison:
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            bare = _bare_facts(name, lane, Path(folder))
            session = _captured_session(name, lane, Path(folder))
        except ProcessFailed as failure:
            return Comparison(name, {"process": str(failure)}, {}, time.monotonic() - began_s)
        with SessionReader(session) as reader:
            captured = session_facts(reader, is_built=lane.is_built)
    differences = {}
    for fact in captured:
        if bare[fact] != captured[fact]:
            differences[fact] = _first_difference(bare[fact], captured[fact])
    counts = {fact: len(items) for fact, items in bare.items() if isinstance(items, list)}
    return Comparison(name, differences, counts, time.monotonic() - began_s)


def _bare_facts(name: str, lane: Lane, folder: Path) -> dict[str, Any]:
    written = folder / "bare.json"
    command = [lane.python, "-m", "benchmarks.truth.bare", name, str(written), *lane.options()]
    if lane.is_built:
        command.append("--build")
    _run(command, folder / "bare")
    return comparable(json.loads(written.read_text()))


def _captured_session(name: str, lane: Lane, folder: Path) -> Path:
    session = folder / "captured.fxs"
    command = [sys.executable, "-m", "fx_explorer", "run", str(SUBJECT), "-o", str(session)]
    command += ["--build" if lane.is_built else "--no-build", *lane.options()]
    if lane.python != sys.executable:
        command += ["--python", lane.python]
    _run([*command, "--", name], folder / "captured")
    return session


def _run(command: list[str], folder: Path) -> None:
    folder.mkdir()
    environment = {
        **cold_environment(folder),
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
        "PYTHONHASHSEED": "0",  # or sets of strings are gone through in another order in each
    }
    try:
        ended = subprocess.run(
            command,
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIME_LIMIT_S,
        )
    except subprocess.TimeoutExpired as late:
        raise ProcessFailed(f"{' '.join(command)}: still running after {TIME_LIMIT_S} s") from late
    if ended.returncode:
        last = ended.stderr.strip()[-1500:]
        raise ProcessFailed(f"{' '.join(command)}: ended with {ended.returncode}:\n{last}")


# What a bare process wrote, and what a session holds, in one form.


def comparable(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a bare process in the form of ``session_facts``."""
    saved = facts["saved_tensors"]
    return {
        "raised": facts["raised"],
        "graphs": sorted(json.dumps(graph) for graph in facts["graphs"]),
        "breaks": _counted_breaks(facts["breaks"]),
        "recompiles": _recompiles_of_messages(facts["recompiles"]),
        "guards": sorted(leaf for tree in facts["guard_trees"] for leaf in guard_leaves(tree)),
        "codes": facts["codes"],
        "saved_tensors": None if saved is None else sorted(json.dumps(tensor) for tensor in saved),
    }


def session_facts(reader: SessionReader, *, is_built: bool) -> dict[str, Any]:
    """Return what a session says: graphs, breaks, recompiles, guards, code and saved tensors."""
    from tests.capture.undisturbed.run import without_comments

    texts = list(reader.rows(Artifact))
    trees = [reader.text(text.text) for text in texts if text.kind == "guard_tree"]
    codes = [reader.text(text.text) for text in texts if text.kind == "output_code"]
    breaks = [(row.file, row.line, row.reason) for row in reader.rows(GraphBreak)]
    return {
        "graphs": sorted(_operator_counts(reader)),
        "breaks": _counted_breaks(breaks),
        "recompiles": _recorded_recompiles(reader),
        "guards": sorted(leaf for tree in trees for leaf in guard_leaves(tree)),
        "codes": sorted(map(without_comments, codes)),
        "saved_tensors": _saved_tensors(reader) if is_built else None,
    }


def guard_leaves(tree: str) -> list[str]:
    """Return the checks of a guard tree as ``KIND: code``, without comments and identities."""
    leaves = []
    for line in tree.splitlines():
        if leaf := _LEAF.match(line):
            kind, code = leaf.groups()
            if kind != "GuardManager":
                leaves.append(f"{kind}: {_without_identity(code.split('  #')[0].strip())}")
    return leaves


def _counted_breaks(breaks: list[tuple[str, int, str]]) -> list[tuple[str, int, int]]:
    """Return file, line and hits; the reason is the key that both sides write in other words."""
    hits = collections.Counter((Path(file).name, line) for file, line, _ in breaks)
    return sorted((file, line, count) for (file, line), count in hits.items())


def _recompiles_of_messages(messages: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """Return for each recompile the guard of the newest version, and how many versions failed."""
    failures = [message["failed"] for message in messages]
    return sorted((_without_identity(failed[0][1]), len(failed)) for failed in failures)


def _recorded_recompiles(reader: SessionReader) -> list[tuple[str, int]]:
    rows: dict[int, list[Recompile]] = collections.defaultdict(list)
    for row in reader.rows(Recompile):
        rows[row.compilation].append(row)
    return sorted(
        (_without_identity(failures[0].guard), sum(row.times for row in failures))
        for failures in rows.values()
    )


def _without_identity(code: str) -> str:
    return _IDENTITY.sub("#", code)


def _operator_counts(reader: SessionReader) -> list[str]:
    counts = []
    for graph in reader.rows(Graph, stage="dynamo", parent=0):
        names: collections.Counter[str] = collections.Counter()
        for node in reader.nodes(graph):
            if node.op in ("call_function", "call_method", "call_module"):
                names[node.target.rpartition(".")[2]] += 1
        counts.append(json.dumps(dict(sorted(names.items()))))
    return counts


def _saved_tensors(reader: SessionReader) -> list[str]:
    saved = []
    for row in reader.rows(SavedTensor):
        if row.kind != "symint":
            shape = [int(size) if size.isdigit() else size for size in row.shape]
            saved.append(json.dumps([shape, _DTYPES.get(row.dtype, row.dtype)]))
    return sorted(saved)


def _first_difference(bare: Any, captured: Any) -> str:
    if not (isinstance(bare, list) and isinstance(captured, list)):
        return f"bare {bare!r}, captured {captured!r}"[:600]
    missing = [item for item in bare if item not in captured]
    added = [item for item in captured if item not in bare]
    counts = f"{len(bare)} bare, {len(captured)} captured"
    return f"{counts}; bare only {str(missing[:3])[:500]}; captured only {str(added[:3])[:500]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--build", action="store_true", help="build and run the kernels in both")
    parser.add_argument("--jobs", type=int, default=1, metavar="N")
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has torch")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append each result as a line")
    arguments = parser.parse_args()
    from benchmarks.truth.subject import subjects

    lane = Lane(arguments.python, arguments.build, tuple(arguments.setting))
    names = arguments.only or list(subjects())
    equal = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for result in pool.map(lambda name: compare(name, lane), names):
            equal += not result.differences
            verdict = "differs" if result.differences else "equal"
            counts = ", ".join(f"{count} {fact}" for fact, count in result.counts.items())
            print(f"{verdict:8} {result.name} ({counts}; {result.seconds:.0f} s)", flush=True)
            for fact, difference in result.differences.items():
                print(f"    {fact}: {difference}", flush=True)
            if arguments.json:
                line = {"settings": lane.settings, **asdict(result)}
                with arguments.json.open("a") as file:
                    file.write(json.dumps(line) + "\n")
    print(f"{equal} of {len(names)} equal")
    raise SystemExit(equal != len(names))


if __name__ == "__main__":
    main()
