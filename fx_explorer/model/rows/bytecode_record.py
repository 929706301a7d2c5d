"""What Dynamo's bytecode did when the program was called once more: one row for each instruction
that was executed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RunEnd = Literal["", "returned", "raised", "limit", "stopped"]
"""``limit``: the program went on, unrecorded. ``stopped``: the user stopped it. Empty: the worker
ended while it ran.
"""


@dataclass(frozen=True, slots=True)
class BytecodeRun:
    """One recorded call of the program. The last one counts."""

    id: int
    inputs: str
    """The inputs in short: ``(f32[4, 8])``."""
    ended: RunEnd = ""
    steps: int = 0
    said: str = ""
    """How it ended and what else should be known, in sentences."""


StepKind = Literal["instruction", "raised"]


@dataclass(frozen=True, slots=True)
class BytecodeStep:
    """Things as they are when an instruction is about to be executed; or (``raised``) that it
    raised.
    """

    id: int
    run: int
    call: int
    """Number of the function call within the run, from 1: a function that is called twice has
    two.
    """
    parent: int
    """The call it was called from; 0 for the outermost."""
    function: str
    artifact: int
    """The modified bytecode; 0 when it was made before the recording began."""
    line: int
    """Line of the artifact, from 1; 0 when there is none."""
    offset: int
    kind: StepKind = "instruction"
    stack: tuple[str, ...] = ()
    """The value stack, its top last. A tensor is its dtype, shape and device; its values only when
    they are few.
    """
    is_stack_known: bool = True
    locals: int = 0
    """Text: a JSON object, name → value in short."""
    changed: tuple[str, ...] = ()
    """Names of locals, and positions of the stack (``[0]``), that are not what they were at the
    call's step before. One that is gone is among them.
    """
    calls: str = ""
    """The compiled graph (``__compiled_fn_1``) or resume function
    (``torch_dynamo_resume_in_f_at_12``) that it calls.
    """
    error: str = ""
    """What was raised, for ``raised``: ``ValueError: too large``."""
