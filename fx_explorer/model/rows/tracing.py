"""This module has the rows about Dynamo's symbolic trace: what it did at each line of the source,
in the order in which it did it.

Dynamo may trace a function several times before it has its graph: each is an *attempt*. An attempt
inlines calls; each *call* comes to lines, and at each of its *steps* Dynamo may add nodes to the
graph and guards. With every instruction recorded, a step also has how the symbolic stack and the
local variables differ from the step before in the same call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fx_explorer.model.column_types import RepeatedName

AttemptEnd = Literal["", "traced", "restarted", "failed"]
"""How an attempt ended. ``restarted``: Dynamo discarded it and began again. ``failed``: the
function is not compiled. Empty: it was being traced when the recording ended.
"""


@dataclass(frozen=True, slots=True)
class TraceAttempt:
    """One run of Dynamo over a function, from its first instruction on."""

    id: int
    compilation: int
    attempt: int
    """Its number within the compilation, from 1."""
    function: RepeatedName
    ended: AttemptEnd = ""
    reason: str = ""
    """Why it was discarded, or why the function is not compiled, in torch's words."""
    steps: int = 0
    """Number of steps recorded."""
    left_out: int = 0
    """Number of steps beyond the limit, which are not recorded."""
    nodes: int = 0
    """Number of nodes that were made."""
    guards: int = 0
    """Number of guards at its end."""
    has_instructions: bool = False
    """Whether every instruction was recorded, and not only the lines."""


CallEnd = Literal["", "returned", "yielded", "raised", "discarded"]
"""How a call ended. ``yielded``: a generator gave a value, and may continue. ``raised``: an
exception of the program. ``discarded``: Dynamo gave up the attempt, or the call.
"""


@dataclass(frozen=True, slots=True)
class TracedCall:
    """A function that Dynamo traced: the one that Python called, or one that was inlined into it.
    A generator that continues is a call of its own.
    """

    id: int
    trace: int
    """The TraceAttempt."""
    call: int
    """Its number within the attempt, from 1."""
    parent: int
    """The call that it was inlined into; 0 for the function that Python called."""
    parent_line: int
    """Line of the caller."""
    function: RepeatedName
    """``Block.forward``."""
    file: int
    """SourceFile of the function."""
    first_line: int
    module: RepeatedName = ""
    """Path of the module that is called: ``layers.0.attn``; empty outside of any."""
    ended: CallEnd = ""
    error: str = ""
    """What ended it, unless it returned or yielded."""


TraceStepKind = Literal["call", "line", "instruction", "back", "graph", "end"]
"""Kind of a step: a call begins; Dynamo comes to a line (where not every instruction is recorded,
or where it stops before the first one of a line); to an instruction; back into a call from one that
was inlined; it makes the graph's code, at a graph break or at the end; the attempt ends.
"""


@dataclass(frozen=True, slots=True)
class TraceStep:
    """A point of Dynamo's trace: the state before an instruction or line, and what was added to the
    graph and to the guards from here to the next step.
    """

    id: int
    trace: int
    """The TraceAttempt."""
    position: int
    """Its number within the attempt, from 0."""
    call: int
    """Number of the TracedCall."""
    line: int
    kind: TraceStepKind
    starts_line: bool = False
    """Whether Dynamo comes to a line here, other than the one before in this call."""
    offset: int = -1
    """Offset of the instruction in the function's own bytecode; -1 without one."""
    instruction: str = ""
    """``LOAD_FAST x``."""
    popped: int = 0
    """Number of values that the stack no longer has since the last step of this call that has a
    state.
    """
    pushed: tuple[str, ...] = ()
    """Values on top of what is left of the stack, the top last."""
    changed: dict[str, str] | None = None
    """Local → its value, for those that changed since the last such step; empty for one that is
    gone.
    """
    is_whole: bool = False
    """Whether ``pushed`` is the whole stack, and ``changed`` has all locals."""
    guards: tuple[str, ...] = ()
    """The guards that were added: ``TENSOR_MATCH x``."""
    node_count: int = 0
    """Number of nodes that were added (TracedNode)."""
    guard_count: int = 0
    """Number of guards, which may be more than are listed."""
    event: str = ""
    """What happened here: a graph break, an exception, a restart, in a sentence."""


@dataclass(frozen=True, slots=True)
class TracedNode:
    """A node that Dynamo added to its graph."""

    id: int
    trace: int
    """The TraceAttempt."""
    position: int
    """The TraceStep at which it was added."""
    name: str
    """Its name at the end of the attempt: a node is called like the variable that it is assigned
    to.
    """
    is_nested: bool = False
    """Whether it is in the graph of a higher-order operator, such as a branch of ``cond``."""
    is_removed: bool = False
    """Whether Dynamo has removed it since, because nothing used it."""


@dataclass(frozen=True, slots=True)
class SideEffect:
    """An object that a compiled function changes besides computing its graph. Dynamo keeps the
    change aside while it traces, and compiled code makes it after the graph has run.
    """

    id: int
    compilation: int
    changed: str
    """The object, as the function calls it: ``self``, ``G['SEEN']``."""
    type_name: str
    """Its Python type."""
    names: tuple[str, ...]
    """Attributes that are set or deleted; empty where its contents change."""
    file: int
    """SourceFile of the first line that changes it; 0 where torch does not say."""
    line: int
