"""This script runs the tests that a change concerns, within a minute: ``python -m tests.quick
[--seconds 60] [FILE …]``.

A change is what differs from the last commit, or the last commit itself where nothing differs. A
test file concerns it when it imports a changed module, directly or through others. The nearest test
files run first, those in the folder of the same name before others, as many as fit into the time by
what they took the last time; what is left out is counted, and never taken for passed.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("fx_explorer", "tests", "benchmarks", "sample_backends", "sample_plugin")

DURATIONS = ROOT / ".pytest_cache" / "quick.json"
"""Test file → seconds it took, written by tests/conftest.py at the end of each run."""

IMPORTS = ROOT / ".pytest_cache" / "quick_imports.json"
"""File → when it was changed, and the names that it imports: to read all of them takes seconds."""

UNTIL = "FX_EXPLORER_QUICK_UNTIL"
"""Environment variable: the time at which no further test begins, in seconds since the epoch."""

USUAL_S = 4.0
"""Seconds of a test file that has not run here yet."""

PROCESSES = 2

START_S = 12.0
"""Seconds before the first test: torch is imported in each process, and the tests are collected."""

END_S = 5.0
"""Seconds before the end from which on no further test begins: the last ones end by then."""


def main() -> int:
    began_s = time.time()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long it may take")
    parser.add_argument("files", nargs="*", help="changed files; those of git by default")
    asked = parser.parse_args()
    changed = asked.files or changed_files()
    nearest = concerned_tests(changed)
    chosen = fitting(nearest, (asked.seconds - START_S - END_S) * PROCESSES)
    print(
        f"{len(changed)} changed files: {len(chosen)} of {len(nearest)} test files they concern run"
    )
    if len(chosen) < len(nearest):
        print("make test runs them all")
    if not chosen:
        return 0
    command = [sys.executable, "-m", "pytest", "-n", str(PROCESSES), "--dist", "worksteal", "-rs"]
    environment = {**os.environ, UNTIL: str(began_s + asked.seconds - END_S)}
    return subprocess.run([*command, *chosen], cwd=ROOT, env=environment, check=False).returncode


def skip_when_time_is_up() -> None:
    """Skip a test that make quick has no time for any more."""
    until = os.environ.get(UNTIL)
    if until and time.time() > float(until):
        pytest.skip("the time of make quick is up; make test runs it")


def changed_files() -> list[str]:
    """Return the paths that differ from the last commit; those of that commit where none does."""
    changed = _git("diff", "--name-only", "HEAD") + _git("ls-files", "-o", "--exclude-standard")
    return changed or _git("diff", "--name-only", "HEAD~1", "HEAD")


def _git(*arguments: str) -> list[str]:
    command = ["git", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def concerned_tests(changed: Iterable[str]) -> list[str]:
    """Return the test files that reach a changed file by imports, the nearest first."""
    importers = importers_of(ROOT.joinpath(folder) for folder in FOLDERS)
    distance = {path: 0 for path in changed if path.endswith(".py")}
    edge = list(distance)
    while edge:
        reached = {importer for path in edge for importer in importers[path]} - distance.keys()
        steps = 1 + distance[edge[0]]
        distance.update(dict.fromkeys(reached, steps))
        edge = sorted(reached)
    tests = [path for path in distance if Path(path).name.startswith("test_")]
    sources = [path for path in distance if distance[path] == 0]

    def nearness(test: str) -> tuple[int, int, str]:
        return distance[test], -max(_common_folders(test, source) for source in sources), test

    return sorted(tests, key=nearness)


def _common_folders(test: str, source: str) -> int:
    """Return how many folders have the same names, from that of the package and of the tests on."""
    pairs = zip(Path(test).parts[1:-1], Path(source).parts[1:-1], strict=False)
    return len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))


def importers_of(folders: Iterable[Path]) -> dict[str, set[str]]:
    """Return file → the files that import it, anywhere in them."""
    files = [
        file for folder in folders for file in folder.rglob("*.py") if "data" not in file.parts
    ]
    modules = {_module(file): str(file.relative_to(ROOT)) for file in files}
    names = _names_of(files)
    importers: dict[str, set[str]] = defaultdict(set)
    for file in files:
        importer = str(file.relative_to(ROOT))
        for name in names[importer]:
            imported = modules.get(name)
            if imported and imported != importer:
                importers[imported].add(importer)
    return importers


def _names_of(files: Iterable[Path]) -> dict[str, list[str]]:
    """Return file → the names it imports, as they are kept where it was not changed since."""
    kept = json.loads(IMPORTS.read_text()) if IMPORTS.exists() else {}
    names: dict[str, tuple[int, list[str]]] = {}
    for file in files:
        path, changed_ns = str(file.relative_to(ROOT)), file.stat().st_mtime_ns
        known_ns, known = kept.get(path, (0, []))
        if known_ns != changed_ns:
            known = sorted(imported_names(ast.parse(file.read_text())))
        names[path] = (changed_ns, known)
    IMPORTS.parent.mkdir(exist_ok=True)
    IMPORTS.write_text(json.dumps(names))
    return {path: found for path, (_, found) in names.items()}


def _module(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_names(tree: ast.Module) -> set[str]:
    """Return the modules that a file imports, and the possible modules of the packages it imports
    from.
    """
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def fitting(tests: Iterable[str], seconds: float) -> list[str]:
    """Return the first of the tests that fit in ``seconds`` together; a long test that does not fit
    any more is skipped.
    """
    durations = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
    chosen = []
    left_s = seconds
    for test in tests:
        took_s = durations.get(test, USUAL_S)
        if took_s <= left_s or not chosen:
            chosen.append(test)
            left_s -= took_s
    return chosen


def note_durations(of_file: dict[str, float]) -> None:
    """Keep how long test files took, for the next time."""
    known = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
    DURATIONS.parent.mkdir(exist_ok=True)
    DURATIONS.write_text(json.dumps({**known, **of_file}))


if __name__ == "__main__":
    sys.exit(main())
