"""This module is ``fx-explorer kernel X [NAME]``: it compiles a Triton kernel down to machine code,
for a GPU that need not be present.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fx_explorer import model
from fx_explorer.analysis.kernel_documents import session_gpu, source_of, text_of_level
from fx_explorer.command_line.build_first import (
    build_every,
    named,
    print_message,
    required_gpu,
    run_to_end,
    to_write,
)
from fx_explorer.command_line.capture_options import add_capture_arguments
from fx_explorer.command_line.given_session import (
    COMPILES,
    COMPILES_CPP,
    DISASSEMBLES,
    MEASURES,
    add_target_argument,
    answer_from,
    check_trust,
)
from fx_explorer.errors import FxExplorerError, UsageError
from fx_explorer.instruments.kernels.assembly_text import without_encoding
from fx_explorer.instruments.kernels.candidates import triton_kernels, tuned_libraries
from fx_explorer.instruments.kernels.gpu_limits import NO_SASS_ON_AMD, measured_card
from fx_explorer.instruments.kernels.kernel_times import (
    TIMEOUT_S,
    describe_speed,
    kernel_speed,
    measure_kernel,
)
from fx_explorer.instruments.kernels.launched import real_builds, was_launched
from fx_explorer.model import LEVELS, Gpu, Kernel, KernelBuild
from fx_explorer.output.formats import text_of
from fx_explorer.output.terminal import width_for
from fx_explorer.session import SessionReader

SOURCE = "triton"

ASSEMBLY = "assembly"
"""The instructions of a C++ kernel, which has no other level."""


EPILOG = """\
examples:
  fx-explorer kernel model.fxs                           list the Triton kernels
  fx-explorer kernel model.py gelu --gpu h100            one of them: its configurations, \
registers, occupancy
  fx-explorer kernel model.py gelu --gpu h100 --level ptx
  fx-explorer kernel model.fxs cpp_fused_gelu_0 --level assembly
  fx-explorer kernel model.py gelu --gpu h100 --passes   what Triton's compiler did to it
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_target_argument(parser)
    parser.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        default="",
        help="the kernel, or a part of its name (default: list them)",
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "--level",
        choices=[SOURCE, *LEVELS, ASSEMBLY],
        help="print this text (default: the table of configurations); assembly: of a C++ kernel, "
        "with its lines",
    )
    shown.add_argument(
        "--passes",
        action="store_true",
        help="list the MLIR passes, and mark those that changed the text",
    )
    shown.add_argument(
        "--pass", dest="mlir_pass", metavar="N", type=int, help="print what pass N changed"
    )
    shown.add_argument(
        "--bench",
        action="store_true",
        help="run it repeatedly on this machine's GPU",
    )
    parser.add_argument(
        "--config",
        metavar="N",
        type=int,
        help="number of the configuration (default: the one that ran, else 0)",
    )
    add_capture_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.bench:
        if not arguments.name:
            raise UsageError("--bench measures one kernel: give its NAME, or a part of it")
        if arguments.gpu is not None:
            raise UsageError(
                "--bench runs the kernel on this machine's GPU, but --gpu names another GPU: give "
                "only one of them"
            )
        arguments.build = (
            True  # of a target: without that it is not known what the kernel is launched with
        )
    return answer_from(arguments, lambda reader: _answer(reader, arguments)) or 0


