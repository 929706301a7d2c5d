"""What is compared of a rank: figures and fingerprints, a few hundred bytes a compilation, so that
a thousand ranks are compared without holding their sessions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Fingerprint = str
"""Equal for two ranks where they have the same; empty where there is nothing of the kind."""


@dataclass(frozen=True, slots=True)
class CompilationSummary:
    """One compilation of one rank."""

    name: str
    """As torch writes it: ``0/1``."""
    function: str
    file: str
    """Where it begins; where torch put a function of its own around the user's, where that is
    called.
    """
    line: int
    status: str
    error: str
    """First line of what stopped it."""
    failed_in: str
    """The stage that raised it, as people call it: ``AOTAutograd``; empty for what did not fail."""
    failed_at: tuple[str, int]
    """The user's line in its traceback; no file and 0 where there is none."""
    start_s: float
    """Seconds since the epoch where the session says so, else since the session began."""
    duration_s: float
    graph: Fingerprint
    """The operations of the graph and what they are applied to: neither names nor sizes nor
    numbers.
    """
    inputs: Fingerprint
    """Types and sizes of the graph's inputs, without their devices."""
    tensors: Fingerprint
    """Types and sizes of all its values."""
    numbers: Fingerprint
    """The numbers among the arguments of its operations."""
    guards: Fingerprint
    """What is checked, without the numbers in it."""
    guard_values: Fingerprint
    """The numbers that checks compare with: a rank's own number is one."""
    breaks: Fingerprint
    reasons: Fingerprint
    """Why it was compiled again."""
    cache: tuple[str, ...]
    """What torch's caches said, in order: ``fx_graph_cache_miss``."""
    traced_collectives: Fingerprint
    """Collectives of the graph, in order."""
    scheduled_collectives: Fingerprint
    """The same as Inductor orders them; empty where it was not reached, or its record is missing.
    """
    has_collectives: bool
    modules: Fingerprint
    """Names of the parameters and buffers that the graph takes."""
    is_of_pipeline: bool
    """Whether a schedule of a pipeline called it."""
    is_of_shared_model: bool
    """Whether the ranks hold one model together: DDP, FSDP, DTensor, or collectives in the graph.
    """
    results: Fingerprint
    """Sizes and types of what the kernels and calls of the generated code return; torch writes them
    for some jobs only.
    """

    @property
    def has_ended(self) -> bool:
        return self.status != "running"

    @property
    def has_failed(self) -> bool:
        return self.status == "failed"

    @property
    def end_s(self) -> float:
        return self.start_s + self.duration_s


@dataclass(frozen=True, slots=True)
class RankSummary:
    """One rank."""

    rank: int
    path: str
    """Its log or session."""
    compilations: tuple[CompilationSummary, ...]
    """In the order in which they began."""
    torch: str
    python: str
    executed: Fingerprint
    """The compiled graphs in the order in which they ran; torch writes it for some jobs only."""
    has_clock: bool
    """Whether its times count from the epoch, and so can be compared with those of another rank."""
    unknown_end: str = ""
    """Why it is not known what the rank did in the end; empty where the session is whole."""
    is_text: bool = False
    """Whether its file is what torch prints: what does not stand there may have been all the same.
    """
    notes: tuple[str, ...] = ()
    """What else is to be said of its file: what could not be read of it, which other rank it says
    to be.
    """
    files_of_one_name: tuple[str, ...] = ()
    """Paths of source files that share their name with another one, so that either is shown with
    its folder.
    """

    @property
    def has_failed(self) -> bool:
        """Return whether a compilation of it failed."""
        return any(compilation.has_failed for compilation in self.compilations)

    @property
    def compile_s(self) -> float:
        return sum(compilation.duration_s for compilation in self.compilations)


MOST_APART_S = 600.0
"""Ranks of one job begin to compile within this time: NCCL gives up a collective that takes longer.
"""


def began_together(ranks: Iterable[RankSummary]) -> bool:
    """Return whether the clocks of ranks can be compared with each other: there are clocks, and the
    ranks began at one time.
    """
    compiling = [rank for rank in ranks if rank.compilations]
    starts = [rank.compilations[0].start_s for rank in compiling]
    return (
        bool(starts)
        and all(rank.has_clock for rank in compiling)
        and max(starts) - min(starts) <= MOST_APART_S
    )
