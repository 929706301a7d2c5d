"""A kernel that was built and launched on a real GPU, as text: configurations, the autotuner's
times and pick, launches.
"""

from __future__ import annotations

from collections.abc import Sequence

from fx_explorer import model
from fx_explorer.analysis.whole_session import is_tritonparse
from fx_explorer.instruments.kernels.assembly.instructions import mix_in_words
from fx_explorer.instruments.kernels.candidates import beside_each_other, estimate, instruction_mix
from fx_explorer.instruments.kernels.card import card, not_described
from fx_explorer.instruments.kernels.kernel_speed import kernel_speed, speed_in_words
from fx_explorer.instruments.kernels.launched import launches_in_words, real_builds
from fx_explorer.instruments.kernels.report import configurations, named, shared_in_words, table
from fx_explorer.instruments.kernels.roofline import microseconds, roofline_in_words
from fx_explorer.model import Gpu, KernelBuild
from fx_explorer.output.text import Block, text_of
from fx_explorer.session import SessionReader

NOT_TIMED = "not timed"
PICKED = "picked"


def launched_kernel_text(
    reader: SessionReader, kernel: model.Kernel, width: int | None = None
) -> str:
    """Describe a kernel that has ``real_builds``. Lines have at most ``width`` cells, None where a
    program reads.
    """
    rows = real_builds(reader, kernel)
    gpu = card(reader)
    picked = next((row for row in rows if row.is_picked), rows[0])
    toolchain = f" ({picked.toolchain})" if picked.toolchain else ""
    who = "" if is_tritonparse(reader) else " by torch"
    blocks: list[Block] = [named(reader, kernel)]
    blocks += [f"built and run{who} on {picked.gpu}{toolchain}"]
    if gpu:
        blocks.append(roofline_in_words(gpu, estimate(reader, kernel, gpu, picked)))
    if sentence := not_described(reader):
        blocks.append(sentence)
    if counts := instruction_mix(reader, picked):
        blocks.append(f"configuration {picked.position}: {mix_in_words(counts)}")
    blocks += [
        *shared_in_words(rows),
        "",
        table(_with_times(reader, rows, gpu)),
        "",
        *launches_in_words(reader, kernel),
    ]
    if speed := kernel_speed(reader, kernel):
        blocks += ["", *speed_in_words(speed, gpu)]
    return text_of(blocks, width)


def _with_times(
    reader: SessionReader, rows: Sequence[KernelBuild], gpu: Gpu | None
) -> list[list[str]]:
    """Return the table of configurations with what the autotuner found."""
    candidates = beside_each_other(reader, rows, gpu)
    heading, *lines = configurations(candidates)
    times = [
        [microseconds(row.timing_s) if row.timing_s else NOT_TIMED, PICKED if row.is_picked else ""]
        for row in rows
    ]
    return [
        [*heading, "autotuner", ""],
        *([*line, *time] for line, time in zip(lines, times, strict=True)),
    ]
