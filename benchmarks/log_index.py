"""A TORCH_TRACE log opened here and by tlparse, one after the other on the same log.

    python -m benchmarks.log_index --tlparse /path/to/tlparse --megabytes 40 1000

Measured for each size, from the command on: tlparse, whose first screen is there when it has ended;
on a pseudo-terminal, what the beginning of the log says until the app is there, and the first
screen of the app that names a graph break; and, in other processes, every record found,
everything decoded, and ``fx-explorer report`` as text and as JSON. With ``--log``, only the reports
of that log, each beside tlparse, ``--times`` times. The log and what is written of it lie in a temporary folder that is removed (it
takes three times the size).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import ROOT
from benchmarks.log_copies import write_copies
from benchmarks.ptybench import Terminal, memory_mb

FIRST_WORDS = "breaks the graph"
"""A fact of the first log that is copied."""

OF_THE_BEGINNING = "Its first megabyte has"

READ = """
import sys
from pathlib import Path
from fx_explorer.readers.torch_trace.read_log import LogReading
with LogReading(Path(sys.argv[1]), Path(sys.argv[2]), leave_texts=True) as reading:
    reading.find()
    if sys.argv[3:] == ["decode"]:
        reading.decode()
"""

REPORT_BUDGETS = {"text": 0.5, "json": 1.0}
"""Format of a report → share of the time that tlparse takes."""

MEMORY_BUDGET_MB, FIRST_BUDGET, WHOLE_BUDGET = 300, 0.1, 0.5


@dataclass(frozen=True)
class Took:
    """What one way of opening the log took."""

    wall_s: float
    memory_mb: float
    """At its peak, all its processes together."""
    written_mb: float = 0.0


def of_command(command: list[str], written: Path) -> Took:
    began = time.monotonic()
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        with watched_memory(process.pid) as peak:
            returned = process.wait()
        took = time.monotonic() - began
    if returned:
        raise SystemExit(f"{' '.join(command)} ended with {returned}")
    return Took(took, max(peak), size_mb(written))


def of_first_screen(log: Path) -> tuple[Took, Took]:
    """Return (until the beginning of the log is told, until the app tells a fact of it)."""
    with (
        Terminal([sys.executable, "-m", "fx_explorer", str(log)]) as terminal,
        watched_memory(terminal.pid) as peak,
    ):
        told_s = terminal.first_output(OF_THE_BEGINNING, timeout_ms=600_000) / 1000
        told = Took(told_s, max(peak))
        first_s = terminal.wait_for(FIRST_WORDS, timeout_ms=600_000) / 1000
    return told, Took(first_s, max(peak))


@contextlib.contextmanager
def watched_memory(pid: int) -> Iterator[list[float]]:
    """Look at a process and its children many times a second; the list has what they took together."""
    found, is_over = [0.0], threading.Event()

    def watch() -> None:
        while not is_over.wait(0.02):
            with contextlib.suppress(OSError, StopIteration, ValueError):  # it has ended meanwhile
                found.append(sum(memory_mb(one) for one in family(pid)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        is_over.set()
        watcher.join()


def family(pid: int) -> list[int]:
    """Return a process and all below it."""
    found = [pid]
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/children") as children:
            for child in children.read().split():
                found += family(int(child))
    return found


def size_mb(written: Path) -> float:
    files = (
        [written] if written.is_file() else [path for path in written.rglob("*") if path.is_file()]
    )
    return sum(path.stat().st_size for path in files) / 1e6


def compare(megabytes: float, tlparse: str, folder: Path) -> None:
    log, html, session = folder / "copies.log", folder / "html", folder / "session.fxs"
    write_copies(log, megabytes)
    print(f"{size_mb(log):,.0f} MB")
    theirs = of_command([tlparse, "--no-browser", "--overwrite", "-o", str(html), str(log)], html)
    shutil.rmtree(html)
    report("tlparse", theirs, theirs)
    told, shown = of_first_screen(log)
    report("first words", told, theirs, FIRST_BUDGET)
    report("first screen", shown, theirs, FIRST_BUDGET)
    read = [sys.executable, "-c", READ, str(log), str(session)]
    report("all found", of_command(read, session), theirs, WHOLE_BUDGET)
    session.unlink()
    report("all decoded", of_command([*read, "decode"], session), theirs)
    session.unlink()
    compare_reports(log, theirs)
    log.unlink()


def compare_reports(log: Path, theirs: Took) -> None:
    for form, budget in REPORT_BUDGETS.items():
        command = [sys.executable, "-m", "fx_explorer", "report", str(log), "--format", form]
        report(f"report {form}", of_command(command, Path(os.devnull)), theirs, budget)


def compare_given(log: Path, tlparse: str) -> None:
    """Print tlparse's run of a log and the reports of it, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        html = Path(folder) / "html"
        command = [tlparse, "--no-browser", "--overwrite", "-o", str(html), str(log)]
        theirs = of_command(command, html)
    report("tlparse", theirs, theirs)
    compare_reports(log, theirs)


def report(what: str, took: Took, theirs: Took, budget: float | None = None) -> None:
    ratio = took.wall_s / theirs.wall_s
    verdict = "" if budget is None else f"budget {budget:.2f} {'ok' if ratio <= budget else 'OVER'}"
    memory = "OVER" if what != "tlparse" and took.memory_mb > MEMORY_BUDGET_MB else ""
    print(
        f"  {what:<13}{took.wall_s:7.1f} s {ratio:6.3f}  {verdict:<17}{took.memory_mb:5.0f} MB {memory:<5}"
        f"{took.written_mb:6.0f} MB written"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tlparse", default="tlparse", help="the program, from pip install tlparse"
    )
    parser.add_argument("--megabytes", type=float, nargs="+", default=[40.0, 1_000.0])
    parser.add_argument("--log", type=Path, help="a log to compare the reports of")
    parser.add_argument("--times", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.log:
        for _ in range(arguments.times):
            compare_given(arguments.log.absolute(), arguments.tlparse)
        return
    for megabytes in arguments.megabytes:
        with tempfile.TemporaryDirectory() as folder:
            compare(megabytes, arguments.tlparse, Path(folder))


if __name__ == "__main__":
    main()
