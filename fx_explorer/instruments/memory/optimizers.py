"""What an optimizer keeps from its first step on, and so is there in every step behind that one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fx_explorer.instruments.memory.step import Held, StepMemory

TENSORS: Mapping[str, int] = {
    "sgd": 0,
    "sgd-momentum": 1,
    "adagrad": 1,
    "rmsprop": 1,
    "adadelta": 2,
    "adam": 2,
    "adamw": 2,
    "adamax": 2,
    "nadam": 2,
    "radam": 2,
    "adam-amsgrad": 3,
}
"""Optimizer of ``torch.optim`` → tensors as large as a parameter that its ``state`` has for each
trained one (the functions named ``_init_group`` in torch/optim). Counters of steps, 4 bytes each,
are left out.
"""


def trained(step: StepMemory) -> list[Held]:
    """Return the parameters that get a gradient in the step."""
    names = {one.name for one in step.held if one.kind == "gradient"}
    return [one for one in step.held if one.kind == "parameter" and one.name in names]


def with_optimizer(step: StepMemory, name: str) -> StepMemory:
    """Return the step with what the optimizer keeps. Raises KeyError for a name that is none of
    ``TENSORS``.
    """
    kept = [
        replace(one, kind="optimizer", begin=0, end=step.end, node=None, kernel="")
        for one in trained(step)
        for _ in range(TENSORS[name])
    ]
    return replace(step, held=(*step.held, *kept)) if kept else step
