"""This module has ``Stages``, which runs torch.compile stage by stage from Python, with the app's
content as results: the same engine that the app steps with (capture/stepping/stepper.py), as an
object in the user's own process.

``Precompile`` (precompile/) is the other way to take the stages apart: it hands over functions that
run, of a model that is one graph. ``Stages`` is for looking, changing and comparing, and takes any
model: it calls it as the user does, through its graph breaks, its recompiles and its backward.

Both share the recorder, its boundary and the gates, and neither stands on the other.
"""

from __future__ import annotations

import contextlib
import shutil
import warnings
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from fx_explorer.analysis.measured_times import ComparedFigure
from fx_explorer.capture.graph_copies import snapshot
from fx_explorer.capture.recorder import begin, new_session, observing
from fx_explorer.capture.recording.boundary import Key
from fx_explorer.capture.recording.described import one_line
from fx_explorer.capture.stepping.after_the_program import again, compile_kept
from fx_explorer.capture.stepping.custom_pass import load_pass
from fx_explorer.capture.stepping.gates import StopAfterGate
from fx_explorer.capture.stepping.stepped_boundary import stepper_of
from fx_explorer.capture.stepping.stepper import Stepper
from fx_explorer.capture.stepping.through_the_gates import edit_all
from fx_explorer.capture.stepping.variant import Variant
from fx_explorer.errors import FxExplorerError, UsageError
from fx_explorer.folders import new_temporary_folder
from fx_explorer.instruments.diff.compare import figures
from fx_explorer.model import (
    GATE_WORDS,
    GATES,
    GRAPH_GATES,
    CandidateChange,
    CaptureRequest,
    Changes,
    Command,
    Compilation,
    Direction,
    FusionChange,
    Gate,
    LayoutChange,
    Mark,
    Notice,
    Outcome,
    PassFile,
)
from fx_explorer.program.calling import call_target
from fx_explorer.program.inputs import Arguments
from fx_explorer.program.target import Target
from fx_explorer.report.overview_html import overview_bundle
from fx_explorer.report.overview_text import overview_text
from fx_explorer.session import SessionReader
from fx_explorer.stage_views import Shown, StageName, StageView

__all__ = ["Shown", "StageError", "StageName", "StageView", "Stages"]

_LAST_GATE: dict[StageName, Gate | None] = {"dynamo": "dynamo", "aot": "joint", "inductor": None}
"""Stage → the last of the gates that it leaves behind. After the partition AOTAutograd has
finished, and that gate is still ahead.
"""


class StageError(FxExplorerError):
    """Raised when a stage failed for some graph. ``view`` has the results so far; the other graphs
    continued.
    """

    def __init__(self, message: str, view: StageView) -> None:
        super().__init__(message)
        self.view = view


