"""These fixtures have ledgers of real programs: each is measured once, because that takes seconds."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fx_explorer.instruments.ledger.figures import LedgerFigures, ledger_figures
from tests.conftest import ROOT, OpenedReader
from tests.shared_files import digest, locked

PROGRAM = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(16, 32)
        self.second = torch.nn.Linear(32, 8)

    def forward(self, x):
        h = torch.relu(self.first(x))
        torch._dynamo.graph_break()
        return self.second(torch.sigmoid(h))


model = Net()
example_inputs = (torch.randn(4, 16),)
"""

BREAK = 12


@pytest.fixture(scope="session")
def program(shared_folder: Path) -> Path:
    """Written once: another process of this run may be reading it."""
    file = shared_folder / "ledger" / "net.py"
    with locked(shared_folder / "ledger.lock"):
        if not file.exists():
            file.parent.mkdir()
            file.write_text(PROGRAM)
    return file


NOT_KNOWN = "Where the time of a call goes is not known"
"""How a ledger begins that was measured beside too much else: it says to measure again."""

MOST_ATTEMPTS = 5

MeasuredLedger = Callable[..., Path]


@pytest.fixture(scope="session")
def measured(
    shared_folder: Path,
    warm_python: str,
    capture_environment: dict[str, str],
    fx_explorer: list[str],
) -> MeasuredLedger:
    """``measured(target, *options)`` → the session that ``fx-explorer ledger`` keeps, and beside it
    what it prints.
    """

    def measure(target: str | Path, *options: str) -> Path:
        file = target if isinstance(target, Path) else ROOT / "sample_models" / f"{target}.py"
        path = shared_folder / f"ledger-{file.stem}-{digest(target, options)}.fxs"
        with locked(path.with_suffix(".lock")):
            if not path.exists():
                command = [
                    *fx_explorer,
                    "ledger",
                    str(file),
                    "--python",
                    warm_python,
                    "-o",
                    str(path),
                ]
                command += ["--steps", *options]
                for _ in range(MOST_ATTEMPTS):
                    ended = subprocess.run(
                        command,
                        env=capture_environment,
                        capture_output=True,
                        text=True,
                        timeout=300,
                        check=False,
                    )
                    assert ended.returncode == 0, ended.stderr
                    _steady(path)
                    again = subprocess.run(
                        [*fx_explorer, "ledger", str(path), "--steps"],
                        capture_output=True,
                        text=True,
                        timeout=120,
                        check=True,
                    )
                    if not again.stdout.startswith(NOT_KNOWN):
                        break
                path.with_suffix(".txt").write_text(again.stdout)
        return path

    return measure


def _steady(session: Path) -> None:
    """Let the calls be as steady as on an idle machine: beside other tests they are not, and then a
    ledger says nothing of its steps, which tests of busy machines look at.
    """
    with contextlib.closing(sqlite3.connect(session)) as database, database:
        database.execute("UPDATE ledger_call SET iqr_s = min(iqr_s, 0.1 * call_s)")


@pytest.fixture(scope="session")
def session(program: Path, measured: MeasuredLedger) -> Path:
    """Return the session that ``fx-explorer ledger`` keeps."""
    path = measured(program)
    told = path.with_suffix(".txt").read_text()
    assert told.startswith("A training step of Net takes ")
    assert f"net.py:{BREAK}" in told
    return path


@pytest.fixture
def figures(session: Path, reader: OpenedReader) -> LedgerFigures:
    found = ledger_figures(reader(session))
    assert found is not None
    return found
