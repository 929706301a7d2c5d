"""The temporary session that stands for a file that is none."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path

from fx_explorer.temporary_folder import temporary_folder


def place_of_session(
    file: Path, arguments: argparse.Namespace, until: contextlib.ExitStack
) -> Path:
    """Return where the session that stands for ``file`` goes, which is told by the name of ``file``."""
    folder = until.enter_context(temporary_folder())
    session = folder / f"{file.name.partition('.')[0].strip('-') or 'log'}.fxs"
    arguments.packages = {**getattr(arguments, "packages", {}), str(session): file}
    return session
