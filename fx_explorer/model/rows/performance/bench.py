"""A bench: the same program run in several ways and at several sizes, and what was measured of
each.

A *contender* is one way of running the program: uncompiled, or by a backend with its mode and
options. A *cell* is one contender at one size; it is measured in a process of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CellState = Literal["measured", "failed", "out_of_memory", "timed_out", "not_measured"]
"""``not_measured``: the time was up, or the user stopped the bench, before anything was measured.
What was measured before that stays ``measured``.
"""

AgreementKind = Literal["", "equal", "within_error", "differs", "not_compared"]
"""How a contender's results stand to the uncompiled program's, by PyTorch's rule
(``program/equal_results.py``). ``equal``: bit by bit, or within its tolerance. ``within_error``:
further apart, but no further from a run in float64 than eager itself is uncertain of. ``differs``:
neither, or of another shape or dtype. ``not_compared``: ``BenchCell.agreement_words`` say why.
Empty: it did not get so far.
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
    """In words, ``batch 8``; empty for the example inputs as they are."""
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
    """The first call, which compiles. Caches were empty."""
    warm_up_s: float = 0.0
    """All calls until the times were stable, the first among them."""
    warm_up_calls: int = 0
    is_unstable: bool = False
    """Whether it was still compiling at each call when measuring began."""
    graphs: int = 0
    graph_breaks: int = 0
    recompiles: int = 0
    trains: bool = False
    """Whether a call goes backward too."""
    agreement: AgreementKind = ""
    agreement_words: str = ""
    largest_difference: float = 0.0
    """The largest absolute difference from the uncompiled program's results."""
    where: str = ""
    """The result with the largest difference: ``output 0``, ``gradient of fc.weight``."""
    place: str = ""
    """The index of the largest difference in that result: ``[3, 17]``."""
    error: float = 0.0
    """Root of the mean square difference from float64, of the result that differs most; 0 where
    there is no such run.
    """
    reference_error: float = 0.0
    """The same of the uncompiled program."""
    peak_bytes: int = -1
    """The most memory that a call had allocated at once beyond what is there between calls; -1 when
    it was not measured.
    """
    work_s: float = -1.0
    """Seconds of a call that kernels and library calls take, measured after the rounds; -1 where
    there is no code of Inductor's to look into.
    """
    device: str = ""
    torch: str = ""
    """Version of torch."""
    threads: int = 0
    clock: BenchClock = "wall"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BenchRound:
    """Some calls of one cell that follow each other. Cells of one size take turns, so that what
    slows the machine down hits all.
    """

    id: int
    cell: int
    number: int
    """Rounds of the same number and size were made one after the other, and are compared."""
    call_s: float
    """Seconds per call, median over the blocks of the round."""
    calls: int
    sharing_s: float = 0.0
    """Seconds that a small operation took which all threads share, the longer of before and after
    the round; 0: not measured, as on a GPU and with one thread.
    """
