"""A frame goes through these stages, in this order."""

from __future__ import annotations

from typing import Literal

Stage = Literal[
    "dynamo", "pre_grad", "joint", "forward", "backward", "backend", "post_grad", "schedule",
    "output_code", "kernel",
    "front_end",
]  # fmt: skip
"""``forward`` and ``backward`` are AOTAutograd's graphs; an inference graph has stage ``forward``,
direction ``inference``. ``backend`` is whatever a backend publishes of its own stages.
``front_end`` is the graph that another front end than Dynamo made of the target: it belongs to no
compilation, and nothing comes after it.
"""

Direction = Literal["", "forward", "backward", "inference"]
"""Empty where the stage has no direction of its own (dynamo, pre_grad, joint)."""

STAGES: tuple[Stage, ...] = (
    "dynamo",
    "pre_grad",
    "joint",
    "forward",
    "backward",
    "backend",
    "post_grad",
    "schedule",
    "output_code",
    "kernel",
)
"""The stages of a compilation: all but ``front_end``."""

DIRECTIONS: tuple[Direction, ...] = ("", "forward", "backward", "inference")
