"""The stages a frame goes through, in the order it goes through them."""

from __future__ import annotations

from typing import Literal

Stage = Literal[
    "dynamo", "pre_grad", "joint", "forward", "backward", "backend", "post_grad", "schedule", "output_code", "kernel"
]  # fmt: skip
"""``forward`` and ``backward`` are AOTAutograd's graphs; an inference graph has stage ``forward``,
direction ``inference``. ``backend`` is whatever a backend publishes of its own stages.
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
DIRECTIONS: tuple[Direction, ...] = ("", "forward", "backward", "inference")
