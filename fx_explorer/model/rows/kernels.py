"""This module has the rows about kernels: generated, built in several configurations, launched and
timed on a real GPU.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from fx_explorer.model.checked_json import checked
from fx_explorer.model.column_types import Direction

Argument = dict[str, object]
"""Description of an argument. A tensor: ``name``, ``dtype``, ``shape``, ``stride``, ``device``,
``is_mutated``. A number, flag or text: ``name``, ``value``. Anything else: ``name``, ``type``.
"""


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """Number of launches of a kernel with the same sizes, without those for tuning."""

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
    """The most that was measured of a card or processor: bytes per second (``memory``), or
    operations. The last of its kind counts.
    """

    id: int
    device: str
    kind: CeilingKind
    rate: float
    how: str
    """The operation that was measured: ``copy of 1.07 GB``."""


Clock = Literal["profiler", "events"]
"""The clock of a kernel's time: the GPU itself, through torch's profiler; or CUDA events around it,
which include its start.
"""


@dataclass(frozen=True, slots=True)
class KernelTime:
    """Run time of one kernel alone, on random data with the shapes of a launch. The last row of a
    kernel counts.
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
    """Median time of a nearly empty kernel, measured in the same way."""
    clock: Clock = "profiler"


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """The request to a process that measures a kernel, one JSON line."""

    session: str
    """Path of the session that the kernel and its launch are in. It is only read."""
    kernel: int
    ceilings: bool = True
    """Whether the card's own speed is measured, too."""
    is_own: bool = False
    """Whether this user captured the session on this machine; a stranger's source is read before it
    is run.
    """

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> BenchRequest:
        """Read a request. Raises ValueError or TypeError for an invalid one."""
        return checked(cls(**json.loads(text)))


@dataclass(frozen=True, slots=True)
class BenchAnswer:
    """Answer of a benchmark process: its activity (``text`` alone), a time or ceilings, or with
    ``refused`` why nothing was measured.
    """

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
        kernel_time = KernelTime(**time) if time else None
        return cls(
            **{
                **fields,
                "time": kernel_time,
                "ceilings": tuple(CardCeiling(**ceiling) for ceiling in ceilings),
            }
        )


# A generated kernel compiled further, down to the machine's code: one row per configuration that
# the autotuner would try.

BuildState = Literal["candidate", "built", "failed"]
"""State of a build. ``candidate``: it has not been requested yet."""

BuildOrigin = Literal["heuristic", "smaller_block", "template", "tuned", "cached", "library"]
"""Origin of the configuration. ``heuristic``: Inductor's own list for a kernel of this kind.
``smaller_block``: added because the first ones use many registers. ``template``: another choice for
the same matrix multiplication or attention. On a real GPU only, ``tuned``: found from there, step
by step (``coordinate_descent_tuning``); ``cached``: the choice of an earlier run, from Inductor's
cache on disk, so that nothing is timed; ``library``: a library call that was timed beside
templates.
"""

NVDISASM_OPTIONS = ("-gi", "-ndf", "-c", "-hex")
"""Options for disassembling machine code: with source lines, inlined ones included, and with the
encoding. The dataflow analysis is left out: it takes a third of the time, and names branch targets
only for GPUs before Volta.
"""

Level = Literal["ttir", "ttgir", "llir", "ptx", "amdgcn", "sass"]
"""A text below the Triton source, from the top down; ``ptx`` and ``sass`` on NVIDIA's GPUs,
``amdgcn`` on AMD's.
"""

LEVELS: tuple[Level, ...] = get_args(Level)

SOURCE_LEVEL = "triton"
"""The Triton source as a level, for a configuration with a source of its own."""

NOT_KNOWN = -1


@dataclass(frozen=True, slots=True)
class KernelBuild:
    """One kernel in one configuration for one GPU."""

    id: int
    kernel: int
    position: int
    """The place in the order in which the autotuner would try the configurations, from 0."""
    options: dict[str, object]
    """``{"XBLOCK": 1024, "num_warps": 4, "num_stages": 1}``."""
    gpu: str
    """Name of the GPU it is for."""
    state: BuildState = "candidate"
    origin: BuildOrigin = "heuristic"
    source: int = 0
    """Text of its own Triton source (a template writes each configuration again); 0: the kernel's.
    """
    name: str = ""
    """Name of the function in that source; empty: the kernel's. A template's source has its own
    name when it is the text that the autotuner timed: without the operations fused into the kernel.
    """
    toolchain: str = ""
    """``triton 3.7.1, ptxas 12.9``."""
    file: str = ""
    """Base name of the module it was compiled from, as the texts name it."""
    lines_before: int = 0
    """Lines of that module in front of the source."""
    threads: int = NOT_KNOWN
    """Number of threads in a block."""
    registers: int = NOT_KNOWN
    """Registers per thread."""
    spill_bytes: int = NOT_KNOWN
    """Bytes per thread of registers that did not fit, and are stored and loaded again."""
    stack_bytes: int = NOT_KNOWN
    shared_bytes: int = NOT_KNOWN
    """Shared memory per block."""
    levels: dict[str, int] = field(default_factory=dict)
    """``ttir``, ``ttgir``, ``llir``, ``ptx`` or ``amdgcn``, ``sass`` → the Artifact with its text;
    ``triton`` → that of ``source``.
    """
    passes: int = 0
    """Text with the IR before each MLIR pass, when somebody asked for it."""
    error: str = ""
    """The complete error that stopped it: ptxas's own message, or the kernel's error with its line.
    """
    duration_s: float = 0.0
    """Seconds of the compilation; 0 when it came from the cache on disk."""
    timing_s: float = 0.0
    """Seconds of one call, as Inductor's autotuner measured it on a real GPU; 0 without a
    measurement.
    """
    is_picked: bool = False
    """Whether the program ran this configuration."""
    machine_code: int = 0
    """Text with a real GPU's cubin in base64, from which SASS is made on request; 0 without one."""

    @property
    def source_artifact(self) -> int:
        """Return the id of the Artifact with its own source; 0 without one."""
        return self.levels.get(SOURCE_LEVEL, 0)

    @property
    def has_resources(self) -> bool:
        """Return whether its resources are known. For a library call only the time on a real GPU
        is.
        """
        return self.state == "built" and self.origin != "library"

    @property
    def is_undisassembled(self) -> bool:
        """Return whether the kernel has machine code that is not disassembled to SASS yet."""
        return bool(self.machine_code) and "sass" not in self.levels

    @property
    def shown_options(self) -> str:
        """Return the options as text: ``XBLOCK 1024 · 4 warps · 1 stage``."""
        counts = ("num_warps", "num_stages")
        parts = [f"{name} {value}" for name, value in self.options.items() if name not in counts]
        parts += [_counted(self.options, name) for name in counts if name in self.options]
        return " · ".join(parts)


