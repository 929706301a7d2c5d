"""Where what is remembered from one start to the next lies."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return ``$XDG_STATE_HOME/fx-explorer``, by default below ``~/.local/state``. A relative path is ignored."""
    base = Path(environ.get("XDG_STATE_HOME") or "")
    return (base if base.is_absolute() else Path("~/.local/state").expanduser()) / "fx-explorer"
