"""This module makes damaged and hostile sessions from good ones by a seed, and checks how
fx-explorer's commands and app answer.

``python -m tests.session.fuzzing --rounds 20000`` (``make fuzz``) goes on for longer than a test
may.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import json
import random
import re
import shutil
import sqlite3
import sys
import tempfile
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from fx_explorer.cli import main as fx_explorer
from tests.session.fuzzing_app import app_problem
from tests.session.limits import UNSHOWN, HungError, limited

ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b31m"

VALUES: tuple[object, ...] = (
    None,
    -1,
    0,
    1,
    2,
    7,
    10**6,
    2**31,
    2**62,
    2**63 - 1,
    -(2**63),
    0.5,
    -1e308,
    float("inf"),
    "",
    "x",
    b"",
    b"\x00\xff",
    ESCAPE,
    "\u202e",
    "[",
    "{",
    "[]",
    "{}",
    "null",
    "true",
    "1",
    '"x"',
    "[null]",
    "[1]",
    "[[]]",
    "[{}]",
    '["a"]',
    "[NaN]",
    '{"a": 1}',
    '{"a": {"a": null}}',
    "[" * 5000,
    '{"a":' * 5000,
    "9" * 400,
    "x" * 100_000,
    "\n" * 5000,
    "../../etc/passwd",
    '[["f", 1, "g"]]',
    '[["f", "x", "g", "h"]]',
    '[["f"]]',
    "1e999",
    "-0",
    "ok",
    "failed",
    "forward",
    "kernel",
    "0/0",
    "0/0~1",
)

SCHEMAS = (
    "CREATE VIEW v AS SELECT 1",
    "CREATE TRIGGER t AFTER INSERT ON graph BEGIN DELETE FROM node; END",
    "CREATE INDEX i ON node(abs(id))",
    "CREATE INDEX i ON node(id) WHERE id > 3",
    "CREATE TABLE g (id INTEGER, b AS (id + 1))",
    "CREATE TABLE g (id INTEGER CHECK (id > 3))",
    "CREATE TABLE g (id INTEGER DEFAULT (random()))",
    "CREATE VIRTUAL TABLE f USING fts5(x)",
    "CREATE VIRTUAL TABLE r USING rtree(a, b, c)",
    "ALTER TABLE compilation ADD COLUMN more INTEGER",
    "CREATE TABLE other (id INTEGER)",
)

RECURSIVE = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n AS id"

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("report",),
    (
        "check",
        "--max-graph-breaks",
        "0",
        "--max-guards",
        "3",
        "--no-skipped-frames",
        "--expect-graphs",
        "1",
    ),
    ("fix",),
    ("fix", "--diff", "1"),
    ("options",),
    ("kernel",),
    ("explore",),
    ("diff",),
)

Mutation = Callable[[random.Random, Path], str]
"""Damages a file and says how."""


def mutate(chance: random.Random, session: Path) -> str:
    kinds: tuple[Mutation, ...] = (
        _bytes,
        _truncated,
        _values,
        _values,
        _values,
        _values,
        _meta,
        _text,
        _rows,
        _tables,
    )
    try:
        return chance.choice(kinds)(chance, session)
    except (
        sqlite3.Error,
        IndexError,
        ValueError,
        RecursionError,
    ) as error:  # damaged so much that no more can be done to it
        return f"no more ({type(error).__name__})"


def _bytes(chance: random.Random, session: Path) -> str:
    content = bytearray(session.read_bytes())
    start, count = chance.randrange(len(content)), chance.choice((1, 1, 4, 16, 500))
    if chance.random() < 0.3:
        start = chance.randrange(200)
    for i in range(start, min(start + count, len(content))):
        content[i] = chance.choice((0, 0xFF, 0x7F, chance.randrange(256)))
    if chance.random() < 0.2:  # one page in place of another
        one, other = (4096 * chance.randrange(len(content) // 4096) for _ in range(2))
        content[one : one + 4096] = content[other : other + 4096]
    session.write_bytes(content)
    return f"{count} bytes at {start}"


def _truncated(chance: random.Random, session: Path) -> str:
    content = session.read_bytes()
    length = chance.choice(
        (chance.randrange(len(content)), 4096 * chance.randrange(len(content) // 4096), 0, 100)
    )
    session.write_bytes(content[:length])
    return f"cut to {length}"


def _values(chance: random.Random, session: Path) -> str:
    """Change one column of one row, or of all rows."""
    with _changed(session) as db:
        table = _table_with_rows(chance, db)
        columns = _columns_of(db, table)
        column = chance.choice(columns)
        value = chance.choice(VALUES) if chance.random() < 0.8 else _other_value(chance, db, table)
        where = ""
        if chance.random() < 0.7:
            key, number = columns[0], chance.randrange(8)
            where = f' WHERE "{key}"=(SELECT "{key}" FROM {table} LIMIT 1 OFFSET {number} % (SELECT count(*) FROM {table}))'
        with contextlib.suppress(sqlite3.IntegrityError):
            db.execute(f'UPDATE OR REPLACE {table} SET "{column}"=?{where}', (value,))
    return f"{table}.{column} = {str(value)[:30]!r}{where and ' in one row'}"


def _table_with_rows(chance: random.Random, db: sqlite3.Connection) -> str:
    """Return a table with rows, each as likely. Raises IndexError where no table has any."""
    tables = [name for name in _tables_of(db) if name not in ("meta", "text")]
    while True:
        if not tables:
            raise IndexError("no table has rows")
        table = tables.pop(chance.randrange(len(tables)))
        if db.execute(f"SELECT 1 FROM {table}").fetchone():
            return table


def _other_value(chance: random.Random, db: sqlite3.Connection, table: str) -> object:
    """Return the value of a random column: the id of another object, or a word of another closed
    set.
    """
    row: tuple[object, ...] = db.execute(
        f"SELECT * FROM {table} LIMIT 1 OFFSET {chance.randrange(3)}"
    ).fetchone() or (1,)
    return chance.choice(row)


def _meta(chance: random.Random, session: Path) -> str:
    with _changed(session) as db:
        key = chance.choice([key for (key,) in db.execute("SELECT key FROM meta ORDER BY key")])
        row = db.execute("SELECT value FROM meta WHERE key=?", (key,)).fetchone()
        if row is None:
            raise IndexError(f"no value of {key!r}: an index that is damaged")
        old = json.loads(row[0])
        value, told = chance.choice(VALUES), key
        if isinstance(old, dict) and old and chance.random() < 0.6:
            part = chance.choice(list(old))
            value = json.dumps(
                {
                    **old,
                    part: chance.choice(
                        (None, 1, -1, "x", [], {}, True, 10**30, ESCAPE, [[1]], {"a": 1})
                    ),
                }
            )
            told = f"{key}.{part}"
        db.execute("UPDATE OR IGNORE meta SET value=? WHERE key=?", (value, key))
    return f"meta {told} = {str(value)[:60]!r}"


def _text(chance: random.Random, session: Path) -> str:
    body = chance.choice(_bodies())
    with _changed(session) as db:
        where = "" if chance.random() < 0.3 else f" WHERE id={chance.randrange(1, 6)}"
        db.execute(f"UPDATE text SET body=?{where}", (body,))
        if chance.random() < 0.2:
            db.execute("UPDATE text SET size=?", (chance.choice((-1, 0, 2**40, "x")),))
    return f"text{where} = {str(body)[:30]!r}"


@functools.cache
def _bodies() -> tuple[object, ...]:
    """Made once: to compress 30 MB takes 0.15 s."""
    nested = "if 1:\n" + "".join(" " * i + "if 1:\n" for i in range(1, 150))
    return (
        b"",
        b"x",
        "text",
        3,
        zlib.compress(b"\xff\xfe\x00"),
        zlib.compress(b"x" * 30_000_000, 1),
        zlib.compress(b"\n" * 10**6),
        zlib.compress(("(" * 3000).encode()),
        zlib.compress(ESCAPE.encode()),
        zlib.compress(b"def f(:\n"),
        zlib.compress(nested.encode()),
        zlib.compress(b"\x00" * 50),
        zlib.compress(b"x" * 50)[:-3],
    )


def _rows(chance: random.Random, session: Path) -> str:
    with _changed(session) as db:
        table = chance.choice(_tables_of(db))
        if chance.random() < 0.5:
            every_other = (
                "" if chance.random() < 0.5 else f' WHERE "{_columns_of(db, table)[0]}" % 2'
            )
            db.execute(f"DELETE FROM {table}{every_other}")
            return f"rows of {table} deleted{every_other}"
        others = ", ".join(f'"{name}"' for name in _columns_of(db, table) if name != "id")
        for _ in range(chance.choice((1, 5))):
            db.execute(
                f"INSERT OR IGNORE INTO {table} ({others}) SELECT {others} FROM {table} LIMIT 1000"
            )
        return f"rows of {table} doubled"


def _tables(chance: random.Random, session: Path) -> str:
    with _changed(session) as db:
        table = chance.choice(_tables_of(db))
        columns = _columns_of(db, table)
        view = "".join(f', n AS "{name}"' for name in columns if name != "id")
        done = chance.choice(
            (
                *SCHEMAS,
                f"DROP TABLE {table}",
                f'ALTER TABLE {table} DROP COLUMN "{chance.choice(columns)}"',
                f"ALTER TABLE {table} RENAME TO other",
                f'ALTER TABLE {table} RENAME COLUMN "{chance.choice(columns)}" TO other',
                f"DROP TABLE {table}; CREATE VIEW {table} AS {RECURSIVE}{view} FROM r",
                f"DROP TABLE {table}; CREATE TABLE {table} (id INTEGER)",
                "PRAGMA application_id=0",
                "PRAGMA user_version=7",
            )
        )
        db.executescript(done)
    return done


def _tables_of(db: sqlite3.Connection) -> list[str]:
    return [
        name
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table' ORDER BY name")
    ]


def _columns_of(db: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in db.execute(f"PRAGMA table_info({table})")]


@contextlib.contextmanager
def _changed(session: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(session, timeout=0)) as db, db:
        db.execute("PRAGMA synchronous=OFF")  # or each damage waits for the disk
        db.execute("PRAGMA journal_mode=MEMORY")  # as above: no file beside it
        yield db


# what may come of it


def problem_with(words: tuple[str, ...], session: Path, good: Path) -> str:
    """Return the problem with a command; empty when it succeeded with sane output, or ended with
    SessionError.
    """
    command, *others = words
    arguments = [command, str(session), *([str(good)] if command == "diff" else []), *others]
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), limited():
            code = fx_explorer(arguments)
    except HungError:
        return "hangs\n" + traceback.format_exc(limit=-4)
    except BaseException:  # noqa: BLE001 - whatever it is, it is what we look for
        return traceback.format_exc(limit=-6)
    return _insane(words, code, out.getvalue(), err.getvalue())


def _insane(words: tuple[str, ...], code: int, out: str, err: str) -> str:
    for text in (out, err):
        if found := re.search(UNSHOWN, text):
            return (
                f"sends {found.group()!r}: {text[max(0, found.start() - 60) : found.end() + 60]!r}"
            )
    if code == 5:
        lines = err.splitlines()
        told = [line for line in lines if line.startswith("fx-explorer: ")]
        return (
            ""
            if len(told) == len(lines) == 1 and len(err) < 2000
            else f"says in {len(lines)} lines: {err[:500]!r}"
        )
    if words[0] == "report" and code == 0:
        try:
            json.loads(out, parse_constant=lambda name: json.loads("x"))
        except ValueError:
            return f"writes what is no JSON: {out[:300]!r}"
    may = {"check": (0, 1, 3, 4, 130), "fix": (0, 2), "options": (0, 2), "kernel": (0, 2)}.get(
        words[0], (0,)
    )
    return "" if code in may else f"ends with {code}: {err[:500]!r}"


def fuzz(
    sessions: list[Path], folder: Path, seed: int, rounds: int, app_each: int = 1
) -> tuple[Counter[str], list[str]]:
    """Return (how many of each kind of end, the problems). Each session goes to a command; every
    ``app_each``-th to the app too.
    """
    ends: Counter[str] = Counter()
    problems: list[str] = []
    for number in range(rounds):
        victim = (
            folder / f"victim-{number}.fxs"
        )  # one that the app has read stays locked until Python forgets the app
        chance = random.Random(f"{seed}-{number}")
        good = chance.choice(sessions)
        shutil.copy(good, victim)
        how = "; ".join(mutate(chance, victim) for _ in range(chance.choice((1, 1, 1, 3))))
        words = chance.choice(COMMANDS)
        problem = problem_with(words, victim, good)
        if not problem and number % app_each == 0:
            ends["app"] += 1
            problem, words = app_problem(victim, chance), ("app",)
        victim.unlink()
        ends["wrong" if problem else "well"] += 1
        if problem:
            problems.append(
                f"seed {seed}-{number}, {good.name}: {how}\n{' '.join(words)} {problem}"
            )
    return ends, problems


def main() -> int:
    from tests.sessions import write_training_step

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "sessions", nargs="*", type=Path, help="good sessions (default: one written by hand)"
    )
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        hand = write_training_step(Path(folder) / "hand.fxs").path
        ends, problems = fuzz(asked.sessions or [hand], Path(folder), asked.seed, asked.rounds)
    kinds = Counter(problem.strip().splitlines()[-1][:150] for problem in problems)
    shown = {problem.strip().splitlines()[-1][:150]: problem for problem in problems}
    for kind, count in kinds.most_common(30):
        print(f"{count:6} {kind}\n{shown[kind]}\n")
    print(
        f"{asked.rounds} sessions: {ends['well']} well, {ends['wrong']} wrong; {ends['app']} of them in the app too"
    )
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
