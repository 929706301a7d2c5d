"""Opens what people attach to reports, made by the real tools, and compares what is told with the
original: nothing may be refused, and the counts must be those of the log, trace or snapshot itself.

    python -m benchmarks.attachments --tlparse /path/to/tlparse

For every TORCH_TRACE log of the tests: the log, packed, in a zip and a tar, tlparse's own folder,
that folder in an archive, and without its log. Graphs are also counted in the log itself. Beside
them profiles, memory snapshots, printed texts, debug directories and a session. Exits with 1 where
something differs.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT
from fx_explorer.cli import main as run_command

DATA = ROOT / "tests" / "data"

COUNTED = ("compilations", "graphs", "graph_breaks", "recompiles", "kernels")
"""Totals that are compared."""


@dataclass(frozen=True)
class Attachment:
    kind: str
    path: Path
    original: Path | None = None
    """What must be told the same; None where only opening counts."""


def logs() -> list[Path]:
    """Return the logs that torch wrote."""
    found = [*(DATA / "torch_trace").glob("*.log.gz"), *(DATA / "tlparse").glob("*.log.gz")]
    return sorted([*found, *(DATA / "tlparse").glob("*_log.txt.gz")])


def attachments(folder: Path, tlparse: str, most_logs: int) -> Iterator[Attachment]:
    """Make and yield the attachments."""
    for packed in logs()[:most_logs]:
        yield from of_log(packed, folder / packed.name.partition(".")[0], tlparse)
    for trace in sorted((DATA / "profiles").glob("*.json.gz")):
        if ".bare." not in trace.name:
            yield Attachment("profile", trace)
            yield Attachment("profile in a zip", zipped(folder / f"{trace.name}.zip", trace))
    for snapshot in sorted((DATA / "memory_snapshots").glob("*.pickle.gz")):
        yield Attachment("memory snapshot", snapshot)
    for text in sorted((DATA / "torch_logs").iterdir()):
        yield Attachment("printed text", text)
        archive = zipped(folder / f"{text.name}.zip", text)
        yield Attachment("printed text in a zip", archive, text)
    for archive in sorted((DATA / "debug_directory").glob("*.tar.gz")):
        yield Attachment("debug directory", archive)
    for session in sorted((DATA / "screens").glob("whole.fxs.gz")):
        plain = folder / session.name.removesuffix(".gz")
        plain.write_bytes(gzip.decompress(session.read_bytes()))
        yield Attachment("session in a zip", zipped(folder / "session.zip", plain), plain)


def of_log(packed: Path, folder: Path, tlparse: str) -> Iterator[Attachment]:
    """Yield the forms in which one log is attached."""
    folder.mkdir()
    log = folder / "dedicated_log_torch_trace.log"
    log.write_bytes(gzip.decompress(packed.read_bytes()))
    yield Attachment("log", log)
    yield Attachment("log with gzip", packed, log)
    yield Attachment("log in a zip", zipped(folder / "log.zip", log), log)
    with tarfile.open(folder / "log.tgz", "w:gz") as tar:
        tar.add(log, "job/rank_0.log")
    yield Attachment("log in a tar", folder / "log.tgz", log)
    made = folder / "tl_out"
    command = [tlparse, str(log), "-o", str(made), "--no-browser"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode or not (made / "raw.jsonl").is_file():
        return  # tlparse itself cannot read this log
    yield Attachment("tlparse's folder", made, log)
    archive = shutil.make_archive(str(folder / "folder"), "zip", folder, "tl_out")
    yield Attachment("tlparse's folder in a zip", Path(archive), log)
    without = folder / "without_log"
    shutil.copytree(made, without)
    (without / "raw.log").unlink(missing_ok=True)
    yield Attachment("tlparse's folder without its log", without, log)


def zipped(archive: Path, file: Path) -> Path:
    """Return an archive with one file."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
        written.write(file, f"attached/{file.name}")
    return archive


def report(path: Path) -> tuple[dict[str, Any], str]:
    """Return the report of a file, and why there is none."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = run_command(["report", str(path), "--format", "json"])
    if code:
        return {}, errors.getvalue().strip() or f"it ended with {code}"
    return json.loads(out.getvalue()), ""


_GRAPH = re.compile(rb'^V[^\n]*\] \{.*"dynamo_output_graph": ', re.M)
"""Matches a record of a graph of Dynamo's, which is counted without our reader."""


def graphs_in(log: Path) -> int:
    """Return the number of graphs that Dynamo wrote into a log."""
    return len(_GRAPH.findall(log.read_bytes()))


def differences(attached: dict[str, Any], original: dict[str, Any]) -> list[str]:
    """Return the totals in which two reports differ."""
    found = []
    for name in COUNTED:
        here, there = attached["totals"][name], original["totals"][name]
        if here != there:
            found.append(f"{name}: {here} in place of {there}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tlparse", required=True)
    parser.add_argument("--logs", type=int, default=100, help="the maximum number of logs")
    arguments = parser.parse_args()
    opened = refused = differing = 0
    originals: dict[Path, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as name:
        for attachment in attachments(Path(name), arguments.tlparse, arguments.logs):
            told, why = report(attachment.path)
            if why:
                refused += 1
                print(f"✗ {attachment.kind}: {attachment.path.name}: {why}")
                continue
            opened += 1
            if attachment.original is None:
                originals[attachment.path] = told
                if attachment.kind == "log":
                    expected, graphs = graphs_in(attachment.path), told["totals"]["graphs"]
                    if graphs != expected:
                        differing += 1
                        print(f"≠ {attachment.path.parent.name}: {graphs} graphs, not {expected}")
                continue
            if attachment.original not in originals:
                originals[attachment.original] = report(attachment.original)[0]
            if unlike := differences(told, originals[attachment.original]):
                differing += 1
                where = f"{attachment.kind} of {attachment.original.parent.name}"
                print(f"≠ {where}: {'; '.join(unlike)}")
    print(f"{opened} opened, {refused} refused, {differing} with other counts than the original")
    sys.exit(int(refused + differing > 0))


if __name__ == "__main__":
    main()
