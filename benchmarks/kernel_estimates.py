"""How long kernels take on the GPU at hand, beside what is estimated of them without one.

    python -m benchmarks.kernel_estimates [PROGRAM ...] [--json FILE]

The programs are those of tests/golden_gpu/programs.py: each is built and run forward and backward,
recorded, and every Triton kernel it launched is measured alone with cold caches. The estimate is
the data sheet's: bytes over bandwidth, or operations over peak, whichever is longer. *of copy* is
the GB/s against those of a plain copy on the same card.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fx_explorer.errors import UsageError
from fx_explorer.gpus import gpu_of_device
from fx_explorer.instruments.kernels.gpu_limits import microseconds, roofline
from fx_explorer.instruments.kernels.kernel_times import KernelSpeed, kernel_speed
from fx_explorer.instruments.kernels.measure.kernel_bench import measured
from fx_explorer.model import BenchRequest, CardCeiling, Gpu, Kernel, KernelLaunch
from fx_explorer.session import SessionReader, SessionWriter

PROGRAMS_FILE = Path(__file__).parents[1] / "tests" / "golden_gpu"


@dataclass(frozen=True)
class Line:
    """One kernel of a program."""

    program: str
    kernel: str
    bytes_moved: int
    bound: str
    estimated_s: float
    measured_s: float
    iqr_s: float
    empty_s: float
    bytes_per_s: float
    of_copy: float

    @property
    def ratio(self) -> float:
        """Measured over estimated."""
        return self.measured_s / self.estimated_s


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernel_estimates", description=__doc__.split("\n")[0]
    )
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="default: all of them")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write what was measured there, too"
    )
    arguments = parser.parse_args()
    from fx_explorer.instruments.kernels.measure.kernel_timing import ceilings_of, check_gpu

    try:
        device = check_gpu()
    except UsageError as error:
        sys.exit(str(error))
    gpu = gpu_of_device(device)
    if gpu is None:
        sys.exit(
            f"There is no description of {device} among the GPUs of fx-explorer, so there is no estimate to compare with."
        )
    ceilings = ceilings_of(device, _tell)
    for ceiling in ceilings:
        print(f"{ceiling.kind:8} {_rate(ceiling):>16}   {ceiling.how}")
    lines = [
        line
        for name, build in _programs(arguments.programs)
        for line in _measured(name, build, gpu, ceilings)
    ]
    print_table(sorted(lines, key=lambda line: -line.bytes_moved))
    if arguments.json:
        found = {
            "device": device,
            "ceilings": [asdict(one) for one in ceilings],
            "kernels": [asdict(one) for one in lines],
        }
        arguments.json.write_text(json.dumps(found, indent=1))


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _programs(wanted: list[str]) -> Iterator[tuple[str, Any]]:
    sys.path.insert(0, str(PROGRAMS_FILE))
    from programs import PROGRAMS

    yield from ((name, build) for name, build in PROGRAMS.items() if not wanted or name in wanted)


def _measured(name: str, build: Any, gpu: Gpu, ceilings: tuple[CardCeiling, ...]) -> list[Line]:
    _tell(name)
    with tempfile.TemporaryDirectory() as folder:
        session = Path(folder) / f"{name}.fxs"
        _record(session, build("cuda"))
        with SessionReader(session) as reader:
            kernels = [
                row
                for row in reader.rows(Kernel, language="triton")
                if reader.count(KernelLaunch, kernel=row.id)
            ]
        for kernel in kernels:
            try:
                answer = measured(
                    BenchRequest(str(session), kernel.id, ceilings=False), lambda text: None
                )
            except UsageError as error:
                _tell(f"{kernel.name}: {error}")
                continue
            assert answer.time is not None
            with SessionWriter(session) as writer:
                writer.add(answer.time)
                writer.add_all(ceilings)
        with SessionReader(session) as reader:
            speeds = [kernel_speed(reader, kernel) for kernel in kernels]
    return [
        _line(name, speed, gpu) for speed in speeds if speed and speed.kernel.estimated_bytes > 0
    ]


def _record(session: Path, program: Any) -> None:
    """As tests/golden_gpu/record.py compiles and runs it."""
    import torch
    from torch._inductor import config

    from fx_explorer.capture.recorder import record

    torch._dynamo.reset()
    with record(session), config.patch({"force_disable_caches": True, **program.options}):
        out = torch.compile(program.call, dynamic=program.dynamic)(*program.arguments)
        parts = out if isinstance(out, tuple) else (out,)
        wanting = [part for part in parts if part.requires_grad]
        if wanting:
            torch.autograd.backward(wanting, [torch.randn_like(part) for part in wanting])


def _line(program: str, speed: KernelSpeed, gpu: Gpu) -> Line:
    kernel, time = speed.kernel, speed.time
    found = roofline(gpu, kernel.estimated_bytes, kernel.estimated_flops, speed.kind)
    of_copy = speed.bytes_per_s / speed.ceilings["memory"].rate
    return Line(
        program,
        kernel.name,
        kernel.estimated_bytes,
        found.bound,
        found.estimated_s,
        time.median_s,
        time.iqr_s,
        time.empty_s,
        speed.bytes_per_s,
        of_copy,
    )


def print_table(lines: list[Line]) -> None:
    print(
        f"{'MB':>9} {'bound':10} {'estimate':>10} {'measured':>10} {'±':>8} {'ratio':>7} {'GB/s':>6} {'of copy':>7}  kernel"
    )
    for line in lines:
        numbers = (
            f"{line.bytes_moved / 1e6:9.3f} {line.bound:10} {microseconds(line.estimated_s):>10}"
        )
        numbers += (
            f" {microseconds(line.measured_s):>10} {microseconds(line.iqr_s):>8} {line.ratio:7.2f}"
        )
        print(
            f"{numbers} {line.bytes_per_s / 1e9:6.0f} {line.of_copy:7.0%}  {line.kernel} ({line.program})"
        )


def _rate(ceiling: CardCeiling) -> str:
    return (
        f"{ceiling.rate / 1e9:,.0f} GB/s"
        if ceiling.kind == "memory"
        else f"{ceiling.rate / 1e12:,.1f} TFLOP/s"
    )


if __name__ == "__main__":
    main()
