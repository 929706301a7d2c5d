"""Getting a finished session to the place where the user wants it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from fx_explorer.errors import SessionWriteError, UsageError
from fx_explorer.session.writer import finish_session


def check_output(output: Path) -> None:
    """Raises UsageError when no file can be made at ``output``: better now than after a minute of compiling."""
    if output.is_dir():
        raise UsageError(f"{output} is a directory; give the name of the file to write with -o")
    try:
        with tempfile.TemporaryFile(dir=output.absolute().parent):
            pass
    except OSError as error:
        raise UsageError(
            f"cannot write {output}: {error.strerror} ({output.absolute().parent}). Choose another place with -o FILE."
        ) from error


def place_session(session: Path, output: Path) -> None:
    """Complete the session and move it to ``output``, at once: a reader never sees half a file there.

    Raises SessionWriteError when that fails; the session then stays where it is.
    """
    finish_session(session)
    try:
        try:
            os.replace(session, output)
        except OSError:
            _copy(session, output)  # another file system, or a real problem: the copy will tell
    except OSError as error:
        raise SessionWriteError(
            f"cannot write {output}: {error.strerror or error}. The session is kept in {session}; move it where there is room."
        ) from error


def _copy(session: Path, output: Path) -> None:
    beside = output.with_name(f".{output.name}.partial")
    try:
        shutil.copyfile(session, beside)
        os.replace(beside, output)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    session.unlink()
