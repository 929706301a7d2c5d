"""Call the compiled target repeatedly, and measure the time of a call (``ledger``).

The program is compiled once, with clocks that stand still until they are wanted. Rounds take turns:
calls without a clock, calls with clocks, calls in eager mode. What the program changes in its
inputs and state stays changed, because this process ends afterwards.
"""

from __future__ import annotations

import functools
import re
import timeit
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import torch

from fx_explorer.capture.dynamo.frame_clock import IN_BYTECODE, ClockCosts, FrameClock
from fx_explorer.capture.inductor.cuda_graphs import CudaGraphRuns, describe_runs, hearing_skips
from fx_explorer.capture.inductor.wrapper_clock import WrapperClock
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat import private_names
from fx_explorer.errors import TargetError
from fx_explorer.instruments.bench.measure.call_timing import (
    DeviceTimes,
    device_times,
    timed,
    warmed_up,
    work_of_parts,
)
from fx_explorer.instruments.bench.measure.calls import Caller, is_on_gpu, uncompiled
from fx_explorer.instruments.ledger.measure.eager_operators import EagerOperator, eager_operators
from fx_explorer.instruments.ledger.measure.rounds import (
    Clocks,
    LaunchCost,
    Rounds,
    TurnTaker,
    call_once,
    calls_of,
    device_calls,
    guard_times,
    launch_cost,
    medians,
    waited_for,
)
from fx_explorer.instruments.ledger.measure.rows import (
    Measured,
    gap_rows,
    operator_rows,
    step_rows,
    without_guards,
)
from fx_explorer.instruments.ledger.measure.timeline import (
    MARKS,
    IdleGap,
    RawTick,
    account,
    gaps,
    middle_mean,
    signature,
    steps,
)
from fx_explorer.model import CardCeiling, CeilingKind, LedgerCall, LedgerStep
from fx_explorer.model.rows.measured import NOT_KNOWN
from fx_explorer.program import calling
from fx_explorer.program.explaining import one_line
from fx_explorer.program.target import Target
from fx_explorer.spread import interquartile_range

FoundT = TypeVar("FoundT")

UNSTABLE = (
    "It recompiles at every call, or did until torch gave up, so there is no steady call to "
    "measure. To see what changes, call it twice in a program: fx-explorer TARGET, view 4."
)


def call_and_account(
    target: Target,
    job: calling.CallingJob,
    recording: Recording,
    stop_recording: Callable[[], None],
) -> None:
    """Call the target, and record its ledger in the session. Raises whatever the target raises, and
    TargetError if every call recompiles.
    """
    target, train = calling.prepared(target, job.request)
    job.describe(target, train)
    clock, skips = FrameClock(recording), list[str]()
    runs = CudaGraphRuns(wall=lambda: recording.noting("which graphs run as CUDA graphs"))
    caller = Caller(
        target, calling.compile_target(target, job), train, has_grad=job.request.train is not False
    )
    is_gpu = is_on_gpu(caller)
    clock.is_running = False
    with clock.installed(), hearing_skips(skips.append), runs.recorded_runs():
        job.say(f"building {target.name}, and calling it until its times are stable")
        _, first_s = timed(caller.call, is_gpu)
        if warmed_up(first_s, caller.call, is_gpu).is_unstable:
            raise TargetError(UNSTABLE)
    # What is measured must not hold the time that recording takes.
    stop_recording()
    plain = replace(caller, function=uncompiled_function(target))
    ledger = _Ledger(caller, plain, Clocks(clock, WrapperClock(clock.add)), is_gpu, job)
    ledger.write(recording, Path(job.request.session), skips, runs)


def uncompiled_function(target: Target) -> Callable[..., object]:
    """Return the function that runs the target in eager mode. A module that was compiled in place
    is returned itself, because the stance keeps it from running compiled.
    """
    is_in_place = (
        isinstance(target.callable, torch.nn.Module)
        and target.callable._compiled_call_impl is not None
    )
    if is_in_place:
        return target.callable
    return uncompiled(target.callable)


