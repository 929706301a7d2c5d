"""This module reads the kernels of a log: each function with its source, each of its configurations
with the texts, and how often each was launched with the same sizes, from where, and with which
differences.
"""

from __future__ import annotations

import ast
import textwrap
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from fx_explorer.model import LEVELS, Kernel, KernelBuild, KernelLaunch, Level
from fx_explorer.model.rows.kernels import NOT_KNOWN, Argument
from fx_explorer.readers.torch_trace.compilation_records import Compilations
from fx_explorer.readers.torch_trace.places import Places
from fx_explorer.readers.torch_trace.records import Record
from fx_explorer.readers.tritonparse_events import (
    Event,
    Given,
    as_text,
    is_tuning,
    launching_frame,
    table,
)
from fx_explorer.session import SessionWriter
from fx_explorer.session.levels import add_level

TRITON = "Triton"
"""Name of the compiler for the user's own kernels."""

NO_SOURCE = "# The log has launches of this kernel, but neither its source nor its compiled code.\n"

MICROSECOND = 1e-6

_ALWAYS = ("num_warps", "num_stages")

_WHERE_SET = ("num_ctas", "maxnreg")


@dataclass(slots=True)
class Function:
    """A kernel function as the source has it."""

    row: Kernel
    record: Record
    """The first event that named the function, in the form that compilations are made from."""
    builds: list[Build] = field(default_factory=list)


@dataclass(slots=True)
class Build:
    """A function compiled in one configuration."""

    row: KernelBuild
    function: Function
    told_apart: dict[str, str]
    """Further properties of its compilation: arguments that are multiples of 16, or 1."""


