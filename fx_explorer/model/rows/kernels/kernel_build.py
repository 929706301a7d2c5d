"""A generated kernel compiled further, down to the machine's code: one row per configuration that
the autotuner would try.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from fx_explorer.model.checked_json import checked

BuildState = Literal["candidate", "built", "failed"]
"""``candidate``: nobody has asked for it yet."""

BuildOrigin = Literal["heuristic", "smaller_block", "template", "tuned", "cached", "library"]
"""Where the configuration is from. ``heuristic``: Inductor's own list for a kernel of this kind.
``smaller_block``: tried too, because the first ones use many registers. ``template``: another
choice for the same matrix multiplication or attention. On a real GPU only, ``tuned``: found from
there, step by step (``coordinate_descent_tuning``); ``cached``: the pick of an earlier run, from
Inductor's cache on disk, which leaves nothing to time; ``library``: a library call that was timed
beside templates.
"""

NVDISASM_OPTIONS = ("-gi", "-ndf", "-c", "-hex")
"""How machine code is disassembled: with the lines it is from, inlined ones too, and with its encoding. The
dataflow analysis is left out: it takes a third of the time, and names branch targets only for GPUs before Volta.
"""

Level = Literal["ttir", "ttgir", "llir", "ptx", "amdgcn", "sass"]
"""A text below the Triton source, from the top down; ``ptx`` and ``sass`` on NVIDIA's GPUs,
``amdgcn`` on AMD's.
"""

LEVELS: tuple[Level, ...] = get_args(Level)

SOURCE_LEVEL = "triton"
"""Among the levels of a configuration that has a Triton source of its own: that source."""

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
    """Text of a Triton source of its own (a template writes each configuration anew); 0: the
    kernel's.
    """
    name: str = ""
    """Name of the function in that source; empty: the kernel's. A template's has one of its own
    when it is as the autotuner times it by itself: without the operations that are fused into the
    kernel.
    """
    toolchain: str = ""
    """``triton 3.7.1, ptxas 12.9``."""
    file: str = ""
    """Base name of the module it was compiled from, as the texts name it."""
    lines_before: int = 0
    """Lines of that module in front of the source."""
    threads: int = NOT_KNOWN
    """How many threads a block has."""
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
    """What stopped it, in full: ptxas's own message, or the kernel's fault with its line."""
    duration_s: float = 0.0
    """The compile; 0 when it came from the cache on disk."""
    timing_s: float = 0.0
    """One call, as Inductor's autotuner measured it on a real GPU; 0 when it did not."""
    is_picked: bool = False
    """Whether the program ran this one."""
    machine_code: int = 0
    """Text with a cubin of a real GPU in base64, which SASS is made of when somebody looks; 0:
    there is none.
    """

    @property
    def source_artifact(self) -> int:
        """Return the id of the Artifact with its own source; 0 when it has none."""
        return self.levels.get(SOURCE_LEVEL, 0)

    @property
    def has_resources(self) -> bool:
        """Return whether its resources are known. They are not for a library call, of which only
        the time on a real GPU is known.
        """
        return self.state == "built" and self.origin != "library"

    @property
    def is_undisassembled(self) -> bool:
        """Return whether SASS could be made, and was not."""
        return bool(self.machine_code) and "sass" not in self.levels

    @property
    def shown_options(self) -> str:
        """Return the options as text: ``XBLOCK 1024 · 4 warps · 1 stage``."""
        own = [
            f"{name} {value}"
            for name, value in self.options.items()
            if name not in ("num_warps", "num_stages")
        ]
        return " · ".join(
            [
                *own,
                *(
                    _counted(self.options, name)
                    for name in ("num_warps", "num_stages")
                    if name in self.options
                ),
            ]
        )


def _counted(options: dict[str, object], name: str) -> str:
    noun = name.removeprefix("num_").removesuffix("s")
    return f"{options[name]} {noun}" + ("" if options[name] == 1 else "s")


BuildTask = Literal["candidates", "resources", "build", "passes", "quit"]
"""``candidates`` lists the configurations. ``resources`` compiles one: everything but the SASS,
which ``build`` adds, and which takes as long again. ``passes`` keeps what MLIR prints before each
of its passes.
"""


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What a builder is asked, one JSON line."""

    number: int
    """Comes back in every answer."""
    task: BuildTask
    session: str = ""
    """Path of the session the kernel is in, and that rows are added to."""
    kernel: int = 0
    position: int = 0
    """Which configuration; of no use for ``candidates``."""
    is_own: bool = False
    """Whether this user captured the session on this machine. A stranger's sources are loaded only
    when they are what Inductor writes (session/untrusted/triton_source.py).
    """

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> BuildRequest:
        """Read a request. Raises ValueError or TypeError for anything else."""
        return checked(cls(**json.loads(text)))


BuildAnswerKind = Literal["ready", "candidates", "built", "failed", "refused"]
"""``ready``: it is warm. ``failed``: the row says why. ``refused``: nothing could be done, ``text``
says why.
"""


@dataclass(frozen=True, slots=True)
class BuildAnswer:
    number: int
    kind: BuildAnswerKind
    build: int = 0
    """Id of the KernelBuild, when there is one."""
    text: str = ""
    seconds: float = 0.0

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> BuildAnswer:
        fields: dict[str, Any] = json.loads(text)
        return checked(cls(**fields))
