"""This module tries a step with several values of ``activation_memory_budget``, and writes the
answer as text, as JSON, and as a picture of memory against time.

It is predicted by capturing the program once more for each, and measured in eager mode and compiled
where that is asked for, each in a process of its own as a bench starts them.
"""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.words import counted, size
from fx_explorer.client import session_files
from fx_explorer.drawing.view_table import NO_LIBRARY, SVG_SALT
from fx_explorer.errors import UsageError
from fx_explorer.instruments.bench.contender_process import CellFailed, ContenderProcess
from fx_explorer.instruments.bench.plan import UNCOMPILED, Contender
from fx_explorer.instruments.memory.report import Json, held_lines, memory_object, memory_report
from fx_explorer.instruments.options.trial import changed_request
from fx_explorer.model import BenchTask, CaptureRequest, HeldLine
from fx_explorer.output.formats import Block, json_text, text_of
from fx_explorer.output.table import Column, Table
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import distinct_names
from fx_explorer.trials import TrialWorker, recapture

BUDGET = "functorch.activation_memory_budget"
"""Name of torch's option (torch/_functorch/config.py): 1 saves what is fastest, 0 recomputes
everything.
"""


@dataclass(frozen=True)
class BudgetTrial:
    """The result of a step under one memory budget."""

    budget: float | None
    """The memory budget; None for the program's own."""
    predicted: Json
    """The prediction, as ``memory_object`` returns it."""
    measured: MeasuredStep | None = None
    held: Sequence[HeldLine] = ()
    """Bytes that the step itself holds at the predicted peak, by line."""

    @property
    def name(self) -> str:
        if self.budget is None:
            return "compiled"
        return f"budget {self.budget:g}"

    def figure(self, name: str) -> int:
        """Return one of the predicted figures."""
        return int(str(self.predicted[name]))

    @property
    def beyond(self) -> int:
        """Return the bytes that the step is predicted to need in addition to those held before
        it.
        """
        return self.figure("peak_bytes") - self.figure("begin_bytes")


@dataclass(frozen=True)
class BudgetTrials:
    """The trials of all memory budgets, with the program in eager mode if it was measured."""

    trials: Sequence[BudgetTrial]
    uncompiled: MeasuredStep | None = None


async def try_budgets(
    request: CaptureRequest,
    budgets: Sequence[float | None],
    worker: TrialWorker,
    tell: Told,
    *,
    measures: bool,
) -> BudgetTrials:
    """Predict a step for each budget, then measure the budgets in turns. Raises SessionWriteError
    when there is no room for a session, and WorkerError when the interpreter cannot be started.
    """
    trials = []
    for budget in budgets:
        if budget is None:
            tell("predicting")
        else:
            tell(f"predicting with a budget of {budget:g}")
        captured = await recapture(_with(request, budget), worker, _predicted)
        trials.append(BudgetTrial(budget, captured.found[0], held=captured.found[1]))
    if not measures:
        return BudgetTrials(trials)
    ways = [Contender(UNCOMPILED, replace(request, build=True), is_compiled=False)]
    ways += [
        Contender(trial.name, replace(_with(request, trial.budget), build=True)) for trial in trials
    ]
    uncompiled, *compiled = await measured_steps(ways, worker, tell)
    measured = [replace(trial, measured=step) for trial, step in zip(trials, compiled, strict=True)]
    return BudgetTrials(measured, uncompiled)


def _with(request: CaptureRequest, budget: float | None) -> CaptureRequest:
    if budget is None:
        return changed_request(request, {})
    return changed_request(request, {BUDGET: budget})


def _predicted(reader: SessionReader) -> tuple[Json, list[HeldLine]]:
    report = memory_report(reader)
    return memory_object(report), held_lines(report)


# A step measured, each way in a process of its own as a bench starts them.


ROUNDS = 8
"""Number of rounds. Each round measures every budget once."""

