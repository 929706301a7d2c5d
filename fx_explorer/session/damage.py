"""This module searches a session file for damage, in every page and every row, once a part of it
could not be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fx_explorer.errors import NotASessionError, SessionError
from fx_explorer.session import schema
from fx_explorer.session.ownership import is_captured_here
from fx_explorer.session.reader import NoRowError, SessionReader

ROWS_AT_ONCE = 10_000


def why_unreadable(path: Path, error: Exception) -> NotASessionError | None:
    """Return a better error than ``error``, which was raised while a part of the session was shown.

    None when nothing is wrong with a session that this user captured: then the fault is ours.
    """
    try:
        with SessionReader(path) as reader:
            if isinstance(error, NoRowError):
                what = str(error.args[0])
            else:
                what = next(_damage(reader), "")
            if not what and is_captured_here(reader):
                return None
    except SessionError as unreadable:
        return NotASessionError(str(unreadable))
    if not what:
        what = f"its contents contradict each other ({_place_of(error)})"
    return NotASessionError(f"{path} cannot be read: {what}. Capture its program again.")


def _damage(reader: SessionReader) -> Iterator[str]:
    """Yield descriptions of the damage. Raises NotASessionError for an invalid row."""
    for (line,) in reader.query("PRAGMA quick_check(20)"):
        # SQLite before 3.42 finds NULLs that are not there in tables WITHOUT ROWID whose key is in
        # another order.
        if line != "ok" and not str(line).startswith("NULL value in"):
            yield f"the file is damaged ({' '.join(str(line).split())[:200]})"
    for row_type in schema.TABLES:
        for offset in range(0, reader.count(row_type), ROWS_AT_ONCE):
            reader.rows(row_type, offset=offset, limit=ROWS_AT_ONCE)
    reader.all_meta()


def _place_of(error: Exception) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace:
        where = f", {Path(trace.tb_frame.f_code.co_filename).name} line {trace.tb_lineno}"
    else:
        where = ""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}{where}"
