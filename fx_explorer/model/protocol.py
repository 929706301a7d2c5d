"""This module has the requests of a client to a worker, and the outcome of a capture. Both are sent
as JSON and stored in ``meta``.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Literal

from fx_explorer.model.checked_json import checked
from fx_explorer.model.column_types import Direction, Stage
from fx_explorer.model.gpu import Gpu
from fx_explorer.model.rows.compilation import FRONT_END_LIMIT_S, STANCE
from fx_explorer.model.rows.stepping import GATES, Changes, Gate, Pause

TWICE_THE_BATCH = "twice the batch"
"""The words that take the place of an expression for other inputs."""


LIST_FIELDS = ("arguments", "front_ends", "compile_modules")
"""Fields of a CaptureRequest that are tuples, and lists in JSON."""


DEFAULT_BACKEND = "inductor"
"""The backend of torch.compile, where none is given."""


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """All options of a capture, with the names of the command line."""

    target: str
    """``file.py``, ``file.py:object`` or ``package.module:object``."""
    session: str
    """Path of the session file to write."""
    as_script: bool = False
    """Whether the file runs as ``__main__``, whatever it defines (``fx-explorer run``)."""
    as_python: bool = False
    """Whether the file is Python, under any name."""
    trusts_target: bool = False
    """Whether the user agreed to load the target even if that can run its author's code (an
    ExportedProgram).
    """
    arguments: tuple[str, ...] = ()
    """``sys.argv[1:]`` of the script."""
    call: str = ""
    """Expression, evaluated in the target's module, that makes the callable."""
    inputs: str = ""
    """Expression, evaluated in the target's module, for the example inputs: a tuple, dict or one
    value.
    """
    train: bool | None = None
    """Whether the backward runs too; None: if a parameter or input requires grad."""
    backend: str = DEFAULT_BACKEND
    mode: str = ""
    dynamic: bool | None = None
    mark_against: str = ""
    """Expression for other inputs: dimensions that differ from the example inputs are marked
    (``mark_dynamic``). Empty: none; TWICE_THE_BATCH: those of the batch.
    """
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    """``torch._inductor.config`` entries by name, as in ``torch.compile(options=…)``. The function
    ``guard_filter_fn`` is given by name: one of ``torch.compiler``, or ``file.py:function``.
    """
    build: bool = False
    """Whether the kernels are built and run; otherwise the capture inspects: it generates
    everything, builds nothing, and runs the graphs in eager mode.
    """
    raised_inspecting: str = ""
    """The error that the program raised in an inspected graph, which is why it is built now; empty
    for any other capture.
    """
    without_compile: bool = False
    """Whether torch.compile returns what it is given, so that nothing is compiled."""
    record_eager_calls: bool = False
    """Whether calls of modules that run in eager mode beside compiled code are recorded
    (capture/eager_calls.py).
    """
    use_caches: bool = False
    device: str = ""
    fullgraph: bool = False
    """Whether a graph break is an error, even if the program calls torch.compile itself."""
    stance: str = ""
    """Stance for ``torch.compiler.set_stance``; empty: the program's own. A target is called as
    often as the stance needs to have its effect (program/calling.py).
    """
    pause: Pause = ""
    stay: bool = False
    """Whether the worker keeps the live objects of every stage after the program, and waits for
    commands (``again``, ``quit``).
    """
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Options of torch by full name (``dynamo.capture_scalar_outputs``), set before the program
    runs. ``compile.*`` replace the program's own arguments of torch.compile.
    """
    overlay: dict[str, str] = dataclasses.field(default_factory=dict)
    """Path of a file of the user's → text that runs in place of the file's own, under the file's
    name.
    """
    compile_modules: tuple[str, ...] = ()
    """Paths of modules that are compiled in place of what the program gives to torch.compile
    (capture/compiled_inside.py): ``layers.*``, ``G.model``. Empty: what it gives.
    """
    verify: bool = False
    """Whether the compiled program is compared with the program as its files have it, run without
    torch.compile (a Verification).
    """
    original_settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    """With ``verify``: the ``settings`` with which the original is built, without those of the
    change.
    """
    measure_breaks: bool = False
    """Whether the compiled target is called repeatedly to time its graph breaks (CallTime,
    BreakTime). Useful only with ``build``.
    """
    ledger: bool = False
    """Whether the compiled target is called repeatedly to account for the time of a call
    (LedgerCall, LedgerStep, LedgerOperator, FilterAnswer). Useful only with ``build``.
    """
    workspaces: bool = False
    """Whether each library call is made once, alone, to measure its workspace on the GPU
    (LibraryWorkspace). Useful only on a GPU.
    """
    record_bytecode: bool = False
    """Whether the target is called once more after it has run, to record the execution of Dynamo's
    bytecode (BytecodeRun).
    """
    record_trace: bool = False
    """Whether each instruction that Dynamo traces is recorded, with its symbolic stack and local
    variables (TraceStep), and not only the lines.
    """
    record_patterns: bool = False
    """Whether the patterns of Inductor's passes that did not match are recorded, with the check
    that failed (NearMatch).
    """
    front_ends: tuple[str, ...] = ()
    """Names of FRONT_ENDS whose graphs of the target are recorded, too (FrontEnd)."""
    front_end_limit_s: float = FRONT_END_LIMIT_S
    """Seconds that each front end may take."""
    gpu: Gpu | None = None
    """A virtual GPU to generate code for; nothing can run on it."""
    no_weights: bool = False
    """With ``gpu``: whether all tensors of the program have shapes and no content from the
    beginning, so that no model is too large.
    """
    seed: int | None = None
    """The seed that every random number generator gets before the program runs; None: none gets
    one. A comparison (``verify``) chooses its own.
    """
    all_settings: bool = False
    """Whether all settings of torch's compiler are listed (Setting) with the whole of torch's
    documentation, as in a capture that pauses. Otherwise those other than CONSOLE have its first
    sentence and no choices.
    """

    @property
    def compile_arguments(self) -> dict[str, Any]:
        """Return the arguments of torch.compile that replace the program's own."""
        arguments: dict[str, Any] = {}
        if self.fullgraph:
            arguments["fullgraph"] = True
        for name, value in self.settings.items():
            if name.startswith("compile."):
                arguments[name.removeprefix("compile.")] = value
        return arguments

    @property
    def stance_wanted(self) -> str:
        return str(self.settings.get(STANCE) or self.stance)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> CaptureRequest:
        fields = json.loads(text)
        gpu = Gpu.from_json(fields["gpu"]) if fields.get("gpu") else None
        return cls(
            **{
                **fields,
                **{name: tuple(fields.get(name, ())) for name in LIST_FIELDS},
                "gpu": gpu,
            }
        )


