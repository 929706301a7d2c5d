"""This module runs a bench from beginning to end: size after size, with the cells of a size taking
turns. All measurements are written to a session at once, so that readers see it grow, and a stopped
bench keeps what it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from fx_explorer.analysis.measured_times import median_interval, ratios_by_round
from fx_explorer.client import session_files
from fx_explorer.client.forked_workers import ForkServer
from fx_explorer.errors import UsageError
from fx_explorer.instruments.bench.contender_process import CellFailed, ContenderProcess
from fx_explorer.instruments.bench.machine import LeastSharing, Paces, machine
from fx_explorer.instruments.bench.plan import BenchPlan, Contender
from fx_explorer.instruments.bench.verdict import ENOUGH_ROUNDS, MOST_ROUNDS
from fx_explorer.model import BenchCell, BenchNews, BenchRound, BenchTask, Failure, InputSize
from fx_explorer.session import SessionWriter

MIN_ROUNDS, MAX_ROUNDS = ENOUGH_ROUNDS, MOST_ROUNDS
"""Minimum and maximum number of rounds of a size, unless the budget is spent. From 6 rounds on the
median has an interval of 95 %.
"""

GRACE, MIN_GRACE_S = 0.2, 5.0
"""Share of the budget, and minimum number of seconds, by which a bench may exceed the budget to
finish the rounds that an interval needs. One round of each cell is always made.
"""

STEADY = 0.01
"""Relative precision, in both directions, at which a speed-up is precise enough to end the rounds.
"""


@dataclass(frozen=True)
class BenchProgress:
    """The current activity of a bench."""

    place: str
    """The size, with its number and how many there are; empty for a single size without a name."""
    doing: str
    round: int = 0
    """The round that is being measured; 0 before the first."""
    left_s: float | None = None
    """Seconds that are left of the budget; None without one."""

    @property
    def without_figures(self) -> str:
        return ": ".join(filter(None, (self.place, self.doing)))

    @property
    def description(self) -> str:
        figures = [f"round {self.round}"] if self.round else []
        figures += [] if self.left_s is None else [f"{self.left_s:.0f} s left"]
        return ", ".join([self.without_figures, *figures])


Told = Callable[[BenchProgress], object]
"""A function that receives the progress of a bench."""


class Bench:
    """Measures a plan into the session that ``writer`` writes."""

    def __init__(
        self,
        plan: BenchPlan,
        writer: SessionWriter,
        python: str,
        tell: Told,
        fork_server: ForkServer | None = None,
    ) -> None:
        self._plan = plan
        self._writer = writer
        self._python = python
        self._fork_server = fork_server
        self._tell = tell
        self._number = writer.count(BenchCell) + 1
        self._whole: dict[str, object] = {}
        """The bench's own entry in ``meta``, with facts about all cells."""
        self._time = _BudgetedTime(plan.budget_s, len(list(plan.combinations())))

    async def run(self) -> None:
        """Measure every cell. Raises UsageError where the target cannot do what was requested,
        WorkerError when the interpreter cannot be started, and SessionWriteError. Cancelling ends
        all processes; the measurements so far are in the session.
        """
        combinations, contenders = list(self._plan.combinations()), self._plan.contenders()
        this_machine = await asyncio.to_thread(machine)
        self._whole = {"machine": this_machine, "budget_s": self._plan.budget_s}
        sharing = LeastSharing(str(this_machine["processor"]))
        with self._writer.transaction():
            self._write(state="running")
            cells = [self._cells(sizes, contenders) for sizes in combinations]
        folder, lock = session_files.new_capture_directory()
        state = "stopped"
        try:
            for i, (sizes, of_size) in enumerate(zip(combinations, cells, strict=True)):
                if len(cells) > 1:
                    place = f"{of_size[0].size} ({i + 1} of {len(cells)})"
                else:
                    place = of_size[0].size
                taken = _SizeOfBench(
                    self._plan,
                    self._writer,
                    self._python,
                    self._telling(place),
                    self._time,
                    folder,
                    sharing,
                    self._fork_server,
                )
                await taken.measure(
                    sizes, list(zip(contenders, of_size, strict=True)), is_first=i == 0
                )
            state = "finished"
        finally:
            sharing.keep()
            self._whole["least_sharing_s"] = sharing.least_s
            self._whole["preparing_s"] = self._time.preparing_s
            self._whole["measuring_s"] = self._time.measuring_s
            self._write(state=state)
            shutil.rmtree(folder, ignore_errors=True)
            lock.release()

    def _write(self, *, state: str, doing: str = "") -> None:
        """Write the state and the current activity of the bench to the session."""
        self._writer.set_meta("bench", {**self._whole, "state": state, "doing": doing})

    def _cells(
        self, sizes: tuple[InputSize, ...], contenders: Sequence[Contender]
    ) -> list[BenchCell]:
        return [self._added(contender.cell(sizes, self._number)) for contender in contenders]

    def _added(self, cell: BenchCell) -> BenchCell:
        return replace(cell, id=self._writer.add(cell))

    def _telling(self, place: str) -> _ToldHere:
        def tell(doing: str, number: int = 0) -> None:
            progress = BenchProgress(place, doing, number, self._time.left_s)
            if number <= 1:
                self._write(state="running", doing=progress.without_figures)
            self._tell(progress)

        return tell


