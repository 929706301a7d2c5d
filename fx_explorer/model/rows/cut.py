"""These rows are about graph breaks: what is left where torch.compile stops (resume functions,
tensors that Python holds meanwhile and for how long, functions run in eager mode), and how long a
program spends there, measured with everything built.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ResumeFunction:
    """The rest of a function behind a graph break, made a function of its own that is compiled when
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
    """Number of calls between the compiled function and the function that this one continues."""
    root_line: int = 0
    """The line of the compiled function at which the break ended it: ``line`` where depth is 0."""
    taken_from: dict[str, str] | None = None
    """Local → the source by which the compiled function took it, where that is another name:
    ``self`` of a submodule → ``L['self']._modules['inner']``.
    """


@dataclass(frozen=True, slots=True)
class LocalTensor:
    """A tensor of a Dynamo graph that Python knows by a name: what a graph hands over at its break,
    what the next one takes.
    """

    id: int
    compilation: int
    source: str
    """As torch writes it: ``L['x']``, ``L['cache'][0]``; ``L['___stack0']`` is a value of an
    unfinished expression. By the names of the function whose local it is, also where Dynamo passes
    locals to a resume function in lists.
    """
    node: int
    is_input: bool
    """Whether the graph takes the tensor as an input. Otherwise it hands the tensor over at the
    break that ends it.
    """
    depth: int = 0
    """How many calls lie between the compiled function and the one whose local it is: more than 0
    with nested graph breaks only.
    """


AtTheEnd = Literal["", "held", "dropped"]
"""Whether the program holds something when its forward has ended; empty where that was not seen."""


@dataclass(frozen=True, slots=True)
class GraphCall:
    """A call of a graph in a forward that was watched while it ran uncompiled: a graph may run
    several times in a step, each layer of a model through the same code.
    """

    id: int
    forward: int
    """Which forward it belongs to, from 1."""
    position: int
    """Its place among the calls of the forward, from 1."""
    compilation: int
    """The compilation that Dynamo captured the graph in."""
    inputs: tuple[int, ...]
    """The inputs of Dynamo's graph that are tensors (Nodes)."""
    storages: tuple[int, ...]
    """The storage of each input, by its number in this forward: equal ones are one storage."""
    is_whole: bool = True
    """Whether the forward was seen to end, and all its calls were watched."""


@dataclass(frozen=True, slots=True)
class ReturnedStorage:
    """A storage that a call of a graph returned to the program, and what was seen of it since. What
    the graphs keep for themselves is not recorded here: their code says it.
    """

    id: int
    compilation: int
    positions: tuple[int, ...]
    """Which results of Dynamo's graph lie in it, from 0."""
    size_bytes: int
    forward: int = 0
    call: int = 0
    """The GraphCall that returned it, by its position in the forward."""
    storage: int = 0
    """Its number in the forward."""
    held_before: int = 0
    """The last of the later calls (by position) that was about to run, and did not take it, when
    the program still held it; 0 where it was dropped before any of them.
    """
    is_saved_between: bool = False
    """Whether an operator that ran uncompiled, before the next graph, keeps it for its backward."""
    at_end: AtTheEnd = ""
    """Whether, and how, the program holds the storage when the forward has ended; a view of it
    counts.
    """


@dataclass(frozen=True, slots=True)
class SavedBetween:
    """A tensor that autograd keeps for the backward of an operator that ran outside of the graphs;
    or a parameter that such an operator takes, which gets its gradient there.
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
"""``skipped``: Dynamo does not trace this function. ``limit``: it was compiled too often.
``failed``: compiling it raised, and torch was told to continue without (``suppress_errors``).
"""


@dataclass(frozen=True, slots=True)
class Fallback:
    """One decision of torch to run a function in eager mode as a whole, for which it writes no
    graph break record (one row each time; analysis groups them as ``DistinctFallback``).
    """

    id: int
    compilation: int
    """0 when it was left before it became one."""
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
    """Where it was called, outermost first (a Stack)."""


# Time at graph breaks.


@dataclass(frozen=True, slots=True)
class CallTime:
    """One call of the compiled target, forward only, on the example inputs. The last one counts."""

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
    """What one call spends at a graph break, however often it comes by: from leaving the graph
    before it to entering the graph behind it, the code that runs in Python there included. What was
    measured in another CallTime before is not removed.
    """

    id: int
    call: int
    """The CallTime it is a part of."""
    graph_break: int
    """The first GraphBreak of its line and cause."""
    median_s: float
    iqr_s: float
