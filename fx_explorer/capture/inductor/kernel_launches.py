"""This module records, while the program runs, the kernels that Inductor builds for a real GPU, how
its autotuner times them, and how the program launches them. It turns the records into rows:
KernelBuild, KernelLaunch, and the texts below the Triton source.

Hooks: ``precompile``, ``bench`` and ``run`` of ``CachingAutotuner``
(torch/_inductor/runtime/triton_heuristics.py). They are in this process also when kernels are
compiled in others (``compile_threads``): those send back compiled results, which are loaded, timed
and launched here. Nothing is asked of the GPU that torch does not ask anyway, and rows are written
when the recording ends. A kernel that a CUDA graph replays, and one of the C++ wrapper, is launched
without Python: nobody sees that.

An autotuner knows the file it was loaded from, and a Kernel its source: equal texts belong
together. Where compilations share a source, the one that torch says it was loaded for is taken.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from fx_explorer.capture.inductor.built_texts import (
    file_named_in,
    machine_code_in,
    spilled_bytes,
    texts_in,
)
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.versions import require
from fx_explorer.model import (
    Argument,
    Artifact,
    BuildOrigin,
    Compilation,
    Kernel,
    KernelBuild,
    KernelLaunch,
)
from fx_explorer.model.rows.kernels import NOT_KNOWN
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.levels import add_level

MAX_SIZES = 50
"""Maximum number of sizes of a kernel's launches that are stored. Launches with further sizes are
counted together.
"""

BYTES_OF_A_REGISTER = 4
"""Bytes of a register. ``n_spills`` of a launcher is the driver's local memory of a thread, counted
in registers.
"""


class KernelNotes:
    """Builds, timings and launches noted so far, by the kernel's autotuner."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._writer = recording.writer
        self._kernels: dict[int, NotedKernel] = {}

    @property
    def kernels(self) -> list[NotedKernel]:
        return list(self._kernels.values())

    def built(self, autotuner: Any, wanted: list[Any]) -> None:
        """Record the builds of ``precompile``; ``wanted`` are the configurations that it was
        given.
        """
        noted = self._noted(autotuner)
        origin: BuildOrigin = "smaller_block" if wanted else "heuristic"
        for launcher in autotuner.launchers:
            self._note_build(noted, launcher, origin, wanted)
        for config in wanted:
            key = options_key(config)
            if key not in noted.builds:
                noted.builds[key] = NotedBuild(
                    dict(key), "heuristic", NOT_KNOWN, NOT_KNOWN, NOT_KNOWN, None
                )

    def timed(self, autotuner: Any, launcher: Any, duration_ms: float) -> None:
        """Note the time that ``bench`` has measured. An infinite time is that of a configuration it
        does not try, for its spills.
        """
        noted = self._noted(autotuner)
        build = self._note_build(noted, launcher, "tuned", [])
        if math.isfinite(duration_ms):
            build.timing_s = duration_ms / 1000

    def launched(self, autotuner: Any, arguments: tuple[Any, ...]) -> None:
        """Note a launch after ``run``, which is called all the time."""
        sizes = tuple([value for value in arguments if value.__class__ is int])
        known = self._kernels.get(id(autotuner))
        launch = known.launches.get(sizes) if known else None
        if launch is not None:
            launch.count += 1
        elif (
            self.recording.writer is self._writer
        ):  # or a variant is measured, and nothing of that is recorded
            with self.recording.noting("the launch of a kernel", "kernel"):
                self._first_launch(self._noted(autotuner), sizes, arguments)

    def _first_launch(
        self, noted: NotedKernel, sizes: tuple[int, ...], arguments: tuple[Any, ...]
    ) -> None:
        if len(noted.launches) >= MAX_SIZES:
            noted.launches.setdefault((), NotedLaunch(0)).count += 1
            return
        launch = noted.launches[sizes] = NotedLaunch()
        (launcher,) = noted.autotuner.launchers
        self._note_build(noted, launcher, "heuristic", [])
        noted.picked = options_key(launcher.config)
        launch.arguments = described(noted.autotuner, arguments)
        launch.grid = grid_of(noted.autotuner, launcher.config, arguments)

    def _noted(self, autotuner: Any) -> NotedKernel:
        if id(autotuner) not in self._kernels:
            compilation = getattr(autotuner, "compile_id", None)
            is_backward = bool(getattr(autotuner, "is_backward", False))
            text = _text_of(autotuner.filename) or str(getattr(autotuner.fn, "src", ""))
            self._kernels[id(autotuner)] = NotedKernel(
                autotuner, text, str(compilation or ""), is_backward
            )
        return self._kernels[id(autotuner)]

    def _note_build(
        self, noted: NotedKernel, launcher: Any, other: BuildOrigin, wanted: list[Any]
    ) -> NotedBuild:
        key = options_key(launcher.config)
        if key in noted.builds:
            return noted.builds[key]
        origin: BuildOrigin = other
        if any(options_key(config) == key for config in wanted):
            origin = "heuristic"
        if origin == "heuristic" and _is_from_cache(noted.autotuner):
            origin = "cached"
        noted.builds[key] = NotedBuild(
            dict(key),
            origin,
            _known(launcher.n_regs),
            _known(launcher.n_spills, BYTES_OF_A_REGISTER),
            _known(launcher.shared),
            _cache_folder(noted.device) / launcher.cache_hash,
        )
        return noted.builds[key]


