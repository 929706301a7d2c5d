"""What the client of a bench and the process of one cell say to each other, one JSON line each."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from fx_explorer.model.checked_json import checked
from fx_explorer.model.protocol import CaptureRequest


@dataclass(frozen=True, slots=True)
class InputDim:
    """One dimension of one input, by the name of the parameter or its position."""

    input: str
    dim: int

    def __str__(self) -> str:
        return f"{self.input}:{self.dim}"


@dataclass(frozen=True, slots=True)
class InputSize:
    """A size that inputs are given in place of the example's. Without ``dims`` it is the batch,
    whose dimensions are found out.
    """

    value: int
    dims: tuple[InputDim, ...] = ()

    @property
    def name(self) -> str:
        return str(self.dims[0]) if self.dims else "batch"

    def __str__(self) -> str:
        return f"{self.name} {self.value:,}"

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> InputSize:
        return checked(
            cls(fields["value"], tuple(checked(InputDim(**one)) for one in fields["dims"]))
        )


@dataclass(frozen=True, slots=True)
class BenchTask:
    """What the process of one cell is asked to do before it measures."""

    request: CaptureRequest
    is_compiled: bool
    sizes: tuple[InputSize, ...] = ()
    threads: int = 0
    """Threads of an operator; 0 leaves them to torch."""
    reference: str = ""
    """Path of the file with the uncompiled program's results: it writes them, the others read them.
    """
    round_s: float = 0.1

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> BenchTask:
        fields = json.loads(text)
        request = CaptureRequest.from_json(json.dumps(fields["request"]))
        sizes = tuple(map(InputSize.from_json, fields["sizes"]))
        return checked(cls(**{**fields, "request": request, "sizes": sizes}))


@dataclass(frozen=True, slots=True)
class HeldLine:
    """Bytes that the tensors hold which one line of the user's made."""

    file: str
    """Empty where no line is known."""
    line: int
    size_bytes: int


NewsKind = Literal["doing", "ready", "round", "peak", "held", "work", "compared", "failed"]


@dataclass(frozen=True, slots=True)
class BenchNews:
    """``doing``: ``text`` says what. ``ready``: it has been called until it was stable; ``cell``
    has the fields of a BenchCell that are known by now. ``round``, ``peak``, ``held``, ``work``:
    the answer to the command of that name. ``compared``: that to ``compare``; ``cell`` has the
    fields that are other ones now. ``failed``: the last it says; ``cell`` has state and message.
    """

    kind: NewsKind
    text: str = ""
    is_usage: bool = False
    """``failed``: what was asked for cannot be done with this target, whoever runs it."""
    traceback: str = ""
    """``failed``: where the program, or the compiler, raised; empty for an error of ours."""
    cell: dict[str, Any] = field(default_factory=dict)
    could_say_more: str = ""
    """``ready``: what ``compare`` would do; empty where it can say no more of the results."""
    call_s: float = 0.0
    calls: int = 0
    sharing_s: float = 0.0
    """``round``: how fast the processors were meanwhile, as in BenchRound."""
    peak_bytes: int = -1
    held: tuple[HeldLine, ...] = ()
    """``held``: what is held when most is, biggest first."""
    work_s: float = -1.0

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> BenchNews:
        """Read a line. Raises ValueError or TypeError for anything else."""
        fields = json.loads(text)
        return checked(
            cls(**{**fields, "held": tuple(HeldLine(**one) for one in fields.get("held", ()))})
        )
