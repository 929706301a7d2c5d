"""This module reads what a session has of a kernel from a real GPU: how it was built, tuned and
launched, its time in a profile, and from a log the times that Inductor's autotuning measured and
the configuration that Triton chose. If several profiles were read, the last one counts.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fx_explorer import model
from fx_explorer.analysis.kernel_documents import session_gpu
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.whole_session import is_tritonparse
from fx_explorer.analysis.words import counted
from fx_explorer.instruments.kernels.candidates import Candidate, make_candidates, may_be_template
from fx_explorer.instruments.kernels.gpu_limits import card
from fx_explorer.model import KernelBuild, KernelLaunch
from fx_explorer.model.checked_json import finite_number
from fx_explorer.session import SessionReader, answered_once

ONE_CONFIGURATION = "Inductor had only one configuration for it, so there was nothing to time."
FROM_CACHE = (
    "The choice comes from an earlier run, through Inductor's cache on disk: nothing was timed in "
    "this run."
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
    if rows:
        return make_candidates(reader, rows, card(reader))
    return []


def was_launched(reader: SessionReader) -> bool:
    """Return whether any kernel was launched on a real GPU, or at least tuned."""
    return reader.count(KernelLaunch) > 0 or (
        session_gpu(reader) is None and reader.count(KernelBuild) > 0
    )


def describe_launches(reader: SessionReader, kernel: model.Kernel) -> list[str]:
    """Return one line per launch size, the most frequent first, and the reason if there are no
    times.
    """
    launches = sorted(reader.rows(KernelLaunch, kernel=kernel.id), key=lambda row: -row.count)
    lines = [f"launched {counted(row.count, 'time')}{_grid(row)}" for row in launches]
    rows = real_builds(reader, kernel)
    if any(row.origin == "cached" for row in rows):
        return [*lines, FROM_CACHE]
    if len(rows) == 1 and not is_tritonparse(reader):
        return [*lines, ONE_CONFIGURATION]
    return lines


def _grid(launch: KernelLaunch) -> str:
    if not launch.grid:
        return " with still other sizes"
    grid = f" with a grid of {' x '.join(map(str, launch.grid))} blocks"
    arguments = [argument for argument in launch.arguments if _is_size(argument)]
    sizes = [f"{argument['name']} {argument['value']:,}" for argument in arguments]
    if sizes:
        return f"{grid} ({', '.join(sizes)})"
    return grid


def _is_size(argument: model.Argument) -> bool:
    return isinstance(argument.get("value"), int) and not isinstance(argument.get("value"), bool)


# Times of kernels in a profile.


@dataclass(slots=True)
class ProfiledKernel:
    """The time of one kernel in a profile."""

    seconds: float = 0.0
    runs: int = 0
    """Number of runs of all its calls together."""
    shared_s: float = 0.0
    """Part of these seconds that is a share of a time measured for several calls of the same name.
    """
    is_similar: bool = False
    """Whether only the number in its name differs from its name in the profile."""
    calls: dict[int, float] = field(default_factory=dict)
    """Id of the KernelCall → its seconds in the profile."""


@answered_once
def last_profile(reader: SessionReader) -> model.Profile | None:
    """Return the last profile, which is the one that counts; None where none was read."""
    return next(reversed(reader.rows(model.Profile)), None)


def profiled_kernels(reader: SessionReader) -> Mapping[int, ProfiledKernel]:
    """Return the times of kernels in the last profile, by the id of the kernel; empty without
    one.
    """
    profile = last_profile(reader)
    if not profile:
        return {}
    return _added_up(reader.rows(model.ProfileTime, profile=profile.id))


@answered_once
def profiled_kernel(reader: SessionReader, kernel: int) -> ProfiledKernel | None:
    """Return the time of one kernel in the last profile; None where it has no run there."""
    profile = last_profile(reader)
    rows = reader.rows(model.ProfileTime, profile=profile.id, kernel=kernel) if profile else ()
    return _added_up(rows).get(kernel)


def _added_up(rows: Iterable[model.ProfileTime]) -> dict[int, ProfiledKernel]:
    kernels: dict[int, ProfiledKernel] = {}
    for row in rows:
        kernel = kernels.setdefault(row.kernel, ProfiledKernel())
        kernel.seconds += row.seconds
        kernel.runs += row.runs
        kernel.shared_s += row.shared_s
        kernel.is_similar |= row.how == "similar"
        kernel.calls[row.call] = kernel.calls.get(row.call, 0.0) + row.seconds
    return kernels


def describe_profile(reader: SessionReader) -> str:
    """Return a sentence on which profile the times of kernels are from; empty without one."""
    profile = last_profile(reader)
    if profile is None:
        return ""
    marks = " Some are divided among calls of the same name (~)." if profile.shared_s else ""
    others = reader.count(model.Profile) - 1
    more = f" Only the last of {others + 1} profiles is used." if others else ""
    elsewhere = max(0.0, profile.work_s - profile.joined_s)
    rest = f"; {run_time(elsewhere)} were spent elsewhere (v g)" if elsewhere > 0 else ""
    return f"Times are from {profile.file}, all steps together{rest}.{marks}{more}"


# What a log says of how kernels were chosen.


METRIC = "autotune_choices_stats"
"""Name of torch's metric with the timed choices (torch/_inductor/select_algorithm.py,
``_log_autotune_choices_stats``).
"""

NOT_IN_LOG = (
    "A log has neither the other candidates nor their code: capture the program with --build to "
    "see them."
)

CONFIGURATIONS = "Configurations of kernels"
"""Title of torch's record ``triton_kernel_info``."""


