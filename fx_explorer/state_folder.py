"""Where what is remembered from one start to the next lies, and the folder of the user's that it is
in.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

NO_HOME = Path("/dev/null/no-home-directory")
"""Can neither be read nor be made: what is remembered is forgotten then, as on a disk that is full.
"""


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return ``$XDG_STATE_HOME/fx-explorer``, by default below ``~/.local/state``. A relative path
    is ignored.
    """
    base = Path(environ.get("XDG_STATE_HOME") or "")
    return (base if base.is_absolute() else home_folder(environ) / ".local/state") / "fx-explorer"


def home_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the user's home; ``NO_HOME`` where neither the environment nor the system knows
    one.
    """
    home = Path(environ.get("HOME") or os.path.expanduser("~"))
    return home if home.is_absolute() else NO_HOME


def typed_path(text: str) -> Path:
    """Return the path that a user typed, where ``~`` is a home. The tilde stays where nobody has
    that name.
    """
    return Path(os.path.expanduser(text))
