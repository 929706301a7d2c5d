"""This module seeds the random numbers of a program, so that two runs of it draw the same."""

from __future__ import annotations

import random
import sys

import torch


def seed(number: int) -> None:
    """Seed every source of random numbers that a program is likely to use.

    Where there is no accelerator, ``torch.manual_seed`` writes down for four kinds of them from
    where it was called, each time.
    """
    if torch.accelerator.is_available():
        torch.manual_seed(number)
    else:
        torch.default_generator.manual_seed(number)
    random.seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number)
