"""This module has the rows about observations during a capture: breaks, guards, recompiles,
symbols, saved tensors, times, output, failures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fx_explorer.model.column_types import RepeatedName, RepeatedText, Stage


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """One graph break as torch reported it (one row per hit; analysis groups them by place and
    cause as ``DistinctBreak``).
    """

    id: int
    compilation: int
    registry_id: str
    """``GB0124`` in torch's graph break registry; empty without an id."""
    reason: str
    explanation: str
    hints: tuple[str, ...]
    file: str
    line: int
    code: str
    stack: int = 0
    text: int = 0
    """Text with torch's whole report."""
    column: int = 0
    """Column where the code that broke begins in its line, in characters from 1; 0 when torch does
    not give it.
    """
    end_line: int = 0
    end_column: int = 0
    """The column of the last character, in ``end_line``."""
    chain: int = 0
    """The Stack inside the compilation: the function that Python called, and the functions inlined
    into it, outermost first.
    """
    module: str = ""
    """Path of the module that was being called: ``layers.0.attn``; empty for the function that
    Python called, and if the session does not have it.
    """
    skips_rest: bool = False
    """Whether torch cannot resume after it, so that the rest of the function runs in eager mode."""
    rest_line: int = 0
    """The first line of that rest, where the graph before it ends. 0 when not known."""

    @property
    def cause(self) -> tuple[str, int, str]:
        """Return the key by which hits are one break: a line, and torch's id or reason.
        ``session/queries/compilations.py`` has the same in SQL.
        """
        return self.file, self.line, self.registry_id or self.reason


@dataclass(frozen=True, slots=True)
class Guard:
    """One condition that must hold for the compiled code to be reused."""

    id: int
    compilation: int
    position: int
    kind: str
    """torch's guard type: ``TENSOR_MATCH``, ``ID_MATCH``, ``SHAPE_ENV`` …; empty when torch does
    not give it.
    """
    source: str
    """The guarded source: ``L['x']``, ``G['F'].gelu``."""
    code: RepeatedText
    verbose: RepeatedName
    """torch's remark: the user's line, as a comment."""
    file: RepeatedName = ""
    line: int = 0
    dropped_by: str = ""
    """The ``guard_filter_fn`` that dropped it, so that it is not checked:
    ``skip_guard_on_globals_unsafe``, or the function's qualified name for one of the program's own;
    empty for a guard that was kept.
    """


@dataclass(frozen=True, slots=True)
class Recompile:
    """Why a compiled frame was recompiled: one row for each failed guard, however many
    compilations of the frame it failed in (``times``).
    """

    id: int
    compilation: int
    of: str
    """Name of the compilation whose guard failed (``0/0``); the latest, when several failed on the
    same.
    """
    reason: RepeatedText
    guard: str
    file: RepeatedName
    line: int
    source: str = ""
    """The source that the guard checked, in torch's notation: ``L['self'].power``, ``G['scale']``;
    empty when it is not known.
    """
    old: str = ""
    """The earlier value, if ``guard`` does not have it; values are shortened, and a tensor is only
    its dtype and shape.
    """
    new: str = ""
    """The value in the call that failed the guard; empty when it is not known."""
    times: int = 1
    """Number of compilations of the frame in which it failed."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A dynamic size."""

    id: int
    compilation: int
    name: str
    source: str
    """Origin of the symbol: ``L['x'].size()[0]``."""
    hint: str
    """The value of the size in the example inputs."""
    range: str
    """The range at its creation; ``guards`` narrowed it to ``final_range``."""
    stack: int = 0
    """Stack of the user's code that needed the symbol."""
    sources: tuple[str, ...] = ()
    """Every input that has this size, ``source`` among them: equal sizes share a symbol."""
    final_range: str = ""
    """The range at the end of Dynamo's work; empty when Dynamo did not finish."""
    became: str = ""
    """The constant (``8``) or other symbol that it was specialized to."""
    attempt: int = 0
    """Number of Dynamo's attempt, if it restarted: only the last one counts."""


SavedKind = Literal["activation", "copy", "parameter", "buffer", "input", "constant", "number"]
"""Owner of a saved value's storage. ``activation``: computed by the forward. ``copy``: made by the
compiler from a parameter, buffer or input, with other strides. ``number``: a size, without storage.
"""


