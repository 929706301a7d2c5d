"""This module builds one generated Triton kernel from its source, with arguments of its own to run
on, and measures on the GPU how long one launch takes, with cold caches and without the cost of
launching; and the highest speeds that the card itself reaches.

The times are those of torch's profiler, which has them from the GPU itself. CUDA events, as
``triton.testing.do_bench`` uses them, also count the start of the kernel: 3.5 µs on an H200, for a
kernel of 1.3 µs. They are used where the profiler sees nothing.

Data sheets give peaks that no program reaches. What a kernel does is compared with what the same
card was measured to do: bytes per second of plain copies, operations per second of large matrix
products.
"""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any, NamedTuple

import torch

from fx_explorer.capture.torch_compat.versions import require
from fx_explorer.errors import UsageError
from fx_explorer.model import Argument, CardCeiling, CeilingKind, Clock
from fx_explorer.spread import interquartile_range

WARM_UP_RUNS = 10
MEASURE_S = 0.1
MIN_RUNS = 20
MAX_RUNS = 500

SMALLEST_FLUSH = 256 << 20
"""Minimum number of bytes that are read to flush the caches. Reading them takes the GPU longer than
the host needs for a launch, so that the GPU never waits for one.
"""

TIMES_THE_CACHE = 2

Run = Callable[[], object]

Event = tuple[float, float]
"""Start and duration of something the GPU did, in µs."""


class KernelFigures(NamedTuple):
    median_s: float
    iqr_s: float
    runs: int
    clock: Clock


def timed_alone(run: Run, put_back: Run = lambda: None) -> KernelFigures:
    """Time ``run``. Before each run, untimed, ``put_back()`` is called and the caches are filled
    with other data.
    """
    l2_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    flush = torch.zeros(flush_bytes(l2_bytes) // 4, device="cuda")

    def prepare() -> None:
        put_back()
        # Caches are read, not written: written data would have to leave the cache while the kernel
        # runs, which made one of 25 MB 10 % slower.
        flush.sum()

    def together() -> None:
        prepare()
        run()

    runs = runs_for(_cycle_s(run, prepare))
    try:
        before = len(_profiled(prepare, 1))
        return _in_figures(spans(_profiled(together, runs), runs, before), "profiler")
    except ValueError:
        return _in_figures(by_events(run, prepare, runs), "events")


def timed_empty() -> KernelFigures:
    """Time a kernel that only writes one number."""
    number = torch.zeros(1, device="cuda")
    return timed_alone(lambda: number.fill_(1.0))


def flush_bytes(l2_bytes: int) -> int:
    return max(SMALLEST_FLUSH, TIMES_THE_CACHE * l2_bytes)


def runs_for(cycle_s: float) -> int:
    """Return how many runs to make when one and its preparation take ``cycle_s`` seconds."""
    return max(MIN_RUNS, min(MAX_RUNS, int(MEASURE_S / max(cycle_s, 1e-9))))


def spans(events: list[Event], runs: int, before: int) -> list[float]:
    """Return seconds per run: what the GPU did in equal rounds, without the first ``before`` events
    of each round.

    Raises ValueError when there are no such rounds: nothing was seen, or something else ran
    meanwhile.
    """
    of_a_round = len(events) // runs
    if of_a_round <= before or len(events) % runs:
        raise ValueError(f"{len(events)} events are not {runs} rounds of more than {before}")
    ordered = sorted(events)
    rounds = [ordered[i + before : i + of_a_round] for i in range(0, len(ordered), of_a_round)]
    return [(sum(of_round[-1]) - of_round[0][0]) / 1e6 for of_round in rounds]


def _in_figures(times_s: list[float], clock: Clock) -> KernelFigures:
    return KernelFigures(median(times_s), interquartile_range(times_s), len(times_s), clock)


def _cycle_s(run: Run, prepare: Run) -> float:
    """Return the seconds of one run with its preparation. It warms everything up first."""
    run()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(WARM_UP_RUNS):
        prepare()
        run()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / WARM_UP_RUNS


def _profiled(body: Run, times: int) -> list[Event]:
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(times):
            body()
        torch.cuda.synchronize()
    ranges = [event.time_range for event in seen.events() if event.device_type == DeviceType.CUDA]
    return [(time_range.start, time_range.elapsed_us()) for time_range in ranges]


def by_events(run: Run, prepare: Run, runs: int) -> list[float]:
    starts = [torch.cuda.Event(enable_timing=True) for _ in range(runs)]
    ends = [torch.cuda.Event(enable_timing=True) for _ in range(runs)]
    for start, end in zip(starts, ends, strict=True):
        prepare()
        start.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) / 1000 for start, end in zip(starts, ends, strict=True)]