@contextlib.contextmanager
def launch_hook(recording: Recording) -> Iterator[None]:
    """Record the builds, timings and launches of kernels inside the block. Nothing is launched
    while inspecting, or on a virtual GPU.
    """
    if (
        not recording.request.build
        or recording.request.gpu
        or not (torch.version.cuda or torch.version.hip)
    ):
        yield
        return
    notes = KernelNotes(recording)
    with noting_launches(notes):
        try:
            yield
        finally:
            with recording.noting("what was built and launched", "kernel"):
                add_launch_rows(recording, notes.kernels)


@contextlib.contextmanager
def noting_launches(notes: KernelNotes) -> Iterator[None]:
    autotuner = require("torch._inductor.runtime.triton_heuristics", "CachingAutotuner")
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            patched(autotuner, "precompile", lambda original: _precompile(notes, original))
        )
        stack.enter_context(patched(autotuner, "bench", lambda original: _bench(notes, original)))
        stack.enter_context(patched(autotuner, "run", lambda original: _run(notes, original)))
        yield


def _precompile(notes: KernelNotes, original: Callable[..., Any]) -> Callable[..., Any]:
    def precompile(autotuner: Any, *args: Any, **kwargs: Any) -> Any:
        # Asked before, since precompiling lets go of the configurations.
        wanted = [result.config for result in autotuner.compile_results] or list(
            autotuner.configs or ()
        )
        answer = original(autotuner, *args, **kwargs)
        if autotuner.launchers:  # none when it only fills a cache
            with notes.recording.noting("what was built", "kernel"):
                notes.built(autotuner, wanted)
        return answer

    return precompile


def _bench(notes: KernelNotes, original: Callable[..., Any]) -> Callable[..., Any]:
    def bench(autotuner: Any, launcher: Any, *args: Any, **kwargs: Any) -> Any:
        duration_ms = original(autotuner, launcher, *args, **kwargs)
        with notes.recording.noting("what the autotuner timed", "kernel"):
            notes.timed(autotuner, launcher, duration_ms)
        return duration_ms

    return bench


def _run(notes: KernelNotes, original: Callable[..., Any]) -> Callable[..., Any]:
    def run(autotuner: Any, *args: Any, **kwargs: Any) -> Any:
        answer = original(autotuner, *args, **kwargs)
        # To time it is not the program's launch.
        if "benchmark_run" not in kwargs:
            notes.launched(autotuner, args)
        return answer

    return run


def options_key(config: Any) -> Options:
    """Return a key of a ``triton.Config``, by which it is distinguished from others."""
    return (
        *config.kwargs.items(),
        ("num_warps", config.num_warps),
        ("num_stages", config.num_stages),
    )


def _known(number: object, factor: int = 1) -> int:
    if not isinstance(number, int):
        return NOT_KNOWN
    return number * factor


def _cache_folder(device: int) -> Path:
    """Return the folder of Triton's cache. It is looked up immediately, because a program may
    change it between compiles.
    """
    return Path(require("torch._inductor.runtime.cache_dir_utils", "triton_cache_dir")(device))