@dataclass(frozen=True, slots=True)
class SavedTensor:
    """A value the forward keeps for the backward."""

    id: int
    compilation: int
    name: str
    kind: SavedKind
    shape: tuple[str, ...]
    dtype: str
    size_bytes: int
    """Size of its elements; 0 when the size is symbolic and has no hint."""
    producer: int
    """Node of the forward graph."""
    consumer: int
    """Placeholder of the backward graph."""
    storage: str = ""
    """Key of the storage, which is kept whole: rows of a compilation with the same key share it;
    empty when it is not known.
    """
    storage_bytes: int = -1
    """Size of the storage; -1 when it is not known."""
    output: int = 0
    """Position among the outputs of the forward graph, counted from the end: -1 is the last. 0 when
    it is not known.
    """


@dataclass(frozen=True, slots=True)
class Span:
    """A timed phase. Spans nest by time."""

    id: int
    compilation: int
    name: RepeatedName
    """torch's own event name, e.g. ``GraphLowering.run``."""
    stage: Stage | None
    start_s: float
    duration_s: float
    depth: int = 0
    thread: RepeatedName = ""
    """Name of its thread; empty for the program's main thread, and in sessions before version 12,
    which do not have it.
    """


@dataclass(frozen=True, slots=True)
class PhaseLine:
    """Time that a timed phase spent on one line of the user's, for one module, without the phases
    inside it.
    """

    id: int
    compilation: int
    phase: RepeatedName
    """Name of its Span."""
    phase_start_s: float
    """``start_s`` of its Span."""
    file: int
    """Id of the SourceFile."""
    line: int
    module: RepeatedName
    """The innermost module: ``layers.0.fc1``; empty for none."""
    duration_s: float


@dataclass(frozen=True, slots=True)
class Metric:
    """One number or text that torch recorded for a compilation, under torch's name; compilation 0:
    for the whole run.
    """

    id: int
    compilation: int
    name: str
    value: RepeatedText
    """The value, as JSON."""


CACHE_OFF = "cache_off"
"""Name of the Metric on a compilation that did not ask a cache of torch's because that was off. Its
value: ``"fx_graph"``.
"""

INSTANCES = "instances"
"""Name of the Metric on a compilation that was refused at the recompile limit: how many objects of
the method's class were alive then.
"""

CALLS_BEFORE = "calls_before"
"""Name of the Metric on a recompile: how often the program had called what the function's earlier
compilations made, so that this one was made by the call after these.
"""

GUARDS_IN_FILE = "guards_in_file"
"""Name of the Metric on the guards of a saved function: how many it had, and which of them the file
lacks. Its value: ``{"guards": 12, "dropped": [["ID_MATCH", "G['f']"]]}``.
"""

CUDA_GRAPH_HANDED_OVER = "cudagraph_handed_over"
CUDA_GRAPH_LEFT_OUT = "cudagraph_left_out"
CUDA_GRAPH_SKIP = "cudagraph_skip"
CUDA_GRAPH_RUNS = "cudagraph_runs"
"""Names of Metrics about CUDA graphs: a graph that torch is going to record, an operator that it
leaves out, a graph that it does not record, and how often a graph was recorded and replayed.
"""

CUDA_GRAPH_REASON = "cudagraph_skip_reason"
"""The entry of a Metric with torch's reason for a skip. torch's own metrics have it, too."""


Measured = Literal["forward", "forward+backward"]


@dataclass(frozen=True, slots=True)
class Measurement:
    """Run time of a variant that is built for real, on the inputs with which it was captured. The
    last row of each kind counts.
    """

    id: int
    compilation: int
    what: Measured
    """What was measured: ``forward+backward`` where a result has a gradient, which is a training
    step without the optimizer.
    """
    median_s: float
    """Seconds per run, median over the runs."""
    iqr_s: float
    """Range of the middle half of all measured times."""
    runs: int
    device: str
    """``cpu``, or the accelerator's name."""


@dataclass(frozen=True, slots=True)
class ConsoleLine:
    """A line of the user's program's output, in order. ``text`` may hold terminal escapes: show
    them, never send them.
    """

    id: int
    stream: str
    """``stdout`` or ``stderr``; empty for a line of fx-explorer's own."""
    text: str
    time_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that went wrong: in the user's program, in the compiler, or in the recording of a
    view.

    ``where`` is ``program``, ``compiler``, ``recorder``, ``measuring`` (a variant was built and
    timed), ``backend`` (something that a backend published cannot be shown) or ``worker``.
    """

    id: int
    compilation: int
    where: str
    stage: Stage | None
    kind: str
    """Exception type, or ``timeout``, ``signal`` …"""
    message: str
    text: int = 0
    """Text with the whole traceback."""


Origin = Literal["argument", "module", "closure", "global", "library", "state", "shapes"]
"""Origin of the checked value.

