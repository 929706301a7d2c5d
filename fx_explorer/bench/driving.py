"""A bench from beginning to end: size after size, the cells of a size taking turns. All that is measured
is written to a session at once, so that whoever looks at it sees it grow, and a bench that is stopped
keeps what there is.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from fx_explorer.analysis.bench.disturbed import Paces
from fx_explorer.analysis.bench.interval import median_interval, ratios_by_round
from fx_explorer.bench.contender_process import CellFailed, ContenderProcess
from fx_explorer.bench.least_sharing import LeastSharing
from fx_explorer.bench.machine import machine
from fx_explorer.bench.plan import BenchPlan, Contender
from fx_explorer.client import leftovers
from fx_explorer.errors import UsageError
from fx_explorer.model import BenchCell, BenchNews, BenchRound, BenchTask, Failure, InputSize
from fx_explorer.session import SessionWriter

MIN_ROUNDS, MAX_ROUNDS = 8, 30
"""A size has at least and at most so many rounds, unless the budget is spent. From 6 on the median has
an interval of 95 %.
"""

GRACE, MIN_GRACE_S = 0.2, 5.0
"""Part of the budget, and least seconds, that a bench may take longer for the rounds of cells that are
ready.
"""

STEADY = 0.01
"""Rounds end when each speed-up is known to so much of itself, in both directions."""


@dataclass(frozen=True)
class BenchProgress:
    """What a bench is doing."""

    place: str
    """The size, and which of how many it is; empty for the only one without a name."""
    doing: str
    round: int = 0
    """The round that is measured; 0 before."""
    left_s: float | None = None
    """Seconds of the budget that are left; None without one."""

    @property
    def without_figures(self) -> str:
        return ": ".join(filter(None, (self.place, self.doing)))

    @property
    def in_words(self) -> str:
        figures = [f"round {self.round}"] if self.round else []
        figures += [] if self.left_s is None else [f"{self.left_s:.0f} s left"]
        return ", ".join([self.without_figures, *figures])


Told = Callable[[BenchProgress], object]
"""Hears what is being done."""


class Bench:
    """Measures a plan into the session that ``writer`` writes."""

    def __init__(self, plan: BenchPlan, writer: SessionWriter, python: str, tell: Told) -> None:
        self._plan = plan
        self._writer = writer
        self._python = python
        self._tell = tell
        self._number = writer.count(BenchCell) + 1
        self._told: dict[str, object] = {}
        """What is known of the bench as a whole."""
        self._deadline = time.monotonic() + plan.budget_s if plan.budget_s is not None else None

    async def run(self) -> None:
        """Measure every cell. Raises UsageError where the target cannot do what was asked for at all,
        WorkerError when the interpreter cannot be started, and SessionWriteError. Whoever is cancelled
        ends all processes; what was measured by then is in the session.
        """
        combinations, contenders = list(self._plan.combinations()), self._plan.contenders()
        found = await asyncio.to_thread(machine)
        self._told = {"machine": found, "budget_s": self._plan.budget_s}
        sharing = LeastSharing(str(found["processor"]))
        with self._writer.transaction():
            self._write(state="running")
            cells = [
                [self._added(contender.cell(sizes, self._number)) for contender in contenders]
                for sizes in combinations
            ]
        folder, lock = leftovers.new_directory()
        state = "stopped"
        try:
            for i, (sizes, of_size) in enumerate(zip(combinations, cells, strict=True)):
                place = (
                    f"{of_size[0].size} ({i + 1} of {len(cells)})"
                    if len(cells) > 1
                    else of_size[0].size
                )
                share = _Share(
                    self._deadline,
                    max(MIN_GRACE_S, GRACE * (self._plan.budget_s or 0.0)),
                    len(cells) - i,
                )
                taken = _SizeOfBench(
                    self._plan,
                    self._writer,
                    self._python,
                    self._telling(place),
                    share,
                    folder,
                    sharing,
                )
                await taken.measure(
                    sizes, list(zip(contenders, of_size, strict=True)), is_first=i == 0
                )
            state = "finished"
        finally:
            sharing.keep()
            self._told["least_sharing_s"] = sharing.least_s
            self._write(state=state)
            shutil.rmtree(folder, ignore_errors=True)
            lock.release()

    def _write(self, *, state: str, doing: str = "") -> None:
        """Write how the bench stands, and what it is doing."""
        self._writer.set_meta("bench", {**self._told, "state": state, "doing": doing})

    def _added(self, cell: BenchCell) -> BenchCell:
        return replace(cell, id=self._writer.add(cell))

    def _telling(self, place: str) -> _ToldHere:
        def tell(doing: str, number: int = 0) -> None:
            left_s = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
            progress = BenchProgress(place, doing, number, left_s)
            if number <= 1:
                self._write(state="running", doing=progress.without_figures)
            self._tell(progress)

        return tell


class _ToldHere(Protocol):
    """Hears what is being done at one size."""

    def __call__(self, doing: str, number: int = 0) -> object: ...


class _Share:
    """The part of the budget that one size has. Those after it have as much each."""

    def __init__(self, deadline: float | None, grace_s: float, sizes_left: int) -> None:
        self._deadline = deadline
        self._grace_s = grace_s
        now = time.monotonic()
        self._end = None if deadline is None else now + (deadline - now) / sizes_left

    @property
    def is_spent(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end

    @property
    def is_all_spent(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def is_enough(self, rounds: int) -> bool:
        """Return whether so many rounds must do. Cells that are ready get the few rounds that an
        interval takes, even when the budget is spent, as long as that does not go far beyond it:
        without them all the time until they were ready would be lost.
        """
        is_far_beyond = (
            self._deadline is not None and time.monotonic() >= self._deadline + self._grace_s
        )
        return is_far_beyond or (self.is_spent and rounds >= MIN_ROUNDS)


class _StartedCell:
    """A cell whose process has been started, and its rounds."""

    def __init__(self, cell: BenchCell, process: ContenderProcess) -> None:
        self.cell = cell
        self.process = process
        self.rounds: list[BenchRound] = []


Keep = Callable[[_StartedCell, BenchNews], object]
"""Keeps what a cell answered."""


class _SizeOfBench:
    """Measures the cells of one size."""

    def __init__(
        self,
        plan: BenchPlan,
        writer: SessionWriter,
        python: str,
        tell: _ToldHere,
        share: _Share,
        folder: Path,
        sharing: LeastSharing,
    ) -> None:
        """``folder`` is for what the processes share, and for their caches."""
        self._plan = plan
        self._writer = writer
        self._python = python
        self._tell = tell
        self._share = share
        self._folder = folder
        self._sharing = sharing

    async def measure(
        self,
        sizes: tuple[InputSize, ...],
        planned: list[tuple[Contender, BenchCell]],
        *,
        is_first: bool,
    ) -> None:
        """Start the cells one after the other, and then have them take turns. Where the uncompiled
        program fails, nothing can be compared with it, and no other cell is started.
        """
        running: list[_StartedCell] = []
        reference = self._folder / f"{planned[0][1].id}.pt"
        async with contextlib.AsyncExitStack() as until:
            for contender, cell in planned:
                if self._share.is_all_spent:
                    self._end(
                        cell,
                        CellFailed(
                            "not_measured",
                            f"the budget of {self._plan.budget_s:g} s was spent before",
                        ),
                    )
                    continue
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
            await self._take_turns(running)
            await self._ask_each(running, "peak", self._peak)
            await self._ask_each(
                [one for one in running if one.cell.is_compiled], "work", self._work
            )

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
        )
        process = await until.enter_async_context(starting)
        ready = await process.answer()
        cell = replace(cell, state="measured", **_known(ready.cell))
        self._writer.update(cell)
        self._sharing.begin(cell)
        return _StartedCell(cell, process)

    async def _take_turns(self, running: list[_StartedCell]) -> None:
        for number in range(1, MAX_ROUNDS + 1):
            self._tell("measuring", number)
            # Each is first as often as the others: what the one before it left in the processor's
            # caches and clock must not always be the same.
            turned = (
                running[number % max(len(running), 1) :] + running[: number % max(len(running), 1)]
            )
            await self._ask_each(turned, "round", partial(self._round, number))
            running[:] = [one for one in running if one.cell.state == "measured"]
            is_steady = number >= MIN_ROUNDS and _is_steady(running, self._sharing.least_s)
            if not running or self._share.is_enough(number) or is_steady:
                return

    async def _ask_each(self, running: list[_StartedCell], command: str, keep: Keep) -> None:
        for one in running:
            await self._ask(one, command, keep)

    async def _ask(self, one: _StartedCell, command: str, keep: Keep) -> None:
        try:
            keep(one, await one.process.answer(command))
        except CellFailed as failed:
            one.cell = self._end(one.cell, failed)

    def _round(self, number: int, one: _StartedCell, news: BenchNews) -> None:
        row = BenchRound(0, one.cell.id, number, news.call_s, news.calls, news.sharing_s)
        one.rounds.append(row)
        self._sharing.hear(news.sharing_s)
        self._writer.add(row)

    def _work(self, one: _StartedCell, news: BenchNews) -> None:
        one.cell = replace(one.cell, work_s=news.work_s)
        self._writer.update(one.cell)

    def _peak(self, one: _StartedCell, news: BenchNews) -> None:
        one.cell = replace(one.cell, peak_bytes=news.peak_bytes)
        self._writer.update(one.cell)

    def _end(self, cell: BenchCell, failed: CellFailed) -> BenchCell:
        ended = replace(cell, state=failed.state, message=failed.message)
        with self._writer.transaction():
            self._writer.update(ended)
            if failed.traceback:
                kind, where = (
                    failed.message.partition(":")[0],
                    "compiler" if cell.is_compiled else "program",
                )
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
                    "the uncompiled program fails at this size, so there is nothing to compare with",
                ),
            )


def _is_steady(running: list[_StartedCell], least_sharing_s: float = 0.0) -> bool:
    """Return whether every speed-up is known well enough, from rounds that were not disturbed; without one, whether
    every time is.
    """
    paces = Paces([row for one in running for row in one.rounds], least_sharing_s)
    quiet = {
        one.cell.id: {row.number: row.call_s for row in one.rounds if not paces.is_disturbed(row)}
        for one in running
    }
    uncompiled = next((quiet[one.cell.id] for one in running if not one.cell.is_compiled), None)
    rows = [
        ratios_by_round(uncompiled, times) if uncompiled else list(times.values())
        for times in quiet.values()
    ]
    found = [median_interval(values) for values in rows]
    return all(one is not None and one.spread <= STEADY for one in found)


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a cell as they came from its process, with tuples."""
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
