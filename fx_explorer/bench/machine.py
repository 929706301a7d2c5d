"""What the machine was like when a bench began: its processor, how fast that runs, what else it did."""

from __future__ import annotations

import contextlib
import os
import platform
import re
from pathlib import Path


def machine() -> dict[str, object]:
    """Return what is known of this machine: ``processor``, ``processors``, ``mhz``, ``load``."""
    found: dict[str, object] = {"processor": _processor(), "processors": _processors(), "system": platform.platform()}
    with contextlib.suppress(OSError):
        found["load"] = round(os.getloadavg()[0], 2)
    mhz = _numbers("cpu MHz")
    if mhz:
        found["mhz"] = round(sum(mhz) / len(mhz))
    return found


def _processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", _cpuinfo(), re.MULTILINE)
    return found[1] if found else platform.processor() or platform.machine()


def _numbers(name: str) -> list[float]:
    return [float(value) for value in re.findall(rf"^{name}\s*:\s*([\d.]+)$", _cpuinfo(), re.MULTILINE)]


def _cpuinfo() -> str:
    """Return what Linux tells of the processors; nothing elsewhere."""
    try:
        return Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return ""
