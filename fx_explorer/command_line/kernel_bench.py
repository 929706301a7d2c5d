"""``fx-explorer kernel X NAME --bench``: one kernel is run again and again on this machine's GPU,
and told how fast it is.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fx_explorer.analysis.kernels.card import measured_card
from fx_explorer.analysis.kernels.kernel_speed import kernel_speed, speed_in_words
from fx_explorer.client.kernels.kernel_bench import TIMEOUT_S, measure_kernel
from fx_explorer.command_line.build_first import run_to_end, tell
from fx_explorer.model import Kernel
from fx_explorer.session import SessionReader


def bench_lines(session: Path, kernel: Kernel, arguments: argparse.Namespace) -> list[str]:
    """Measure a kernel and return what was measured, a line per fact; it is kept in the session
    too. Raises UsageError where it cannot be measured.
    """
    run_to_end(
        measure_kernel(session, kernel.id, tell, arguments.python, arguments.timeout or TIMEOUT_S)
    )
    with SessionReader(session) as reader:
        speed = kernel_speed(reader, kernel)
    assert speed is not None
    return list(speed_in_words(speed, measured_card(reader, speed.time.device)))
