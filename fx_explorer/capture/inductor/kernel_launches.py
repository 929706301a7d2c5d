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
from pathlib import Path
from typing import Any

import torch

from fx_explorer.capture.inductor.launch_rows import (
    NotedBuild,
    NotedKernel,
    NotedLaunch,
    Options,
    add_launch_rows,
)
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.versions import require
from fx_explorer.model import (
    Argument,
    BuildOrigin,
)
from fx_explorer.model.rows.kernels import NOT_KNOWN

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
