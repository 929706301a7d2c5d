"""This module describes the rows of a bench, which is the same program run in several ways and at
several sizes, and the messages between the client and the process of a cell.

A *contender* is one way of running the program: uncompiled, or by a backend with its mode and
options. A *cell* is one contender at one size; it is measured in a process of its own, which is
told what to do, and answers, in one JSON line each.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from fx_explorer.model.checked_json import checked
from fx_explorer.model.protocol import CaptureRequest

CellState = Literal["measured", "failed", "out_of_memory", "timed_out", "not_measured"]
"""State of a cell. ``not_measured``: the time was up, or the user stopped the bench, before its
first measurement; otherwise it stays ``measured``.
"""

AgreementKind = Literal["", "equal", "within_error", "differs", "not_compared"]
"""How a contender's results compare with those of the program in eager mode, by PyTorch's rule
(``program/equal_results.py``). ``equal``: bit by bit, or within its tolerance. ``within_error``:
further apart, but no further from a run in float64 than the uncertainty of eager mode. ``differs``:
neither, or of another shape or dtype. ``not_compared``: ``BenchCell.agreement_words`` say why.
Empty: the cell did not get so far.
"""

BenchClock = Literal["wall", "events"]
"""``wall``: ``torch.utils.benchmark`` around calls that follow each other. ``events``: CUDA events
around each call, with a cleared L2 cache before it.
"""


@dataclass(frozen=True, slots=True)
class BenchCell:
    """One contender at one size."""

    id: int
    contender: str
    """``uncompiled``, ``inductor``, ``inductor max-autotune dynamic=True``."""
    size: str
    """The size in words, ``batch 8``; empty for the example inputs."""
    sizes: dict[str, object]
    """Name of each size → its value: ``{"batch": 8}``."""
    is_compiled: bool
    bench: int = 1
    """A number that all cells of a bench share and that grows from bench to bench; the last one
    counts.
    """
    state: CellState = "not_measured"
    message: str = ""
    """Why it is in this state; empty for ``measured``."""
    inputs: str = ""
    """The inputs, in words: ``(float32[8, 64])``."""
    first_call_s: float = 0.0
    """Seconds of the first call, which compiles. Caches were empty."""
    warm_up_s: float = 0.0
    """Seconds of all calls until the times were stable, including the first."""
    warm_up_calls: int = 0
    is_unstable: bool = False
    """Whether it was still compiling at each call when measuring began."""
    graphs: int = 0
    graph_breaks: int = 0
    recompiles: int = 0
    trains: bool = False
    """Whether a call includes the backward."""
    agreement: AgreementKind = ""
    agreement_words: str = ""
    largest_difference: float = 0.0
    """The largest absolute difference from the results of eager mode."""
    where: str = ""
    """The result with the largest difference: ``output 0``, ``gradient of fc.weight``."""
    place: str = ""
    """The index of the largest difference in that result: ``[3, 17]``."""
    error: float = 0.0
    """Root mean square difference from float64, of the result that differs most; 0 without such a
    run.
    """
    reference_error: float = 0.0
    """Error of the results of eager mode against that run."""
    peak_bytes: int = -1
    """Peak of a call's allocated memory in addition to that between calls; -1 when it was not
    measured.
    """
    work_s: float = -1.0
    """Seconds of a call in kernels and library calls, measured after the rounds; -1 without code of
    Inductor's.
    """
    device: str = ""
    torch: str = ""
    """Version of torch."""
    threads: int = 0
    clock: BenchClock = "wall"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BenchRound:
    """Some consecutive calls of one cell. Cells of one size take turns, so that a slowdown of the
    machine affects all.
    """

    id: int
    cell: int
    number: int
    """Number of the round. Rounds of the same number and size were made one after the other, and
    are compared.
    """
    call_s: float
    """Seconds per call, median over the blocks of the round."""
    calls: int
    sharing_s: float = 0.0
    """Seconds of a small operation that all threads share, measured before and after the round: the
    longer time. 0 where it was not measured, as on a GPU and with one thread.
    """


# What the client of a bench and the process of one cell say to each other.


@dataclass(frozen=True, slots=True)
class InputDim:
    """One dimension of one input, by the name of the parameter or its position."""

    input: str
    dim: int

    def __str__(self) -> str:
        return f"{self.input}:{self.dim}"


@dataclass(frozen=True, slots=True)
class InputSize:
    """A size that inputs get in place of the example's. Without ``dims`` it is the batch size,
    whose dimensions are detected.
    """

    value: int
    dims: tuple[InputDim, ...] = ()

    @property
    def name(self) -> str:
        if not self.dims:
            return "batch"
        return str(self.dims[0])

    def __str__(self) -> str:
        return f"{self.name} {self.value:,}"

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> InputSize:
        dims = tuple(checked(InputDim(**dim)) for dim in fields["dims"])
        return checked(cls(fields["value"], dims))


@dataclass(frozen=True, slots=True)
class BenchTask:
    """The task of a cell's process: what to build before it measures."""

    request: CaptureRequest
    is_compiled: bool
    sizes: tuple[InputSize, ...] = ()
    threads: int = 0
    """Number of threads of an operator; 0 leaves the number to torch."""
    reference: str = ""
    """Path of the file with the results of the program in eager mode: it writes them, the others
    read them.
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
    """Bytes held by tensors that one line of the user's made."""

    file: str
    """Path of the user's file; empty where no line is known."""
    line: int
    size_bytes: int


NewsKind = Literal["doing", "ready", "round", "peak", "held", "work", "compared", "failed"]


@dataclass(frozen=True, slots=True)
class BenchNews:
    """A message from a cell's process. ``doing``: ``text`` describes it. ``ready``: the cell has
    been called until it was stable; ``cell`` has the known fields of a BenchCell. ``round``,
    ``peak``, ``held``, ``work``: the answer to the command of that name. ``compared``: the answer
    to ``compare``; ``cell`` has the changed fields. ``failed``: the last message; ``cell`` has
    state and message.
    """

    kind: NewsKind
    text: str = ""
    is_usage: bool = False
    """For ``failed``: whether the request is to blame, because no interpreter or machine can do it
    with this target.
    """
    traceback: str = ""
    """For ``failed``: where the program, or the compiler, raised; empty for an error of ours."""
    cell: dict[str, Any] = field(default_factory=dict)
    could_say_more: str = ""
    """For ``ready``: what the command ``compare`` would do, as a phrase; empty where it could learn
    nothing.
    """
    call_s: float = 0.0
    calls: int = 0
    sharing_s: float = 0.0
    """For ``round``: how fast the processors were meanwhile, as in BenchRound."""
    peak_bytes: int = -1
    held: tuple[HeldLine, ...] = ()
    """For ``held``: the tensors held at the peak, biggest first."""
    work_s: float = -1.0

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> BenchNews:
        """Read a line. Raises ValueError or TypeError for an invalid one."""
        fields = json.loads(text)
        held = tuple(HeldLine(**line) for line in fields.get("held", ()))
        return checked(cls(**{**fields, "held": held}))
