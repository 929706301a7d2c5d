"""A session file that anybody may have written is opened here, read-only, with limits, and only
when its tables are plain tables; and its meta table is checked.

An SQLite file may hold more than rows: views and triggers that are evaluated when a table of their
name is read or written, virtual tables, generated columns, indexes and constraints with
expressions. A session has none of them. Entries of ``meta`` that are read by name are checked like
the fields of a row.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fx_explorer.errors import NotASessionError
from fx_explorer.highlight import printable
from fx_explorer.model import CaptureRequest, Gpu, Outcome
from fx_explorer.model.checked_json import checked
from fx_explorer.model.protocol import LIST_FIELDS
from fx_explorer.model.study import parts_from_json
from fx_explorer.session.untrusted.kind_of_file import kind_of_file

MOST_BYTES = 256 << 20
"""Largest value of a row, in bytes in the file."""

MOST_CPU_S = 20.0
"""Maximum CPU time of one query, in seconds. Counting every link of 322,000 nodes takes 0.3 s."""

STEPS_BETWEEN_LOOKS = 1_000_000
"""Number of steps of SQLite's virtual machine between two checks of the limit: some 10 ms."""

LONGEST_REASON = 300

UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""Errors of unreadable files: SQLite's messages quote the file, and Python cannot make an error
from a message that is not UTF-8.
"""

_NAME = r'(?:\w+|"\w+")'
_COLUMN = rf"{_NAME}(?: (?:INTEGER|REAL|TEXT|BLOB)?)?(?: PRIMARY KEY)?(?: NOT NULL)?(?: UNIQUE)?"
_KEY = rf"PRIMARY KEY \({_NAME}(?:, {_NAME})*\)"
_TABLE = re.compile(
    rf"CREATE TABLE {_NAME} ?\({_COLUMN}(?:, (?:{_KEY}|{_COLUMN}))*\)(?: WITHOUT ROWID)?"
)
_INDEX = re.compile(rf"CREATE INDEX {_NAME} ON {_NAME} ?\({_NAME}(?:, {_NAME})*\)")


def opened(path: Path) -> sqlite3.Connection:
    """Open a session read-only. A file in a directory that cannot be written has no readable WAL,
    so it is opened without. Raises NotASessionError.
    """
    uri = "file:" + quote(os.fsencode(path.absolute()))
    try:
        try:
            db = _connected(uri + "?mode=ro")
        except sqlite3.OperationalError:
            db = _connected(uri + "?mode=ro&immutable=1")
    except UNREADABLE as error:
        kind = kind_of_file(path)
        if kind.kind == "sqlite":
            what = f"{kind.words} that is damaged or cut off ({reason(error)})"
        else:
            what = kind.words
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
    """Switch off evaluation of the file's own SQL, and refuse values larger than a session has."""
    db.execute("PRAGMA trusted_schema=OFF")
    db.execute("PRAGMA cell_size_check=ON")
    if sys.version_info >= (3, 11):  # before, a value is as large as the file at most
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
        db.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        db.setlimit(sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 1)


def check_tables(db: sqlite3.Connection, path: Path) -> None:
    """Raise NotASessionError for any object other than a plain table or a plain index."""
    try:
        entries = db.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    except UNREADABLE as error:
        raise NotASessionError(f"{path} is not an fx-explorer session: {reason(error)}") from error
    for kind, name, sql in entries:
        if not _is_plain(kind, name, sql):
            if isinstance(kind, str) and isinstance(name, str):
                what = f"{kind} {name}"
            else:
                what = "entry"
            raise NotASessionError(
                f"{path} is rejected: a session has only plain tables, but this file has the "
                f"{printable(what)[:100]}: {printable(str(sql))[:LONGEST_REASON]}"
            )


MOST_STATEMENTS, LONGEST_STATEMENT = 1_000, 2_000
"""Maximum number of SQL statements whose permission is cached, and the longest of them in
characters. All sessions use the same ones.
"""


