"""This module builds kernels before they are described: with builders of its own, narrated on
stderr. What builds them is imported where that is asked for.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fx_explorer.client.session_files import writable_session
from fx_explorer.command_line.given_session import COMPILES, check_trust
from fx_explorer.errors import UsageError
from fx_explorer.highlight import printable
from fx_explorer.output import terminal
from fx_explorer.session import SessionReader

if TYPE_CHECKING:
    from fx_explorer.model import Gpu, Kernel

Answer = Callable[[SessionReader], None]
ResultT = TypeVar("ResultT")

EVERY, NONE = "all", "none"


def add_kernels_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kernels",
        metavar="NAME",
        default=NONE,
        help="with --gpu: build these Triton kernels to see their registers and occupancy: all, "
        "none (default) or a name",
    )


def with_kernel_builds(arguments: argparse.Namespace, answer: Answer) -> Answer:
    """Return ``answer``, but for a session in which the kernels of ``--kernels`` are built, in
    every configuration.
    """
    if arguments.kernels == NONE:
        return answer

    from fx_explorer.instruments.kernels.candidates import triton_kernels

    def with_builds(reader: SessionReader) -> None:
        gpu = required_gpu(reader)
        check_trust(reader.path, arguments, COMPILES)
        if arguments.kernels == EVERY:
            kernels = triton_kernels(reader)
        else:
            kernels = named(reader, arguments.kernels)
        with ExitStack() as stack:
            writable = to_write(reader, stack)
            run_to_end(build_every(writable.path, gpu, kernels, arguments.python))
            answer(writable)

    return with_builds


def required_gpu(reader: SessionReader) -> Gpu:
    """Return the GPU of a session. Raises UsageError without one."""
    from fx_explorer.analysis.kernel_documents import session_gpu
    from fx_explorer.instruments.kernels.gpu_limits import NOT_CAPTURED_FOR_A_GPU

    gpu = session_gpu(reader)
    if gpu is None:
        raise UsageError(NOT_CAPTURED_FOR_A_GPU)
    return gpu


def named(reader: SessionReader, name: str) -> list[Kernel]:
    """Return the kernels of this name. Raises UsageError, with the existing names, without any."""
    from fx_explorer.instruments.kernels.candidates import kernels_named, triton_kernels

    kernels = kernels_named(reader, name)
    if not kernels:
        every = (
            "\n  ".join(kernel.name for kernel in triton_kernels(reader))
            or "(none: library calls only)"
        )
        raise UsageError(f"no Triton kernel is called {name!r}. There are:\n  {every}")
    return kernels


def to_write(reader: SessionReader, stack: ExitStack) -> SessionReader:
    """Return the session, or a writable copy of it: builds are stored as its rows."""
    path = writable_session(reader.path)
    if path == reader.path:
        return reader
    print_message(f"{reader.path} is read-only: the built kernels are saved in the copy {path}")
    return stack.enter_context(SessionReader(path))


async def build_every(session: Path, gpu: Gpu, kernels: Sequence[Kernel], python: str) -> None:
    """Build all configurations of ``kernels``, for their resources. Raises WorkerError if nothing
    can be built here.
    """
    from fx_explorer.instruments.kernels.builder_pool import BuilderPool

    async with BuilderPool(gpu, python) as builds:
        print_message(f"starting a compiler for {gpu.title}")
        await builds.warm_up()
        for kernel in kernels:
            rows = await builds.candidates(session, kernel.id)
            configurations = "configuration" if len(rows) == 1 else "configurations"
            print_message(f"compiling {kernel.name}: {len(rows)} {configurations}")
            await builds.build_all(session, kernel.id)


def run_to_end(work: Coroutine[object, object, ResultT]) -> ResultT:
    """Run a coroutine like ``asyncio.run``, also if a loop is running: after a capture there is
    one.
    """
    import asyncio
    import threading

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    done: list[ResultT] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(asyncio.run(work))
        # Raised again below, in the thread that asked.
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    thread = threading.Thread(target=run, name="kernel builds", daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]


def print_message(text: str) -> None:
    terminal.print_fitted(f"fx-explorer: {printable(text)}", sys.stderr)
