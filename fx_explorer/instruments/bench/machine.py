"""A bench asks this module what the machine is like, and whether something disturbed the
measurement.

``machine`` describes the processor, its speed and its load when a bench begins. A round is
disturbed where the processors took longer than in others to share an operation: what was measured
in it says more of the machine than of the program (``Paces``). A bench that was disturbed from
beginning to end cannot see that in its own rounds, so the least time is kept from one bench to the
next (``LeastSharing``).
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from fx_explorer.folders import state_folder
from fx_explorer.model import BenchCell, BenchRound
from fx_explorer.outside_file import read_outside

LOOK_S = 0.3
"""How long the processors are watched for what else runs."""


def machine() -> dict[str, object]:
    """Return what is known of this machine: ``processor``, ``processors``, ``mhz``, and ``busy``,
    the part of all processors' time that other programs took just now. What a system does not tell
    is not among them. Takes ``LOOK_S`` seconds.
    """
    facts: dict[str, object] = {
        "processor": _processor(),
        "processors": _processors(),
        "system": platform.platform(),
    }
    before = _times()
    time.sleep(LOOK_S)
    after = _times()
    if before and sum(after) > sum(before):
        idle = sum(after[3:5]) - sum(before[3:5])
        facts["busy"] = round(1 - idle / (sum(after) - sum(before)), 2)
    mhz = _numbers("cpu MHz")
    if mhz:
        facts["mhz"] = round(sum(mhz) / len(mhz))
    return facts


def _times() -> list[int]:
    """Return how long all processors did what: user, nice, system, idle, iowait … (proc(5));
    nothing where there is no /proc.
    """
    try:
        return [int(value) for value in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    except (OSError, ValueError, IndexError):  # none, or another system's
        return []


def _processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    match = re.search(r"^model name\s*:\s*(.+)$", _cpuinfo(), re.MULTILINE)
    if match:
        return match[1]
    return platform.processor() or platform.machine()


def _numbers(name: str) -> list[float]:
    return [
        float(value) for value in re.findall(rf"^{name}\s*:\s*([\d.]+)$", _cpuinfo(), re.MULTILINE)
    ]


def _cpuinfo() -> str:
    """Return what Linux tells of the processors; nothing elsewhere."""
    try:
        return Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return ""


DISTURBED = 1.2
"""How many times as long as they can the threads take to share an operation, from which on a round
is disturbed.
"""


class Paces:
    """How fast the threads shared an operation in the rounds of a bench, and in earlier ones on the
    same machine.
    """

    def __init__(self, rounds: Sequence[BenchRound], known_s: float = 0.0) -> None:
        """``known_s``: the least that they took in earlier benches; 0 when that is not known."""
        seconds = [known_s, *(row.sharing_s for row in rounds)]
        self._least_s = min((second for second in seconds if second > 0), default=0.0)

    def is_disturbed(self, row: BenchRound) -> bool:
        return row.sharing_s > DISTURBED * self._least_s

    def undisturbed_part(self, rows: Sequence[BenchRound]) -> float:
        """Return which part of their time rounds would have taken at least, had the threads not
        taken longer to share operations: no call consists of more than that.
        """
        taken = [row.sharing_s for row in rows if row.sharing_s > 0]
        if taken:
            return min(1.0, self._least_s / median(taken))
        return 1.0


MOST_KEPT = 1 << 20
"""Largest size of the file that is kept from bench to bench, in bytes."""

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
        """Keep the least for the next bench. Where nothing can be written, the next one knows
        less.
        """
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
            stored = json.loads(read_outside(self._path, MOST_KEPT))
        except (OSError, ValueError, RecursionError):
            return {}
        rows = stored.items() if isinstance(stored, dict) else ()
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
