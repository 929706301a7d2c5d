"""Run one program of the truth lane by its name: ``python benchmarks/truth/subject.py NAME``.

It runs the same way with and without fx-explorer, so that files and lines are the same in both.
"""

from __future__ import annotations

import inspect
import random
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch

from benchmarks.truth import families, patterns


def subjects() -> dict[str, Callable[[], None]]:
    """Return all programs: the patterns by their functions' names, then the models."""
    programs = {
        name: function
        for name, function in inspect.getmembers(patterns, inspect.isfunction)
        if function.__module__ == patterns.__name__ and not name.startswith("_")
    }
    return {**programs, **{name: _trained_once(name) for name in families.FAMILIES}}


def _trained_once(name: str) -> Callable[[], None]:
    return lambda: families.training_step(name)()


if __name__ == "__main__":
    random.seed(0)  # a number that is drawn may stand in a guard
    torch.manual_seed(0)
    subjects()[sys.argv[1]]()