class Stages:
    """torch.compile on one model, stage by stage: inspect each, change later ones, go back and
    compile another variant.

    ``dynamo()`` runs the model on the inputs, and its backward unless ``train`` is false or nothing
    requires a gradient: the graphs run eagerly, nothing is built. ``aot()`` and ``inductor()``
    compile the captured graphs. Each runs the stages before it that have not run, and returns a
    StageView: what the app shows. Python code of the model runs once, in ``dynamo()``, and so does
    its backward: gradients and buffers are afterwards as after any step.

    ``dynamo()`` empties Dynamo's caches (``torch._dynamo.reset``), before and after: functions that
    this process has compiled are recompiled when they are called again. Between the calls torch
    is untouched.

    Parameters are those of ``torch.compile``; ``inputs`` and ``kwargs`` are what ``model`` is
    called with. ``session`` is the file that everything is kept in, for ``fx-explorer SESSION``;
    without it there is one for as long as this object lives. Raises FileExistsError when the file
    is there already, SessionWriteError when it cannot be written.

    >>> import torch, fx_explorer
    >>> stages = fx_explorer.Stages(lambda x: torch.relu(x * 2 + 1), torch.ones(4))
    >>> print(stages.dynamo().graphs[0])
    placeholder l_x_  f32[4]
    mul = _operator.mul(l_x_, 2)  f32[4]
    add = _operator.add(mul, 1)  f32[4]
    relu = torch.relu(add)  f32[4]
    output (relu,)
    >>> [graph.title for graph in stages.aot().graphs]
    ['Pre-grad graph', 'Inference graph']
    >>> [kernel.name for kernel in stages.inductor().kernels]
    ['cpp_fused_add_mul_relu_0']
    >>> other = stages.again("post_grad", settings={"inductor.cpp.simdlen": 0})
    >>> other.variants[0].name
    '0/0~1'
    """

    def __init__(
        self,
        model: Callable[..., Any],
        *inputs: Any,
        kwargs: Mapping[str, Any] | None = None,
        train: bool | None = None,
        backend: str = "inductor",
        mode: str = "",
        dynamic: bool | None = None,
        options: Mapping[str, Any] | None = None,
        session: str | Path | None = None,
    ) -> None:
        """Create the session and start recording into it; the model is not called yet. The
        parameters are described at the class.
        """
        if isinstance(model, torch.nn.Module):
            name = type(model).__name__
        else:
            name = getattr(model, "__name__", repr(model))
        self._target = Target(
            name, model, Arguments(tuple(inputs), dict(kwargs or {}), "the arguments of Stages")
        )
        if session is not None:
            path = Path(session)
        else:
            path = _temporary_session(self)
        self.request = CaptureRequest(
            name,
            str(path),
            train=train,
            backend=backend,
            mode=mode,
            dynamic=dynamic,
            options=dict(options or {}),
            pause="dynamo",
        )
        self._gates = StopAfterGate()
        self._writer = new_session(path, self.request)
        self._recording = begin(self._writer, self.request, _no_notices, self._gates)
        self._reader = SessionReader(path)
        self._done: StageName | None = None
        self._is_closed = False

    @property
    def session(self) -> Path:
        return self._writer.path

    # the stages

    def dynamo(self) -> StageView:
        """Run the model and capture its graphs: graphs, bytecode, guards, graph breaks. Raises
        whatever the model raises.
        """
        if self._done is None:
            self._still_open()
            self._done = "dynamo"
            torch.compiler.reset()
            try:
                with observing(self._recording), self._recorded_outcome():
                    call_target(self._target, self)
            finally:
                torch.compiler.reset()
        return self._view("dynamo")

    def aot(self) -> StageView:
        """AOTAutograd, up to and with the partition: the joint, forward and backward graphs, and
        the saved tensors.

        Raises StageError when a graph cannot be traced, and what ``dynamo`` raises.
        """
        self.dynamo()
        if self._done == "dynamo":
            self._compile("aot", until="partition")
        return self._checked(self._view("aot"))

    def inductor(self) -> StageView:
        """Inductor: the graphs after its passes, its IR, output code and kernels. Raises as ``aot``
        does.
        """
        self.dynamo()
        if self._done != "inductor":
            self._compile("inductor", until=None)
        return self._checked(self._view("inductor"))

    # changes to what follows

    def set(self, settings: Mapping[str, object]) -> None:
        """Options for all that is compiled from now on, by full name:
        ``{"inductor.max_fusion_size": 8}``, ``compile.backend``.

        Raises UsageError, with none of them set, for an option that does not exist or has another
        type.
        """
        self._still_open()
        with self._stepper.settings.in_force():
            self._stepper.settings.set(dict(settings), None)

    def mark(
        self,
        name: str,
        *,
        nodes: tuple[str, ...] = (),
        module: str = "",
        file: str = "",
        lines: tuple[int, int] = (0, 0),
        configs: Mapping[str, object] | None = None,
    ) -> str:
        """Mark a region for ``regional_inductor`` in the Dynamo graphs that it fits, and describe
        it.

        ``nodes`` are names of Dynamo nodes, ``module`` is a path (``layers.0.mlp``), ``lines`` the
        first and last of ``file``. ``configs`` are ``torch._inductor.config`` entries for this
        region. Raises UsageError for what matches nothing, and once the graphs have gone on: then
        ``again("dynamo", marks=…)`` marks them in another variant.
        """
        self._still_before("dynamo", "mark a region")
        mark = Mark(name, nodes, module, file, *lines, dict(configs or {}))
        return edit_all(self._stepper, Command("mark", changes=Changes(marks=(mark,))))

    def apply_pass(self, path: str | Path, gate: Gate, direction: Direction = "") -> None:
        """Apply ``pass_(gm)`` of a Python file to each graph after ``gate``, when it gets there.
        See docs/understand/stepping.md.

        Raises PassProblem for a file that cannot be used, and UsageError when the graphs are past
        the gate.
        """
        _check_gate(gate, GRAPH_GATES)
        self._still_before(gate, "apply a pass")
        changes = Changes(passes=(PassFile(gate, str(path), direction),))
        load_pass(path)
        if gate == "dynamo":
            edit_all(self._stepper, Command("pass", changes=changes))
            return
        for kept in self._stepper.kept.values():
            kept.variants[0].changes = kept.variants[0].changes.plus(changes)

    # another variant

    def again(
        self,
        gate: Gate,
        *,
        compilation: str = "",
        direction: Direction = "",
        region: str = "",
        settings: Mapping[str, object] | None = None,
        marks: tuple[Mark, ...] = (),
        passes: tuple[PassFile, ...] = (),
        fusions: tuple[FusionChange, ...] = (),
        layouts: tuple[LayoutChange, ...] = (),
        candidates: tuple[CandidateChange, ...] = (),
    ) -> StageView:
        """Compile another variant of a compilation (default: the first) from ``gate`` on, without
        repeating earlier stages.

        ``direction`` and ``region`` lower only that again. ``fusions`` say what Inductor should
        compute in one kernel, or in separate ones, ``layouts`` in which order values lie in memory,
        and ``candidates`` which of the autotuner's it takes. Returns what Inductor made of it;
        ``view.variants[0].saved_s`` are the seconds not spent again. Raises UsageError for what
        cannot be done, with nothing changed, and StageError.
        """
        _check_gate(gate)
        self.dynamo()
        self._still_open()
        self._gates.until = None
        changes = Changes(dict(settings or {}), marks, passes, fusions, layouts, candidates)
        command = Command("again", gate, compilation, direction, region, changes)
        with observing(self._recording):
            variant = again(self._stepper, command)
        return self._checked(self._view("inductor", variant.row))

    def compare(self, left: str, right: str) -> list[ComparedFigure]:
        """Two variants side by side: kernels, operations, memory, time."""
        return figures(self._reader, self._row(left), self._row(right))

    # what there is

    def view(self, stage: StageName, variant: str = "") -> StageView:
        """Return any stage again, for all compilations or for one variant (``0/0~1``)."""
        if not variant:
            return self._view(stage)
        return self._view(stage, self._row(variant))

    def overview(self) -> str:
        """Return a description of what happened, in plain words: the first screen of the app."""
        return overview_text(self._reader)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return the overview for a notebook, as text and as HTML."""
        return overview_bundle(self._reader)

    def graph_module(
        self, stage: Gate, direction: Direction = "", variant: str = ""
    ) -> torch.fx.GraphModule:
        """The live graph of a stage, a copy: after ``dynamo``, ``pre_grad``, ``joint``,
        ``partition`` or ``post_grad``.

        Its tensors and parameters are the model's own. Raises UsageError when the variant has not
        come to that gate.
        """
        _check_gate(stage)
        kept = self._stepper.kept_of(variant)
        chosen = kept.variant(variant) or kept.variants[0]
        if stage == "dynamo":
            graph = kept.dynamo
        else:
            graph = _graph_at(chosen, (stage, direction))
        if graph is None:
            noun = f"{direction} graph" if direction else "graph"
            raise UsageError(f"[{chosen.row.name}] has no {noun} after {GATE_WORDS[stage]}.")
        return snapshot(graph)

    def close(self) -> None:
        """Complete the session as one plain file. Nothing can be compiled afterwards; earlier
        results can still be read.
        """
        self._is_closed = True
        self._reader.close()
        try:
            self._writer.finish()
        finally:
            self._reader.reopen()

    def __enter__(self) -> Stages:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # how

    @property
    def _stepper(self) -> Stepper:
        stepper = stepper_of(self._recording)
        assert stepper is not None
        return stepper

    def _still_open(self) -> None:
        if self._is_closed:
            raise UsageError(
                "These Stages are closed: their results can be read, but nothing can be compiled. "
                "Make new ones."
            )

    def _compile(self, stage: StageName, until: Gate | None) -> None:
        self._still_open()
        self._gates.until = until
        with observing(self._recording):
            compile_kept(self._stepper)
        self._done = stage

    def _still_before(self, gate: Gate, what: str) -> None:
        """Raise UsageError when the graphs have gone past ``gate``. If there are no graphs yet,
        capture them.
        """
        self._still_open()
        self.dynamo()
        assert self._done is not None
        last = _LAST_GATE[self._done]
        is_past = last is None or (
            self._done != "dynamo" and GATES.index(gate) <= GATES.index(last)
        )
        if is_past:
            raise UsageError(
                f'The graphs are past {GATE_WORDS[gate]}: use again("{gate}", …) to {what} in '
                "another variant."
            )

    def _view(self, stage: StageName, *variants: Compilation) -> StageView:
        return StageView(
            self._reader, stage, variants or tuple(self._reader.rows(Compilation, variant_of=""))
        )

    def _row(self, name: str) -> Compilation:
        compilations = self._reader.rows(Compilation, name=name)
        if not compilations:
            known = ", ".join(row.name for row in self._reader.rows(Compilation))
            raise UsageError(f"There is no [{name}]; there are {known or 'none'}.")
        return compilations[0]

    def _checked(self, view: StageView) -> StageView:
        current = [self._row(variant.name) for variant in view.variants]
        problems = [
            f"[{row.name}] failed: {row.error}" for row in current if row.status == "failed"
        ]
        view = StageView(self._reader, view.stage, tuple(current))
        if problems:
            raise StageError("\n".join(problems), view)
        return view

    @contextlib.contextmanager
    def _recorded_outcome(self) -> Iterator[None]:
        """Say in the session how the model's run ended."""
        outcome = Outcome("finished")
        try:
            yield
        except BaseException as error:
            outcome = Outcome("raised", one_line(f"{type(error).__name__}: {error}"), 1)
            raise
        finally:
            self._writer.set_meta("outcome", outcome.to_json())

    # what call_target says

    def say(self, activity: str) -> None:
        self._writer.set_meta("progress", activity)

    def note(self, text: str) -> None:
        warnings.warn(text, stacklevel=4)

    def describe(self, target: Target, train: bool) -> None:
        parameters = sum(p.numel() for p in target.parameters())
        described = {
            "name": target.name,
            "kind": target.kind,
            "file": "",
            "object": target.name,
            "train": train,
            "parameters": parameters,
        }
        self._writer.set_meta("target", described)


def _check_gate(gate: str, allowed: Collection[Gate] = GATES) -> None:
    if gate not in allowed:
        raise UsageError(f"There is no pause {gate!r} here: choose one of {', '.join(allowed)}.")


def _no_notices(notice: Notice) -> None:
    """Ignore a notice: everything is in the session."""


def _temporary_session(owner: Stages) -> Path:
    directory = new_temporary_folder()
    weakref.finalize(owner, shutil.rmtree, directory, ignore_errors=True)
    return directory / "session.fxs"


def _graph_at(variant: Variant, key: Key) -> torch.fx.GraphModule | None:
    gate, direction = key
    if gate == "partition":
        parts = variant.kept.get(("partition", ""))
        if parts is None:
            return None
        return parts[1] if direction == "backward" else parts[0]
    if gate != "post_grad":
        key = (gate, "")
    graph = variant.kept.get(key)
    return graph[0] if isinstance(graph, tuple) else graph
