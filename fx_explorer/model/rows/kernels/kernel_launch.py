"""Kernels on a real GPU: how they were launched, how long one takes, and what the card itself can
do.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from fx_explorer.model.checked_json import checked

Argument = dict[str, object]
"""A tensor: ``name``, ``dtype``, ``shape``, ``stride``, ``device``, ``is_mutated``. A number, flag
or text: ``name``, ``value``. Anything else: ``name``, ``type``.
"""


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """How often a kernel was launched with the same sizes. Launches while it was tuned are not
    among them.
    """

    id: int
    kernel: int
    build: int
    """The KernelBuild that ran; 0 when it is not known."""
    grid: tuple[int, ...]
    """Blocks in x, y and z; empty when it is not known."""
    count: int
    arguments: tuple[Argument, ...]
    """Arguments of the first of these launches, in order. No contents are kept."""


CeilingKind = Literal["memory", "fp32", "tf32", "bf16", "fp16"]


@dataclass(frozen=True, slots=True)
class CardCeiling:
    """The most that was measured of a card or processor: bytes per second (``memory``), or operations. The last
    of its kind counts.
    """

    id: int
    device: str
    kind: CeilingKind
    rate: float
    how: str
    """What was run for it: ``copy of 1.07 GB``."""


Clock = Literal["profiler", "events"]
"""What times a kernel: the GPU itself, through torch's profiler; or CUDA events around it, which
count its start too.
"""


@dataclass(frozen=True, slots=True)
class KernelTime:
    """How long one kernel runs by itself, on random data of the shapes of a launch. The last one of
    a kernel counts.
    """

    id: int
    kernel: int
    launch: int
    """The KernelLaunch whose arguments it was given."""
    options: dict[str, object]
    """The configuration that ran."""
    device: str
    median_s: float
    iqr_s: float
    """Range of the middle half."""
    runs: int
    empty_s: float
    """Median of a kernel with next to nothing to do, timed in the same way."""
    clock: Clock = "profiler"


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """What a process that measures a kernel is asked, one JSON line."""

    session: str
    """Path of the session that the kernel and its launch are in. It is only read."""
    kernel: int
    ceilings: bool = True
    """Measure what the card can do, too."""
    is_own: bool = False
    """Whether this user captured the session on this machine; a stranger's source is read before it
    is run.
    """

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> BenchRequest:
        """Read a request. Raises ValueError or TypeError for anything else."""
        return checked(cls(**json.loads(text)))


@dataclass(frozen=True, slots=True)
class BenchAnswer:
    """``text`` alone: what it is doing. With ``refused``: why nothing was measured."""

    text: str = ""
    refused: bool = False
    time: KernelTime | None = None
    ceilings: tuple[CardCeiling, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> BenchAnswer:
        fields: dict[str, Any] = json.loads(text)
        time, ceilings = fields.get("time"), fields.get("ceilings", ())
        found = KernelTime(**time) if time else None
        return cls(
            **{**fields, "time": found, "ceilings": tuple(CardCeiling(**one) for one in ceilings)}
        )
