"""This module describes the machine of a bench, and detects disturbances of the measurement.

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
"""Seconds for which the load of the processors is watched."""


def machine() -> dict[str, object]:
    """Return the facts about this machine: ``processor``, ``processors``, ``mhz``, and ``busy``,
    the share of all processors' time that other programs use now. Facts that the system does not
    report are missing. Takes ``LOOK_S`` seconds.
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
    """Return the processors' times by kind: user, nice, system, idle, iowait … (proc(5)); empty
    where there is no /proc.
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
    """Return Linux's description of the processors; empty on other systems."""
    try:
        return Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return ""


DISTURBED = 1.2
"""Factor above the fastest time of sharing an operation among the threads, from which on a round
counts as disturbed.
"""


class Paces:
    """How fast the threads shared an operation in the rounds of a bench, and in earlier benches on
    the same machine.
    """

    def __init__(self, rounds: Sequence[BenchRound], known_s: float = 0.0) -> None:
        """``known_s``: the least time in earlier benches; 0 when it is not known."""
        seconds = [known_s, *(row.sharing_s for row in rounds)]
        self._least_s = min((second for second in seconds if second > 0), default=0.0)

    def is_disturbed(self, row: BenchRound) -> bool:
        return row.sharing_s > DISTURBED * self._least_s

    def undisturbed_part(self, rows: Sequence[BenchRound]) -> float:
        """Return the smallest share of their time that rounds might have taken if the threads had
        not taken longer to share operations. A call cannot consist of more than that.
        """
        taken = [row.sharing_s for row in rows if row.sharing_s > 0]
        if taken:
            return min(1.0, self._least_s / median(taken))
        return 1.0


MOST_KEPT = 1 << 20
"""Largest size in bytes of the file that is kept between benches."""

FORGOTTEN_AFTER_S = 7 * 24 * 3600
"""Seconds after which the least time is forgotten, because a virtual machine may be moved for good
to a host where sharing takes longer.
"""


class LeastSharing:
    """The least time of sharing an operation, for one machine, number of threads and version of
    torch.
    """

    def __init__(self, processor: str, path: Path | None = None) -> None:
        self._processor = processor
        self._path = path or state_folder() / "sharing.json"
        self._key = ""
        self.least_s = 0.0
        """Seconds; 0 when the least time is not known."""

    def begin(self, cell: BenchCell) -> None:
        """Look up the least time that earlier benches measured on this processor, with the threads
        and the torch of ``cell``.
        """
        self._key = f"{self._processor}, {cell.threads} threads, torch {cell.torch}"
        seconds, _ = self._kept().get(self._key, (0.0, 0.0))
        self.take_sharing(seconds)

    def take_sharing(self, sharing_s: float) -> None:
        if sharing_s > 0:
            self.least_s = min(sharing_s, self.least_s or sharing_s)

    def keep(self) -> None:
        """Save the least time for the next bench. If it cannot be written, the next bench starts
        without it.
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
        """Return machine → (seconds, when they were measured), without entries that are old or
        damaged.
        """
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
