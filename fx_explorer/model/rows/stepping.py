"""This module has the rows about stepping: through the stages of a compilation, and through
Dynamo's bytecode.

Of a compilation they say where it can pause, what can be changed there, and what was. A *variant*
is one run through the stages after Dynamo. The first variant of ``[0/0]`` is its Compilation row.
Every other one has a Compilation row of its own (``0/0~1``) that holds only what came after the
gate it set out from.

Of the bytecode they say what it did when the program was called once more: one row for each
instruction that was executed.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from fx_explorer.model.checked_json import checked
from fx_explorer.model.column_types import Direction, Stage

Gate = Literal[
    "dynamo", "pre_grad", "joint", "partition", "backend", "post_grad", "pre_fusion", "post_fusion",
    "output_code"
]  # fmt: skip
"""A point at which compilation can pause, named after the finished stage. ``partition`` comes
before each lowering, so once for the forward and once for the backward graph; so do the later
gates. An inference graph has no ``joint``. ``backend`` comes after each stage that a backend
publishes.
"""

GATES: tuple[Gate, ...] = (
    "dynamo",
    "pre_grad",
    "joint",
    "partition",
    "backend",
    "post_grad",
    "pre_fusion",
    "post_fusion",
    "output_code",
)
"""The gates, in the order in which they are reached."""

GATE_WORDS: dict[Gate, str] = {
    "dynamo": "Dynamo",
    "pre_grad": "the pre-grad passes",
    "joint": "the joint graph",
    "partition": "the partition",
    "backend": "a stage of the backend",
    "post_grad": "the post-grad passes",
    "pre_fusion": "lowering, before fusion",
    "post_fusion": "fusion",
    "output_code": "code generation",
}
"""Gate → the words that complete “paused after …”."""

GATE_STAGES: dict[Gate, Stage] = {
    "dynamo": "dynamo",
    "pre_grad": "pre_grad",
    "joint": "joint",
    "partition": "forward",
    "backend": "backend",
    "post_grad": "post_grad",
    "pre_fusion": "schedule",
    "post_fusion": "schedule",
    "output_code": "output_code",
}
"""Gate → the stage that has finished there."""


def stage_at(gate: Gate, direction: Direction) -> Stage:
    """Return the stage of the graph that is at a gate."""
    if gate == "partition" and direction == "backward":
        return "backward"
    return GATE_STAGES[gate]


GRAPH_GATES: tuple[Gate, ...] = ("dynamo", "pre_grad", "joint", "partition", "post_grad")
"""Gates at which an FX graph can be edited; from ``pre_fusion`` on there is only Inductor's IR."""

Pause = Literal["", "dynamo", "step"]
"""Where a capture pauses automatically: nowhere, when Dynamo has finished, or at every gate."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A region marked by hand: all nodes of the Dynamo graph that ``nodes``, ``module`` or the
    source lines name.
    """

    name: str
    nodes: tuple[str, ...] = ()
    """Names of nodes of the Dynamo graph."""
    module: str = ""
    """Module path, ``layers.0.mlp``, including everything below it."""
    file: str = ""
    first_line: int = 0
    last_line: int = 0
    """Last source line of the region in ``file``. Both the first and the last line are included."""
    configs: dict[str, object] = dataclasses.field(default_factory=dict)
    """``torch._inductor.config`` entries for this region alone."""


@dataclass(frozen=True, slots=True)
class PassFile:
    """A Python file with a function ``pass_(gm)``, to be applied to the graph at ``gate``."""

    gate: Gate
    path: str
    direction: Direction = ""
    """Direction of the graph, where a gate is reached for several; empty: each."""


FusionKind = Literal["together", "apart"]


@dataclass(frozen=True, slots=True)
class FusionChange:
    """Two groups of buffers that Inductor should compute in one kernel, or in separate ones.

    ``together``: its limits on fusion do not hold for them; a fusion that would be wrong is still
    refused. ``apart``: no kernel computes a member of both groups.
    """

    kind: FusionKind
    first: tuple[str, ...]
    """Names of buffers, as Inductor's scheduler has them (KernelCall.buffers)."""
    second: tuple[str, ...]
    """May be the same buffers: then each of them has a kernel of its own."""
    direction: Direction = ""
    """Direction of the graph; empty: each."""


