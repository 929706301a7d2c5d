"""What another front end than Dynamo made of the target: its graph, or why it refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FrontEndName = Literal["symbolic_trace", "export", "make_fx"]

FRONT_ENDS: tuple[FrontEndName, ...] = ("symbolic_trace", "export", "make_fx")

FRONT_END_CALLS: dict[str, str] = {
    "symbolic_trace": "torch.fx.symbolic_trace",
    "export": "torch.export.export",
    "make_fx": "make_fx",
}
"""What a front end is called in PyTorch."""

FRONT_END_LIMIT_S = 120.0
"""Seconds that one of them may take, unless another limit is asked for."""

FrontEndState = Literal["made", "refused", "timed_out"]


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """One front end, called once with the target and its example inputs."""

    id: int
    name: FrontEndName
    state: FrontEndState
    graph: int = 0
    """The Graph that it made, of stage ``front_end``; 0 when it made none."""
    error: str = ""
    """What it raised: the type's name and the message."""
    traceback: int = 0
    """Id in the text table; 0 when nothing was raised."""
    file: str = ""
    """The innermost line outside torch at which it refused."""
    line: int = 0
    code: str = ""
    duration_s: float = 0.0
    is_training: bool = False
    """Whether the module was in training mode."""
    inputs: dict[str, object] | None = None
    """Of ``export``: how many inputs of its graph are of each kind (``PARAMETER``, ``USER_INPUT``).
    """
    outputs: dict[str, object] | None = None
    """Of ``export``: how many outputs are of each kind (``BUFFER_MUTATION``, ``USER_OUTPUT``)."""
    ranges: dict[str, object] | None = None
    """Of ``export``: dynamic size → the range that it allows."""
    remarks: tuple[str, ...] = ()
    """What was done before it could be called, and what was changed by it: sentences."""
