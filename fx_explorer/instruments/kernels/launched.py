"""What a session knows of a kernel from a real GPU: how it was built, tuned and launched."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.kernel_documents import session_gpu
from fx_explorer.analysis.whole_session import is_tritonparse
from fx_explorer.analysis.words import counted
from fx_explorer.instruments.kernels.candidates import Candidate, beside_each_other
from fx_explorer.instruments.kernels.card import card
from fx_explorer.model import KernelBuild, KernelLaunch
from fx_explorer.session import SessionReader

ONE_CONFIGURATION = "Inductor had one configuration for it, so there was nothing to time."
FROM_CACHE = (
    "The pick is that of an earlier run, from Inductor's cache on disk: nothing was timed in "
    "this one."
)


def real_builds(reader: SessionReader, kernel: model.Kernel) -> list[KernelBuild]:
    """Return the builds of a kernel in the order the autotuner tried them; empty when it was
    neither launched nor tuned on a real GPU.
    """
    if session_gpu(reader):
        return []
    return sorted(reader.rows(KernelBuild, kernel=kernel.id), key=lambda row: row.position)


def real_candidates(reader: SessionReader, kernel: model.Kernel) -> list[Candidate]:
    """Return those builds with occupancy, for a card whose limits are known."""
    rows = real_builds(reader, kernel)
    return beside_each_other(reader, rows, card(reader)) if rows else []


def was_launched(reader: SessionReader) -> bool:
    """Return whether any kernel was launched on a real GPU, or at least tuned."""
    return reader.count(KernelLaunch) > 0 or (
        session_gpu(reader) is None and reader.count(KernelBuild) > 0
    )


def launches_in_words(reader: SessionReader, kernel: model.Kernel) -> list[str]:
    """Write one line per size, the most frequent first, and why there are no times when there are
    none.
    """
    launches = sorted(reader.rows(KernelLaunch, kernel=kernel.id), key=lambda row: -row.count)
    lines = [f"launched {counted(row.count, 'time')}{_grid(row)}" for row in launches]
    rows = real_builds(reader, kernel)
    if any(row.origin == "cached" for row in rows):
        return [*lines, FROM_CACHE]
    return [*lines, ONE_CONFIGURATION] if len(rows) == 1 and not is_tritonparse(reader) else lines


def _grid(launch: KernelLaunch) -> str:
    if not launch.grid:
        return " with still other sizes"
    sizes = [
        f"{argument['name']} {argument['value']:,}"
        for argument in launch.arguments
        if _is_size(argument)
    ]
    return f" with a grid of {' x '.join(map(str, launch.grid))} blocks" + (
        f" ({', '.join(sizes)})" if sizes else ""
    )


def _is_size(argument: model.Argument) -> bool:
    return isinstance(argument.get("value"), int) and not isinstance(argument.get("value"), bool)
