"""From a key to the machine's code of a kernel on screen, at 200×50: nothing of it was compiled
before, and the app is warm.

    python -m benchmarks.sass_on_screen

A training step of sample_models/transformer.py is captured for a virtual H100. Each of its first
kernels is opened and ``U`` pressed, in an app and with a cache directory of its own.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.ptybench import Terminal, now_ms
from fx_explorer.model import Kernel
from fx_explorer.session import SessionReader

MODEL = "sample_models/transformer.py"
BUDGET_MS = 1000
WARM_MS = 8000
"""How long the builder is given to start."""
INSTRUCTION = b"/*0010*/"


def triton_kernels(session: Path) -> list[str]:
    with SessionReader(session) as reader:
        return [kernel.name for kernel in reader.rows(Kernel, language="triton")]


def sass_ms(session: Path, kernel: str, environ: dict[str, str]) -> float:
    """Raises TimeoutError."""
    with Terminal([sys.executable, "-m", "fx_explorer", str(session)], environ=environ) as terminal:
        terminal.wait_for("Dynamo graph")
        terminal.press("p")
        terminal.press("d", quiet_ms=400)
        terminal.press(kernel, quiet_ms=600)
        terminal.press("enter", quiet_ms=600)
        terminal.settle(WARM_MS)
        terminal.frames.clear()
        terminal.frame_ends.clear()
        began = now_ms()
        terminal.write(b"pk")
        return terminal.wait_for(INSTRUCTION.decode()) - (began - terminal.started_ms)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernels", type=int, default=8, help="how many to look at (default: 8)")
    most = parser.parse_args().kernels
    with tempfile.TemporaryDirectory() as folder:
        session = Path(folder) / "transformer.fxs"
        environ = {**os.environ, "XDG_CACHE_HOME": folder}
        command = [
            sys.executable,
            "-m",
            "fx_explorer",
            "capture",
            MODEL,
            "--gpu",
            "h100",
            "--out",
            str(session),
        ]
        subprocess.run(command, check=True, env=environ, stdout=subprocess.DEVNULL)
        took = []
        for kernel in triton_kernels(session)[:most]:
            took.append(sass_ms(session, kernel, environ))
            print(f"{took[-1]:5.0f} ms  {kernel}", flush=True)
    verdict = "ok" if max(took) <= BUDGET_MS else "OVER"
    print(
        f"median {statistics.median(took):.0f} ms, slowest {max(took):.0f} ms, budget {BUDGET_MS} ms  {verdict}"
    )


if __name__ == "__main__":
    main()