class Kernels:
    """Writes kernels and their configurations, and finds them again by Triton's hashes."""

    def __init__(self, writer: SessionWriter, compilations: Compilations, places: Places) -> None:
        self._writer = writer
        self._compilations = compilations
        self._places = places
        self._functions: dict[tuple[str, str, str], Function] = {}
        self._positions: dict[str, int] = {}
        self.by_hash: dict[str, Build] = {}

    @property
    def functions(self) -> list[Function]:
        return list(self._functions.values())

    def compiled(self, event: Event) -> None:
        """Add the configuration that an event of kind ``compilation`` describes. Several processes
        may have compiled the same one.
        """
        payload = event.payload
        metadata = table(payload.get("metadata"))
        key = str(metadata.get("hash") or f"line {event.line}")
        if key in self.by_hash:
            return
        source = table(payload.get("python_source"))
        code = str(source.get("code") or "") or NO_SOURCE
        name = str(metadata.get("name") or "a kernel without a name")
        function = self._function(event, name, code)
        file = str(source.get("file_path") or "")
        arguments = _arguments(code, function.row.name)
        row = KernelBuild(
            id=0,
            kernel=function.row.id,
            position=len(function.builds),
            options=_options(metadata, arguments),
            gpu=_gpu(metadata),
            state="built",
            toolchain=" ".join(filter(None, ("triton", str(metadata.get("triton_version") or "")))),
            file=PurePath(file).name,
            lines_before=max(0, _whole(source.get("start_line"), 1) - 1),
            threads=_threads(metadata),
            registers=_whole(metadata.get("n_regs")),
            spill_bytes=_whole(metadata.get("n_spills")),
            shared_bytes=_whole(metadata.get("shared")),
            duration_s=_took(payload.get("times"), metadata),
        )
        levels = self._levels(function, table(payload.get("file_content")), row)
        row = replace(row, levels=levels)
        row = replace(row, id=self._writer.add(row))
        build = Build(row, function, _distinguishing(metadata, arguments))
        function.builds.append(build)
        self.by_hash[key] = build
        where = launching_frame(self._places, event.fields.get("stack"))
        compiled_for = f"{where.file}:{where.line}" if where else None
        about = {
            "compiled_for": compiled_for,
            **metadata,
            "times": payload.get("times"),
        }
        title = f"Metadata · {function.row.name} · {row.shown_options}"
        self._document(function, title, "json", as_text(about))

    def launched_only(self, event: Event, known: str, name: str) -> Build:
        """Add a kernel of which the log has only launches, and no compilation."""
        function = self._function(event, name, NO_SOURCE)
        metadata = table(event.fields.get("compilation_metadata"))
        row = KernelBuild(
            0,
            function.row.id,
            len(function.builds),
            _options(metadata, {}),
            _gpu(metadata),
            state="built",
            threads=_threads(metadata),
            shared_bytes=_whole(metadata.get("shared")),
            duration_s=NOT_KNOWN,
        )
        build = self.by_hash[known] = Build(replace(row, id=self._writer.add(row)), function, {})
        function.builds.append(build)
        return build

    def finish(self) -> None:
        """Give distinct names to configurations of a function with equal options, by the further
        properties of their compilation.
        """
        for function in self.functions:
            if len({str(build.row.options) for build in function.builds}) < len(function.builds):
                for build in function.builds:
                    self.change(build, options={**build.row.options, **build.told_apart})

    def change(self, build: Build, **fields: Any) -> None:
        build.row = replace(build.row, **fields)
        self._writer.update(build.row)

    def _function(self, event: Event, name: str, code: str) -> Function:
        compilation = event.compilation
        known = self._functions.get((compilation, name, code))
        if known:
            return known
        record = Record("kernel", None, compilation, 0, -1, event.seconds, "", event.line)
        self._compilations.begun_by(record)
        if not compilation:
            self._compilations.begin_without_frame(record, TRITON)
        state = self._compilations.state(record)
        assert state is not None
        # Torch's own stages are in no log of Triton's, whatever Dynamo did.
        state.seen.update(("dynamo", "kernel"))
        where = launching_frame(self._places, event.fields.get("stack"))
        if where and not state.row.function:
            self._places.file(where.file)
            self._compilations.change(
                state, function=where.function, file=where.file, line=where.line
            )
        artifact = self._compilations.add_artifact(record, "kernel", "kernel", name, "triton", code)
        position = self._positions[compilation] = self._positions.get(compilation, -1) + 1
        row = Kernel(0, state.row.id, "", position, name, "triton", artifact)
        function = Function(replace(row, id=self._writer.add(row)), record)
        self._functions[compilation, name, code] = function
        return function

    def _levels(
        self, function: Function, texts: dict[str, Any], build: KernelBuild
    ) -> dict[str, int]:
        """Add the texts of a configuration. A text without a view is stored as a document, and so
        is tritonparse's message in place of an unreadable text.
        """
        levels: dict[str, int] = {}
        for file, text in texts.items():
            level = file.rpartition(".")[2]
            is_text = isinstance(text, str)
            # tritonparse says in angle brackets why it could not read one.
            is_there = is_text and not (text.startswith("<") and "\n" not in text.strip())
            if level in LEVELS and is_there:
                named: Level = level
                levels[level] = add_level(self._writer, function.row, named, text)
            elif level != "json" or not is_there:  # the JSON is the metadata
                title = f"{level} · {function.row.name} · {build.shown_options}"
                if not is_text:
                    text = as_text(text)
                self._document(function, title, "text", text)
        return levels

    def _document(self, function: Function, title: str, language: str, text: str) -> None:
        self._compilations.add_artifact(function.record, "listing", "kernel", title, language, text)


def _options(metadata: dict[str, Any], arguments: dict[str, bool]) -> dict[str, object]:
    """Return the values for which a configuration was compiled, by the names of the function's
    arguments. If the source marks ``tl.constexpr``, only these: Triton also makes a constant of a
    size that is 1.
    """
    constants = _constants(metadata, arguments)
    names = [name for name in constants if arguments.get(name, True)]
    options = {name: constants[name] for name in names if constants[name] is not None}
    for name in _ALWAYS:
        if name in metadata:
            options[name] = metadata[name]
    for name in _WHERE_SET:
        if metadata.get(name) not in (None, 1):
            options[name] = metadata[name]
    return options


def _constants(metadata: dict[str, Any], arguments: dict[str, bool]) -> dict[str, Any]:
    """Return the values that Triton made constants, by the names of the function's arguments."""
    constants = table(metadata.get("src_constants"))
    return {_named(key, arguments): value for key, value in constants.items()}


def _distinguishing(metadata: dict[str, Any], arguments: dict[str, bool]) -> dict[str, str]:
    constants = _constants(metadata, arguments)
    ones = []
    for name, value in constants.items():
        if value == 1 and not arguments.get(name, True):
            ones.append(name)
    multiples = []
    for key, attributes in table(metadata.get("src_attrs")).items():
        if isinstance(attributes, list) and ["tt.divisibility", 16] in attributes:
            multiples.append(_named(key, arguments))
    return {
        "multiples of 16": ", ".join(multiples) or "none",
        "1": ", ".join(ones) or "none",
        "hash": str(metadata.get("hash"))[:8],
    }