def _is_plain(kind: object, name: object, sql: object) -> bool:
    if isinstance(sql, str) and len(sql) <= LONGEST_STATEMENT:
        return _is_known_plain(str(kind), str(name), sql) and isinstance(name, str)
    return _is_plain_statement(kind, name, sql)


@lru_cache(MOST_STATEMENTS)
def _is_known_plain(kind: str, name: str, sql: str) -> bool:
    return _is_plain_statement(kind, name, sql)


def _is_plain_statement(kind: object, name: object, sql: object) -> bool:
    # The index that SQLite makes by itself for a key has no statement.
    if kind == "index" and sql is None:
        return isinstance(name, str) and name.startswith("sqlite_autoindex_")
    if not isinstance(sql, str) or not isinstance(name, str) or name.startswith("sqlite_"):
        return False
    form = {"table": _TABLE, "index": _INDEX}.get(str(kind))
    return bool(form and form.fullmatch(" ".join(sql.split())))


def reason(error: BaseException) -> str:
    """Return the error on one line, without control characters: SQLite's messages quote the
    file.
    """
    return printable(" ".join(str(error).split()) or type(error).__name__)[:LONGEST_REASON]


class CpuLimit:
    """Ends a query that takes too long: a manipulated file can make a query endless."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._until: float | None = None
        """Limit in CPU time of this thread. Other time does not count, because waiting for a lock
        or a slow disk is not the file's fault.
        """
        db.set_progress_handler(self._is_over, STEPS_BETWEEN_LOOKS)

    def begin(self) -> None:
        """Begin a question. The clock is read at the first look only: most questions end before."""
        self._until = None

    def _is_over(self) -> int:
        if self._until is None:
            self._until = time.thread_time() + MOST_CPU_S
        return int(time.thread_time() > self._until)


# What the entries of ``meta`` look like.


def check_meta(key: str, value: Any) -> Any:
    """Return ``value`` unchanged. Raises ValueError if it is not valid under this key."""
    check = _CHECKS.get(key)
    try:
        if check and value is not None and not check(value):
            raise ValueError(f"{key} of the session cannot be {str(value)[:80]!r}")
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{key} of the session cannot be read: {str(error)[:200]}") from error
    return value


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_duration(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < 1e12


def _is_outcome(value: Any) -> bool:
    return abs(checked(Outcome.from_json(value)).exit_code) < 1 << 31


def _is_target(value: Any) -> bool:
    texts = ("name", "kind", "file", "object")
    return isinstance(value, dict) and all(isinstance(value.get(key, ""), str) for key in texts)


def _is_environment(value: Any) -> bool:
    return isinstance(value, dict)


def _is_request(value: Any) -> bool:
    """Return whether a value is a CaptureRequest: the fields that we know have their types. It may
    have other fields, in a file that we have not written.
    """
    if not isinstance(value, dict):
        return False
    known = {name: value[name] for name in CaptureRequest.__dataclass_fields__ if name in value}
    gpu = Gpu.from_json(known["gpu"]) if known.get("gpu") else None
    lists = {name: tuple(known.get(name, ())) for name in LIST_FIELDS}
    checked(CaptureRequest(**{"target": "", "session": "", **known, **lists, "gpu": gpu}))
    return True


def _is_bench(value: Any) -> bool:
    texts = (value.get("state", ""), value.get("doing", ""))
    return (
        isinstance(value.get("machine", {}), dict)
        and all(isinstance(text, str) for text in texts)
        and isinstance(value.get("budget_s") or 0, int | float)
    )


_COUNTS_OF_LOG = (
    "records",
    "wrong_hashes",
    "unread_graph_lines",
    "is_cut_off",
    "is_followed",
    "lost_its_name",
)


def _is_log(value: Any) -> bool:
    counts = [value.get(name, 0) for name in _COUNTS_OF_LOG]
    counts += value.get("unknown", {}).values()
    ranks = value.get("ranks", [])
    is_of_ranks = isinstance(ranks, list) and all(isinstance(rank, int) for rank in ranks)
    return (
        all(isinstance(count, int) for count in counts)
        and isinstance(value.get("damaged_lines", []), list)
        and is_of_ranks
    )


_COUNTS_OF_SUMMARY = (
    "frames",
    "resume_functions",
    "guarded_codes",
    "backend_graphs",
    "kept",
    "unchecked",
)

_TEXTS_OF_SUMMARY = (
    "bypassed",
    "truncated",
    "uncovered_frames",
    "wont_generalize",
    "capture_errors",
)

_GUARDS_OF_SUMMARY = ("dropped_guards", "risky_dropped_guards", "policy_dropped_guards")


def _are_summaries(value: Any) -> bool:
    """Return whether these are torch's summaries of captures (capture/aot/direct_calls.py)."""
    return isinstance(value, list) and all(_is_summary(summary) for summary in value)