OutcomeKind = Literal[
    "finished", "raised", "exited", "killed", "timed_out", "cancelled", "not_started", "incomplete"
]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a capture: ``meta["outcome"]``, absent while it runs.

    ``finished``: all went through. ``raised``: the user's program raised (traceback in a Failure).
    ``exited``: it called ``sys.exit`` or ``os._exit``. ``killed``: a signal ended it (segfault, out
    of memory). ``not_started``: the target could not be found or does not say what to compile
    (``message`` says what to do). ``incomplete``: the program went on to its end, but the session
    file could not be written in full (disk full).
    """

    kind: OutcomeKind
    message: str = ""
    exit_code: int = 0
    """The program's own exit status, or minus the signal's number."""
    is_early: bool = False
    """For ``exited``: whether the program still had code to run, as far as is known."""
    file: str = ""
    line: int = 0
    """The line that called ``sys.exit``; 0 when it is not known."""
    in_eager_graphs: bool = False
    """Whether it raised in a graph that ran in eager mode because it was inspected, or in its
    backward: the compiled program may not raise there.
    """

    @property
    def went_well(self) -> bool:
        """Return whether the program ended by itself, without reporting an error."""
        return self.kind == "finished" or (self.kind == "exited" and self.exit_code == 0)

    @property
    def is_of_program(self) -> bool:
        """Return whether the program itself ended so, and it was not stopped from outside, or lost
        by a fault of the recorder's.
        """
        return self.kind in ("finished", "raised", "exited", "killed")

    def to_json(self) -> dict[str, object]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Outcome:
        return cls(**fields)


CommandKind = Literal[
    "go",
    "step",
    "run_to",
    "skip",
    "abort",
    "set",
    "mark",
    "pass",
    "again",
    "measure",
    "what_if",
    "steps",
    "quit",
]


@dataclass(frozen=True, slots=True)
class Command:
    """A client's command to a worker that waits at a gate; one JSON line each.

    ``go``: on, without stopping again. ``step``: on to the next gate. ``run_to``: on to the next
    gate called ``gate``. ``skip``: run this graph eagerly. ``abort``: give up what is being
    compiled; the worker stays usable. ``set``: ``changes.settings`` hold for what follows.
    ``mark``: ``changes.marks``, at the gate ``dynamo``. ``pass``: apply ``changes.passes`` to the
    graph at this gate. ``again``: continue ``compilation`` from ``gate`` with ``changes`` as a new
    variant; at any gate, and when the program has ended. ``measure``: when the program has ended,
    build ``compilation`` as it was compiled, and time it (Measurement). ``what_if``: when the
    program has run, ask the guards of every compilation about the inputs that ``expression`` gives;
    nothing is run or compiled (GuardAnswer). ``steps``: when the program has run, call the target
    once more and record what Dynamo's bytecode does (BytecodeRun). ``quit``: end the worker; the
    session is completed.

    Every command is answered with one notice, ``done`` or ``refused``. After ``refused``, and after
    ``set``, ``mark``, ``pass`` and ``what_if``, the worker is still at the gate. ``abort`` and
    ``quit`` are obeyed at any time: ``abort`` stops a command that is being carried out, and that
    alone; while the program runs, it ends the program.
    """

    kind: CommandKind
    gate: Gate | None = None
    compilation: str = ""
    """Name of a compilation or variant; empty: the one at the gate."""
    direction: Direction = ""
    """For ``again`` from ``partition`` or later: the only direction to lower; empty: all."""
    region: str = ""
    """For ``again`` from ``partition``: the only region to lower, while the others are taken from
    before; empty: all.
    """
    changes: Changes = dataclasses.field(default_factory=Changes)
    expression: str = ""
    """For ``what_if``: inputs, as ``--inputs`` takes them; empty: the example inputs with twice the
    batch.
    """

    def to_json(self) -> str:
        return json.dumps(
            {k: v for k, v in dataclasses.asdict(self).items() if v not in ("", None)}
        )

    @classmethod
    def from_json(cls, text: str) -> Command:
        """Read a command. Raises ValueError, TypeError or KeyError for an invalid one."""
        fields = json.loads(text)
        if not isinstance(fields, dict):
            raise TypeError("a command must be a JSON object")
        command = checked(
            cls(**{**fields, "changes": Changes.from_json(fields.get("changes", {}))})
        )
        if command.kind == "run_to" and command.gate is None:
            raise ValueError(f"run_to needs a pause: one of {', '.join(GATES)}")
        return command


NoticeKind = Literal[
    "worker",
    "phase",
    "line",
    "count",
    "compilation",
    "artifact",
    "note",
    "gate",
    "done",
    "refused",
    "outcome",
]


@dataclass(frozen=True, slots=True)
class Notice:
    """One small message from the worker about an event; the data is in the session file.

    ``worker``: ``text`` is what it is doing (``importing torch``, ``running mlp.py``). ``phase``:
    ``stage`` began (``state`` ``begin``) or ended (``end``). ``line``: Dynamo is reading line
    ``line`` of the file ``text``, with ``operations`` in its graph so far; it comes a few times a
    second. ``count``: of the present activity ``done`` of ``planned`` are done (0 where that is not
    known), and ``text`` is what is done now: ``building kernel``. ``compilation``: a row was added
    or changed. ``artifact``: something of ``stage`` is ready to read. ``note``: something the user
    should know (``text``). ``gate``: the worker waits after ``gate`` of ``compilation`` (state
    ``begin``; without ``compilation``, after that gate of all graphs; without ``gate`` the program
    has ended and all its graphs are at hand), or continues (``end``). ``done``, ``refused``: the
    answer to a command; ``text`` says what was done, or why not and what to do. ``outcome``: how
    the capture ended, the last notice.
    """

    kind: NoticeKind
    text: str = ""
    stage: Stage | None = None
    state: Literal["", "begin", "end"] = ""
    compilation: str = ""
    """Name of the compilation (``0/0``)."""
    seconds: float = 0.0
    gate: Gate | None = None
    direction: Direction = ""
    published: str = ""
    """At the gate ``backend``: the stage that the backend has published: ``segments of
    small_backend``.
    """
    line: int = 0
    """A line of the user's source, from 1 on."""
    operations: int = 0
    step: int = 0
    """With ``worker``: the number of the step that begins, from 1 on, of the ``steps`` that are
    planned; 0 where none are.
    """
    steps: int = 0
    done: int = 0
    planned: int = 0

    def to_json(self) -> str:
        return json.dumps(
            {k: v for k, v in dataclasses.asdict(self).items() if v not in ("", None, 0.0)}
        )

    @classmethod
    def from_json(cls, text: str) -> Notice:
        return cls(**json.loads(text))