@dataclass(frozen=True, slots=True)
class LayoutChange:
    """A value that Inductor should lay out in another order in memory. Who needs the order that it
    had gets a copy. An input is taken as if the program gave it in this order.
    """

    node: str
    """Name of the post-grad node whose value it is."""
    order: tuple[int, ...]
    """For each dimension how many have a smaller stride: (1, 0) is a contiguous matrix."""
    direction: Direction = ""
    """Direction of the graph; empty: each."""


@dataclass(frozen=True, slots=True)
class CandidateChange:
    """A candidate that Inductor should take for an operation, without timing the others."""

    node: str
    """Name of the post-grad node that is lowered."""
    candidate: str
    """As the decision about the candidates names it (KernelDecision.texts)."""
    direction: Direction = ""
    """Direction of the graph; empty: each."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a variant from the one before."""

    settings: dict[str, object] = dataclasses.field(default_factory=dict)
    """The options, by full name: ``inductor.max_fusion_size``, ``compile.backend`` (see
    Setting).
    """
    marks: tuple[Mark, ...] = ()
    passes: tuple[PassFile, ...] = ()
    fusions: tuple[FusionChange, ...] = ()
    layouts: tuple[LayoutChange, ...] = ()
    candidates: tuple[CandidateChange, ...] = ()

    def __bool__(self) -> bool:
        asked_of_inductor = self.fusions or self.layouts or self.candidates
        return bool(self.settings or self.marks or self.passes or asked_of_inductor)

    def plus(self, more: Changes) -> Changes:
        """Return both changes together; ``more`` decides where the settings differ."""
        return Changes(
            {**self.settings, **more.settings},
            (*self.marks, *more.marks),
            self._passes_with(more),
            (*self.fusions, *more.fusions),
            (*self.layouts, *more.layouts),
            (*self.candidates, *more.candidates),
        )

    def _passes_with(self, more: Changes) -> tuple[PassFile, ...]:
        """Return the pass files, each once. A file that is given again replaces its earlier
        entry.
        """
        return tuple(dict.fromkeys((*self.passes, *more.passes)))

    def to_json(self) -> dict[str, object]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Changes:
        """Read changes. Raises TypeError, ValueError or KeyError for invalid fields."""
        if not isinstance(fields, dict):
            raise TypeError("changes are a JSON object")
        marks = []
        for mark in fields.get("marks", ()):
            mark_fields = {**mark}  # raises TypeError for what is no JSON object
            mark_fields["nodes"] = tuple(mark.get("nodes", ()))
            marks.append(checked(Mark(**mark_fields)))
        passes = tuple(checked(PassFile(**pass_file)) for pass_file in fields.get("passes", ()))
        fusions = []
        for fusion in fields.get("fusions", ()):
            fusion_fields = {**fusion}
            fusion_fields["first"] = tuple(fusion["first"])
            fusion_fields["second"] = tuple(fusion["second"])
            fusions.append(checked(FusionChange(**fusion_fields)))
        layouts = []
        for layout in fields.get("layouts", ()):
            layout_fields = {**layout}
            layout_fields["order"] = tuple(layout["order"])
            layouts.append(checked(LayoutChange(**layout_fields)))
        candidates = [checked(CandidateChange(**each)) for each in fields.get("candidates", ())]
        return cls(
            dict(fields.get("settings", {})),
            tuple(marks),
            passes,
            tuple(fusions),
            tuple(layouts),
            tuple(candidates),
        )