def _is_summary(value: Any) -> bool:
    if not isinstance(value, dict) or not _is_text(value.get("function")):
        return False
    has_counts = all(isinstance(value.get(name, 0), int) for name in _COUNTS_OF_SUMMARY)
    has_texts = all(_are_texts(value.get(name, [])) for name in _TEXTS_OF_SUMMARY)
    return (
        has_counts
        and has_texts
        and all(_are_guards(value.get(name, [])) for name in _GUARDS_OF_SUMMARY)
    )


def _are_guards(value: Any) -> bool:
    """Return whether these are pairs of a guard's kind and source."""
    if not isinstance(value, list):
        return False
    return all(_are_texts(pair) and len(pair) == 2 for pair in value)


def _are_calls(value: Any) -> bool:
    """Return whether these are calls in the program: the name of what was given, file, line, and a
    description.
    """
    return isinstance(value, list) and all(_is_call(call) for call in value)


def _is_call(value: Any) -> bool:
    match value:
        case [name, file, int(line), unused]:
            return line >= 0 and _are_texts([name, file, unused])
    return False


def _are_eager_calls(value: Any) -> bool:
    """Return whether these are calls of modules in eager mode: class, path, a flag, file and line,
    number of calls, and file and line of torch.compile.
    """
    return isinstance(value, list) and all(_is_eager_call(call) for call in value)


def _is_eager_call(value: Any) -> bool:
    match value:
        case [name, path, int(flag), file, int(line), int(count), given_file, int(given_line)]:
            numbers = (flag, line, count, given_line)
            return min(numbers) >= 0 and _are_texts([name, path, file, given_file])
    return False


def _are_settings(value: Any) -> bool:
    """Return whether it is a list of (module, name, value as JSON, option), all of them texts."""
    if not isinstance(value, list):
        return False
    for setting in value:
        if not _are_texts(setting) or len(setting) != 4:
            return False
        try:
            json.loads(setting[2])
        except (ValueError, RecursionError):
            return False
    return True


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "fx_explorer": _is_text,
    "started": _is_text,
    "progress": _is_text,
    "finished": _is_duration,
    "outcome": _is_outcome,
    "target": _is_target,
    "environment": _is_environment,
    "request": _is_request,
    "left_out": _are_texts,
    "built_to_save": _are_texts,
    "never_called": _are_calls,
    "selective_checkpoints": _are_calls,
    "eager_calls": _are_eager_calls,
    "misplaced_settings": _are_settings,
    "capture_summaries": _are_summaries,
    "process": lambda value: isinstance(value, dict) and isinstance(value.get("pid", 0), int),
    "build": lambda value: isinstance(value, bool),
    "raised_inspecting": _is_text,
    "virtual_gpu": lambda value: isinstance(value, dict),
    "virtual_gpu_choices": lambda value: isinstance(value, list | dict),
    "counters": lambda value: isinstance(value, dict),
    "bench": _is_bench,
    "kept_trials": lambda value: isinstance(value, dict),
    "study": lambda value: bool(parts_from_json(value)),
    "log": _is_log,
    "skipped_records": lambda value: isinstance(value, int),
}