``argument``: a parameter of the function. ``module``: the ``self`` of a model, or what hangs off
it. ``closure``: a variable of an enclosing function. ``global``: a global of the user's module.
``library``: torch's own modules and Python's builtins. ``state``: a setting of torch (grad mode,
autocast …). ``shapes``: a relation between dynamic sizes.
"""

NOT_MEASURED = -1.0


@dataclass(frozen=True, slots=True)
class GuardCheck:
    """One leaf of torch's guard tree: a check that runs at every call. A Guard may need several, or
    have none of its own.
    """

    id: int
    compilation: int
    guard: int
    """The Guard it is for; 0 when torch installs it for itself."""
    position: int
    """Position in the tree, depth first: torch's initial order of checking (a check that fails is
    moved to the front).
    """
    kind: str
    """torch's class of leaf: ``TENSOR_MATCH``, ``EQUALS_MATCH``, ``LENGTH_CHECK`` …"""
    source: str
    """The checked source: ``L['x']``, ``G['F'].gelu``; empty for state and shapes."""
    origin: Origin
    code: RepeatedText
    value_type: str = ""
    """Type of the example input: ``torch.Tensor``, ``int``."""
    value: str = ""
    """The example input, if its text is short: ``4``, ``f32[4, 8]``; otherwise empty."""
    note: RepeatedName = ""
    """torch's own remark: the code that the check is for, and a hint."""
    file: RepeatedName = ""
    line: int = 0
    """The user's line that asked for it."""
    stack: int = 0
    cost_ns: float = NOT_MEASURED
    """Nanoseconds of one check: see capture/dynamo/guard_rows.py. If a leaf has several parts, the
    first row carries the cost of all, the others 0.
    """


GUARD_FILTER = "guard_filter_fn"
"""The entry of torch.compile's options that names a filter of guards."""


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """The answer of one of torch's own guard filters about the guards of a compilation, which was
    made without a filter. Nothing was dropped.
    """

    id: int
    compilation: str
    """Name of the compilation, ``0/0``."""
    filter: str
    """Name in ``torch.compiler``: ``skip_guard_on_globals_unsafe``."""
    guards: int
    """Number of guards that it was asked about."""
    dropped: tuple[int, ...]
    """The ``position`` of each Guard that it would drop."""


Answer = Literal["accepted", "rejected", "not_asked"]


@dataclass(frozen=True, slots=True)
class GuardAnswer:
    """The answer of one compilation's guards about other inputs. All answers to one question have
    the same ``question`` number.
    """

    id: int
    question: int
    inputs: str
    """The inputs as the user typed them: an expression."""
    compilation: int
    answer: Answer
    reason: str = ""
    """For ``rejected``: the first check that fails, in torch's words. For ``not_asked``: why its
    guards could not be asked.
    """
    check: int = 0
    """The GuardCheck that fails; 0 when it is not known which."""
    file: str = ""
    line: int = 0


SymbolEventKind = Literal["constrained", "specialized", "same_as", "assumed"]


@dataclass(frozen=True, slots=True)
class SymbolEvent:
    """A decision about a dynamic size during compilation. There is one row for each of torch's
    reports.

    ``constrained``: code depended on a property of it, which became a guard (or, for an unbacked
    one, a check at run time). ``specialized``: it became a constant, or another size. ``same_as``:
    an input had the same size, and is assumed to have it always. ``assumed``: its real value was
    used, as ``fake_tensor_propagate_real_tensors`` allows.
    """

    id: int
    compilation: int
    kind: SymbolEventKind
    symbols: tuple[str, ...]
    expression: str
    """``s77 > 2``; for ``specialized`` the value, for ``same_as`` the source of the input."""
    reason: str = ""
    """torch's own word for it: ``range_refined_to_singleton``."""
    file: str = ""
    line: int = 0
    stack: int = 0
    """Id of the user's stack at the decision; 0 for none."""
    attempt: int = 0
    """Number of Dynamo's attempt, when it restarted: only the last one counts."""
