"""The sample backend, for ``--backend sample_backends/small.py:small`` and for ``torch.compile(model, backend=small)``."""

from __future__ import annotations

import sys
from pathlib import Path

_ROOT = str(Path(__file__).resolve().parents[1])
if _ROOT not in sys.path:  # when this file is named by its path, its package is not importable yet
    sys.path.append(_ROOT)

from sample_backends.small_backend import small  # noqa: E402

__all__ = ["small"]