SettingGroup = Literal["compile", "compiler", "inductor", "dynamo", "functorch"]
"""Group of options. ``compile``: the arguments of torch.compile itself; ``compiler``: the stance;
the others are ``torch._inductor.config`` and so on.
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """One option of the compiler, in the torch that is used."""

    id: int
    group: SettingGroup
    name: str
    """Name within its group: ``triton.cudagraphs``."""
    type: str
    """Type in readable form: ``bool``, ``int``, ``str | None``, ``Literal['default', 'always']``;
    empty when it is not plain data (a function, say) and cannot be set from here.
    """
    default: str
    """The default, as JSON."""
    value: str
    """The value in force when the capture began, as JSON."""
    help: str
    """torch's documentation: the comment or docstring beside the entry; empty without one."""
    choices: tuple[str, ...] = ()
    """JSON of each allowed value, when the type has few."""

    @property
    def full_name(self) -> str:
        return f"{self.group}.{self.name}"


InterventionKind = Literal["setting", "mark", "pass", "skip", "abort"]


@dataclass(frozen=True, slots=True)
class Intervention:
    """A change by the user at a gate: from here on the compilation differs from torch's own."""

    id: int
    compilation: int
    """Id of the Compilation; 0 when it applies to everything that follows."""
    gate: Gate | None
    direction: Direction
    kind: InterventionKind
    title: str
    """``inductor.max_fusion_size = 8``, ``pass_ of fold.py``, ``region "mlp": 12 nodes``."""
    before: int = 0
    """Id of the Graph before a pass or mark; 0 where no graph was changed."""
    after: int = 0
    """Id of the Graph that resulted."""
    text: int = 0
    """The text of the pass file."""


@dataclass(frozen=True, slots=True)
class RegionLowering:
    """The result of ``regional_inductor`` for a region in one direction: whether it was compiled,
    and under which name.
    """

    id: int
    compilation: int
    direction: Direction
    name: str
    """Name of the region; empty for nodes marked without one."""
    subgraph: str
    """torch's name for the submodule, ``__marked_inductor_submod0``; a Kernel's ``subgraph`` refers
    to it. Empty when the region was not compiled.
    """
    nodes: int
    """Nodes of the forward or backward graph in it."""
    configs: dict[str, object] | None = None
    is_reused: bool = False
    """Whether the region was taken from an earlier variant, because it had not changed."""
    duration_s: float = 0.0
    reason: str = ""
    """Why it was not compiled."""


# Stepping through Dynamo's bytecode.


RunEnd = Literal["", "returned", "raised", "limit", "stopped"]
"""How a run ended. ``limit``: the program continued, unrecorded. ``stopped``: the user stopped it.
Empty: the worker ended while it ran.
"""


@dataclass(frozen=True, slots=True)
class BytecodeRun:
    """One recorded call of the program. The last row counts."""

    id: int
    inputs: str
    """The inputs in short: ``(f32[4, 8])``."""
    ended: RunEnd = ""
    steps: int = 0
    said: str = ""
    """How it ended, with further remarks, in sentences."""


StepKind = Literal["instruction", "raised"]


@dataclass(frozen=True, slots=True)
class BytecodeStep:
    """The state before an instruction is executed; or (``raised``) that it raised."""

    id: int
    run: int
    call: int
    """Number of the function call within the run, from 1. A function that is called twice has two.
    """
    parent: int
    """The call it was called from; 0 for the outermost."""
    function: str
    artifact: int
    """Artifact of the modified bytecode; 0 when it was made before the recording began."""
    line: int
    """Line of the artifact, from 1; 0 without one."""
    offset: int
    kind: StepKind = "instruction"
    stack: tuple[str, ...] = ()
    """The value stack, its top last. A tensor is its dtype, shape and device; its values only when
    they are few.
    """
    is_stack_known: bool = True
    locals: int = 0
    """Text with a JSON object: name of a local → its value in short."""
    changed: tuple[str, ...] = ()
    """Names of locals, and positions of the stack (``[0]``), whose value has changed since the last
    step of this call, including deleted ones.
    """
    calls: str = ""
    """The compiled graph (``__compiled_fn_1``) or resume function
    (``torch_dynamo_resume_in_f_at_12``) that it calls.
    """
    error: str = ""
    """The error, for ``raised``: ``ValueError: too large``."""