def _is_from_cache(autotuner: Any) -> bool:
    return (getattr(autotuner, "autotune_cache_info", None) or {}).get(
        "autotune_cache_state"
    ) == "hit"


def _text_of(file: str | None) -> str:
    """Return the text of a file; empty if the file no longer exists, so that its kernel cannot be
    found.
    """
    try:
        return Path(file or "").read_text(encoding="utf-8")
    except OSError:
        return ""


# The arguments a Triton kernel is launched with, described without their contents, and the grid
# they ask for.


def described(autotuner: Any, arguments: tuple[Any, ...]) -> tuple[Argument, ...]:
    """Describe the arguments of ``CachingAutotuner.run``, in order, with the kernel's names for
    them.
    """
    names = [*argument_names(autotuner), *autotuner.inductor_meta.get("extra_launcher_args", ())]
    names += [f"argument {number}" for number in range(len(names), len(arguments))]
    return tuple(
        _described(name, value, autotuner) for name, value in zip(names, arguments, strict=False)
    )


def argument_names(autotuner: Any) -> Iterator[str]:
    """Yield the names of the arguments that are passed. Those that are ``tl.constexpr`` belong to
    the configuration.
    """
    constants = require("torch._inductor.runtime.triton_helpers", "get_constexprs")(autotuner.fn)
    return (
        name for position, name in enumerate(autotuner.fn.arg_names) if position not in constants
    )


def _described(name: str, value: object, autotuner: Any) -> Argument:
    if isinstance(value, torch.Tensor):
        return {
            "name": name,
            "dtype": str(value.dtype).removeprefix("torch."),
            "shape": list(value.shape),
            "stride": list(value.stride()),
            "device": value.device.type,
            "is_mutated": name in autotuner.mutated_arg_names,
        }
    if value is None or isinstance(value, int | float | str):
        return {"name": name, "value": value}
    return {"name": name, "type": type(value).__name__}


def grid_of(autotuner: Any, config: Any, arguments: tuple[Any, ...]) -> tuple[int, ...]:
    """Compute the grid as the launcher does (``GridExpr``,
    torch/_inductor/runtime/triton_heuristics.py).
    """
    expression = require("torch._inductor.runtime.triton_heuristics", "GridExpr").from_meta(
        autotuner.inductor_meta, config
    )
    names = [*argument_names(autotuner), *autotuner.inductor_meta.get("extra_launcher_args", ())]
    return tuple(
        int(size) for size in expression.eval_slow(dict(zip(names, arguments, strict=False)))
    )


# What is noted of a kernel, and the rows of it.


Options = tuple[tuple[str, object], ...]


@dataclass
class NotedBuild:
    """A configuration of a kernel that was loaded onto the GPU, with its resources."""

    options: dict[str, object]
    origin: BuildOrigin
    registers: int
    local_bytes: int
    shared_bytes: int
    folder: Path | None
    """The build's directory in Triton's cache; None when it was not built."""
    timing_s: float = 0.0


@dataclass
class NotedLaunch:
    count: int = 1
    grid: tuple[int, ...] = ()
    arguments: tuple[Argument, ...] = ()


@dataclass
class NotedKernel:
    """Builds, timings and launches of one autotuner. It keeps the autotuner alive, as the module
    from which torch loaded it does anyway.
    """

    autotuner: Any
    source: str
    """Text of the file from which the autotuner was loaded; for a template, whose file torch does
    not know, the text of the function.
    """
    compilation: str
    is_backward: bool
    picked: Options = ()
    builds: dict[Options, NotedBuild] = field(default_factory=dict)
    launches: dict[tuple[int, ...], NotedLaunch] = field(default_factory=dict)

    @property
    def device(self) -> int:
        return int(self.autotuner.triton_meta.get("device") or 0)


# The rows.


