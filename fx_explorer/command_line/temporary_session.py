"""The temporary session that stands for a file that is none."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from pathlib import Path


def place_of_session(file: Path, arguments: argparse.Namespace, until: contextlib.ExitStack) -> Path:
    """Return where the session that stands for ``file`` goes, which is told by the name of ``file``."""
    folder = until.enter_context(tempfile.TemporaryDirectory(prefix="fx-explorer-"))
    session = Path(folder) / f"{file.name.partition('.')[0].strip('-') or 'log'}.fxs"
    arguments.packages = {**getattr(arguments, "packages", {}), str(session): file}
    return session