class _ToldHere(Protocol):
    """A function that receives the progress of a bench at one size."""

    def __call__(self, doing: str, number: int = 0) -> object: ...


class _BudgetedTime:
    """The time that a bench has spent, and the time that each size may spend on rounds. Imports and
    compiling take whatever they need; rounds share the rest of the budget.
    """

    def __init__(self, budget_s: float | None, sizes: int) -> None:
        self._budget_s = budget_s
        self._sizes = sizes
        self._grace_s = max(MIN_GRACE_S, GRACE * (budget_s or 0.0) / max(sizes, 1))
        self._sizes_done = 0
        self._began_s = time.monotonic()
        self._rounds_began_s = 0.0
        self._for_rounds_s = 0.0
        self.preparing_s = 0.0
        self.measuring_s = 0.0

    @property
    def left_s(self) -> float | None:
        """Return the seconds that are left of the budget; None without one."""
        if self._budget_s is None:
            return None
        return max(0.0, self._began_s + self._budget_s - time.monotonic())

    @contextlib.contextmanager
    def preparing(self) -> Iterator[None]:
        """Count the seconds of the block, in which one size gets ready, as spent once."""
        began_s = time.monotonic()
        try:
            yield
        finally:
            self.preparing_s += time.monotonic() - began_s
            self._sizes_done += 1

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        """Count the seconds of the block, which makes the rounds of one size. Later sizes are
        expected to need as long to get ready, and get as much time for their rounds.
        """
        self._rounds_began_s = time.monotonic()
        later = self._sizes - self._sizes_done
        if self.left_s is not None:
            later_s = later * self.preparing_s / self._sizes_done
            self._for_rounds_s = max(0.0, self.left_s - later_s) / (later + 1)
        try:
            yield
        finally:
            self.measuring_s += time.monotonic() - self._rounds_began_s

    def allows(self, took_s: float) -> bool:
        """Return whether there is time for an activity of ``took_s`` seconds."""
        return self.left_s is None or took_s <= self.left_s + self._grace_s

    def is_enough(self, rounds: int) -> bool:
        """Return whether this number of rounds must be enough: the budget is spent and they give an
        interval, or it is far exceeded.
        """
        if self._budget_s is None:
            return False
        spent_s = time.monotonic() - self._rounds_began_s
        is_spent = spent_s >= self._for_rounds_s and rounds >= MIN_ROUNDS
        return is_spent or spent_s >= self._for_rounds_s + self._grace_s


class _StartedCell:
    """A cell whose process has been started, and its rounds."""

    def __init__(
        self, cell: BenchCell, process: ContenderProcess, could_say_more: str = ""
    ) -> None:
        self.cell = cell
        self.process = process
        self.could_say_more = could_say_more
        """Describes what a second comparison of its results would try; empty where it cannot help.
        """
        self.rounds: list[BenchRound] = []
        self.is_over = False
        """Whether its process was ended after the rounds."""


