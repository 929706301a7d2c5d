"""This module describes what the command ``numerics`` asks of a process, and what it answers: how
the results of each way of running the program compare, and at which operator they first differ.

Everything is one entry ``numerics`` of a session's ``meta``, so that the format of sessions stays.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from fx_explorer.model.bench import AgreementKind, BenchTask, CellState
from fx_explorer.model.checked_json import checked

META = "numerics"
"""The key of the entry in ``meta``."""

BY_TF32 = "TF32 causes the difference"
"""The clause of a comparison (bench/measure/agreement.py) in which results are equal where numbers
of 32 bits are not rounded to TF32.
"""

NumericsWork = Literal[
    "reference", "compare", "locate", "decompositions", "writes", "random", "bisect", "minify"
]
"""What a process does. ``reference``: run the program in eager mode and in float64. ``compare``:
run it compiled, and compare its results. ``locate``: compare the graphs of one compiled call, pass
after pass and node after node. ``decompositions``: compare each operator with its decomposition.
``writes``: compare each write into a tensor with and without functionalization.
``random``: list the operators that draw random numbers. ``bisect``: torch's CompilerBisector.
``minify``: write the smallest program that still differs.
"""

RunRole = Literal["program", "stage", "remedy"]
"""Why the program was run so. ``program``: as the user compiles it. ``stage``: only the first
stages of the compiler. ``remedy``: with something changed that may take the difference away.
"""

NumericsStage = Literal[
    "", "dynamo", "aot", "decomposition", "pre_grad", "joint", "post_grad", "code", "random"
]
"""The stage that first changes results. ``code``: lowering and generated code. ``random``: other
random numbers, which is no fault. Empty: not known.
"""


@dataclass(frozen=True, slots=True)
class NumericsTask:
    """The task of one process."""

    work: NumericsWork
    task: BenchTask
    """How the program is built and compiled, and where the results of eager mode are."""
    node: str = ""
    """For ``minify``: the node that differs."""
    graph: int = 0
    """For ``minify``: the position of its graph."""
    file: str = ""
    """For ``minify``: the path of the file to write."""
    with_program: bool = False
    """For ``minify``: whether the file imports the user's, which registers what is wrong."""

    @property
    def is_compiled(self) -> bool:
        return self.task.is_compiled

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> NumericsTask:
        fields = json.loads(text)
        task = BenchTask.from_json(json.dumps(fields["task"]))
        return checked(cls(**{**fields, "task": task}))


@dataclass(frozen=True, slots=True)
class NumericsRun:
    """One way of running the program, compared with eager mode."""

    name: str
    role: RunRole
    state: CellState = "measured"
    message: str = ""
    """Why it has no results; empty for ``measured``."""
    agreement: AgreementKind = ""
    words: str = ""
    where: str = ""
    """The result that differs most: ``output 0``, ``gradient of fc.weight``."""
    place: str = ""
    largest: float = 0.0
    """The largest absolute difference from eager mode."""
    error: float = 0.0
    """Root mean square difference from the run in float64."""
    eager_error: float = 0.0
    is_repeatable: bool = True
    """Whether a second call of the same compiled code gives the same results."""

    @property
    def differs(self) -> bool:
        return self.state == "measured" and self.agreement == "differs"

    @property
    def is_alike(self) -> bool:
        return self.state == "measured" and self.agreement in ("equal", "within_error")


@dataclass(frozen=True, slots=True)
class NumericsNode:
    """The value of one node of a graph, in eager mode and in compiled code."""

    position: int
    name: str
    operation: str
    """The operator as FX prints it: ``aten.add.Tensor``."""
    verdict: AgreementKind
    file: str = ""
    line: int = 0
    eager_error: float = 0.0
    """Root mean square error of eager mode against float64."""
    error: float = 0.0
    size: float = 0.0
    """Root mean square of the value in float64."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class NumericsBirth:
    """Where a run first makes a value that is not finite from values that are."""

    run: str
    """``eager`` or ``compiled``."""
    what: str
    """``NaN`` or ``infinity``."""
    name: str
    operation: str
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class NumericsFinding:
    """The first operator whose inputs agree and whose output differs."""

    stage: NumericsStage
    graph: str = ""
    """The graph: ``[0/0] forward``."""
    graph_position: int = 0
    node: str = ""
    operation: str = ""
    file: str = ""
    line: int = 0
    code: str = ""
    """The user's line."""
    kernel: str = ""
    kernel_line: int = 0
    """Line of the kernel's text; 0 where it is not known."""
    kernel_code: str = ""
    reasons: tuple[str, ...] = ()
    """Sentences on why it differs, as far as that is known."""
    method: str = ""
    """A sentence on how it was found, and what that leaves open."""
    nodes: tuple[NumericsNode, ...] = ()
    births: tuple[NumericsBirth, ...] = ()
    error: float = 0.0
    eager_error: float = 0.0


@dataclass(frozen=True, slots=True)
class Numerics:
    """Everything that the command ``numerics`` learned."""

    target: str
    runs: tuple[NumericsRun, ...] = ()
    finding: NumericsFinding | None = None
    remedies: tuple[str, ...] = ()
    """Sentences on what was tried and is no run of its own, or was not tried, and why."""
    problem: str = ""
    """Why nothing can be said; empty otherwise."""
    smallest: str = ""
    """A sentence on the smallest program; empty where none was asked for."""
    graphs: int = 0
    """Number of graphs that were compiled."""
    inputs: str = ""
    device: str = ""
    torch: str = ""
    left_out: tuple[str, ...] = field(default=())
    """Sentences on what the budget did not allow, and on what could not be compared by itself."""

    @property
    def program(self) -> NumericsRun | None:
        """Return the run that compiles as the user does, with eager's random numbers if needed."""
        for run in self.runs:
            if run.role == "program":
                return run
        return None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Numerics:
        """Read what ``to_json`` made. Raises ValueError, TypeError or KeyError otherwise."""
        given = dict(fields)
        given["runs"] = tuple(checked(NumericsRun(**run)) for run in given.get("runs", ()))
        finding = given.get("finding")
        if finding is not None:
            given["finding"] = finding_from(finding)
        for name in ("remedies", "left_out"):
            given[name] = tuple(given.get(name, ()))
        return checked(cls(**given))


def finding_from(fields: dict[str, Any]) -> NumericsFinding:
    """Read a finding as a process sends it. Raises TypeError for anything else."""
    given = dict(fields)
    given["nodes"] = tuple(checked(NumericsNode(**node)) for node in given.get("nodes", ()))
    given["births"] = tuple(checked(NumericsBirth(**birth)) for birth in given.get("births", ()))
    given["reasons"] = tuple(given.get("reasons", ()))
    return checked(NumericsFinding(**given))