class _Ledger:
    """Measures the ledger of one program that is compiled and warm."""

    def __init__(
        self, caller: Caller, plain: Caller, clocks: Clocks, is_gpu: bool, job: calling.CallingJob
    ) -> None:
        self._caller = caller
        self._plain = plain
        self._clocks = clocks
        self._is_gpu = is_gpu
        self._job = job
        self._call = waited_for(caller, is_gpu)
        self._notes: list[str] = []

    def write(
        self, recording: Recording, session: Path, skips: list[str], built: CudaGraphRuns
    ) -> None:
        """Measure everything, and add the rows to the session. ``skips`` and ``built`` are the
        messages about CUDA graphs from before the program was warm.
        """
        costs = self._clocks.frames.costs()
        rounds = self._rounds()
        self._job.say("measuring guards, launches, and the work of each kernel")
        measured = self._measured(rounds, costs)
        if rounds.uncompiled_s:
            operators = self._operators(middle_mean(calls_of(rounds.uncompiled_s)))
        else:
            operators = []
        nothing: tuple[CardCeiling, ...] = ()
        unknown = "The limits of this machine were not measured"
        ceilings = self._or_note(
            lambda: machine_ceilings(self._is_gpu, self._job.say), nothing, unknown
        )
        self._notes += [
            f"CUDA graphs are skipped: {' '.join(reason.split())}".rstrip(".")
            for reason in dict.fromkeys(skips)
        ]
        steps_of_call = list(step_rows(measured, session, 0))
        self._notes += self._cuda_graphs(
            built, {_graph_of(step) for step in steps_of_call if step.line and step.compilation}
        )
        row = self._row(rounds, measured, costs)
        with recording.writer.transaction():
            number = recording.writer.add(row)
            recording.writer.add_all(replace(step, call=number) for step in steps_of_call)
            recording.writer.add_all(operator_rows(operators, number))
            recording.writer.add_all(gap_rows(measured, number))
            recording.writer.add_all(ceilings)

    def _rounds(self) -> Rounds:
        turns = TurnTaker(self._caller, self._plain, self._clocks, self._is_gpu, self._job.say)
        return turns.rounds(
            uncompiled=self._or_note(
                turns.try_uncompiled, False, "Calls in eager mode could not be measured"
            ),
            unguarded=self._or_note(
                turns.try_unguarded, False, "Calls without guards could not be measured"
            ),
        )

    def _measured(self, rounds: Rounds, costs: ClockCosts) -> Measured:
        frames, wrappers = self._clocks.frames, self._clocks.wrappers
        whole = account(
            rounds.clocked, self._costs_of_ticks(costs), middle_mean(calls_of(rounds.plain_s))
        )
        return Measured(
            whole,
            steps(whole.ticks, frames.frames, wrappers.parts),
            frames,
            wrappers,
            guards=self._or_note(
                self._guards, {}, "The time of guards is counted as entering torch.compile"
            ),
            launches=self._launches(),
            work=self._or_note(
                lambda: work_of_parts(wrappers, self._caller.call),
                {},
                "Bytes and operations are not known",
            ),
            device=self._device(),
            gaps=self._gaps(signature(whole.ticks)),
        )

    def _row(self, rounds: Rounds, measured: Measured, costs: ClockCosts) -> LedgerCall:
        target, whole = self._caller.target, measured.whole
        network = target.network
        parameters = len(list(network.parameters())) if network is not None else 0
        device = torch.cuda.get_device_name() if self._is_gpu else CPU
        plain, uncompiled, unguarded = map(
            calls_of, (rounds.plain_s, rounds.uncompiled_s, rounds.unguarded_s)
        )
        standing_s = _standing_s(whole.ticks, costs)
        uncompiled_s = middle_mean(uncompiled) if uncompiled else NOT_KNOWN
        unguarded_s = middle_mean(unguarded) - standing_s if unguarded else NOT_KNOWN
        busy_s = measured.device.busy_s if measured.device else NOT_KNOWN
        return LedgerCall(
            id=0,
            target=_name(self._plain),
            inputs=target.arguments.describe(),
            trains=self._caller.trains,
            parameters=parameters,
            device=device,
            torch=torch.__version__,
            threads=torch.get_num_threads(),
            call_s=middle_mean(plain) - standing_s,
            iqr_s=interquartile_range(plain),
            rounds_s=medians(rounds.plain_s),
            calls=whole.calls,
            other_calls=whole.other_calls,
            clock_s=whole.clock_s,
            uncompiled_s=uncompiled_s,
            uncompiled_rounds_s=medians(rounds.uncompiled_s),
            unguarded_s=unguarded_s,
            unguarded_rounds_s=medians(rounds.unguarded_s),
            busy_s=busy_s,
            notes=tuple(filter(None, [*self._notes, without_guards(measured)])),
        )

    def _costs_of_ticks(self, costs: ClockCosts) -> dict[str, float]:
        """Return kind of tick → seconds that one tick costs."""
        add, runs = self._clocks.frames.add, 2000
        names = {"add": add, "now": timeit.default_timer}
        inline_s = (
            min(timeit.repeat("add((now(), 'part', 1))", globals=names, number=runs, repeat=7))
            / runs
        )
        self._clocks.frames.take_raw()
        kinds = dict.fromkeys((*MARKS, "part", "wrapper", "wrapper_end"), inline_s)
        kinds |= dict.fromkeys(IN_BYTECODE, costs.in_bytecode_s)
        return kinds | dict.fromkeys(("begin", "end"), costs.around_graph_s)

    def _guards(self) -> dict[int, float]:
        entered = self._clocks.frames.entered
        call_once(self._call, self._clocks)
        try:
            return guard_times(entered, self._call, self._caller.has_grad)
        finally:
            entered.clear()

    def _launches(self) -> LaunchCost | None:
        has_kernels = any(part.name.startswith("cpp_") for part in self._clocks.wrappers.parts)
        if self._is_gpu or not has_kernels:
            return None
        return self._or_note(launch_cost, None, "Kernel times here are launch times")

    def _device(self) -> DeviceTimes | None:
        if not self._is_gpu:
            return None
        wrappers = self._clocks.wrappers
        return self._or_note(
            lambda: device_times(wrappers, self._call), None, "The GPU's work is not known"
        )

    def _cuda_graphs(self, built: CudaGraphRuns, generated: set[str]) -> list[str]:
        """Describe which parts of a call CUDA graphs replay. ``generated`` are the graphs whose
        generated code was timed.
        """
        call = CudaGraphRuns()
        if not self._is_gpu:
            return []
        with call.recorded_runs():
            self._or_note(self._call, None, "Which graphs are replayed is not known")
        return describe_runs(built, call, generated)

    def _gaps(self, usual: tuple[tuple[str, int], ...]) -> list[IdleGap]:
        if not self._is_gpu:
            return []
        measure = functools.partial(device_calls, self._caller, self._clocks)
        return self._or_note(
            lambda: gaps(measure(), usual), [], "The GPU's waiting time is not known"
        )

    def _operators(self, uncompiled_s: float) -> list[EagerOperator]:
        call = waited_for(self._plain, self._is_gpu)
        self._job.say("measuring the operators of the program in eager mode")
        with torch.compiler.set_stance("force_eager"):
            return self._or_note(
                lambda: eager_operators(call, uncompiled_s, self._is_gpu),
                [],
                "The operators of eager mode are not known",
            )

    def _or_note(self, measure: Callable[[], FoundT], otherwise: FoundT, what: str) -> FoundT:
        """Return the result of ``measure``. If it raises, record a note and return ``otherwise``,
        so that the rest of the ledger can be used.
        """
        try:
            return measure()
        except Exception as error:  # noqa: BLE001 - it runs the program, which may raise anything
            self._notes.append(f"{what} ({_short(error)})")
            return otherwise


