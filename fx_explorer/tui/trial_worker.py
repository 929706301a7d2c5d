"""What runs the program again beside the capture."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TrialWorker:
    """Where trials run."""

    python: str = sys.executable
    """The interpreter."""
    timeout_s: float | None = None
    """None: the limit of each kind of trial."""
