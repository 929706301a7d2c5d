"""This module has the writer, the only way to write a session file. It may be killed at any moment:
every artefact is one transaction.

A worker and the client beside it may write the same file (program output comes through the client):
SQLite's WAL and a busy timeout take care of it. A writer may be used from several threads.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import operator
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from os import getpid  # as it is before the program can put something else in its place
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from fx_explorer import model
from fx_explorer.errors import SessionWriteError
from fx_explorer.model.secret_arguments import (
    may_have_known_keys,
    request_without_secrets,
    without_known_keys,
)
from fx_explorer.session import schema
from fx_explorer.session.bounds import bounded, shortened_text
from fx_explorer.session.elsewhere import BASE, AlikeTexts, TextPlace
from fx_explorer.session.packed_rows import MOST_IN_PACK, PACKED, pack
from fx_explorer.session.undisturbed import (
    Descriptor,
    frame_of_block,
    high_numbers,
    is_running,
    never_freed,
    open_numbers,
    opened_since,
    undisturbed,
)
from fx_explorer.session.write_errors import ExplainedWrite

BUSY_TIMEOUT_MS = 10_000

IN_MEMORY = Path(":memory:")
"""SQLite's name for a database in memory: a session that is discarded."""

DESCRIPTORS_CLOSED = (
    "the program closed file descriptors that it did not open (os.closerange, as daemons do), "
    "including those of the session. The part captured before is kept; to get all of it, leave "
    "descriptors from 3 on open."
)

_OF_AN_ATTEMPT = (
    model.Graph,
    model.Artifact,
    model.Kernel,
    model.SavedTensor,
    model.Symbol,
    model.SymbolEvent,
    model.GraphBreak,
    model.ResumeFunction,
    model.LocalTensor,
    model.PartitionChoice,
    model.SupportReport,
    model.PublishedStage,
    model.BackendEntry,
    model.GraphValues,
    model.RegionUse,
)
"""Rows that belong to one attempt at a compilation."""


_OF_NODES = (model.Node, model.Edge, model.Link, model.LineNode)
"""The rows of which a session has most."""

MOST_NUMBERS = 4_096
"""Number of shared texts, such as names of modules, whose numbers are cached."""

MOST_ASKED = 500
"""Maximum number of digests in one statement."""

_WRITERS: weakref.WeakSet[SessionWriter] = weakref.WeakSet()
"""The writers that a forked child inherits."""


@dataclass(frozen=True, slots=True, eq=False)
class _OpenTransaction:
    """The outermost transaction that a thread has open."""

    block: FrameType | None
    """Frame of the ``with`` block that holds it."""


class MovedNode(NamedTuple):
    """A node whose line turns out to be another: lines are (SourceFile, number from 1)."""

    node: int
    before: tuple[int, int]
    after: tuple[int, int]
    stack: int


