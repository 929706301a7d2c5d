"""The models of benchmarks/models.py, with Inductor's log of what it fuses: a target whose session
has that log among the printed lines.
"""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.models import build, inputs

__all__ = ["build", "inputs"]

torch._logging.set_logs(fusion=True)
