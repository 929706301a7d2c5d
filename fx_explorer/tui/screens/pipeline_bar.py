"""This module is the pipeline bar, which shows for each step of torch.compile its state, its
results and its time, live while the worker compiles.

Several compilations share the bar: counts and seconds add up, and a step is running while any
compilation is in it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from textual import events
from textual.content import Content
from textual.style import Style

from fx_explorer import model
from fx_explorer.analysis.lineage import graphs_in_use
from fx_explorer.analysis.published import ShownStage, published_stages
from fx_explorer.analysis.whole_session import not_decoded, totals
from fx_explorer.analysis.words import breaks_hit, counted, seconds, size
from fx_explorer.highlight import printable
from fx_explorer.instruments.compile_time.timing import stage_times
from fx_explorer.instruments.kernels.counts import built_kernels
from fx_explorer.instruments.memory.saved_values import saved_total
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import check_count
from fx_explorer.session.queries.graphs import (
    partition_operations,
    post_grad_operations,
    stages_reached,
)
from fx_explorer.tui.widgets.one_line import Cached

State = Literal["waiting", "running", "paused", "done", "failed", "missing"]

GLYPHS: dict[State, str] = {
    "waiting": "·",
    "running": "▷",
    "paused": "‖",
    "done": "✓",
    "failed": "✗",
    "missing": "–",
}
"""Glyph of each state. A state is always shown by glyph, word and colour; the word is the step's
name or the text after it.
"""

COLOURS: dict[State, str] = {
    "waiting": "$text-muted",
    "running": "$text-accent",
    "paused": "$text-accent",
    "done": "$foreground",
    "failed": "$text-error",
    "missing": "$text-muted",
}


@dataclass(frozen=True, slots=True)
class PipelineStep:
    name: str
    stages: tuple[model.Stage, ...]


STEPS: tuple[PipelineStep, ...] = (
    PipelineStep("Dynamo", ("dynamo", "pre_grad")),
    PipelineStep("AOTAutograd", ("joint", "forward", "backward")),
    PipelineStep("Inductor", ("post_grad", "schedule")),
    PipelineStep("Kernels", ("output_code", "kernel")),
)


@dataclass(frozen=True, slots=True)
class StepState:
    """One step of the pipeline, as the bar shows it."""

    name: str
    state: State
    figures: tuple[str, ...] = ()
    """``1 graph``, ``0 breaks``, ``23 guards``, most important first; or why the step is
    missing.
    """
    took: str = ""
    """``0.43 s``; empty if the time is not known."""


def pipeline(
    reader: SessionReader, running: Collection[model.Stage] = (), paused: model.Gate | None = None
) -> list[StepState]:
    """Return the state of every step; ``running`` are the stages that the worker reports as
    running, unless it waits at ``paused``.
    """
    is_over = reader.meta("outcome") is not None
    reached = stages_reached(reader)
    if paused:
        running = ()
    elif not running and not is_over:
        running = _furthest(reached)
    failed = {f.stage for f in reader.rows(model.Failure, where="compiler") if f.stage}
    missing = {} if paused else _missing(reader)  # what lies behind the gate is still to come
    figures = _figures(reader)
    took = _took(reader)
    published = _published(reader, is_at_gate=paused == "backend", has_failed="backend" in failed)
    states = []
    for step in STEPS:
        if step.name == "Inductor":
            states += published
        if (
            published
            and step.name in _INDUCTORS
            and not set(step.stages) & (reached | failed | set(running))
        ):
            continue  # a backend of its own does what these do
        why = next((missing[stage] for stage in step.stages if stage in missing), "")
        if paused and model.GATE_STAGES[paused] in step.stages:
            state: State = "paused"
        else:
            state = _state(
                set(step.stages),
                failed,
                set(running),
                reached,
                bool(why) or (is_over and not paused),
            )
        if state in ("running", "paused", "done", "failed"):
            words = figures[step.name]
        else:
            words = ()
        states.append(
            StepState(step.name, state, words or _word(state, why), took.get(step.name, ""))
        )
    return states


_INDUCTORS = ("Inductor", "Kernels")


def _published(reader: SessionReader, *, is_at_gate: bool, has_failed: bool) -> list[StepState]:
    """Return a step per name of the stages that backends published, in the order of their first
    publication. At a gate the last one waits; a backend that failed did so after it.
    """
    by_name: dict[str, list[ShownStage]] = {}
    stages = published_stages(reader)
    for stage in stages:
        by_name.setdefault(stage.stage.name, []).append(stage)
    if stages and is_at_gate:
        waiting = max(stages, key=lambda stage: stage.stage.start_s).stage.name
    else:
        waiting = ""
    steps = []
    for name, stages_of_name in by_name.items():
        state: State = "paused" if name == waiting else "done"
        sizes = tuple(stage.size for stage in stages_of_name[:3])
        steps.append(StepState(_short(name), state, sizes))
    if has_failed:
        backends = dict.fromkeys(stage.backend for stage in reversed(stages))
        steps.append(
            StepState(_short(next(iter(backends), "") or "backend"), "failed", ("failed",))
        )
    if len(steps) > MOST_PUBLISHED:
        more = steps[MOST_PUBLISHED - 1 : -1]
        steps[MOST_PUBLISHED - 1 : -1] = [
            StepState("…", "done", (counted(len(more), "more stage"),))
        ]
    return steps


def _short(name: str) -> str:
    """Return the name of a step, which is a word or two among others."""
    shown = printable(name)
    if len(shown) <= LONGEST_NAME:
        return shown
    return f"{shown[: LONGEST_NAME - 1]}…"


LONGEST_NAME = 20

MOST_PUBLISHED = 8
"""Maximum number of published stages with a step of their own; the last stage always has one."""


def _state(
    stages: set[model.Stage],
    failed: set[model.Stage],
    running: set[model.Stage],
    reached: set[model.Stage],
    is_missing: bool,
) -> State:
    if stages & failed:
        return "failed"
    if stages & running:
        return "running"
    if stages & reached:
        return "done"
    return "missing" if is_missing else "waiting"


def _word(state: State, why: str) -> tuple[str, ...]:
    words = {
        "running": "running",
        "paused": "paused",
        "failed": "failed",
        "missing": why or "not reached",
    }.get(state, "")
    return (words,) if words else ()


def _furthest(reached: set[model.Stage]) -> set[model.Stage]:
    """Return only the latest stage that was reached: when another process writes the session,
    nothing else is known of the progress.
    """
    if reached:
        return {max(reached, key=model.STAGES.index)}
    return set()


def _missing(reader: SessionReader) -> dict[model.Stage, str]:
    """Return the stages that no compilation has, with the reason of the first."""
    compilations = [c for c in reader.rows(model.Compilation) if c.status != "running"]
    absent = [c.missing_stages or {} for c in compilations]
    if not absent:
        return {}
    missing: dict[model.Stage, str] = {}
    for stage in model.STAGES:
        if all(stage in reasons for reasons in absent):
            missing[stage] = absent[0][stage]
    return missing


def _figures(reader: SessionReader) -> dict[str, tuple[str, ...]]:
    whole = totals(reader)
    breaks = breaks_hit(whole.graph_breaks, whole.graph_break_hits, "break")
    if whole.graphs or not not_decoded(reader):
        graphs, guards = counted(whole.graphs, "graph"), counted(check_count(reader), "guard")
    else:
        graphs = guards = ""
    kernels = f"{whole.kernels:,}" if whole.kernels else ""
    return {
        "Dynamo": _without_empty(graphs, breaks, guards),
        "AOTAutograd": _aot_figures(reader),
        "Inductor": _without_empty(_fused(reader)),
        "Kernels": _without_empty(kernels, built_kernels(reader).description),
    }


def _aot_figures(reader: SessionReader) -> tuple[str, ...]:
    operations = partition_operations(reader, graphs_in_use(reader))
    names: tuple[tuple[model.Direction, str], ...] = (
        ("forward", "fwd"),
        ("backward", "bwd"),
        ("inference", "inference"),
    )
    counts = [(short, operations.get(direction, 0)) for direction, short in names]
    figures = [f"{short} {count:,}" for short, count in counts if count]
    saved = saved_total(reader)
    if saved.size_bytes:
        figures.append(f"saves {size(saved.size_bytes)}")
    return tuple(figures)


def _fused(reader: SessionReader) -> str:
    nodes = post_grad_operations(reader, graphs_in_use(reader))
    return counted(nodes, "op") if nodes else ""


def _without_empty(*parts: str) -> tuple[str, ...]:
    return tuple(part for part in parts if part)


def _took(reader: SessionReader) -> dict[str, str]:
    by_stage = stage_times(reader).by_stage
    took = {}
    for step in STEPS:
        duration_s = sum(by_stage.get(stage, 0.0) for stage in step.stages)
        if duration_s:
            took[step.name] = seconds(duration_s)
    return took


@dataclass(frozen=True, slots=True)
class Bar:
    """The texts behind each step's name, and between the steps."""

    texts: tuple[str, ...]
    separator: str