class SessionWriter:
    """Appends rows to the session at ``path``, creating it when it is missing or empty.

    A writer ``beside_program`` is in the process that runs the user's program: its descriptors get
    high numbers, and before each use they are compared with the file, because the program may have
    closed them.

    Raises SessionWriteError when the file cannot be written (read-only directory, full disk), when
    the program has closed the descriptors that it is written through, and in a process that was
    forked.
    """

    def __init__(
        self, path: str | Path, *, beside_program: bool = False, checks_rows: bool = False
    ) -> None:
        """With ``checks_rows`` the writer writes data from another user's file: a row that no
        reader would accept raises ValueError, and nothing is written.
        """
        self.path = Path(path)
        self._checks_rows = checks_rows
        self._lock = threading.RLock()
        self._transaction: _OpenTransaction | None = None
        self.rollbacks = 0
        """How often a transaction was rolled back. Code that stores ids of rows then discards them.
        """
        self._alike = AlikeTexts()
        self._numbers: dict[str, int] = {}
        """Text of a repeated column → its number, for texts used lately."""
        self._encoders: dict[type, Callable[[schema.SessionRow], list[object]]] = {}
        self._owner = getpid()
        self._descriptors: tuple[Descriptor, ...] = ()
        """In the program's process, the descriptors that SQLite opened: the file, its write-ahead
        log, and the log's index. In other processes they are not at risk, and a reader's
        descriptor, opened in another thread at the same moment, could be mistaken for the writer's.
        """
        self._is_abandoned = False
        if not beside_program:
            self._open()
        else:
            before = open_numbers()
            with high_numbers():
                self._open()
            self._descriptors = opened_since(
                before, (Path(f"{self.path}{end}") for end in ("", "-wal", "-shm"))
            )
        _WRITERS.add(self)

    def _open(self) -> None:
        with self._explained("create"):
            if self.path != IN_MEMORY:
                self._create_file()
            self._db = sqlite3.connect(
                self.path,
                timeout=BUSY_TIMEOUT_MS / 1000,
                isolation_level=None,
                check_same_thread=False,
            )
            if not self._db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
                # Not for a session that is complete: that one stays a single file while rows are
                # added.
                self._db.execute("PRAGMA journal_mode=WAL")
            # OFF never waits for the disk. A killed process loses nothing by it, only a power cut
            # could.
            self._db.execute("PRAGMA synchronous=OFF")
            with self.transaction():
                if not self._db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
                    self._create()

    def _create_file(self) -> None:
        """Create the file, which contains the user's source and output, readable by no other
        user.
        """
        with contextlib.suppress(OSError):  # what is wrong, SQLite says
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))

    def _create(self) -> None:
        # executescript() would commit the transaction, and a killed writer could leave half a
        # schema.
        for statement in schema.create_sql().split(";\n"):
            if statement.strip():
                self._db.execute(statement)
        self._db.execute(f"PRAGMA application_id={schema.APPLICATION_ID}")
        self.set_meta("schema_version", schema.SCHEMA_VERSION)

    def drop_indexes(self) -> None:
        """Do without the indexes of nodes and links until ``create_indexes``, which makes them in
        half the time when all rows are there. Until then nobody should read the session.
        """
        with self.transaction():
            for name in schema.index_sql(_OF_NODES):
                self._db.execute(f"DROP INDEX {name}")

    def create_indexes(self) -> None:
        """Make the indexes that ``drop_indexes`` dropped."""
        with self.transaction():
            for statement in schema.index_sql(_OF_NODES).values():
                self._db.execute(statement)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything that is added inside the block, or nothing: readers see it together.
        May be nested.
        """
        # Before the lock, which a thread may have held when the process was forked.
        self._check_process()
        self._heal()
        if self._is_within():
            with self._explained("write"):
                yield
            return
        mine = _OpenTransaction(frame_of_block())
        with undisturbed, self._explained("write"):
            try:
                self._lock.acquire()
                self._transaction = mine
                if self._db.in_transaction:  # an exception kept it from being rolled back
                    self._roll_back()
                self._check_descriptors()
                self._db.execute("BEGIN IMMEDIATE")
                yield
                self._check_descriptors()  # the block may have run the program's own code
                self._db.execute("COMMIT")
            except BaseException:
                if self._transaction is mine:
                    self._roll_back()
                raise
            finally:
                if self._transaction is mine:
                    self._transaction = None
                    self._lock.release()

    def _heal(self) -> None:
        """Undo the rest of a transaction of this thread whose end was prevented by an exception: a
        trace function, or another thread, may raise one at any instruction.
        """
        if not self._lock._is_owned() or self._is_within():  # type: ignore[attr-defined]
            return
        self._roll_back()
        while self._lock._is_owned():  # type: ignore[attr-defined]
            self._lock.release()

    def _roll_back(self) -> None:
        self._forget_texts()
        if self._is_intact() and self._db.in_transaction:
            self._db.execute("ROLLBACK")
            self.rollbacks += 1

    def _is_within(self) -> bool:
        """Return whether this thread is in a transaction, and its block still runs."""
        # RLock._is_owned is what threading.Condition asks.
        if self._transaction is None or not self._lock._is_owned():  # type: ignore[attr-defined]
            return False
        return is_running(self._transaction.block) and self._db.in_transaction

    def _within_transaction(self) -> contextlib.AbstractContextManager[None]:
        """Return the open transaction of this thread, or a new one. Entering one again takes as
        long as adding a row.
        """
        if getpid() == self._owner and self._is_within():
            return self._explained("write")
        return self.transaction()

    def _forget_texts(self) -> None:
        """Forget which texts were written, because a transaction that failed has removed its texts
        from the file."""
        self._alike.forget()
        self._numbers.clear()

    def _check_process(self) -> None:
        if getpid() != self._owner:
            # SQLite connections must not be used across a fork (sqlite.org/howtocorrupt.html,
            # "carrying an open database").
            self._abandon()
            raise SessionWriteError("what a forked child compiles is not recorded")

    def _check_descriptors(self) -> None:
        if not self._is_intact():
            raise SessionWriteError(
                f"{DESCRIPTORS_CLOSED} Nothing was written to files that the program has opened "
                "since."
            )

    def _is_intact(self) -> bool:
        """Return whether SQLite still writes into the session, and not into a file that got the
        number of a closed descriptor.
        """
        if (
            self._is_abandoned
            or getpid() != self._owner
            or not all(descriptor.is_ours for descriptor in self._descriptors)
        ):
            self._abandon()
        return not self._is_abandoned

    def _abandon(self) -> None:
        """Never touch the connection again: to roll back, to close or to free it is to write to its
        descriptors.
        """
        if not self._is_abandoned:
            self._is_abandoned = True
            never_freed(self._db)

    def _explained(self, verb: str) -> ExplainedWrite:
        return ExplainedWrite(self.path, verb)

    def set_meta(self, key: str, value: object) -> None:
        """Set an entry. Of a request, arguments that look like secrets are left out."""
        if key == "request" and isinstance(value, dict):
            value, names = request_without_secrets(value)
            if names:
                self.set_meta("left_out", list(names))
        with self.transaction():
            self._db.execute(
                "INSERT INTO meta VALUES (?, ?) ON CONFLICT(key) DO UPDATE SET "
                "value=excluded.value",
                (
                    key,
                    schema.storable(
                        json.dumps(_bounded_meta(key, value), ensure_ascii=False, default=str)
                    ),
                ),
            )

    def add(self, row: schema.SessionRow) -> int:
        """Append ``row`` and return its id (0 for rows without one)."""
        row_type = type(row)
        if row_type in PACKED:
            self.add_all([row])
            return 0
        with self._within_transaction():
            cursor = self._db.execute(schema.insert_sql(row_type), self._encoder(row_type)(row))
            if schema.has_id(row_type):
                return int(cursor.lastrowid or 0)
            return 0

    def add_all(self, rows: Iterable[schema.SessionRow]) -> None:
        """Append many rows of one type in one transaction."""
        batch = list(rows)
        if not batch:
            return
        with self._within_transaction():
            if type(batch[0]) in PACKED:
                self._add_packs(batch)
            else:
                self._db.executemany(schema.insert_sql(type(batch[0])), self._encode_all(batch))

    def _add_packs(self, rows: Sequence[schema.SessionRow]) -> None:
        """Append rows many in one: those that follow each other and have the same number."""
        row_type = type(rows[0])
        key = PACKED[row_type]
        table = schema.TABLES[row_type]
        for number, alike in itertools.groupby(rows, operator.attrgetter(key)):
            encoded = self._encode_all([*alike])
            for start in range(0, len(encoded), MOST_IN_PACK):
                some = encoded[start : start + MOST_IN_PACK]
                packed = self.text(pack([*zip(*some, strict=True)]))
                self._db.execute(
                    f"INSERT INTO {table} VALUES (NULL, ?, ?, ?)", (number, len(some), packed)
                )

    def add_values(
        self, row_type: type[schema.SessionRow], rows: Iterable[Sequence[object]]
    ) -> None:
        """Append rows given as all their fields, which are numbers and our own words. There are
        tens of thousands of pairs, and making an object of each and encoding it takes as long as
        writing it.
        """
        batch = list(rows)
        if not batch:
            return
        with self._within_transaction():
            self._db.executemany(schema.insert_sql(row_type), batch)

    def add_numbered(self, rows: Sequence[schema.SessionRow]) -> range:
        """Append many rows of one type, whose ``id`` is 0 yet, in one transaction, and return their
        ids.
        """
        if not rows:
            return range(0)
        row_type = type(rows[0])
        with self._within_transaction():
            ids = self._next_ids(row_type, len(rows))
            encoded = self._encode_all(rows)
            self._db.executemany(
                schema.insert_sql(row_type),
                [(row_id, *values[1:]) for row_id, values in zip(ids, encoded, strict=True)],
            )
        return ids

    def _next_ids(self, row_type: type, count: int) -> range:
        """Return the ids that SQLite will give the next rows of a type. No other writer adds any
        before the transaction ends.
        """
        first = int(
            self._db.execute(
                f"SELECT coalesce(max(id), 0) + 1 FROM {schema.TABLES[row_type]}"
            ).fetchone()[0]
        )
        return range(first, first + count)

    def update(self, row: schema.SessionRow) -> None:
        """Replace the row that has the same id, e.g. a Compilation when it ends."""
        table = schema.TABLES[type(row)]
        names = ", ".join(f'"{c.name}"=?' for c in schema.columns(type(row)))
        with self.transaction():
            values = self._encoder(type(row))(row)
            self._db.execute(f"UPDATE {table} SET {names} WHERE id=?", (*values, values[0]))

    def _encode_all(self, rows: Sequence[schema.SessionRow]) -> list[Sequence[object]]:
        """Return many rows of one type as they are in the file. Those of another user's file are
        encoded and checked column by column, which takes a third of the time.
        """
        if not rows:
            return []
        row_type = type(rows[0])
        if not self._checks_rows:
            return [*map(self._encoder(row_type), rows)]
        return [
            *zip(*self._encode_columns(row_type, schema.columns_of(row_type, rows)), strict=True)
        ]

    def _encode_columns(
        self, row_type: type[schema.SessionRow], columns: Sequence[Sequence[Any]]
    ) -> list[Sequence[object]]:
        """Return the columns of rows of another user's file as they are in the file. Where the
        check of a column fails, the rows are checked one by one, so that the error names the field.
        """
        encoded = schema.columns_encoder(row_type)(columns)
        try:
            _columns_checker(row_type)(encoded)
        except ValueError:
            rows = itertools.starmap(row_type, zip(*columns, strict=True))
            one_by_one = [*map(self._encoder(row_type), rows)]
            return [*zip(*one_by_one, strict=True)]
        for i, in_row in schema.repeated_columns(row_type).items():
            encoded[i] = self._with_numbers(encoded[i], in_row, like=f"{row_type.__name__} {i}")
        return encoded

    def _with_numbers(self, column: Sequence[object], in_row: int, like: str) -> Sequence[object]:
        """Return a column with the numbers of long texts in their place."""
        numbers: dict[str, int] = {}
        for value in column:
            if isinstance(value, str) and len(value) > in_row:
                numbers[value] = self._numbers.get(value, 0)
        new = [text for text, number in numbers.items() if not number]
        for text, number in zip(new, self.texts(new, like=like), strict=True):
            numbers[text] = number
            self._remember_number(text, number)
        return [numbers.get(value, value) if isinstance(value, str) else value for value in column]

    def _encoder(self, row_type: type) -> Callable[[schema.SessionRow], list[object]]:
        """Return a function that encodes rows as they are in the file: of a long text that many
        rows have, the number of the text.
        """
        known = self._encoders.get(row_type)
        if known is None:
            known = self._encoders[row_type] = self._new_encoder(row_type)
        return known

    def _new_encoder(self, row_type: type) -> Callable[[schema.SessionRow], list[object]]:
        encode, repeated = schema.encoder(row_type), schema.repeated_columns(row_type)
        if self._checks_rows:
            encode = _checked(encode, row_type)
        if not repeated:
            return encode

        def with_numbers(row: schema.SessionRow) -> list[object]:
            values = encode(row)
            for i, in_row in repeated.items():
                value = values[i]
                if isinstance(value, str) and len(value) > in_row:
                    values[i] = self._number(value, like=f"{row_type.__name__} {i}")
            return values

        return with_numbers

    def _number(self, text: str, like: str) -> int:
        """Return the number of a text that many rows have."""
        number = self._numbers.get(text)
        if number is None:
            number = self.text(text, like=like)
            self._remember_number(text, number)
        return number

    def _remember_number(self, text: str, number: int) -> None:
        if len(self._numbers) >= MOST_NUMBERS:
            self._numbers.clear()
        self._numbers[text] = number

    def move_compilation(self, old: int, new: int) -> None:
        """Give everything that was captured for compilation ``old`` so far to ``new``."""
        with self.transaction():
            for row_type in _OF_AN_ATTEMPT:
                self._db.execute(
                    f"UPDATE {schema.TABLES[row_type]} SET compilation=? WHERE compilation=?",
                    (new, old),
                )

    def remove_guards(self, compilation: int) -> None:
        """Remove the guards of a compilation, because they are recorded again."""
        with self.transaction():
            for row_type in (model.Guard, model.GuardCheck):
                self._db.execute(
                    f"DELETE FROM {schema.TABLES[row_type]} WHERE compilation=?", (compilation,)
                )
            tables = schema.TABLES[model.Artifact], schema.TABLES[model.Metric]
            self._db.execute(
                f"DELETE FROM {tables[0]} WHERE compilation=? AND kind='guard_tree'", (compilation,)
            )
            self._db.execute(
                f"DELETE FROM {tables[1]} WHERE compilation=? AND name='guard_check_ns'",
                (compilation,),
            )

    def remove_profiles(self, digest: str) -> None:
        """Remove what was read of profiles with this digest, because their file is read again."""
        profile = schema.TABLES[model.Profile]
        with self.transaction():
            for row_type in (model.ProfileTime, model.ProfileOther, model.ProfileGap):
                of_file = f"profile IN (SELECT id FROM {profile} WHERE digest=?)"
                self._db.execute(
                    f"DELETE FROM {schema.TABLES[row_type]} WHERE {of_file}", (digest,)
                )
            self._db.execute(f"DELETE FROM {profile} WHERE digest=?", (digest,))

    def add_graph(
        self, graph: model.Graph, nodes: Sequence[model.Node], edges: Iterable[tuple[int, int]]
    ) -> model.Graph:
        """Append a graph with its nodes; ``edges`` are (producer, consumer) positions in ``nodes``.

        Returns the graph with its ids: node ``i`` got id ``first_node + i``. ``graph``,
        ``position`` and ``id`` of the nodes are filled in here.
        """
        with self.transaction():
            rows = self._encode_all(nodes)  # all, before the graph is there
            return self._place_graph(graph, [*zip(*rows, strict=True)], len(rows), edges)

    def add_graph_of_columns(
        self,
        graph: model.Graph,
        columns: Sequence[Sequence[object]],
        edges: Iterable[tuple[int, int]],
    ) -> model.Graph:
        """Append a graph as ``add_graph`` does. Its nodes, of another user's file, are given as a
        column for each field of ``Node``: an object for each of tens of thousands takes longer than
        all else that is done with them.
        """
        with self.transaction():
            encoded = self._encode_columns(model.Node, columns) if columns[0] else []
            return self._place_graph(graph, encoded, len(columns[0]), edges)

    def _place_graph(
        self,
        graph: model.Graph,
        columns: list[Sequence[object]],
        count: int,
        edges: Iterable[tuple[int, int]],
    ) -> model.Graph:
        """Append a graph, and its nodes whose columns are as in the file but for their places."""
        ids = self._next_ids(model.Node, count)
        first = ids.start
        placed = replace(graph, first_node=first, node_count=count)
        placed = replace(placed, id=self.add(placed))
        if count:
            names = [column.name for column in schema.columns(model.Node)]
            columns[names.index("id")] = ids
            columns[names.index("graph")] = [placed.id] * count
            columns[names.index("position")] = range(count)
            self._db.executemany(schema.insert_sql(model.Node), zip(*columns, strict=True))
        self.add_values(
            model.Edge, [(first + producer, first + consumer) for producer, consumer in edges]
        )
        return placed

    def add_stack(self, stack: model.Stack, files: dict[str, int]) -> int:
        """Append a stack and make it findable by line; ``files`` maps a frame's path to its
        SourceFile.
        """
        with self.transaction():
            stack_id = self.add(stack)
            lines = {(files[f.file], f.line, stack_id) for f in stack.frames if files.get(f.file)}
            self._db.executemany("INSERT OR IGNORE INTO stack_line VALUES (?, ?, ?)", sorted(lines))
        return stack_id

    def move_nodes(self, moved: Iterable[MovedNode]) -> None:
        """Give nodes another line and stack, those that have the line ``before``."""
        rows = [(move.stack, *move.after, move.node, *move.before) for move in moved]
        with self.transaction():
            self._db.executemany(
                "UPDATE node SET stack=?, file=?, line=? WHERE id=? AND file=? AND line=?", rows
            )

    def text(self, body: str, *, like: str = "") -> int:
        """Store a text and return its id. An equal text is stored once, and of a text that is
        ``like`` another (the same document of another version of a function) only the difference
        takes space.
        """
        raw = _raw_text(body)
        digest = _digest(raw)
        with self._within_transaction():
            row_of_equal = self._db.execute("SELECT id FROM text WHERE digest=?", (digest,))
            equal = row_of_equal.fetchone()
            if equal:
                return int(equal[0])
            packed = self._alike.packed(raw, like)
            row = (digest, len(raw), packed.body, packed.base)
            text_id = int(
                self._db.execute("INSERT INTO text VALUES (NULL, ?, ?, ?, ?)", row).lastrowid or 0
            )
            self._alike.stored(text_id, raw, like, packed)
            return text_id

    def texts(self, bodies: Sequence[str], *, like: str = "") -> list[int]:
        """Store texts as ``text`` does, and return their ids. One look at the file for hundreds."""
        raws = _raw_texts(bodies)
        digests = [_digest(raw) for raw in raws]
        if not raws:
            return []
        with self._within_transaction():
            known = self._ids_of_texts(digests)
            next_id = int(
                self._db.execute("SELECT coalesce(max(id), 0) + 1 FROM text").fetchone()[0]
            )
            rows = []
            for raw, digest in zip(raws, digests, strict=True):
                if digest in known:
                    continue
                packed = self._alike.packed(raw, like)
                rows.append((next_id, digest, len(raw), packed.body, packed.base))
                self._alike.stored(next_id, raw, like, packed)
                known[digest] = next_id
                next_id += 1
            self._db.executemany("INSERT INTO text VALUES (?, ?, ?, ?, ?)", rows)
        return [known[digest] for digest in digests]

    def _ids_of_texts(self, digests: Sequence[bytes]) -> dict[bytes, int]:
        """Return digest → id of the texts that are in the file."""
        ids: dict[bytes, int] = {}
        for start in range(0, len(digests), MOST_ASKED):
            some = digests[start : start + MOST_ASKED]
            marks = ", ".join("?" * len(some))
            ids.update(
                self._db.execute(f"SELECT digest, id FROM text WHERE digest IN ({marks})", some)
            )
        return ids

    def text_elsewhere(self, place: TextPlace) -> int:
        """Store the place of a text in another file, and return its id, as ``text`` does
        (``elsewhere.py``).
        """
        with self._within_transaction():
            equal = self._db.execute(
                "SELECT id FROM text WHERE digest=?", (place.stored_digest,)
            ).fetchone()
            if equal:
                return int(equal[0])
            row = (place.stored_digest, place.size, place.body, BASE)
            return int(
                self._db.execute("INSERT INTO text VALUES (NULL, ?, ?, ?, ?)", row).lastrowid or 0
            )

    def count(self, row_type: type) -> int:
        """Return the number of rows of this type."""
        with self.transaction():
            return int(
                self._db.execute(f"SELECT count(*) FROM {schema.TABLES[row_type]}").fetchone()[0]
            )

    def close(self) -> None:
        """Close this writer's connection. The last connection that closes merges the WAL into the
        file.
        """
        if getpid() != self._owner:
            self._abandon()
            return
        with self._lock:
            if self._is_intact():
                self._db.close()

    def finish(self) -> None:
        """Close it, and make the session one plain file. An abandoned session is left as it is:
        SQLite shares its descriptors among all connections of a process.
        """
        self.close()
        if not self._is_abandoned:
            finish_session(self.path)

    def __enter__(self) -> SessionWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _raw_text(body: str) -> bytes:
    """Return a text as it is packed."""
    return without_known_keys(shortened_text(body)).encode("utf-8", "surrogatepass")


def _raw_texts(bodies: Sequence[str]) -> list[bytes]:
    """Return many texts as they are packed: keys are looked for in all of them at once."""
    texts = [shortened_text(body) for body in bodies]
    if may_have_known_keys("\n".join(texts)):
        texts = [without_known_keys(text) for text in texts]
    return [text.encode("utf-8", "surrogatepass") for text in texts]


def _digest(raw: bytes) -> bytes:
    return hashlib.blake2b(raw, digest_size=16).digest()


@cache
def _columns_checker(
    row_type: type[schema.SessionRow],
) -> Callable[[Sequence[Sequence[object]]], None]:
    from fx_explorer.session.untrusted.validating import columns_checker  # no capture needs it

    return columns_checker(row_type)


@cache
def _checked(
    encode: Callable[[schema.SessionRow], list[object]], row_type: type[schema.SessionRow]
) -> Callable[[schema.SessionRow], list[object]]:
    """Return a function that encodes a row, and raises ValueError for a row that no reader would
    accept.
    """
    from fx_explorer.session.untrusted.validating import row_maker  # no capture needs it

    decode = row_maker(row_type)
    has_id = schema.has_id(row_type)

    def encoded(row: schema.SessionRow) -> list[object]:
        values = encode(row)
        stored = list(values)
        # As SQLite gives them back: a boolean is a number, and a new row gets an id.
        for i, value in enumerate(values):
            if isinstance(value, bool):
                stored[i] = int(value)
        if has_id:
            stored[0] = stored[0] or 0
        decode(tuple(stored))
        return values

    return encoded


def _bounded_meta(key: str, value: object) -> object:
    """Return a value of ``meta`` with its texts shortened. The request is kept complete, because it
    is the user's own, and a capture is repeated from it.
    """
    if key == "request":
        return value
    return bounded(value)


def _abandon_in_child() -> None:
    for writer in list(_WRITERS):
        writer._abandon()


os.register_at_fork(after_in_child=_abandon_in_child)


def finish_session(path: str | Path) -> None:
    """Make a session one plain file: merge a killed writer's WAL, and leave WAL mode.

    After this the file can be moved, and read from a read-only directory or a network file system.
    """
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT_MS / 1000)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            db.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.Error as error:
        raise SessionWriteError(f"cannot complete the session file {path}: {error}") from error