Told = Callable[[str], object]


@dataclass(frozen=True)
class MeasuredStep:
    """Measured memory and time of a training step under one memory budget, or uncompiled."""

    name: str
    peak_bytes: int = -1
    """Largest number of bytes allocated at once during a step, in addition to those before it; -1
    when it was not measured.
    """
    calls_s: tuple[float, ...] = ()
    """Seconds per step, one for each round."""
    device: str = ""
    held: tuple[HeldLine, ...] = ()
    """Tensors that the program in eager mode holds at its peak, in addition to those before the
    step, by the line that created them; empty for compiled programs.
    """
    message: str = ""
    """Why the measurement ended early; empty when it was complete."""

    @property
    def call_s(self) -> float | None:
        """Return the median over the rounds; None when there was none."""
        return median(self.calls_s) if self.calls_s else None


async def measured_steps(
    ways: Sequence[Contender], worker: TrialWorker, tell: Told
) -> list[MeasuredStep]:
    """Measure every way. The program in eager mode is first, since the others are compared with it:
    if it fails, none is measured. A way that fails has a message. Raises WorkerError when the
    interpreter cannot be started.
    """
    folder, lock = session_files.new_capture_directory()
    try:
        return await _Measuring(folder, worker, tell).all(ways)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()


class _Measuring:
    def __init__(self, folder: Path, worker: TrialWorker, tell: Told) -> None:
        self._folder = folder
        self._worker = worker
        self._tell = tell
        self._found: dict[str, MeasuredStep] = {}

    async def all(self, ways: Sequence[Contender]) -> list[MeasuredStep]:
        running: dict[str, ContenderProcess] = {}
        async with contextlib.AsyncExitStack() as until:
            for way in ways:
                process = await self._started(way, until)
                if process:
                    running[way.name] = process
                elif not way.is_compiled:
                    self._leave_out(ways)
                    break
            for number in range(1, ROUNDS + 1):
                self._tell(f"measuring, round {number} of {ROUNDS}")
                for name in list(running):
                    await self._asked(running, name, "round")
            for name in list(running):
                await self._asked(running, name, "step")
            for name in [way.name for way in ways if not way.is_compiled and way.name in running]:
                await self._asked(running, name, "held")
        return [self._found[way.name] for way in ways]

    def _leave_out(self, ways: Sequence[Contender]) -> None:
        """Mark every way but the first as not measured, because the program in eager mode
        failed.
        """
        for way in ways[1:]:
            self._found[way.name] = MeasuredStep(
                way.name, message="the program in eager mode fails"
            )

    async def _started(
        self, way: Contender, until: contextlib.AsyncExitStack
    ) -> ContenderProcess | None:
        task = BenchTask(
            way.request, way.is_compiled, reference=str(self._folder / "uncompiled.pt")
        )
        self._found[way.name] = MeasuredStep(way.name)

        def tell(doing: str) -> None:
            self._tell(f"{way.name}: {doing}")

        worker = self._worker
        starting = ContenderProcess.started(
            task, self._folder, worker.python, worker.timeout_s, tell, worker.fork_server
        )
        process = await until.enter_async_context(starting)
        try:
            ready = await process.answer()
        except CellFailed as failed:
            self._found[way.name] = MeasuredStep(way.name, message=failed.message)
            return None
        self._found[way.name] = MeasuredStep(way.name, device=str(ready.cell.get("device", "")))
        return process

    async def _asked(self, running: dict[str, ContenderProcess], name: str, command: str) -> None:
        step = self._found[name]
        try:
            news = await running[name].answer(command)
        except CellFailed as failed:
            self._found[name] = replace(step, message=failed.message)
            del running[name]
            return
        match command:
            case "round":
                self._found[name] = replace(step, calls_s=(*step.calls_s, news.call_s))
            case "step":
                self._found[name] = replace(step, peak_bytes=news.peak_bytes)
            case _:
                self._found[name] = replace(step, held=news.held)


