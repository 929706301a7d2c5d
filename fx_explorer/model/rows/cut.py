"""This module has the rows about graph breaks: resume functions, tensors that Python holds between
graphs and for how long, functions run in eager mode, and the time that a program spends there,
measured with everything built.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ResumeFunction:
    """The rest of a function after a graph break, made a function of its own that is compiled when
    Python calls it.

    With nested graph breaks (``torch._dynamo.config.nested_graph_breaks``) a break makes one for
    each function between the compiled one and the break, except those that have nothing left to
    do but to return. Python calls the outermost; the others are inlined into it.
    """

    id: int
    compilation: int
    """The compilation that the break ended."""
    name: str
    """``torch_dynamo_resume_in_forward_at_12``."""
    line: int
    """Line at which it continues the original function."""
    locals: tuple[str, ...] = ()
    """Names of the locals it still needs; those of unfinished expressions (``___stack0``) are not
    among them.
    """
    depth: int = 0
    """Number of calls between the compiled function and the function that this one resumes."""
    root_line: int = 0
    """The line of the compiled function at which the break ended it: ``line`` where depth is 0."""
    taken_from: dict[str, str] | None = None
    """Local → its source in the compiled function, if that is another name: ``self`` of a submodule
    → ``L['self']._modules['inner']``.
    """


@dataclass(frozen=True, slots=True)
class LocalTensor:
    """A tensor of a Dynamo graph with a name in Python: one that a graph hands over at its break,
    or that the next one uses.
    """

    id: int
    compilation: int
    source: str
    """Source as torch writes it: ``L['x']``, ``L['cache'][0]``; ``L['___stack0']`` is a value of an
    unfinished expression. It uses the names of the local's own function, also where Dynamo passes
    locals to a resume function in lists.
    """
    node: int
    is_input: bool
    """Whether the tensor is an input of the graph. Otherwise the graph hands it over at the break
    that ends it.
    """
    depth: int = 0
    """Number of calls between the compiled function and the local's function: more than 0 only with
    nested graph breaks.
    """


AtTheEnd = Literal["", "held", "dropped"]
"""Whether the program holds a storage when its forward has ended; empty where that was not seen."""


@dataclass(frozen=True, slots=True)
class GraphCall:
    """A call of a graph in a forward that was watched while it ran in eager mode: a graph may run
    several times in a step, each layer of a model through the same code.
    """

    id: int
    forward: int
    """Which forward it belongs to, from 1."""
    position: int
    """Its position among the calls of the forward, from 1."""
    compilation: int
    """The compilation that Dynamo captured the graph in."""
    inputs: tuple[int, ...]
    """The inputs of Dynamo's graph that are tensors (Nodes)."""
    storages: tuple[int, ...]
    """The storage of each input, by its number in this forward: equal numbers are one storage."""
    is_whole: bool = True
    """Whether the forward was seen to end, and all its calls were watched."""


@dataclass(frozen=True, slots=True)
class ReturnedStorage:
    """A storage that a call of a graph returned to the program, with its later use. Storages that
    the graphs save for themselves are not recorded here, because their code shows them.
    """

    id: int
    compilation: int
    positions: tuple[int, ...]
    """Indices of the results of Dynamo's graph in this storage, from 0."""
    size_bytes: int
    forward: int = 0
    call: int = 0
    """The GraphCall that returned it, by its position in the forward."""
    storage: int = 0
    """Its number in the forward."""
    held_before: int = 0
    """Position of the last later call that does not use the storage and before which the program
    still held it; 0 where it was dropped before any such call.
    """
    is_saved_between: bool = False
    """Whether an operator that ran in eager mode before the next graph saves it for its backward.
    """
    at_end: AtTheEnd = ""
    """Whether, and how, the program holds the storage when the forward has ended. Views count."""


@dataclass(frozen=True, slots=True)
class SavedBetween:
    """A tensor that autograd saves for the backward of an operator outside of the graphs; or a
    parameter that such an operator uses, which receives its gradient there.
    """

    id: int
    forward: int
    call: int
    """The last GraphCall before the operator, by its position; 0 before the first."""
    order: int
    """Autograd's sequence number of the operator, which rises; a backward runs in the opposite
    order.
    """
    storage: int
    size_bytes: int
    device: str
    operator: str
    """Autograd's name: ``LogSoftmaxBackward0``."""
    is_parameter: bool = False


FallbackKind = Literal["skipped", "limit", "failed"]
"""Kind of a fallback. ``skipped``: Dynamo does not trace this function. ``limit``: it was compiled
too often. ``failed``: compiling it raised, and torch was set to continue in eager mode
(``suppress_errors``).
"""


@dataclass(frozen=True, slots=True)
class Fallback:
    """A decision of torch to run a whole function in eager mode, without a graph break record (one
    row each time; analysis groups them as ``DistinctFallback``).
    """

    id: int
    compilation: int
    """Row of the compilation; 0 if the function was skipped before it had one."""
    kind: FallbackKind
    function: str
    file: str
    line: int
    """The line at which the function begins."""
    registry_id: str
    reason: str
    explanation: str = ""
    hints: tuple[str, ...] = ()
    stack: int = 0
    """Stack of the call, outermost first (a Stack)."""


# Time at graph breaks.


@dataclass(frozen=True, slots=True)
class CallTime:
    """One call of the compiled target, forward only, on the example inputs. The last row counts."""

    id: int
    median_s: float
    iqr_s: float
    """Range of the middle half of all measured calls."""
    graphs_s: float
    """Median of the seconds that a call spends in compiled graphs."""
    runs: int
    device: str
    """``cpu``, or the accelerator's name."""


@dataclass(frozen=True, slots=True)
class BreakTime:
    """Time that one call spends at a graph break, over all its hits: from leaving the graph before
    it to entering the next graph, including the code that runs in Python there. Rows of earlier
    measurements are kept.
    """

    id: int
    call: int
    """The CallTime it is a part of."""
    graph_break: int
    """The first GraphBreak of its line and cause."""
    median_s: float
    iqr_s: float
