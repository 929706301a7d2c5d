"""The least time that this machine's threads have taken to share an operation, kept from one bench
to the next: a bench that was disturbed from beginning to end (instruments/bench/disturbed.py) cannot
know it from its own rounds.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path

from fx_explorer.model import BenchCell
from fx_explorer.outside_file import read_outside
from fx_explorer.state_folder import state_folder

MOST_KEPT = 1 << 20
"""Bytes."""

FORGOTTEN_AFTER_S = 7 * 24 * 3600
"""A virtual machine may be moved for good to a host where sharing takes longer."""


class LeastSharing:
    """What is known of one machine with one number of threads and one torch."""

    def __init__(self, processor: str, path: Path | None = None) -> None:
        self._processor = processor
        self._path = path or state_folder() / "sharing.json"
        self._key = ""
        self.least_s = 0.0
        """Seconds; 0 when nothing is known."""

    def begin(self, cell: BenchCell) -> None:
        """Look up what earlier benches measured with the same threads and torch as ``cell``."""
        self._key = f"{self._processor}, {cell.threads} threads, torch {cell.torch}"
        seconds, _ = self._kept().get(self._key, (0.0, 0.0))
        self.hear(seconds)

    def hear(self, sharing_s: float) -> None:
        if sharing_s > 0:
            self.least_s = min(sharing_s, self.least_s or sharing_s)

    def keep(self) -> None:
        """Keep the least for the next bench. Where nothing can be written, the next one knows less."""
        if not self.least_s:
            return
        kept = self._kept()
        if self._key in kept and kept[self._key][0] <= self.least_s:
            return
        kept[self._key] = (self.least_s, time.time())
        written = self._path.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            written.write_text(json.dumps(kept) + "\n", encoding="utf-8")
            os.replace(written, self._path)

    def _kept(self) -> dict[str, tuple[float, float]]:
        """Return (seconds, when they were measured) by machine, without what is old or damaged."""
        try:
            told = json.loads(read_outside(self._path, MOST_KEPT))
        except (OSError, ValueError, RecursionError):
            return {}
        rows = told.items() if isinstance(told, dict) else ()
        oldest = time.time() - FORGOTTEN_AFTER_S
        return {
            key: (row[0], row[1])
            for key, row in rows
            if _is_row(row) and row[0] > 0 and row[1] >= oldest
        }


def _is_row(row: object) -> bool:
    return (
        isinstance(row, list)
        and len(row) == 2
        and all(type(value) in (int, float) for value in row)
    )