# The answer as text and JSON.


SCHEMA = "fx-explorer/memory-trials/1"

COLUMNS = tuple(map(Column, ("", "saved", "peak", "above start", "measured", "a step")))


def trials_text(trials: BudgetTrials, width: int | None = None) -> str:
    """Return the answer, and a row for each budget with predicted and measured figures. Lines have
    at most ``width`` cells, None where a program reads.
    """
    rows = [_row(trial) for trial in trials.trials]
    if trials.uncompiled:
        rows.append(("eager", "", "", "", *_measured(trials.uncompiled)))
    table = Table(COLUMNS, rows)
    return text_of([*_sentences(trials), "", table, "", *_lines(trials), *_legend(trials)], width)


MOST_LINES = 12

NO_LINE = "no line of yours"


LINE_COLUMNS = (
    Column("line", narrowing="cut", least=24),
    Column("eager", is_number=True),
    Column("compiled", is_number=True),
    Column("note"),
)


def _lines(trials: BudgetTrials) -> Iterator[Block]:
    """Yield a table of the bytes held at the peaks, by line, for the uncompiled and the compiled
    program.
    """
    if not trials.uncompiled or not trials.uncompiled.held:
        return
    first = trials.trials[0]
    plain, compiled = _by_line(trials.uncompiled.held), _by_line(first.held)
    places = sorted(
        plain.keys() | compiled.keys(),
        key=lambda place: -max(plain.get(place, 0), compiled.get(place, 0)),
    )
    yield f"Memory at the peak, by line: eager mode's is measured, {first.name}'s is predicted."
    files = distinct_names({file for file, _ in places if file})
    rows = []
    for file, line in places[:MOST_LINES]:
        name = f"{files[file]}:{line}" if file else NO_LINE
        rows.append((name, _bytes(plain, (file, line)), _bytes(compiled, (file, line)), ""))
    if rest := places[MOST_LINES:]:
        more = counted(len(rest), "more line")
        rows.append((more, _sum(plain, rest), _sum(compiled, rest), ""))
    beyond = trials.uncompiled.peak_bytes - sum(plain.values())
    if beyond > LEAST_BEYOND * trials.uncompiled.peak_bytes:
        rows.append(("beyond these, eager", size(beyond), "", "(operators at work; not dense)"))
    yield Table(LINE_COLUMNS, rows, indent=2, has_titles=False)
    yield ""


LEAST_BEYOND = 0.01


_Line = tuple[str, int]
"""(file, line) of the user's source."""


def _by_line(held: Iterable[HeldLine]) -> dict[_Line, int]:
    return {(line.file, line.line): line.size_bytes for line in held}


def _bytes(held: Mapping[_Line, int], place: _Line) -> str:
    return size(held[place]) if place in held else ""


def _sum(held: Mapping[_Line, int], places: Iterable[_Line]) -> str:
    return size(sum(held.get(place, 0) for place in places))


def _row(trial: BudgetTrial) -> tuple[str, ...]:
    measured = _measured(trial.measured)
    if not trial.predicted["is_known"]:
        saved = "not known"
        if trial.predicted.get("saved_bytes"):
            saved = size(trial.figure("saved_bytes"))
        return trial.name, saved, "not known", "", *measured
    saved, peak = size(trial.figure("saved_bytes")), size(trial.figure("peak_bytes"))
    return trial.name, saved, peak, size(trial.beyond), *measured


def _measured(step: MeasuredStep | None) -> tuple[str, str]:
    if step is None:
        return "", ""
    peak = size(step.peak_bytes) if step.peak_bytes >= 0 else "none"
    call = run_time(step.call_s) if step.call_s else "none"
    return peak, call


