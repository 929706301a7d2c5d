"""This script checks programs that start other processes, as a user would run them: ``python -m
tests.bad_input.child_scripts [NAME …]`` runs all of them, or those named, for some 15 minutes, and
prints which check failed.
"""

from __future__ import annotations

import concurrent.futures
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "data" / "child_processes"

NOT_RECORDED = sorted((FOLDER / "not_recorded").glob("*.py"))
"""Their child hits a graph break, and is kept from being recorded, or outlives the program."""

HONEST = sorted((FOLDER / "honest").glob("*.py"))
"""Programs without a graph break."""

AT_ONCE = 2


def check(script: Path, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    """``fx-explorer check SCRIPT --max-graph-breaks 0``, with another Python for the script."""
    command = [sys.executable, "-m", "fx_explorer", "check", str(script), "--max-graph-breaks", "0"]
    command += ["--python", python]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def is_right(script: Path, checked: subprocess.CompletedProcess[str]) -> bool:
    """A check of an honest script passes; of another it fails, and says of a child process why."""
    if script in HONEST:
        return checked.returncode == 0
    says_why = "it is not known what" in checked.stdout
    return checked.returncode in (1, 4) and (says_why or "graph breaks hit" in checked.stdout)


def main(names: list[str]) -> int:
    scripts = [one for one in (*NOT_RECORDED, *HONEST) if not names or one.stem in names]
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for script, (checked, took_s) in zip(scripts, pool.map(_timed, scripts), strict=True):
            right = is_right(script, checked)
            wrong += not right
            print(
                f"{'right' if right else 'WRONG'}  exit {checked.returncode}  {took_s:5.1f} s  {script.stem}",
                flush=True,
            )
            if not right:
                print(checked.stdout, checked.stderr, sep="\n", flush=True)
    print(f"{wrong} of {len(scripts)} wrong")
    return bool(wrong)


def _timed(script: Path) -> tuple[subprocess.CompletedProcess[str], float]:
    began = time.monotonic()
    return check(script), time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