def _answer(reader: SessionReader, arguments: argparse.Namespace) -> None:
    """Print the answer to the request: a kernel measured, a kernel as a real GPU ran it, all
    kernels, or one kernel.
    """
    from fx_explorer.instruments.kernels.report import kernels_text

    if arguments.bench:
        check_trust(reader.path, arguments, MEASURES)
        with ExitStack() as stack:
            lines = bench_lines(
                to_write(reader, stack).path, _named_kernel(reader, arguments.name), arguments
            )
            sys.stdout.write(text_of(lines, width_for(sys.stdout)))
        return
    if arguments.level == ASSEMBLY:
        sys.stdout.write(_assembly(reader, arguments))
        return
    if was_launched(reader) and session_gpu(reader) is None:
        with ExitStack() as stack:
            sys.stdout.write(_text_of_launched(to_write(reader, stack), arguments, reader.path))
        return
    gpu = required_gpu(reader)
    if not arguments.name:
        kernels = [*triton_kernels(reader), *tuned_libraries(reader)]
        sys.stdout.write(kernels_text(reader, kernels, gpu, width_for(sys.stdout)))
        return
    kernel = _named_kernel(reader, arguments.name)
    check_trust(reader.path, arguments, COMPILES)
    with ExitStack() as stack:
        sys.stdout.write(_text(to_write(reader, stack), kernel, gpu, arguments))


def _assembly(reader: SessionReader, arguments: argparse.Namespace) -> str:
    """Return the instructions of a C++ kernel beside its lines."""
    from fx_explorer.instruments.kernels.cpp_assembly import assembly_text

    wanted = arguments.name.casefold()
    kernels = [
        row
        for row in reader.rows(model.Kernel, language="cpp")
        if row.artifact and wanted in row.name.casefold()
    ]
    exact = [row for row in kernels if row.name == arguments.name]
    names = dict.fromkeys(row.name for row in exact or kernels)
    if not arguments.name or len(names) != 1:
        every = dict.fromkeys(row.name for row in reader.rows(model.Kernel, language="cpp"))
        raise UsageError(
            f"--level {ASSEMBLY} is for one C++ kernel; there are:\n  "
            + ("\n  ".join(names or every) or "(none)")
        )
    check_trust(reader.path, arguments, COMPILES_CPP)
    return run_to_end(assembly_text(reader, (exact or kernels)[0], arguments.python))


def _text_of_launched(reader: SessionReader, arguments: argparse.Namespace, session: Path) -> str:
    """Return the text of a kernel that ran on a real GPU. Everything is in the session except SASS,
    which is made on request. ``session`` is the path that was given; ``reader`` may read a copy.
    """
    from fx_explorer.instruments.kernels.builder_pool import with_sass
    from fx_explorer.instruments.kernels.report import launched_kernel_text

    if arguments.passes or arguments.mlir_pass is not None:
        raise UsageError(
            "passes are for a virtual GPU, whose kernels fx-explorer compiles: --gpu h200, for "
            "example"
        )
    if not arguments.name:
        kernels = [*triton_kernels(reader), *tuned_libraries(reader)]
        launched = [kernel for kernel in kernels if real_builds(reader, kernel)]
        width = width_for(sys.stdout)
        return "\n".join(launched_kernel_text(reader, kernel, width) for kernel in launched)
    kernel = _named_kernel(reader, arguments.name)
    rows = real_builds(reader, kernel)
    if not rows:
        raise UsageError(f"{kernel.name} was not launched while this session was captured")
    if not arguments.level:
        return launched_kernel_text(reader, kernel, width_for(sys.stdout))
    picked = next((row.position for row in rows if row.is_picked), 0)
    wanted = picked if arguments.config is None else arguments.config
    row = next((row for row in rows if row.position == wanted), None)
    if row and arguments.level == "sass":
        if row.is_undisassembled:
            check_trust(session, arguments, DISASSEMBLES)
        row = with_sass(reader.path, row, arguments.python)
    if row is None or not _has_level(kernel, row, arguments.level):
        raise UsageError(f"there is no {arguments.level} of configuration {wanted} in this session")
    return _level_text(reader, kernel, row, arguments.level)


def _has_level(kernel: model.Kernel, row: KernelBuild, level: str) -> bool:
    """Return whether a configuration has a text of this level, or a source."""
    if level == SOURCE and (row.source or (kernel.artifact and row.origin != "library")):
        return True
    return level in row.levels


