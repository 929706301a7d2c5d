"""The ways in which a program is run for an issue: by each backend, and with parts of the compiler
switched off (https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/
torch.compiler_troubleshooting.html, "Ablation").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

DYNAMO = "Dynamo"

AOT_AUTOGRAD = "AOTAutograd"

DECOMPOSITIONS = "decompositions or Inductor's partitioner"

INDUCTOR = "Inductor"


@dataclass(frozen=True, slots=True)
class Variation:
    """One way to run the program."""

    name: str
    """As a user writes it: ``backend="aot_eager"``."""
    settings: dict[str, Any]
    stage: str = ""
    """Of a backend: the component that it adds to the backend before it."""


AS_IT_IS = Variation("as it is", {})

BACKENDS: tuple[Variation, ...] = (
    Variation('backend="eager"', {"compile.backend": "eager"}, DYNAMO),
    Variation('backend="aot_eager"', {"compile.backend": "aot_eager"}, AOT_AUTOGRAD),
    Variation(
        'backend="aot_eager_decomp_partition"',
        {"compile.backend": "aot_eager_decomp_partition"},
        DECOMPOSITIONS,
    ),
    Variation('backend="inductor"', {"compile.backend": "inductor"}, INDUCTOR),
)
"""Each adds a component to the one before, so the first that does not pass has the fault."""

STATIC = "dynamic=False"

_OF_SIZES: tuple[Variation, ...] = (
    Variation("dynamic=True", {"compile.dynamic": True}),
    Variation(STATIC, {"compile.dynamic": False}),
)
"""What sizes are, which concerns every component."""

FALLBACK_RANDOM = "inductor.fallback_random"

CASTS = "inductor.emulate_precision_casts = True"

_OF_DECOMPOSITIONS: tuple[Variation, ...] = (
    Variation(CASTS, {"inductor.emulate_precision_casts": True}),
    Variation(f"{FALLBACK_RANDOM} = True", {FALLBACK_RANDOM: True}),
)
"""Settings of Inductor's that concern its decompositions, too."""

_OF_INDUCTOR: tuple[Variation, ...] = (
    Variation("inductor.pattern_matcher = False", {"inductor.pattern_matcher": False}),
    Variation("inductor.max_fusion_size = 1", {"inductor.max_fusion_size": 1}),
    Variation("inductor.layout_optimization = False", {"inductor.layout_optimization": False}),
    Variation("inductor.split_reductions = False", {"inductor.split_reductions": False}),
)

PARTS: dict[str, tuple[Variation, ...]] = {
    DYNAMO: _OF_SIZES,
    AOT_AUTOGRAD: _OF_SIZES,
    DECOMPOSITIONS: (*_OF_SIZES, *_OF_DECOMPOSITIONS),
    INDUCTOR: (*_OF_SIZES, *_OF_DECOMPOSITIONS, *_OF_INDUCTOR),
}
"""Component that has the fault → settings of the program's own backend, one at a time. A fault that
is there without Inductor is there with any setting of Inductor's.
"""
