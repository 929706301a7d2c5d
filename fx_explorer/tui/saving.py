"""Saving the session the user looks at as a file of their own. It copies: the app goes on reading the one it has open."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path, PurePath

from fx_explorer.errors import SessionWriteError


def suggested_name(target: str) -> str:
    """``dir/mymodel.py:MLP`` → ``mymodel.fxs``."""
    name = PurePath(target.partition(":")[0] or "session").name.removesuffix(".fxs").removesuffix(".py")
    return f"{name.rpartition('.')[2] or 'session'}.fxs"


def save_session(source: Path, target: Path) -> Path:
    """Copy a session whole, whatever is still in its WAL. Never overwrites. Raises SessionWriteError."""
    target = target if target.suffix == ".fxs" else target.with_name(target.name + ".fxs")
    if target.exists():
        raise SessionWriteError(f"{target} is there already: choose another name")
    try:
        with closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as old, closing(sqlite3.connect(target)) as new:
            old.backup(new)
            new.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.Error as error:
        target.unlink(missing_ok=True)
        raise SessionWriteError(f"cannot write {target}: {error}. Choose another place.") from error
    return target