def _level_text(reader: SessionReader, kernel: model.Kernel, row: KernelBuild, level: str) -> str:
    """Return the source of a configuration, or one of its levels; SASS without the instructions'
    encodings.
    """
    if level == SOURCE:
        return source_of(reader, kernel, row)
    known_level = next(known_level for known_level in LEVELS if known_level == level)
    return without_encoding(known_level, text_of_level(reader, row, known_level))


def _named_kernel(reader: SessionReader, name: str) -> model.Kernel:
    """Return the kernel with this name, or the first of several with the same name (in two
    compilations). Raises UsageError for a part of several names.
    """
    kernels = named(reader, name)
    names = dict.fromkeys(kernel.name for kernel in kernels)
    if len(names) > 1:
        raise UsageError(
            f"several kernel names contain {name!r}; which of them?\n  " + "\n  ".join(names)
        )
    if len(kernels) > 1:
        print_message(f"there are {len(kernels)} kernels of this name; this is the first")
    return kernels[0]


def _text(
    reader: SessionReader, kernel: model.Kernel, gpu: Gpu, arguments: argparse.Namespace
) -> str:
    """Return the text of one kernel: all of its configurations, its passes, its source or one level
    of it.
    """
    from fx_explorer.instruments.kernels.report import kernel_text

    if arguments.passes or arguments.mlir_pass is not None:
        return _passes(reader.path, kernel, gpu, arguments)
    if not arguments.level:
        run_to_end(build_every(reader.path, gpu, [kernel], arguments.python))
        return kernel_text(reader, kernel, gpu, width_for(sys.stdout))
    if arguments.level == "sass" and gpu.vendor == "amd":
        raise UsageError(NO_SASS_ON_AMD)
    row = run_to_end(_built(reader.path, kernel, gpu, arguments))
    if row.state == "failed":
        raise FxExplorerError(
            f"{kernel.name}, configuration {row.position}, cannot be compiled:\n{row.error}"
        )
    if arguments.level not in (SOURCE, *row.levels):
        raise UsageError(
            f"there is no {arguments.level} for {gpu.title}; there are {', '.join(row.levels)}"
        )
    return _level_text(reader, kernel, row, arguments.level)


def _built(
    session: Path, kernel: model.Kernel, gpu: Gpu, arguments: argparse.Namespace
) -> Coroutine[Any, Any, KernelBuild]:
    from fx_explorer.instruments.kernels.builder_pool import BuilderPool

    async def build() -> KernelBuild:
        async with BuilderPool(gpu, arguments.python) as builds:
            return await builds.build(session, kernel.id, arguments.config or 0)

    return build()


def _passes(session: Path, kernel: model.Kernel, gpu: Gpu, arguments: argparse.Namespace) -> str:
    from fx_explorer.instruments.kernels.builder_pool import BuilderPool
    from fx_explorer.instruments.kernels.mlir_passes import passes
    from fx_explorer.instruments.kernels.report import pass_text, passes_text

    async def dump() -> str:
        async with BuilderPool(gpu, arguments.python) as builds:
            return await builds.passes(session, kernel.id, arguments.config or 0)

    compiler_passes = passes(run_to_end(dump()))
    if arguments.mlir_pass is None:
        return passes_text(compiler_passes, width_for(sys.stdout))
    if not 0 <= arguments.mlir_pass < len(compiler_passes):
        raise UsageError(
            f"no pass {arguments.mlir_pass}: passes are numbered from 0 to "
            f"{len(compiler_passes) - 1}"
        )
    return pass_text(compiler_passes[arguments.mlir_pass])


def bench_lines(session: Path, kernel: Kernel, arguments: argparse.Namespace) -> list[str]:
    """Measure a kernel and return the results, a line per fact; they are stored in the session too.
    Raises UsageError where it cannot be measured.
    """
    run_to_end(
        measure_kernel(
            session, kernel.id, print_message, arguments.python, arguments.timeout or TIMEOUT_S
        )
    )
    with SessionReader(session) as reader:
        speed = kernel_speed(reader, kernel)
    assert speed is not None
    return list(describe_speed(speed, measured_card(reader, speed.time.device)))