def _sentences(trials: BudgetTrials) -> Iterator[str]:
    first = trials.trials[0]
    if not first.predicted["is_known"]:
        sentences = first.predicted["verdict"]
        if isinstance(sentences, list):
            yield from map(str, sentences)
        return
    yield (
        f"A step needs {size(first.figure('peak_bytes'))} at its peak ({first.name}), "
        f"{size(first.beyond)} above its start."
    )
    if (
        first.measured
        and first.measured.peak_bytes >= 0
        and trials.uncompiled
        and trials.uncompiled.peak_bytes >= 0
    ):
        measured, plain = size(first.measured.peak_bytes), size(trials.uncompiled.peak_bytes)
        yield (f"Measured above its start: {measured} compiled, {plain} in eager mode.")
    for trial in trials.trials[1:]:
        yield _compare_trials(first, trial)


def _compare_trials(first: BudgetTrial, trial: BudgetTrial) -> str:
    """Describe the effect of another budget on memory and time."""
    if not trial.predicted["is_known"]:
        return f"For {trial.name}, nothing can be predicted."
    text = f"{trial.name.capitalize()}: the peak is {size(trial.figure('peak_bytes'))}"
    if trial.measured and first.measured and trial.measured.call_s and first.measured.call_s:
        return (
            f"{text}, and a step takes {trial.measured.call_s / first.measured.call_s:.2f} "
            "times as long."
        )
    return f"{text}."


def _legend(trials: BudgetTrials) -> Iterator[str]:
    yield (
        "Columns saved, peak and above start are predictions. The start is the memory in use "
        "before the step: parameters, buffers, inputs."
    )
    if trials.uncompiled:
        yield (
            "Measured columns: “above start” by torch's allocator in a separate process; “a step” "
            "is the median over 8 rounds in turns."
        )
    for step in (*(trial.measured for trial in trials.trials), trials.uncompiled):
        if step and step.message:
            yield f"{step.name}: {step.message}"


def trials_json(budget_trials: BudgetTrials) -> str:
    """Return all trials as JSON."""
    trials = [_trial(trial) for trial in budget_trials.trials]
    return json_text(
        {"schema": SCHEMA, "trials": trials, "uncompiled": _step(budget_trials.uncompiled)}
    )


def _trial(trial: BudgetTrial) -> dict[str, object]:
    held = [asdict(line) for line in trial.held]
    return {
        "budget": trial.budget,
        "predicted": {**trial.predicted, "held_by_line": held},
        "measured": _step(trial.measured),
    }


def _step(step: MeasuredStep | None) -> dict[str, object] | None:
    if step:
        return {**asdict(step), "call_s": step.call_s}
    return None


# A point for each budget, as SVG by matplotlib (the extra ``plots``).


NOTHING = (
    "There is nothing to draw: a picture of memory against time needs --budgets and --measure."
)


class BudgetPoint(NamedTuple):
    """The memory and time of a step under one budget, as a point of the picture."""

    name: str
    bytes_: int
    call_s: float


def budgets_svg(points: Sequence[BudgetPoint], title: str) -> str:
    """Return the picture as SVG. Raises UsageError when there is nothing to draw, or no
    matplotlib.
    """
    if not points:
        raise UsageError(NOTHING)
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(NO_LIBRARY.format(library="matplotlib")) from error
    with matplotlib.rc_context({"svg.hashsalt": SVG_SALT, "svg.fonttype": "none"}):
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        axes = figure.add_subplot()
        for name, bytes_, call_s in points:
            axes.plot([bytes_ / 1e6], [call_s * 1e3], marker="o", linestyle="")
            axes.annotate(
                f"{name}: {size(bytes_)}",
                (bytes_ / 1e6, call_s * 1e3),
                xytext=(6, 6),
                textcoords="offset points",
            )
        axes.set_xlabel("memory of a step above its start, MB (measured)")
        axes.set_ylabel("a step, ms (median)")
        axes.margins(0.2)
        axes.set_title(title.replace("$", r"\$"))
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "fx-explorer"})
    return out.getvalue()
