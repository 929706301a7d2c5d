"""This module counts the launches of a log: how often each kernel was launched with the same sizes,
from where, and what differed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from fx_explorer.model import KernelLaunch
from fx_explorer.model.rows.kernels import Argument
from fx_explorer.readers.torch_trace.compilations import Compilations
from fx_explorer.readers.torch_trace.places import Places
from fx_explorer.readers.tritonparse.events import Event, Given, is_tuning, launching_frame, table
from fx_explorer.readers.tritonparse.kernels import Build, Function, Kernels
from fx_explorer.session import SessionWriter

MOST_GROUPS = 500
"""Sizes of one configuration that are counted apart; with the others, launches are counted
together.
"""

MOST_PLACES = 30
"""Lines that are shown of those that launched a kernel."""


@dataclass(slots=True)
class _Group:
    """Launches with the same sizes."""

    grid: tuple[int, ...]
    arguments: tuple[Argument, ...]
    count: int = 0


@dataclass(slots=True)
class _OfKernel:
    """What is known of the launches of one function."""

    given: Given = field(default_factory=Given)
    places: Counter[str] = field(default_factory=Counter)
    groups: dict[int, dict[str, _Group]] = field(default_factory=dict)
    """Place of the configuration among the function's → what distinguishes builds → group."""
    tuning: Counter[int] = field(default_factory=Counter)
    """Launches to be timed, by the place of the configuration."""


class LaunchCounter:
    """Counts launches while the log is read, and writes rows of them when it was."""

    def __init__(
        self, writer: SessionWriter, compilations: Compilations, places: Places, kernels: Kernels
    ) -> None:
        self._writer = writer
        self._compilations = compilations
        self._places = places
        self._kernels = kernels
        self._waiting: dict[str, _OfKernel] = {}
        """Launches of what no event had compiled when they came, by hash and name."""
        self._known: dict[int, _OfKernel] = {}
        self._first: dict[str, tuple[Event, str, str]] = {}

    def launched(self, event: Event) -> None:
        """Count one launch."""
        metadata = table(event.fields.get("compilation_metadata"))
        name = str(event.fields.get("name") or metadata.get("name") or "a kernel without a name")
        known = str(metadata.get("hash") or name)
        build = self._kernels.by_hash.get(known)
        if build is None:
            self._first.setdefault(known, (event, known, name))
            of_kernel, position = self._waiting.setdefault(known, _OfKernel()), 0
        else:
            of_kernel = self._known.setdefault(build.function.row.id, _OfKernel())
            position = build.row.position
        stack = event.fields.get("stack")
        if event.fields.get("autotune_launch_type") == "benchmark" or is_tuning(stack):
            of_kernel.tuning[position] += 1
            return
        of_kernel.given.add(event.fields)
        where = launching_frame(self._places, stack)
        if where:
            of_kernel.places[f"{where.file}:{where.line} in {where.function}: {where.code}"] += 1
        _count(of_kernel.groups.setdefault(position, {}), event.fields)

    def finish(self) -> None:
        """Write the rows and, for each kernel, the document that says what differed."""
        for known, of_kernel in self._waiting.items():
            build = self._kernels.by_hash.get(known) or self._kernels.launched_only(
                *self._first[known]
            )
            self._known.setdefault(build.function.row.id, _OfKernel())
            self._take_over(self._known[build.function.row.id], of_kernel, build.row.position)
        self._waiting.clear()
        for function in self._kernels.functions:
            launched = self._known.get(function.row.id)
            if launched:
                for build in function.builds:
                    self._write(build, launched)
                self._compilations.add_artifact(
                    function.record,
                    "listing",
                    "output_code",
                    f"Launches · {function.row.name}",
                    "text",
                    _in_words(function, launched),
                )

    def _take_over(self, kept: _OfKernel, of_kernel: _OfKernel, position: int) -> None:
        """Add launches that came before their kernel. What they were given is shown only where no
        others are.
        """
        kept.places.update(of_kernel.places)
        kept.tuning[position] += of_kernel.tuning[0]
        groups = kept.groups.setdefault(position, {})
        for key, group in of_kernel.groups.get(0, {}).items():
            groups.setdefault(key, _Group(group.grid, group.arguments)).count += group.count
        if not kept.given.launches:
            kept.given = of_kernel.given

    def _write(self, build: Build, of_kernel: _OfKernel) -> None:
        groups = of_kernel.groups.get(build.row.position, {})
        for group in groups.values():
            self._writer.add(
                KernelLaunch(
                    0, build.function.row.id, build.row.id, group.grid, group.count, group.arguments
                )
            )
        if groups and not build.row.is_picked:
            self._kernels.change(build, is_picked=True)


def _count(groups: dict[str, _Group], launch: dict[str, Any]) -> None:
    given = table(launch.get("extracted_args"))
    arguments = tuple(_argument(name, table(value)) for name, value in given.items())
    numbers = [
        size for size in launch.get("grid") or () if isinstance(size, int) and 0 <= size < 1 << 40
    ]
    grid = tuple(numbers[:3])
    key = repr((grid, arguments))
    if key not in groups and len(groups) >= MOST_GROUPS:
        key, grid, arguments = "others", (), ()
    groups.setdefault(key, _Group(grid, arguments)).count += 1


def _argument(name: str, given: dict[str, Any]) -> Argument:
    if given.get("type") == "tensor":
        return {
            "name": name,
            "dtype": str(given.get("dtype")).removeprefix("torch."),
            "shape": given.get("shape"),
            "stride": given.get("stride"),
            "device": str(given.get("device")),
            "is_mutated": False,  # nobody says
        }
    value = given.get("value")
    if isinstance(value, int | float | bool | str):
        return {"name": name, "value": value}
    return {"name": name, "type": str(given.get("type"))}


def _in_words(function: Function, of_kernel: _OfKernel) -> str:
    lines = [f"{function.row.name}: {of_kernel.given.launches:,} launches"]
    if of_kernel.tuning:
        lines[0] += f", and {of_kernel.tuning.total():,} more while it was tuned"
    lines[0] += "."
    lines.append("")
    width = max(len(build.row.shown_options) for build in function.builds)
    lines += [f"{'configuration':<{width}}  launches  while tuned"]
    for build in function.builds:
        count = sum(group.count for group in of_kernel.groups.get(build.row.position, {}).values())
        timed = f"{of_kernel.tuning[build.row.position]:,}" if of_kernel.tuning else "-"
        lines.append(f"{build.row.shown_options:<{width}}  {count:>8,}  {timed:>11}")
    same, different = list(of_kernel.given.same()), list(of_kernel.given.different())
    if different:
        lines += ["", "Different from launch to launch:"]
        for name, values in different:
            lines.append(f"  {name}")
            lines += [f"      {value}" for value in values]
    if same and of_kernel.given.launches > 1:
        lines += ["", f"The same in all {of_kernel.given.launches:,} launches:"]
    elif same:
        lines += ["", "Of the launch:"]
    lines += [f"  {name}  {value}" for name, value in same]
    if of_kernel.places:
        lines += ["", "Launched from:"]
        lines += [
            f"  {count:>8,} × {place}" for place, count in of_kernel.places.most_common(MOST_PLACES)
        ]
    return "\n".join(lines) + "\n"
