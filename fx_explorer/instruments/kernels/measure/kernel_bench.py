"""This process, like the worker, measures one kernel of a session on the GPU at hand, and ends.

Its first line of input is a ``BenchRequest``. It answers with ``BenchAnswer`` lines, the last of
which is the result. The program that the kernel is from is not run: the kernel's own source is
loaded (``KernelAlone``), built in one configuration, and run on random data of the shapes it was
launched with.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from typing import Any

import torch

from fx_explorer.capture.torch_compat.versions import require
from fx_explorer.errors import FxExplorerError, UsageError
from fx_explorer.model import (
    Argument,
    Artifact,
    BenchAnswer,
    BenchRequest,
    Kernel,
    KernelBuild,
    KernelLaunch,
    KernelTime,
)
from fx_explorer.session import SessionReader

Say = Callable[[str], None]

NOT_GENERATED = "{name} is a library call: it has no code of its own that could be run by itself."
NOT_LAUNCHED = (
    "No launch of {name} was recorded, so it is not known what to call it with. Capture its "
    "program on a GPU with --build, and without CUDA graphs."
)


def main(notices: int, commands: int) -> None:
    with os.fdopen(commands, encoding="utf-8") as lines:
        request = BenchRequest.from_json(lines.readline())

    def send(answer: BenchAnswer) -> None:
        line = answer.to_json().encode() + b"\n"
        while line:
            line = line[os.write(notices, line) :]

    try:
        send(measured(request, lambda text: send(BenchAnswer(text))))
    except (FxExplorerError, ImportError) as error:
        send(BenchAnswer(str(error), refused=True))
    os._exit(0)  # torch takes a second to release the GPU


def measured(request: BenchRequest, say: Say) -> BenchAnswer:
    """Measure the kernel of the request. Raises UsageError when there is nothing to measure, or
    nothing to measure it on.
    """
    with SessionReader(request.session) as reader:
        kernel = reader.get(Kernel, request.kernel)
        launch = usual_launch(reader, kernel)
        options = _picked_options(reader, launch)
        source = reader.text(reader.get(Artifact, kernel.artifact).text)
    say("importing torch")
    from fx_explorer.instruments.kernels.measure.kernel_timing import (
        ceilings_of,
        check_gpu,
        timed_alone,
        timed_empty,
    )

    device = check_gpu()
    say(f"building {kernel.name}")
    if not request.is_own:
        _check(source)
    alone = KernelAlone(kernel.name, source, options, launch.arguments)
    say(f"measuring {kernel.name} on {device}")
    found, empty = timed_alone(alone.run, alone.put_back), timed_empty()
    time = KernelTime(
        id=0,
        kernel=kernel.id,
        launch=launch.id,
        options=dict(alone.options),
        device=device,
        median_s=found.median_s,
        iqr_s=found.iqr_s,
        runs=found.runs,
        empty_s=empty.median_s,
        clock=found.clock,
    )
    return BenchAnswer(time=time, ceilings=ceilings_of(device, say) if request.ceilings else ())


def _check(source: str) -> None:
    """Read an untrusted source before it is run. Raises UntrustedSourceError."""
    from fx_explorer.capture.virtual_gpu.triton_kernel import helpers
    from fx_explorer.session.untrusted.triton_source import check_source

    check_source(source, helpers())


def usual_launch(reader: SessionReader, kernel: Kernel) -> KernelLaunch:
    """Return the most frequent launch. Raises UsageError when there is none."""
    if kernel.language != "triton":
        raise UsageError(NOT_GENERATED.format(name=kernel.name))
    launches = [row for row in reader.rows(KernelLaunch, kernel=kernel.id) if row.arguments]
    if not launches:
        raise UsageError(NOT_LAUNCHED.format(name=kernel.name))
    return max(launches, key=lambda row: row.count)


def _picked_options(reader: SessionReader, launch: KernelLaunch) -> dict[str, object]:
    """Return the options of the configuration that was picked; empty means the first that Inductor
    would try.
    """
    return reader.get(KernelBuild, launch.build).options if launch.build else {}


QUOTED = "\n"
"""Inductor compiles a kernel's source with the line feed after its quotes. With it, Triton finds
the kernel in its cache.
"""


class KernelAlone:
    """A kernel with its own arguments; ``run()`` launches it once on the current stream.

    Its data is random where floating point, and zero elsewhere, because any index is then valid.
    ``put_back()`` undoes what it writes.
    """

    def __init__(
        self, name: str, source: str, options: dict[str, object], arguments: tuple[Argument, ...]
    ) -> None:
        """Load and build the kernel. Raises UsageError when that fails, and for arguments that
        cannot be made.
        """
        self._arguments = made(arguments)
        self._before = [
            (value, value.clone())
            for value, argument in zip(self._arguments, arguments, strict=True)
            if argument.get("is_mutated") and isinstance(value, torch.Tensor)
        ]
        try:
            autotuner = _loaded(name, source)
            configuration = with_options(autotuner.configs[0], options)
            autotuner.configs = [configuration]
            autotuner.precompile()
        except Exception as error:
            raise UsageError(
                f"{name} cannot be built here: {type(error).__name__}: {error}"
            ) from error
        self.options = {**options, **as_options(configuration)}
        self._launcher = autotuner.launchers[0]
        self._stream = torch.cuda.current_stream().cuda_stream
        _give_scratch_memory()

    def run(self) -> None:
        self._launcher(*self._arguments, stream=self._stream)

    def put_back(self) -> None:
        for tensor, before in self._before:
            tensor.copy_(before)


def made(arguments: tuple[Argument, ...], device: str = "cuda") -> list[Any]:
    """Return values as described. Raises UsageError for one that cannot be made, such as a tile
    descriptor.
    """
    return [_made(argument, device) for argument in arguments]


def _made(argument: Argument, device: str) -> Any:
    if "value" in argument:
        return argument["value"]
    if "dtype" not in argument:
        raise UsageError(
            f"its argument {argument['name']} is a {argument.get('type')}, which cannot be made up."
        )
    strided = require("torch._dynamo.testing", "rand_strided")
    on_cpu = argument.get("device") == "cpu"
    dtype = getattr(torch, str(argument["dtype"]))
    return strided(argument["shape"], argument["stride"], dtype, "cpu" if on_cpu else device)


def with_options(configuration: Any, options: dict[str, object]) -> Any:
    """Return a ``triton.Config`` like this one, with those of ``options`` that it has."""
    made = copy.deepcopy(configuration)
    made.kwargs.update({name: value for name, value in options.items() if name in made.kwargs})
    for name in ("num_warps", "num_stages"):
        setattr(made, name, options.get(name, getattr(made, name)))
    return made


def as_options(configuration: Any) -> dict[str, object]:
    return {
        **configuration.kwargs,
        "num_warps": configuration.num_warps,
        "num_stages": configuration.num_stages,
    }


def _loaded(name: str, source: str) -> Any:
    return getattr(require("torch._inductor.codecache", "PyCodeCache").load(QUOTED + source), name)


def _give_scratch_memory() -> None:
    """Give the kernel scratch memory as ``CachingAutotuner.run`` does before a launch."""
    import triton

    if hasattr(triton, "set_allocator"):
        triton.set_allocator(
            lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda")
        )