@dataclass(frozen=True, slots=True)
class MeasuredChoice:
    """One operation for which Inductor measured Triton templates and library calls."""

    compilation: int
    operation: str
    """Name of the operation, such as ``mm``."""
    choices: int
    triton_choices: int
    best: str
    """Name of the fastest choice, such as ``triton_mm_12``."""
    best_description: str
    """The options of the fastest choice, as torch writes them."""
    best_s: float
    best_triton: str
    """Name of the fastest Triton template, when a library call is faster; else empty."""
    best_triton_s: float

    @property
    def description(self) -> str:
        of_triton = f", {self.triton_choices:,} of them Triton templates"
        text = (
            f"Inductor measured {counted(self.choices, 'choice')} for {self.operation}{of_triton}"
        )
        text += f": the best is {self.best} at {self.best_s * 1e6:.3g} µs"
        if self.best_triton:
            text += f", the best template {self.best_triton} at {self.best_triton_s * 1e6:.3g} µs"
        return text


def measured_choices(reader: SessionReader, compilation: int = 0) -> list[MeasuredChoice]:
    """Return the choices that autotuning measured, in the order of the log, of one compilation or
    of all.
    """
    wanted = {"compilation": compilation} if compilation else {}
    choices = []
    for row in reader.rows(model.Metric, name=METRIC, **wanted):
        record = json.loads(str(row.value))
        if isinstance(record, dict):
            choices.append(_choice(row.compilation, record))
    return choices


def _choice(compilation: int, record: dict[str, object]) -> MeasuredChoice:
    return MeasuredChoice(
        compilation,
        str(record.get("operation") or "an operation"),
        int(finite_number(record.get("num_choices"))),
        int(finite_number(record.get("num_triton_choices"))),
        str(record.get("best_kernel") or ""),
        str(record.get("best_kernel_desc") or ""),
        finite_number(record.get("best_time")) / 1e3,
        str(record.get("best_triton_kernel") or ""),
        finite_number(record.get("best_triton_time")) / 1e3,
    )


def may_be_tuned(kernel: model.Kernel) -> bool:
    """Return whether autotuning may have chosen the kernel: it is a template, or a library call
    that competes with templates.
    """
    is_template = kernel.name.startswith("triton_tem_")
    return is_template or (kernel.language == "extern" and may_be_template(kernel))


def describe_configuration(reader: SessionReader, kernel: model.Kernel) -> str:
    """Return which configuration a Triton kernel of a log was built for: ``XBLOCK 1, num_warps 4``;
    empty where the log does not say.
    """
    for record in _build_records(reader, kernel):
        return _describe_options(record.get("only_config") or record.get("best_config"))
    return ""


def compile_seconds(reader: SessionReader, kernel: model.Kernel) -> float | None:
    """Return how long a log says that Triton took to compile the kernel, in seconds; None where it
    does not say. If both directions have a kernel of this name, the times differ and are not told
    apart.
    """
    times = set()
    for record in _build_records(reader, kernel):
        time_us = record.get("compile_time_us")
        if isinstance(time_us, int | float) and not isinstance(time_us, bool):
            times.add(float(time_us) / 1e6)
    return times.pop() if len(times) == 1 else None


def _build_records(reader: SessionReader, kernel: model.Kernel) -> Iterator[dict[str, object]]:
    """Yield what torch recorded when it built the kernels of this name in a compilation. Of a
    kernel of the user's it records the name of the function; the output code numbers it:
    ``add_k_0``.
    """
    for by_kernel in _build_records_by_name(reader).get(kernel.compilation, ()):
        record = by_kernel.get(kernel.name) or by_kernel.get(_own_name(reader, kernel))
        if isinstance(record, dict):
            yield record


def _own_name(reader: SessionReader, kernel: model.Kernel) -> str:
    """Return the name of the user's function that a kernel is, if it is the only one of it."""
    own_name = _NUMBERED.sub("", kernel.name)
    kernels = reader.rows(model.Kernel, compilation=kernel.compilation)
    namesakes = {each.name for each in kernels if _NUMBERED.sub("", each.name) == own_name}
    return own_name if namesakes == {kernel.name} else ""


_NUMBERED = re.compile(r"_\d{1,9}$")
"""Matches the number of a user's kernel in the output code
(torch/_inductor/codegen/wrapper.py, ``define_user_defined_triton_kernel``).
"""


def build_records(reader: SessionReader) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield (compilation, records by the name of a kernel) for each record of torch's builds."""
    for compilation, records in _build_records_by_name(reader).items():
        for by_kernel in records:
            yield compilation, by_kernel


@answered_once
def _build_records_by_name(reader: SessionReader) -> dict[int, list[dict[str, object]]]:
    """Return compilation → its records, each with an entry by the name of a kernel."""
    records: dict[int, list[dict[str, object]]] = defaultdict(list)
    for document in reader.rows(model.Artifact, kind="listing"):
        if not document.title.startswith(CONFIGURATIONS):
            continue
        try:
            by_kernel = json.loads(reader.text(document.text))
        except (ValueError, RecursionError):
            continue  # a record that is cut off, which the session counts
        if isinstance(by_kernel, dict):
            records[document.compilation].append(by_kernel)
    return records


def _describe_options(options: object) -> str:
    pairs = list(options.items()) if isinstance(options, dict) else options
    if not isinstance(pairs, list):
        return ""
    known = [pair for pair in pairs if isinstance(pair, list | tuple) and len(pair) == 2]
    return ", ".join(f"{name} {value}" for name, value in known)