def _named(key: str, arguments: dict[str, bool]) -> str:
    """Return the argument that Triton names ``(7,)``: its place in the signature."""
    names = list(arguments)
    digits = key.strip("(), ")
    place = int(digits) if digits.isdecimal() and len(digits) < 6 else -1
    if not 0 <= place < len(names):
        return key
    return names[place]


def _arguments(code: str, name: str) -> dict[str, bool]:
    """Return argument → whether it is a ``tl.constexpr``, for the function ``name`` in ``code``,
    which is the function alone or its whole file; empty for a source that cannot be read.
    """
    try:
        module = ast.parse(textwrap.dedent(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    definitions = [function for function in functions if function.name == name] or functions
    if not definitions:
        return {}
    parameters = definitions[0].args
    constants = {}
    for argument in (*parameters.posonlyargs, *parameters.args):
        annotation = argument.annotation
        constants[argument.arg] = annotation is not None and "constexpr" in ast.unparse(annotation)
    return constants


def _gpu(metadata: dict[str, Any]) -> str:
    arch = table(metadata.get("target")).get("arch") or metadata.get("arch") or ""
    if isinstance(arch, int):
        return f"sm_{arch}"
    return str(arch)


def _threads(metadata: dict[str, Any]) -> int:
    warps = _whole(metadata.get("num_warps"))
    width = _whole(table(metadata.get("target")).get("warp_size"), 32)
    if warps <= 0:
        return NOT_KNOWN
    return warps * width


def _took(times: Any, metadata: dict[str, Any]) -> float:
    """Return the seconds of the compilation; 0 if it came from the cache on disk."""
    if metadata.get("cache_hit"):
        return 0.0
    stages = table(times).get("lowering_stages")
    if not isinstance(stages, list) or not stages:
        return NOT_KNOWN
    pairs = [stage for stage in stages if isinstance(stage, list) and len(stage) == 2]
    in_stages = sum(took for _, took in pairs if isinstance(took, int | float))
    before_stages = max(0, _whole(table(times).get("ir_initialization"), 0))
    return (in_stages + before_stages) * MICROSECOND


def _whole(value: Any, otherwise: int = NOT_KNOWN) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 40:
        return value
    return otherwise


MOST_GROUPS = 500
"""Maximum number of groups of launch sizes that are counted separately per configuration. Launches
with further sizes are counted in one group.
"""

MOST_PLACES = 30
"""Maximum number of source lines that are listed among those that launched a kernel."""


@dataclass(slots=True)
class _Group:
    """Launches with the same sizes."""

    grid: tuple[int, ...]
    arguments: tuple[Argument, ...]
    count: int = 0


@dataclass(slots=True)
class _OfKernel:
    """Counts and arguments of the launches of one function."""

    given: Given = field(default_factory=Given)
    places: Counter[str] = field(default_factory=Counter)
    groups: dict[int, dict[str, _Group]] = field(default_factory=dict)
    """Position of the configuration among the function's → key of the launch sizes → group."""
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
        """Launches of kernels whose compilation is not in the log so far, by hash and name."""
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
        """Write the rows and, for each kernel, the document on the differences between launches."""
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
                    _format_function(function, launched),
                )

    def _take_over(self, kept: _OfKernel, of_kernel: _OfKernel, position: int) -> None:
        """Add the launches that the log has before their kernel. Their arguments are shown only
        when no later launch has any.
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


def _format_function(function: Function, of_kernel: _OfKernel) -> str:
    launches = of_kernel.given.launches
    number = "1 launch" if launches == 1 else f"{launches:,} launches"
    lines = [f"{function.row.name}: {number}"]
    if of_kernel.tuning:
        lines[0] += f", and {of_kernel.tuning.total():,} more for tuning"
    lines[0] += "."
    lines.append("")
    width = max(len(build.row.shown_options) for build in function.builds)
    lines += [f"{'configuration':<{width}}  launches  while tuned"]
    for build in function.builds:
        count = sum(group.count for group in of_kernel.groups.get(build.row.position, {}).values())
        if of_kernel.tuning:
            timed = f"{of_kernel.tuning[build.row.position]:,}"
        else:
            timed = "-"
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