Keep = Callable[[_StartedCell, BenchNews], object]
"""A function that stores a cell's answer."""


class _SizeOfBench:
    """Measures the cells of one size."""

    def __init__(
        self,
        plan: BenchPlan,
        writer: SessionWriter,
        python: str,
        tell: _ToldHere,
        spent: _BudgetedTime,
        folder: Path,
        sharing: LeastSharing,
        fork_server: ForkServer | None = None,
    ) -> None:
        """``folder`` is for files that the processes share, and for their caches."""
        self._plan = plan
        self._writer = writer
        self._python = python
        self._tell = tell
        self._time = spent
        self._folder = folder
        self._sharing = sharing
        self._fork_server = fork_server

    async def measure(
        self,
        sizes: tuple[InputSize, ...],
        planned: list[tuple[Contender, BenchCell]],
        *,
        is_first: bool,
    ) -> None:
        """Start the cells one after the other, then let them take turns. If the program in eager
        mode fails, nothing can be compared with it, and no other cell is started.
        """
        running: list[_StartedCell] = []
        reference = self._folder / f"{planned[0][1].id}.pt"
        async with contextlib.AsyncExitStack() as until:
            with self._time.preparing():
                for contender, cell in planned:
                    task = BenchTask(
                        contender.request,
                        contender.is_compiled,
                        sizes,
                        self._plan.threads,
                        str(reference),
                    )
                    try:
                        running.append(await self._ready(task, cell, until))
                    except CellFailed as failed:
                        self._end(cell, failed)
                        if failed.is_usage and is_first:  # it would be the same at every size
                            raise UsageError(failed.message) from failed
                        if not contender.is_compiled:
                            self._leave_out([other for _, other in planned if other.is_compiled])
                            return
            with self._time.measuring():
                await self._take_turns(running)
            await self._ask_besides(running, "peak", self._peak)
            compiled = [cell for cell in running if cell.cell.is_compiled]
            await self._ask_besides(compiled, "work", self._work)
            await self._compare_again([cell for cell in compiled if cell.could_say_more])

    async def _compare_again(self, unclear: list[_StartedCell]) -> None:
        """Compare the results of contenders again where that can settle a question. It may compile
        again; if the rest of the budget does not allow that, the bench says so.
        """
        paid_for = [cell for cell in unclear if self._time.allows(cell.cell.first_call_s)]
        for cell in unclear:
            if cell not in paid_for:
                self._note_left_out(cell)
        if paid_for:
            self._tell("comparing results once more")
            await self._ask_besides(paid_for, "compare", self._compared)

    def _note_left_out(self, cell: _StartedCell) -> None:
        left_out = (
            f"{cell.could_say_more} was left out because the budget was used up; use a larger "
            "--budget"
        )
        words = "; ".join(filter(None, (cell.cell.agreement_words, left_out)))
        cell.cell = replace(cell.cell, agreement_words=words)
        self._writer.update(cell.cell)

    async def _ready(
        self, task: BenchTask, cell: BenchCell, until: contextlib.AsyncExitStack
    ) -> _StartedCell:
        """Start a cell and wait until it is stable."""
        starting = ContenderProcess.started(
            task,
            self._folder,
            self._python,
            self._plan.timeout_s,
            lambda doing: self._tell(f"{cell.contender}: {doing}"),
            self._fork_server,
        )
        process = await until.enter_async_context(starting)
        ready = await process.answer()
        cell = replace(cell, state="measured", **_known(ready.cell))
        self._writer.update(cell)
        self._sharing.begin(cell)
        return _StartedCell(cell, process, ready.could_say_more)

    async def _take_turns(self, running: list[_StartedCell]) -> None:
        for number in range(1, MAX_ROUNDS + 1):
            self._tell("measuring", number)
            # Each is first as often as the others: what the one before it left in the processor's
            # caches and clock must not always be the same.
            turned = (
                running[number % max(len(running), 1) :] + running[: number % max(len(running), 1)]
            )
            await self._ask_each(turned, "round", partial(self._round, number))
            running[:] = [cell for cell in running if cell.cell.state == "measured"]
            is_steady = number >= MIN_ROUNDS and _is_steady(running, self._sharing.least_s)
            if not running or self._time.is_enough(number) or is_steady:
                return

    async def _ask_each(self, running: list[_StartedCell], command: str, keep: Keep) -> None:
        for cell in running:
            await self._ask(cell, command, keep)

    async def _ask(self, cell: _StartedCell, command: str, keep: Keep) -> None:
        try:
            keep(cell, await cell.process.answer(command))
        except CellFailed as failed:
            cell.cell = self._end(cell.cell, failed)

    async def _ask_besides(self, asked: list[_StartedCell], command: str, keep: Keep) -> None:
        """Ask cells for further facts besides the rounds. If that fails, the measurements still
        hold.
        """
        for cell in asked:
            if cell.is_over:
                continue
            try:
                keep(cell, await cell.process.answer(command))
            except CellFailed as failed:
                cell.is_over = True
                note = (
                    f"{cell.cell.contender} failed after its rounds ({command}): {failed.message}"
                )
                cell.cell = replace(cell.cell, notes=(*cell.cell.notes, note))
                self._writer.update(cell.cell)

    def _round(self, number: int, cell: _StartedCell, news: BenchNews) -> None:
        row = BenchRound(0, cell.cell.id, number, news.call_s, news.calls, news.sharing_s)
        cell.rounds.append(row)
        self._sharing.take_sharing(news.sharing_s)
        self._writer.add(row)

    def _work(self, cell: _StartedCell, news: BenchNews) -> None:
        cell.cell = replace(cell.cell, work_s=news.work_s)
        self._writer.update(cell.cell)

    def _compared(self, cell: _StartedCell, news: BenchNews) -> None:
        cell.cell = replace(cell.cell, **_known(news.cell))
        self._writer.update(cell.cell)

    def _peak(self, cell: _StartedCell, news: BenchNews) -> None:
        cell.cell = replace(cell.cell, peak_bytes=news.peak_bytes)
        self._writer.update(cell.cell)

    def _end(self, cell: BenchCell, failed: CellFailed) -> BenchCell:
        ended = replace(cell, state=failed.state, message=failed.message)
        with self._writer.transaction():
            self._writer.update(ended)
            if failed.traceback:
                kind = failed.message.partition(":")[0]
                where = "compiler" if cell.is_compiled else "program"
                text = self._writer.text(failed.traceback)
                self._writer.add(
                    Failure(0, 0, where, None, kind, f"{cell.contender}: {failed.message}", text)
                )
        return ended

    def _leave_out(self, cells: list[BenchCell]) -> None:
        for cell in cells:
            self._end(
                cell,
                CellFailed(
                    "not_measured",
                    "the program fails in eager mode at this size, so there is nothing to compare "
                    "with",
                ),
            )


def _is_steady(running: list[_StartedCell], least_sharing_s: float = 0.0) -> bool:
    """Return whether every speed-up is precise enough, from rounds that were not disturbed; without
    speed-ups, whether every time is.
    """
    every_round = list(chain.from_iterable(cell.rounds for cell in running))
    paces = Paces(every_round, least_sharing_s)
    quiet = {cell.cell.id: _quiet_s(cell.rounds, paces) for cell in running}
    uncompiled = next((quiet[cell.cell.id] for cell in running if not cell.cell.is_compiled), None)
    intervals = []
    for times in quiet.values():
        if uncompiled:
            values = ratios_by_round(uncompiled, times)
        else:
            values = list(times.values())
        intervals.append(median_interval(values))
    return all(interval is not None and interval.spread <= STEADY for interval in intervals)


def _quiet_s(rounds: Sequence[BenchRound], paces: Paces) -> dict[int, float]:
    """Return number of a round → seconds of a call, of rounds that were not disturbed."""
    return {row.number: row.call_s for row in rounds if not paces.is_disturbed(row)}


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a cell as its process sent them, with tuples in place of lists."""
    known = {}
    for name, value in fields.items():
        known[name] = tuple(value) if isinstance(value, list) else value
    return known
