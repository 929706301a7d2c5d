"""How long ``fx-explorer --help`` takes, and what it imports that it should not.

python -m benchmarks.cli_start
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

from benchmarks.common import ROOT

BUDGET_MS = 100
HEAVY = ("torch", "textual", "rich", "pygments", "numpy", "sqlite3", "asyncio")


def run_ms(arguments: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True)
    return (time.perf_counter() - start) * 1000


def imported(arguments: list[str]) -> set[str]:
    """Top-level modules that were imported, by Python's own account."""
    command = [sys.executable, "-X", "importtime", *arguments]
    account = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stderr
    return {line.rpartition("|")[2].strip().split(".")[0] for line in account.splitlines()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    help_arguments = ["-m", "fx_explorer", "--help"]
    run_ms(help_arguments)  # writes the bytecode files
    helps, bares = [], []
    for _ in range(runs):
        helps.append(run_ms(help_arguments))
        bares.append(run_ms(["-c", "pass"]))
    heavy = sorted(imported(help_arguments) & set(HEAVY))
    print(
        f"--help     {statistics.median(helps):6.0f} ms   best {min(helps):.0f}   budget {BUDGET_MS}"
    )
    print(f"bare python{statistics.median(bares):6.0f} ms   best {min(bares):.0f}")
    print(f"heavy modules imported: {', '.join(heavy) or 'none'}")


if __name__ == "__main__":
    main()