def add_launch_rows(recording: Recording, notes: list[NotedKernel]) -> None:
    """Add rows for the kernels that the program launched. The others are candidates of a choice
    that was lost, and have rows already.
    """
    with SessionReader(recording.writer.path) as reader:
        finder = _KernelFinder(reader)
    launched = []
    for noted in notes:
        kernel = finder.kernel_of(noted) if noted.launches else None
        if kernel:
            launched.append((noted, kernel))
    rows = _LaunchRows(recording.writer, finder.choices)
    for noted, kernel in launched:
        with recording.noting(f"how {kernel.name} was launched", "kernel"):
            rows.add(noted, kernel)
    known = {id(noted) for noted, _ in launched}
    for noted in notes:
        if id(noted) not in known:  # to be timed, a template is launched like any other
            with recording.noting("a candidate that was not taken", "kernel"):
                rows.add_lost(noted)
    if launched:
        recording.saw("kernel")


@dataclass(frozen=True, slots=True)
class _TunedCandidate:
    """A candidate that the autotuner timed (autotuner_choices.py), with its row so far."""

    row: KernelBuild
    kernel: Kernel
    source: str

    def is_like(self, options: dict[str, object]) -> bool:
        """Return whether the options that both configurations have are equal."""
        shared = self.row.options.keys() & options.keys()
        if not {"num_warps", "num_stages"} < shared:
            return False
        return all(str(self.row.options[name]) == str(options[name]) for name in shared)


def _choice(reader: SessionReader, row: KernelBuild) -> _TunedCandidate:
    source = _bare(reader.text(row.source)) if row.source else ""
    return _TunedCandidate(row, reader.get(Kernel, row.kernel), source)


def _bare(source: str) -> str:
    """Return the source without spaces at line ends: Triton keeps a function's text without the
    spaces on its empty lines.
    """
    return "\n".join(line.rstrip() for line in source.strip().splitlines())


class _KernelFinder:
    def __init__(self, reader: SessionReader) -> None:
        self._names = {row.id: row.name for row in reader.rows(Compilation)}
        self._by_source: dict[str, list[Kernel]] = {}
        for kernel in reader.rows(Kernel, language="triton"):
            source = reader.text(reader.get(Artifact, kernel.artifact).text)
            self._by_source.setdefault(_bare(source), []).append(kernel)

        self.choices = [_choice(reader, row) for row in reader.rows(KernelBuild)]

    def kernel_of(self, noted: NotedKernel) -> Kernel | None:
        source = _bare(noted.source)
        same = self._by_source.get(source) or self._with_function(source)
        return max(same, key=lambda kernel: self._likeness(kernel, noted), default=None)

    def _with_function(self, text: str) -> list[Kernel]:
        if not text:
            return []
        for source, kernels in self._by_source.items():
            if text in source:
                return kernels
        return []

    def _likeness(self, kernel: Kernel, noted: NotedKernel) -> int:
        is_same = self._names.get(kernel.compilation) == noted.compilation
        return 2 * is_same + ((kernel.direction == "backward") == noted.is_backward)


