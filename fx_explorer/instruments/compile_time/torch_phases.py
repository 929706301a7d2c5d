"""This module has the seconds of each phase of a compile under torch's own names, one number for
each: from the metrics that torch writes at the end of a compile, or else from its timed phases.

The names are columns of ``CompilationMetrics`` (torch/_dynamo/utils.py); a timed phase says with
``dynamo_compile_column_us`` for which column it counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.naming import function_of
from fx_explorer.model.checked_json import finite_number
from fx_explorer.session import SessionReader
from fx_explorer.session.reader import answered_once


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase, as torch measures it."""

    name: str
    """In words: ``Inductor's code generation``."""
    column: str
    """torch's name of the metric, in microseconds."""
    former: str
    """torch's name of the same in seconds, in older releases; empty without one."""
    span: str
    """Name of the timed phase (``dynamo_timed``); empty without one."""
    holds: str
    """What is counted."""


PHASES = (
    Phase(
        "the whole compile", "duration_us", "entire_frame_compile_time_s", "entire_frame_compile",
        "everything from the beginning of Dynamo to the finished code; of a backward, all of it",
    ),
    Phase(
        "backend", "aot_autograd_cumulative_compile_time_us", "backend_compile_time_s",
        "backend_compile", "AOTAutograd and Inductor: everything that Dynamo calls with its graph",
    ),
    Phase(
        "Inductor", "inductor_cumulative_compile_time_us", "inductor_compile_time_s",
        "inductor_compile", "passes, lowering, scheduling, code generation, building kernels",
    ),
    Phase(
        "Inductor's code generation", "inductor_code_gen_cumulative_compile_time_us",
        "code_gen_time_s", "code_gen",
        "scheduling, writing the code, building and loading the kernels",
    ),
    Phase(
        "waiting for kernels", "triton_compile_time_us", "", "async_compile.wait",
        "waiting for kernels that other processes build; part of code generation",
    ),
    Phase(
        "pre-grad passes", "pre_grad_pass_time_us", "", "_recursive_pre_grad_passes",
        "passes over Dynamo's graph",
    ),
    Phase(
        "joint graph passes", "joint_graph_pass_time_us", "", "_recursive_joint_graph_passes",
        "passes over the joint graph",
    ),
    Phase(
        "post-grad passes", "post_grad_pass_time_us", "", "_recursive_post_grad_passes",
        "passes over the graph that is lowered",
    ),
    Phase(
        "autotuning", "compile_time_autotune_time_us", "", "",
        "timing the candidates while compiling",
    ),
    Phase("garbage collection", "gc_time_us", "", "gc", "of Python, at the end of the compile"),
    Phase(
        "writing the log", "structured_logging_overhead_us", "structured_logging_overhead_s", "",
        "torch's structured log",
    ),
)  # fmt: skip

_FRAME = "entire_frame_compile"

_BACKWARD = "entire_backward_compile"
"""The timed phase of a whole backward."""

_METRICS = {"compilation_metrics": "forward", "bwd_compilation_metrics": "backward"}

TIMED = "timed phases"


@dataclass(frozen=True, slots=True)
class PhaseSeconds:
    """The seconds of one phase of one compile."""

    compilation: str
    function: str
    direction: str
    """``forward``: Dynamo and what it caused; ``backward``."""
    phase: Phase
    seconds: float
    torch_name: str
    """The name under which torch has the number."""
    source: str
    """torch's record that has it: ``compilation_metrics``; else ``timed phases``."""

    @property
    def timed_as(self) -> str:
        """Return the name of the timed phase (``dynamo_timed``)."""
        return _span_of(self.phase, self.direction)


@answered_once
def torch_phases(reader: SessionReader) -> list[PhaseSeconds]:
    """Return the phases of every compile, in the order of the compiles; phases that took no time
    are left out.
    """
    metrics: dict[tuple[int, str], tuple[str, Mapping[str, object]]] = {}
    for row in reader.rows(model.Metric):
        if row.name in _METRICS:
            record = json.loads(str(row.value))
            if isinstance(record, dict):
                metrics[row.compilation, _METRICS[row.name]] = row.name, record
    phases: list[PhaseSeconds] = []
    for compilation in reader.rows(model.Compilation):
        function = function_of(compilation)
        for direction in ("forward", "backward"):
            if (compilation.id, direction) in metrics:
                source, record = metrics[compilation.id, direction]
                found = _of_metrics(record)
            else:
                source, found = TIMED, _of_spans(reader, compilation.id, direction)
            phases += [
                PhaseSeconds(
                    compilation.name, function, direction, phase, seconds, torch_name, source
                )
                for phase, seconds, torch_name in found
            ]
    return phases


def _of_metrics(record: Mapping[str, object]) -> Iterator[tuple[Phase, float, str]]:
    for phase in PHASES:
        in_us = finite_number(record.get(phase.column))
        in_s = finite_number(record.get(phase.former)) if phase.former else 0.0
        if in_us > 0:
            yield phase, in_us / 1e6, phase.column
        elif in_s > 0:
            yield phase, in_s, phase.former


def _of_spans(
    reader: SessionReader, compilation: int, direction: str
) -> Iterator[tuple[Phase, float, str]]:
    """Yield the phases of a compile that torch wrote no metrics of: it has not ended, or the log
    was cut off.
    """
    spans = reader.rows(model.Span, compilation=compilation)
    backwards = [span for span in spans if span.name == _BACKWARD]
    for phase in PHASES:
        name = _span_of(phase, direction)
        seconds = 0.0
        for span in spans:
            is_backward = any(_is_within(span, backward) for backward in backwards)
            if span.name == name and is_backward == (direction == "backward"):
                seconds += span.duration_s
        if name and seconds > 0:
            yield phase, seconds, name


def _span_of(phase: Phase, direction: str) -> str:
    if direction == "backward" and phase.span == _FRAME:
        return _BACKWARD
    return phase.span


def _is_within(span: model.Span, outer: model.Span) -> bool:
    return outer.start_s <= span.start_s <= outer.start_s + outer.duration_s
