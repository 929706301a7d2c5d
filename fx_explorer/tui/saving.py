"""Saving the session the user looks at as a file of their own. It copies: the app goes on reading
the one it has open.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path, PurePath

from fx_explorer.client.session_files import copy_session
from fx_explorer.errors import SessionWriteError, UsageError
from fx_explorer.output_file import OutputFile, never_ours


def suggested_name(target: str) -> str:
    """Suggest a file's name: ``dir/mymodel.py:MLP`` → ``mymodel.fxs``."""
    name = (
        PurePath(target.partition(":")[0] or "session")
        .name.removesuffix(".fxs")
        .removesuffix(".py")
    )
    return f"{name.rpartition('.')[2] or 'session'}.fxs"


def save_session(source: Path, target: Path) -> Path:
    """Copy a session whole, whatever is still in its WAL. Never overwrites. Raises
    SessionWriteError.
    """
    target = target if target.suffix == ".fxs" else target.with_name(target.name + ".fxs")
    if os.path.lexists(target):
        raise SessionWriteError(f"{target} is there already: choose another name")
    try:
        copy_session(source, OutputFile(target, "session", never_ours))
    except (sqlite3.Error, OSError, UsageError) as error:
        raise SessionWriteError(f"cannot write {target}: {error}. Choose another place.") from error
    return target