def _counted(options: dict[str, object], name: str) -> str:
    noun = name.removeprefix("num_").removesuffix("s")
    if options[name] != 1:
        noun += "s"
    return f"{options[name]} {noun}"


BuildTask = Literal["candidates", "resources", "build", "passes", "quit"]
"""A builder's task. ``candidates`` lists the configurations. ``resources`` compiles one, without
the SASS, which ``build`` adds and which takes as long again. ``passes`` stores MLIR's text before
each of its passes.
"""


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """A request to a builder process, sent as one JSON line."""

    number: int
    """Number of the request, repeated in every answer to it."""
    task: BuildTask
    session: str = ""
    """Path of the session the kernel is in, and that rows are added to."""
    kernel: int = 0
    position: int = 0
    """Position of the configuration; not used for ``candidates``."""
    is_own: bool = False
    """Whether this user captured the session on this machine. Sources from elsewhere are loaded
    only if Inductor could have written them (session/untrusted/triton_source.py).
    """

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> BuildRequest:
        """Read a request. Raises ValueError or TypeError for an invalid one."""
        return checked(cls(**json.loads(text)))


BuildAnswerKind = Literal["ready", "candidates", "built", "failed", "refused"]
"""Kind of a builder's answer. ``ready``: it is warm. ``failed``: the row says why. ``refused``:
nothing could be done, ``text`` says why.
"""


@dataclass(frozen=True, slots=True)
class BuildAnswer:
    number: int
    kind: BuildAnswerKind
    build: int = 0
    """Id of the KernelBuild; 0 without one."""
    text: str = ""
    seconds: float = 0.0

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> BuildAnswer:
        fields: dict[str, Any] = json.loads(text)
        return checked(cls(**fields))


# Generated functions and the library calls beside them.

KernelLanguage = Literal["cpp", "triton", "extern", "python"]
"""Language of a kernel. ``extern``: a library or ATen call made by the wrapper, without generated
code of its own.
"""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One generated function, or one library call."""

    id: int
    compilation: int
    direction: Direction
    position: int
    """Order of first call within its output code."""
    name: str
    language: KernelLanguage
    artifact: int = 0
    """The Artifact (kind ``kernel``) with its code; 0 for ``extern``."""
    output_code: int = 0
    """The Artifact (kind ``output_code``) that contains it."""
    first_line: int = 0
    """Line (from 1) of the output code where its code starts; for ``extern`` the line of the call.
    0 when unknown.
    """
    subgraph: str = ""
    """Region or subgraph it was compiled for, empty for the whole graph."""
    estimated_bytes: int = -1
    """Bytes that one call reads and writes, as Inductor estimates them; -1 without an estimate."""
    estimated_flops: int = -1
    """Operations of one call's matrix multiplications and convolutions, the only ones that Inductor
    counts; -1 without a count.
    """
    runs: tuple[str, ...] = ()
    """For an ``extern`` that is not a library call: the graphs (``subgraph`` of other kernels) that
    it runs. A conditional has two branches, a loop its condition and its body, a nested compile
    region one graph.
    """


@dataclass(frozen=True, slots=True)
class KernelCall:
    """One call of a kernel in the wrapper: repeated layers share a kernel and differ in the
    call.
    """

    id: int
    kernel: int
    position: int
    line: int
    """Line (from 1) of the output code; 0 when unknown."""
    buffers: tuple[str, ...] = ()
    """What it computes, as Inductor's scheduler names it: ``("buf3", "buf4")``, including values
    that never leave the kernel. Empty where the scheduler was not seen.
    """


@dataclass(frozen=True, slots=True)
class LibraryWorkspace:
    """The GPU memory that a library call was measured to use while it ran."""

    id: int
    call: int
    """Id of the KernelCall."""
    size_bytes: int = -1
    """Bytes that the call uses besides its arguments and results; -1 when they could not be
    measured.
    """
    problem: str = ""
    """Why the size could not be measured; empty when it was."""


@dataclass(frozen=True, slots=True)
class WithoutKernel:
    """A post-grad node that no kernel computes, and why."""

    node: int
    reason: str
