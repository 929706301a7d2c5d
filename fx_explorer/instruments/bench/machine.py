"""What the machine was like when a bench began: its processor, how fast that runs, what else it
did.
"""

from __future__ import annotations

import os
import platform
import re
import time
from pathlib import Path

LOOK_S = 0.3
"""How long the processors are watched for what else runs."""


def machine() -> dict[str, object]:
    """Return what is known of this machine: ``processor``, ``processors``, ``mhz``, and ``busy``,
    the part of all processors' time that other programs took just now. What a system does not tell
    is not among them. Takes ``LOOK_S`` seconds.
    """
    found: dict[str, object] = {
        "processor": _processor(),
        "processors": _processors(),
        "system": platform.platform(),
    }
    before = _times()
    time.sleep(LOOK_S)
    after = _times()
    if before and sum(after) > sum(before):
        idle = sum(after[3:5]) - sum(before[3:5])
        found["busy"] = round(1 - idle / (sum(after) - sum(before)), 2)
    mhz = _numbers("cpu MHz")
    if mhz:
        found["mhz"] = round(sum(mhz) / len(mhz))
    return found


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
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    match = re.search(r"^model name\s*:\s*(.+)$", _cpuinfo(), re.MULTILINE)
    return match[1] if match else platform.processor() or platform.machine()


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