LONGEST = 160


def _short(error: BaseException) -> str:
    """Return the error in one line, without addresses of objects."""
    words = re.sub(r"<[\w.]+ object at 0x\w+>", "an object", one_line(error)).rstrip(".")
    if len(words) <= LONGEST:
        return words
    return f"{words[:LONGEST]}…"


def _name(plain: Caller) -> str:
    """Return the name of the program: the user's own class if the target compiles it itself."""
    wrapped = plain.target.callable
    is_wrapper = isinstance(wrapped, private_names.OptimizedModule)
    if is_wrapper:
        return type(plain.function).__name__
    return plain.target.name


def _graph_of(step: LedgerStep) -> str:
    return f"[{step.compilation}] {step.direction}".strip()


def _standing_s(ticks: Sequence[RawTick], costs: ClockCosts) -> float:
    """Return the seconds that the clocks cost in a call while they are switched off."""
    of_kind: dict[str, float] = dict.fromkeys(IN_BYTECODE, costs.standing_in_bytecode_s)
    of_kind |= dict.fromkeys(("begin", "end"), costs.standing_around_graph_s)
    return sum(of_kind.get(kind, 0.0) for _, kind, _ in ticks)


# The most that this machine does: bytes per second of plain copies, operations per second of
# large matrix products, with as many threads as the program uses.

CPU = "cpu"

COPIED_BYTES = 256 << 20
"""Size of a copy that measures the memory's speed, in bytes: far more than fits in a processor's
caches.
"""

SIZE = 1024
REPEATS = 5

PRODUCTS: dict[CeilingKind, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16}


def machine_ceilings(is_gpu: bool, say: Callable[[str], None]) -> tuple[CardCeiling, ...]:
    """Measure the highest speeds of the device. It takes a second on a CPU, two on a GPU."""
    if is_gpu:
        from fx_explorer.instruments.kernels.measure.kernel_timing import ceilings_of

        return ceilings_of(torch.cuda.get_device_name(), say)
    say("measuring the limits of this processor")
    return (_memory(), *(_product(kind, dtype) for kind, dtype in PRODUCTS.items()))


def _memory() -> CardCeiling:
    a, b = (torch.ones(COPIED_BYTES // 4) for _ in range(2))
    rate = 2 * COPIED_BYTES / _least_s(lambda: a.copy_(b), 1)
    return CardCeiling(0, CPU, "memory", rate, f"copy of {COPIED_BYTES / 1e9:.2f} GB of float32")


def _product(kind: CeilingKind, dtype: torch.dtype) -> CardCeiling:
    a, b = (torch.randn(SIZE, SIZE).to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    rate = 2 * SIZE**3 / _least_s(lambda: torch.mm(a, b, out=out), 1)
    return CardCeiling(
        0, CPU, kind, rate, f"product of two {SIZE} x {SIZE} matrices of random numbers"
    )


def _least_s(run: Callable[[], object], number: int) -> float:
    run()
    return min(timeit.repeat(run, number=number, repeat=REPEATS)) / number
