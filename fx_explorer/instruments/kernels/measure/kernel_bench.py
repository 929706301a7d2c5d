"""This module is a process like the worker that measures one kernel of a session on this machine's
GPU, and ends.

Its first line of input is a ``BenchRequest``. It answers with ``BenchAnswer`` lines, the last of
which is the result. The program that the kernel is from is not run: the kernel's own source is, on
random data of the shapes it was launched with.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from fx_explorer.errors import FxExplorerError, UsageError
from fx_explorer.model import (
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

NOT_GENERATED = "{name} is a library call: it has no code that could be run separately."
NOT_LAUNCHED = (
    "No launch of {name} was recorded, so its arguments are not known. Capture its program on a "
    "GPU with --build, and without CUDA graphs."
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
    """Measure the kernel of the request. Raises UsageError when the kernel was never launched, or
    there is no GPU.
    """
    with SessionReader(request.session) as reader:
        kernel = reader.get(Kernel, request.kernel)
        launch = usual_launch(reader, kernel)
        options = _picked_options(reader, launch)
        source = reader.text(reader.get(Artifact, kernel.artifact).text)
    say("importing torch")
    from fx_explorer.instruments.kernels.measure.kernel_timing import (
        KernelAlone,
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
    figures, empty = timed_alone(alone.run, alone.put_back), timed_empty()
    time = KernelTime(
        id=0,
        kernel=kernel.id,
        launch=launch.id,
        options=dict(alone.options),
        device=device,
        median_s=figures.median_s,
        iqr_s=figures.iqr_s,
        runs=figures.runs,
        empty_s=empty.median_s,
        clock=figures.clock,
    )
    if not request.ceilings:
        return BenchAnswer(time=time, ceilings=())
    return BenchAnswer(time=time, ceilings=ceilings_of(device, say))


def _check(source: str) -> None:
    """Read an untrusted source before it is run. Raises UntrustedSourceError."""
    from fx_explorer.capture.virtual_gpu.triton_kernel import helpers
    from fx_explorer.session.untrusted.triton_source import check_source

    check_source(source, helpers())


def usual_launch(reader: SessionReader, kernel: Kernel) -> KernelLaunch:
    """Return the most frequent launch of the kernel. Raises UsageError when it has none."""
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
    if launch.build:
        return reader.get(KernelBuild, launch.build).options
    return {}
