"""What a session has of profiles. Of several that were read, the last one counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fx_explorer import model
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.session import SessionReader


@dataclass(slots=True)
class ProfiledKernel:
    """The time of one kernel in a profile."""

    seconds: float = 0.0
    runs: int = 0
    """How often its calls ran, all together."""
    shared_s: float = 0.0
    """Seconds of these that are a part of what several calls of the same name took."""
    is_similar: bool = False
    """Whether its name in the profile differs in its number."""
    calls: dict[int, float] = field(default_factory=dict)
    """KernelCall → seconds."""


def last_profile(reader: SessionReader) -> model.Profile | None:
    """Return the profile that counts; None where none was read."""
    return next(reversed(reader.rows(model.Profile)), None)


def profiled_kernels(reader: SessionReader) -> Mapping[int, ProfiledKernel]:
    """Return the times of kernels in the last profile, by the id of the kernel; empty without one."""
    profile = last_profile(reader)
    return _added_up(reader.rows(model.ProfileTime, profile=profile.id) if profile else ())


def profiled_kernel(reader: SessionReader, kernel: int) -> ProfiledKernel | None:
    """Return the time of one kernel in the last profile; None where it did not run in it."""
    profile = last_profile(reader)
    rows = reader.rows(model.ProfileTime, profile=profile.id, kernel=kernel) if profile else ()
    return _added_up(rows).get(kernel)


def _added_up(rows: Iterable[model.ProfileTime]) -> dict[int, ProfiledKernel]:
    found: dict[int, ProfiledKernel] = {}
    for row in rows:
        kernel = found.setdefault(row.kernel, ProfiledKernel())
        kernel.seconds += row.seconds
        kernel.runs += row.runs
        kernel.shared_s += row.shared_s
        kernel.is_similar |= row.how == "similar"
        kernel.calls[row.call] = kernel.calls.get(row.call, 0.0) + row.seconds
    return found


def profile_in_words(reader: SessionReader) -> str:
    """Say in one sentence which profile the times of kernels are from; empty without one."""
    profile = last_profile(reader)
    if profile is None:
        return ""
    marks = " Some are shared among calls of one name (~)." if profile.shared_s else ""
    others = reader.count(model.Profile) - 1
    more = f" The last of {others + 1} profiles counts." if others else ""
    elsewhere = max(0.0, profile.work_s - profile.joined_s)
    rest = f"; {run_time(elsewhere)} ran elsewhere (v g)" if elsewhere > 0 else ""
    return f"Times are those of {profile.file}, all steps together{rest}.{marks}{more}"