# The most that the card does.


COPIED_BYTES = 1 << 30
PART_OF_MEMORY = 16
"""Divisor of the free memory of a card that is small or in use: the copy takes at most 1/16 of it.
"""

PRODUCT_SIZE = 8192
"""Size of the square matrices: 1.1e12 operations, enough for any card to reach its best."""

PRODUCTS: dict[CeilingKind, tuple[torch.dtype, str]] = {
    "fp32": (torch.float32, "highest"),
    "tf32": (torch.float32, "high"),
    "bf16": (torch.bfloat16, "highest"),
    "fp16": (torch.float16, "highest"),
}
"""Kind → type of the matrices, and ``torch.set_float32_matmul_precision``."""


def check_gpu() -> str:
    """Return the name of the GPU. Raises UsageError if torch can use none."""
    if not torch.cuda.is_available():
        raise UsageError(
            f"torch {torch.__version__} finds no GPU here, but a kernel can only be measured on a "
            "GPU. Without one, use the estimate."
        )
    return torch.cuda.get_device_name()


def ceilings_of(device: str, say: Callable[[str], None]) -> tuple[CardCeiling, ...]:
    """Measure all ceilings, which takes about two seconds."""
    say(f"measuring the limits of {device}: copies")
    ceilings = [_memory(device)]
    for kind, (dtype, precision) in PRODUCTS.items():
        say(f"measuring the limits of {device}: {kind} matrix products")
        with _precision(precision):
            ceilings.append(_product(device, kind, dtype))
    return tuple(ceilings)


def _memory(device: str) -> CardCeiling:
    """Return the better of a copy and ``a = b + 2 c``."""
    size = min(COPIED_BYTES, torch.cuda.mem_get_info()[0] // PART_OF_MEMORY) // 4
    a, b, c = (torch.randn(size, device="cuda") for _ in range(3))
    copied = 2 * size * 4 / timed_alone(lambda: a.copy_(b)).median_s
    added = 3 * size * 4 / timed_alone(lambda: torch.add(b, c, alpha=2, out=a)).median_s
    what = "copy" if copied > added else "a = b + 2 c"
    how = f"{what} of {size * 4 / 1e9:.2f} GB of float32"
    return CardCeiling(0, device, "memory", max(copied, added), how)


def _product(device: str, kind: CeilingKind, dtype: torch.dtype) -> CardCeiling:
    a, b = (torch.randn(PRODUCT_SIZE, PRODUCT_SIZE, device="cuda").to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    rate = 2 * PRODUCT_SIZE**3 / timed_alone(lambda: torch.mm(a, b, out=out)).median_s
    return CardCeiling(
        0,
        device,
        kind,
        rate,
        f"product of two {PRODUCT_SIZE} x {PRODUCT_SIZE} matrices of random numbers",
    )


@contextlib.contextmanager
def _precision(wanted: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(wanted)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


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
        """Load and build the kernel. Raises UsageError if that fails, or if an argument cannot be
        made.
        """
        self._arguments = make_values(arguments)
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


def make_values(arguments: tuple[Argument, ...], device: str = "cuda") -> list[Any]:
    """Make a value for each argument of a kernel, from its recorded shape and dtype. Raises
    UsageError for a value that cannot be made, such as a tile descriptor.
    """
    return [_make_value(argument, device) for argument in arguments]


def _make_value(argument: Argument, device: str) -> Any:
    if "value" in argument:
        return argument["value"]
    if "dtype" not in argument:
        raise UsageError(
            f"its argument {argument['name']} is a {argument.get('type')}, which cannot be "
            "generated."
        )
    strided = require("torch._dynamo.testing", "rand_strided")
    if argument.get("device") == "cpu":
        device = "cpu"
    dtype = getattr(torch, str(argument["dtype"]))
    return strided(argument["shape"], argument["stride"], dtype, device)


def with_options(configuration: Any, options: dict[str, object]) -> Any:
    """Return a copy of a ``triton.Config`` with the values of ``options`` for the parameters it
    has.
    """
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