def bar_for(states: Sequence[StepState], room: int) -> Bar:
    """Shorten the bar until it fits into ``room`` cells: first the times go, then the less
    important counts, those of graph breaks last, then all.
    """
    for of_dynamo, of_others, has_took, is_brief, separator in _LEVELS:
        texts = []
        for state in states:
            parts = of_dynamo if state.name == "Dynamo" else of_others
            if state.name == "AOTAutograd" and parts == 1 and not is_brief:
                parts = 2  # the forward alone reads as if there were no backward
            texts.append(f"{_shortened(state, parts)} {state.took * has_took}".strip())
        bar = Bar(tuple(texts), separator)
        if _width(states, bar) <= room:
            break
    return bar


def _shortened(state: StepState, parts: int) -> str:
    """Return the most important ``parts``; why a step is missing is a sentence, and the first to
    go.
    """
    if state.state == "missing" and 0 < parts < 9:
        return "none"
    return " · ".join(state.figures[:parts])


_LEVELS = (
    (9, 9, True, False, " ━━ "),
    (9, 9, False, False, " ━━ "),
    (2, 2, False, False, " ━━ "),
    (2, 1, False, False, " ━━ "),
    (2, 1, False, False, " ━ "),
    (2, 1, False, True, " ━━ "),
    (2, 1, False, True, " ━ "),
    (1, 1, False, True, " ━━ "),
    (1, 1, False, True, " ━ "),
    (0, 0, False, True, " ━━ "),
)
"""Forms of the bar, widest first: number of Dynamo's counts, number of the other steps' counts,
whether there are times, whether the forward of AOTAutograd stands alone, and the separator.
"""


