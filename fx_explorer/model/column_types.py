"""This module names the types of columns that several tables have: the stages of a frame, in their
order, directions, and texts that repeat.
"""

from __future__ import annotations

from typing import Literal

Stage = Literal[
    "dynamo", "pre_grad", "joint", "forward", "backward", "backend", "post_grad", "schedule",
    "output_code", "kernel",
    "front_end",
]  # fmt: skip
"""Stage of a compilation. ``forward`` and ``backward`` are AOTAutograd's graphs; an inference graph
has stage ``forward``, direction ``inference``. ``backend`` is any stage that a backend publishes.
``front_end`` is the graph of a front end other than Dynamo: it belongs to no compilation, and has
no later stage.
"""

Direction = Literal["", "forward", "backward", "inference"]
"""Direction of a graph. Empty for stages without directions (dynamo, pre_grad, joint)."""

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


RepeatedText = str
"""Type of a field whose texts repeat. A long text is stored once, and a text similar to another one
as its difference.
"""

RepeatedName = str
"""Type of a field with few different values (a path, the name of a phase). From a certain length
on, each value is stored once.
"""