class _LaunchRows:
    def __init__(self, writer: SessionWriter, choices: list[_TunedCandidate]) -> None:
        self._writer = writer
        self._choices = choices
        self._launched: set[int] = set()
        """Rows of choices that were launched."""
        self._builds: dict[int, dict[Options, int]] = {}
        """Row of each configuration, by kernel. Two autotuners of one kernel share them."""

    def add(self, noted: NotedKernel, kernel: Kernel) -> None:
        with self._writer.transaction():
            known = self._builds.setdefault(kernel.id, {})
            timed = [choice for choice in self._choices if choice.row.kernel == kernel.id]
            for key in noted.builds:
                if key not in known:
                    known[key] = self._add_launched(
                        noted, kernel, key, timed, len(timed) + len(known)
                    )
            for launch in noted.launches.values():
                build_id = known.get(noted.picked, 0)
                self._writer.add(
                    KernelLaunch(
                        0, kernel.id, build_id, launch.grid, launch.count, launch.arguments
                    )
                )

    def add_lost(self, noted: NotedKernel) -> None:
        """Add the resources and texts of a candidate that was only timed. It may belong to several
        equal operations. Warps and stages are compared too, because they are not in the text of a
        template's function.
        """
        source = _bare(noted.source)
        for build in noted.builds.values():
            options = {**_written(noted), **build.options}
            for choice in self._choices:
                if (
                    source
                    and source in choice.source
                    and choice.row.id not in self._launched
                    and choice.is_like(options)
                ):
                    self._update_lost(noted, build, choice)

    def _update_lost(self, noted: NotedKernel, build: NotedBuild, choice: _TunedCandidate) -> None:
        with self._writer.transaction():
            row = self._build(noted, choice.kernel, build)
            if row.state == "built":
                # Its source is the whole text of its module.
                self._writer.update(replace(_of_choice(row, choice.row), lines_before=0))

    def _add_launched(
        self,
        noted: NotedKernel,
        kernel: Kernel,
        key: Options,
        timed: list[_TunedCandidate],
        position: int,
    ) -> int:
        """Replace the candidate's row, if there is one, by the row of the launched kernel: the
        candidate was timed without the operations fused into it.
        """
        row = replace(
            self._build(noted, kernel, noted.builds[key]),
            is_picked=key == noted.picked,
            position=position,
        )
        choice = next((candidate for candidate in timed if candidate.is_like(row.options)), None)
        if choice is None:
            return self._writer.add(row)
        self._launched.add(choice.row.id)
        levels = row.levels  # its source is the kernel's
        self._writer.update(replace(_of_choice(row, choice.row), source=0, name="", levels=levels))
        return choice.row.id

    def _build(self, noted: NotedKernel, kernel: Kernel, build: NotedBuild) -> KernelBuild:
        """Return the row of a build, without an id and a position."""
        texts = texts_in(build.folder) if build.folder else {}
        file = Path(noted.autotuner.filename or "").name
        row = KernelBuild(
            id=0,
            kernel=kernel.id,
            position=0,
            options={**_written(noted), **build.options},
            gpu=torch.cuda.get_device_name(noted.device),
            state="built",
            origin=build.origin,
            toolchain=_toolchain(),
            file=file or file_named_in(texts.get("ttir", "")),
            lines_before=LINES_BEFORE,
            timing_s=build.timing_s,
        )
        if not build.folder:
            return replace(row, state="failed", error=LEFT_OUT)
        levels = {}
        for level, text in texts.items():
            levels[str(level)] = add_level(self._writer, kernel, level, text)
        row = _with_resources(row, build, texts.get("ptx", ""))
        code = machine_code_in(build.folder)
        machine_code = self._writer.text(code) if code else 0
        return replace(row, levels=levels, machine_code=machine_code)


def _of_choice(row: KernelBuild, choice: KernelBuild) -> KernelBuild:
    """Return ``row``, a configuration that was built, under the id, name and source of the choice
    that was timed.
    """
    return replace(
        row,
        id=choice.id,
        kernel=choice.kernel,
        position=choice.position,
        options=choice.options,
        origin=choice.origin,
        source=choice.source,
        name=choice.name,
        levels={**choice.levels, **row.levels},
        timing_s=choice.timing_s or row.timing_s,
    )


LINES_BEFORE = 1
"""Number of lines before the source: Inductor compiles a kernel together with the line feed that
follows its opening quotes.
"""

LEFT_OUT = "Inductor left this configuration out: it could not be compiled or loaded on this GPU."


def _written(noted: NotedKernel) -> dict[str, object]:
    """Return the options that Inductor wrote into the source: a template has its block sizes there,
    not in its configuration.
    """
    return dict(noted.autotuner.inductor_meta.get("config_args") or {})


def _with_resources(row: KernelBuild, build: NotedBuild, ptx: str) -> KernelBuild:
    """Fill in the resources as the driver reports them to torch. It does not report spills: without
    local memory there are none, otherwise ptxas computes them.
    """
    warps = build.options["num_warps"]
    warp_size = torch.cuda.get_device_properties(0).warp_size
    threads = warps * warp_size if isinstance(warps, int) else row.threads
    spill_bytes = build.local_bytes
    if spill_bytes > 0:
        spill_bytes = spilled_bytes(ptx)
    return replace(
        row,
        threads=threads,
        registers=build.registers,
        spill_bytes=spill_bytes,
        stack_bytes=build.local_bytes,
        shared_bytes=build.shared_bytes,
    )


def _toolchain() -> str:
    import triton

    return f"triton {triton.__version__}"
