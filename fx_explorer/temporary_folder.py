"""Folders for what is needed only as long as something runs: sessions of logs, copies."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fx_explorer.errors import SessionWriteError

PREFIX = "fx-explorer-"


def new_temporary_folder(prefix: str = PREFIX) -> Path:
    """Make a folder, which is removed by whoever asked for it. Raises SessionWriteError where none can be made."""
    try:
        return Path(tempfile.mkdtemp(prefix=prefix))
    except OSError as error:
        raise SessionWriteError(
            f"cannot make a temporary directory: {error.strerror or error}. Set TMPDIR to a directory with room."
        ) from error


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Give a folder that is gone after the block. Raises SessionWriteError where none can be made."""
    folder = new_temporary_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