def _width(states: Sequence[StepState], bar: Bar) -> int:
    cells = len(bar.separator) * (len(states) - 1)
    for state, text in zip(states, bar.texts, strict=True):
        cells += len(state.name) + 2
        if text:
            cells += len(text) + 1
    return cells


class PipelineBar(Cached):
    """Shows ``✓ Dynamo 1 graph · 0 breaks 0.4 s ━━ ▷ Inductor ━━ · Kernels``, always visible. A
    click on a step shows what it did.
    """

    DEFAULT_CSS = """
    PipelineBar { height: 1; width: 1fr; padding: 0 1; background: $surface; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._states: Sequence[StepState] = ()

    def show(self, states: Sequence[StepState]) -> None:
        if list(states) != list(self._states):
            self._states = states
            self.refresh()

    async def on_click(self, event: events.Click) -> None:
        command = event.style.meta.get("command")
        if command:
            await self.run_action(f"app.run_command({command!r})")

    @property
    def text(self) -> str:
        return bar_content(self._states, 10_000).plain

    def render(self) -> Content:
        return bar_content(self._states, self.size.width).truncate(self.size.width, ellipsis=True)


def bar_content(states: Sequence[StepState], room: int) -> Content:
    bar = bar_for(states, room)
    steps = [_step_content(state, text) for state, text in zip(states, bar.texts, strict=True)]
    return Content.styled(bar.separator, "$text-disabled").join(steps)


def _step_content(state: StepState, text: str) -> Content:
    colour = COLOURS[state.state]
    style = f"bold {colour}" if state.state != "waiting" else colour
    content = Content.styled(f"{GLYPHS[state.state]} {state.name}", style)
    if text:
        content += Content.styled(f" {text}", "$text-muted")
    command = "view.kernels" if state.name == "Kernels" else "view.stages"
    return content.stylize(Style.from_meta({"command": command}))
