"""Opening a session file that anybody may have written: read-only, with limits, and only when its
tables are plain tables.

An SQLite file may hold more than rows: views and triggers that are evaluated when a table of their
name is read or written, virtual tables, generated columns, indexes and constraints with
expressions. A session has none of them.
"""

from __future__ import annotations

import os
import re
import sqlite3
import sys
import time
from pathlib import Path
from urllib.parse import quote

from fx_explorer.errors import NotASessionError
from fx_explorer.highlight import printable
from fx_explorer.session.untrusted.kind_of_file import kind_of_file

MOST_BYTES = 256 << 20
"""The largest value of a row, as it lies in the file."""

MOST_CPU_S = 20.0
"""The limit for one question to the file. Counting every link of 322,000 nodes takes 0.3 s."""

STEPS_BETWEEN_LOOKS = 1_000_000
"""Steps of SQLite's virtual machine: some 10 ms."""

LONGEST_REASON = 300

UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""SQLite's messages quote the file, and Python cannot make an error of one that is no UTF-8."""

_NAME = r'(?:\w+|"\w+")'
_COLUMN = rf"{_NAME}(?: (?:INTEGER|REAL|TEXT|BLOB)?)?(?: PRIMARY KEY)?(?: NOT NULL)?(?: UNIQUE)?"
_KEY = rf"PRIMARY KEY \({_NAME}(?:, {_NAME})*\)"
_TABLE = re.compile(
    rf"CREATE TABLE {_NAME} ?\({_COLUMN}(?:, (?:{_KEY}|{_COLUMN}))*\)(?: WITHOUT ROWID)?"
)
_INDEX = re.compile(rf"CREATE INDEX {_NAME} ON {_NAME} ?\({_NAME}(?:, {_NAME})*\)")


def opened(path: Path) -> sqlite3.Connection:
    """Open a session read-only. A file whose directory cannot be written has no WAL to look at, so
    it is opened as it is. Raises NotASessionError.
    """
    uri = "file:" + quote(os.fsencode(path.absolute()))
    try:
        try:
            db = _connected(uri + "?mode=ro")
        except sqlite3.OperationalError:
            db = _connected(uri + "?mode=ro&immutable=1")
    except UNREADABLE as error:
        found = kind_of_file(path)
        if found.kind == "sqlite":
            what = f"{found.words} that is damaged or cut off ({reason(error)})"
        else:
            what = found.words
        raise NotASessionError(f"{path} is not an fx-explorer session: it is {what}") from error
    return db


def _connected(uri: str) -> sqlite3.Connection:
    db = sqlite3.connect(uri, uri=True, check_same_thread=False, timeout=5)
    try:
        harden(db)
        # To connect reads nothing: only a query finds out that the file is none of SQLite's.
        db.execute("SELECT 1 FROM sqlite_master").fetchone()
    except BaseException:
        db.close()
        raise
    return db


def harden(db: sqlite3.Connection) -> None:
    """Evaluate nothing that the file itself says, and take no value larger than what a session
    has.
    """
    db.execute("PRAGMA trusted_schema=OFF")
    db.execute("PRAGMA cell_size_check=ON")
    if sys.version_info >= (3, 11):  # before, a value is as large as the file at most
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
        db.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        db.setlimit(sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 1)


def check_tables(db: sqlite3.Connection, path: Path) -> None:
    """Raise NotASessionError for anything that is no plain table, and no plain index of one."""
    try:
        found = db.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    except UNREADABLE as error:
        raise NotASessionError(f"{path} is not an fx-explorer session: {reason(error)}") from error
    for kind, name, sql in found:
        if not _is_plain(kind, name, sql):
            what = f"{kind} {name}" if isinstance(kind, str) and isinstance(name, str) else "entry"
            raise NotASessionError(
                f"{path} is refused: a session has plain tables only, and this file has "
                f"the {printable(what)[:100]}: "
                f"{printable(str(sql))[:LONGEST_REASON]}"
            )


def _is_plain(kind: object, name: object, sql: object) -> bool:
    # The index that SQLite makes by itself for a key has no statement.
    if kind == "index" and sql is None:
        return isinstance(name, str) and name.startswith("sqlite_autoindex_")
    if not isinstance(sql, str) or not isinstance(name, str) or name.startswith("sqlite_"):
        return False
    form = {"table": _TABLE, "index": _INDEX}.get(str(kind))
    return bool(form and form.fullmatch(" ".join(sql.split())))


def reason(error: BaseException) -> str:
    """Return the error on one line, without what could steer a terminal: SQLite's messages quote
    the file.
    """
    return printable(" ".join(str(error).split()) or type(error).__name__)[:LONGEST_REASON]


class CpuLimit:
    """Ends a question that takes too long: a file can be made to ask for more than anybody waits
    for.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._until: float | None = None
        """In CPU time of this thread: to wait for a lock or a slow disk is not the file's doing."""
        db.set_progress_handler(self._is_over, STEPS_BETWEEN_LOOKS)

    def begin(self) -> None:
        """Begin a question. The clock is read at the first look only: most questions end before."""
        self._until = None

    def _is_over(self) -> int:
        if self._until is None:
            self._until = time.thread_time() + MOST_CPU_S
        return int(time.thread_time() > self._until)
