"""A compilation (one frame going through torch.compile) and the texts it leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fx_explorer.model.rows.stepping import Gate
from fx_explorer.model.stage import Direction, Stage

Status = Literal["running", "ok", "broke", "failed", "skipped", "restarted", "left"]
"""``broke``: compiled, but only up to a graph break. ``skipped``: Dynamo left the frame to Python.
``restarted``: an attempt that left a compiled graph behind before Dynamo began the compilation
again; the one that counts has its name without ``_N``. ``left``: at a gate the user chose another
variant, ran the graph eagerly or aborted; everything up to there is kept.
"""


@dataclass(frozen=True, slots=True)
class Compilation:
    """One frame compiled once: torch's ``[frame/recompile]``.

    Restarts are counted in ``attempts``; only an attempt that left a compiled graph behind has a
    row of its own, ``0/0_0``.
    """

    id: int
    name: str
    """As torch writes it, without brackets: ``0/1``; ``!1/0/0`` under compiled autograd; ``0/1#2``
    when the program called ``torch._dynamo.reset()`` and torch gave the number a second time;
    ``0/1~2`` for the second variant beside ``0/1``. What the program gave to a compiler itself,
    without Dynamo, is ``inductor/0/0``, ``aot/1/0``, ``make_fx/2/0`` or ``precompile/3/0``.
    """
    frame: int
    recompile: int
    function: str
    """Qualified name of the Python function: ``MLP.forward``; ``MLP.forward (no_grad)`` for the
    function that the decorator ``no_grad`` put around it; or torch's
    ``torch_dynamo_resume_in_forward_at_12``.
    """
    file: str
    line: int
    stack: int = 0
    """Where the user's program called the frame (a Stack)."""
    status: Status = "running"
    attempts: int = 1
    restart_reasons: tuple[str, ...] = ()
    backend: str = ""
    error: str = ""
    """First line of what stopped it, empty when nothing did; the whole is in a Failure."""
    start_s: float = 0.0
    """Seconds since the session began."""
    duration_s: float = 0.0
    missing_stages: dict[str, str] | None = None
    """Stage → why this backend or run does not have it."""
    variant_of: str = ""
    """Name of the variant this one set out from; empty for a first variant."""
    variant_from: Gate | None = None
    """The gate this variant set out from; what came before is shared with that one, and not
    repeated.
    """
    changes: dict[str, object] | None = None
    """``Changes.to_json()`` of this variant; None for a first variant."""
    in_use: bool = True
    """Whether this is the variant that the program runs. Exactly one of a compilation's variants
    is, unless it was aborted.
    """
    saved_s: float = 0.0
    """Seconds that the stages it shares had taken the first time."""
    argument_names: dict[str, str] | None = None
    """torch's name of an argument that a decorator hands on → what the function calls it that the
    decorator was put around: ``L['args'][0]`` → ``input_ids``. None where there is none, or that
    was not recorded.
    """


ArtifactKind = Literal[
    "bytecode_original",
    "bytecode_modified",
    "guard_tree",
    "ir_pre_fusion",
    "ir_post_fusion",
    "output_code",
    "kernel",
    "candidate",
    "config",
    "compile_options",
    "listing",
    "published",
    "ttir",
    "ttgir",
    "llir",
    "ptx",
    "amdgcn",
    "sass",
]
"""``candidate``: the source of another configuration of a template. ``published``: a text of a
backend's own stage (PublishedStage). ``ttir`` and what follows: a kernel at one level below its
Triton source, in one configuration (KernelBuild).
"""


@dataclass(frozen=True, slots=True)
class Artifact:
    """One text of a compilation: bytecode, IR, generated code. Its lines can be linked (LineNode,
    LineSource).
    """

    id: int
    compilation: int
    kind: ArtifactKind
    stage: Stage
    direction: Direction
    title: str
    language: str
    """What highlight.py knows: ``python``, ``cpp``, ``triton``, ``bytecode``, ``ir``, ``json``,
    ``text``.
    """
    text: int
    """Id in the text table; ``reader.text(artifact.text)``."""
    line_count: int = 0
