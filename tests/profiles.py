"""These helpers have the recorded profiles with their sessions, and a trace's figures when it is
read straight from its JSON.
"""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

from fx_explorer.instruments.profile.join import add_profile, joined_profile

DATA = Path(__file__).parent / "data" / "profiles"
GPU = ("kernel", "gpu_memcpy", "gpu_memset")


def unpacked(name: str, folder: Path) -> Path:
    """Unpack one of the recorded files."""
    file = folder / name.removesuffix(".gz")
    with gzip.open(DATA / name) as packed, file.open("wb") as out:
        shutil.copyfileobj(packed, out)
    return file


def recorded_session(name: str, folder: Path) -> Path:
    """Return one of the recorded sessions."""
    return unpacked(f"{name}.fxs.gz", folder)


def profiled_session(name: str, folder: Path, trace: str = "") -> Path:
    """Return the session with its own profile, or another."""
    session = recorded_session(name, folder)
    add_profile(session, joined_profile(session, DATA / (trace or f"{name}.json.gz")))
    return session


def events(name: str) -> list[dict[str, Any]]:
    """Return the events of a trace, by the JSON library."""
    with gzip.open(DATA / name, "rt") as file:
        found: list[dict[str, Any]] = json.load(file)["traceEvents"]
    return found


def gpu_seconds(found: list[dict[str, Any]]) -> float:
    """Return the sum of all that ran on the GPU."""
    return sum(one["dur"] for one in found if one.get("cat") in GPU) * 1e-6


def graph_seconds(found: list[dict[str, Any]]) -> float:
    """Return the sum of the launches whose time lies within a call of a compiled graph on their
    thread.
    """
    graphs = [
        (one["tid"], one["ts"], one["ts"] + one["dur"])
        for one in found
        if "Call CompiledFxGraph" in one["name"]
    ]
    launches = {
        one["args"]["correlation"]: (one["tid"], one["ts"])
        for one in found
        if one.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in one["args"]
    }
    took = 0.0
    for one in found:
        if one.get("cat") in GPU:
            thread, start = launches[one["args"]["correlation"]]
            took += one["dur"] * any(
                thread == tid and begin <= start <= end for tid, begin, end in graphs
            )
    return took * 1e-6
