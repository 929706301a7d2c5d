"""This module has the reader, the only way to read a session file: rows by page, texts by id, links
by place. It works while the file is being written.

A reader only ever reads what it is asked for; nothing is loaded at opening but the meta table and
the paths of the source files. Texts that were read recently are cached, up to a number of
characters: some are 100 bytes, some 40 MB. Answers that every key needs (``answered_once``) are
cached until the session grows.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from fx_explorer import model
from fx_explorer.errors import (
    NewerSessionError,
    NotASessionError,
    OlderSessionError,
    SessionError,
)
from fx_explorer.session import schema
from fx_explorer.session.bounds import MOST_INFLATED
from fx_explorer.session.elsewhere import BASE, read_elsewhere
from fx_explorer.session.file_names import FileNames, begin_showing, end_showing
from fx_explorer.session.packed_rows import MOST_UNPACKED, PACKED, unpack
from fx_explorer.session.untrusted.kind_of_file import kind_of_file
from fx_explorer.session.untrusted.opening import (
    UNREADABLE,
    CpuLimit,
    check_meta,
    check_tables,
    opened,
    reason,
)
from fx_explorer.session.untrusted.validating import from_json, inflated

if TYPE_CHECKING:
    from typing import Concatenate, ParamSpec

    AskedP = ParamSpec("AskedP")

MOST_CHARACTERS = 32 << 20

MOST_ANSWERS = 1_000
"""Maximum number of answers that are kept: a key asks some ten questions, and moves between a few
documents.
"""


class RecentTexts:
    """A cache of the texts that were read last. ``read`` reads a text that it does not have."""

    def __init__(self, read: Callable[[int], str]) -> None:
        self._read = read
        self._texts: OrderedDict[int, str] = OrderedDict()
        self._characters = 0

    def __call__(self, text_id: int) -> str:
        if text_id in self._texts:
            self._texts.move_to_end(text_id)
            return self._texts[text_id]
        text = self._texts[text_id] = self._read(text_id)
        self._characters += len(text)
        while self._characters > MOST_CHARACTERS and len(self._texts) > 1:
            self._characters -= len(self._texts.popitem(last=False)[1])
        return text


RowT = TypeVar("RowT")
ValueT = TypeVar("ValueT")

MAX_SQL_VARIABLES = 500
"""Maximum number of ids in one statement; SQLite's own limit was 999 for a long time."""


MOST_LINES = 1_000_000

NODES_AT_ONCE = 10_000
"""Maximum number of nodes that are read before they are decoded: a row and the values of its
columns take as much memory again as the node.
"""

MOST_INFLATED_FREELY = 2 << 30
"""Maximum number of characters of all packed texts of a session together. Above that, they are at
most ``MOST_INFLATED`` times their size in the file: torch's own texts pack to a fifth to a
thirteenth, and those of recompiles to far less.
"""

MOST_READ_AT_ONCE = 256 << 20
"""Maximum number of characters of the texts that one query reads, one after the other."""
"""Lines of bytecode, one for each instruction of a function."""


def answered_once(
    question: Callable[Concatenate[SessionReader, AskedP], ValueT],
) -> Callable[Concatenate[SessionReader, AskedP], ValueT]:
    """Decorate a query to cache its result until the session grows (``SessionReader.once``). The
    result must depend on the session and the arguments alone, and callers must not change it.
    """

    @functools.wraps(question)
    def ask(reader: SessionReader, /, *asked: AskedP.args, **named: AskedP.kwargs) -> ValueT:
        return reader.once(question, *asked, **named)

    return ask


class NoRowError(KeyError):
    """Raised when no row has the id that another row names."""


class SessionReader:
    """Reads the session at ``path``. It may be used in one thread at a time; another thread needs a
    reader of its own.
    """

    def __init__(self, path: str | Path) -> None:
        """Open the session. Raises SessionError if there is no such file, NotASessionError if it is
        not a session or damaged, and NewerSessionError or OlderSessionError if another version of
        fx-explorer wrote it.
        """
        self.path = Path(path)
        self._last_node: int = 0
        self._checked_meta: dict[str, object] = {}
        self._is_abandoned = False
        self._answers: OrderedDict[tuple[object, ...], Any] = OrderedDict()
        self._answered_version = -1
        """The ``data_version`` that the answers are of."""
        self._file_names = FileNames()
        if not self.path.exists():
            raise SessionError(f"no session file at {self.path}")
        if not self.path.is_file():  # to open a FIFO would wait for whoever writes to it
            raise NotASessionError(
                f"{self.path} is not an fx-explorer session: it is {kind_of_file(self.path).words}"
            )
        self.reopen()
        self._inflated: dict[int, int] = {}
        """Id of a packed text → characters it inflates to, for the texts read so far."""
        self._characters_inflated = 0
        self.text = RecentTexts(self._text)
        self._base = RecentTexts(self._packed_alone)

    def _check(self) -> None:
        (application_id,) = self._query("PRAGMA application_id")[0]
        if application_id != schema.APPLICATION_ID:
            kind = kind_of_file(self.path)
            if kind.kind == "sqlite":
                what = "some other SQLite database"
            else:
                what = kind.words
            raise NotASessionError(f"{self.path} is not an fx-explorer session: it is {what}")
        check_tables(self._db, self.path)
        version = self.meta("schema_version")
        if not isinstance(version, int) or version < 1:
            raise NotASessionError(
                f"{self.path} is not an fx-explorer session: it has no version number"
            )
        if version > schema.SCHEMA_VERSION:
            raise NewerSessionError(
                f"{self.path} was written by a newer fx-explorer (schema {version}, this one reads "
                f"{schema.SCHEMA_VERSION}); upgrade with: pip install -U fx-explorer"
            )
        if version < schema.SCHEMA_VERSION:
            raise OlderSessionError(
                f"{self.path} was written by an older fx-explorer (schema {version}, this one "
                f"reads {schema.SCHEMA_VERSION}): capture it again"
            )

    # meta and texts

    def meta(self, key: str, default: object = None) -> Any:
        """Return the value under a key; ``default`` without one. Raises NotASessionError for an
        invalid value.
        """
        rows = self._query("SELECT value FROM meta WHERE key=?", (key,))
        if not rows:
            return default
        return self._checked(lambda: self._known_meta(key, rows[0][0]))

    def _known_meta(self, key: str, stored: object) -> object:
        """Decode a value. The request is asked for several times per kernel: a value that was
        checked once is decoded only.
        """
        if self._checked_meta.get(key) != stored:
            check_meta(key, from_json(stored))
            self._checked_meta[key] = stored
        return from_json(stored)

    def stored_meta(self, key: str) -> str:
        """Return the value as stored in the file, not decoded; empty if it is not there."""
        rows = self._query("SELECT value FROM meta WHERE key=?", (key,))
        return str(rows[0][0]) if rows else ""

    def request(self) -> model.CaptureRequest | None:
        """Return the request with which the session was captured; None if no worker captured it."""
        asked = self.meta("request")
        if not asked:
            return None
        try:
            return model.CaptureRequest.from_json(json.dumps(asked))
        except (TypeError, KeyError) as error:
            raise NotASessionError(
                f"the target and options stored in {self.path} cannot be read: {reason(error)}"
            ) from error

    def is_of_a_script(self) -> bool:
        """Return whether the file ran as ``__main__``; false while that is not known."""
        return bool((self.meta("target") or {}).get("kind") == "script")

    def all_meta(self) -> dict[str, Any]:
        return {str(key): self.meta(str(key)) for (key,) in self._query("SELECT key FROM meta")}

    def _text(self, text_id: int) -> str:
        """Return the text with this id; empty for 0."""
        if not text_id:
            return ""
        rows = self._query("SELECT body, base, digest FROM text WHERE id=?", (text_id,))
        if not rows:
            return ""
        body, base, digest = rows[0]
        text = self._checked(lambda: self._unpacked(body, base, digest))
        if base != BASE:
            self._count_inflated(text_id, len(text))
        return text

    def _count_inflated(self, text_id: int, characters: int) -> None:
        """Raise NotASessionError if a small file inflates to very many large texts."""
        if text_id in self._inflated:
            return
        self._inflated[text_id] = characters
        self._characters_inflated += characters
        if self._characters_inflated <= MOST_INFLATED_FREELY:
            return
        if self._characters_inflated > MOST_INFLATED * self.path.stat().st_size:
            raise NotASessionError(
                f"{self.path} is damaged: text: its {len(self._inflated):,} texts that were read "
                f"inflate to {self._characters_inflated:,} characters"
            )

    def texts_of(self, artifacts: Iterable[model.Artifact]) -> Iterator[tuple[model.Artifact, str]]:
        """Yield artifacts with their texts, until these have ``MOST_READ_AT_ONCE`` characters
        together: in a manipulated file, thousands of rows may name one large text.
        """
        characters = 0
        for artifact in artifacts:
            text = self.text(artifact.text)
            characters += len(text)
            if characters > MOST_READ_AT_ONCE:
                return
            yield artifact, text

    def _unpacked(self, body: object, base: int, digest: object) -> str:
        if base == BASE:
            return read_elsewhere(self.path, body, digest)
        if base:
            base_text = self._base(base).encode("utf-8", "surrogatepass")
        else:
            base_text = b""
        return inflated(body, base_text)

    def _packed_alone(self, text_id: int) -> str:
        rows = self._query("SELECT body FROM text WHERE id=? AND base=0", (text_id,))
        if not rows:
            return ""
        return inflated(rows[0][0])

    def data_version(self) -> int:
        """Return a number that changes whenever another process has committed."""
        return int(self._query("PRAGMA data_version")[0][0])

    # rows

    def rows(
        self, row_type: type[RowT], *, offset: int = 0, limit: int = -1, **equals: object
    ) -> list[RowT]:
        """Return the rows whose fields equal the keyword arguments, in the order they were
        written.
        """
        known: type = row_type
        if known in PACKED:
            return self._unpacked_rows(row_type, offset, limit, equals)
        where, values = _where(equals)
        table = schema.TABLES[row_type]
        rows = self._query(
            f"SELECT * FROM {table}{where}{schema.read_order(known)} LIMIT ? OFFSET ?",
            (*values, limit, offset),
        )
        return self._decoded(row_type, rows)

    def _unpacked_rows(
        self, row_type: type[RowT], offset: int, limit: int, equals: dict[str, object]
    ) -> list[RowT]:
        """Return rows that are stored many in one. By other fields than the one that packs are
        found by, all rows are looked through.
        """
        known: type = row_type
        key = PACKED[known]
        where, values = _where({name: value for name, value in equals.items() if name == key})
        packs = self._query(
            f"SELECT count, packed FROM {schema.TABLES[row_type]}{where} ORDER BY id", values
        )
        others = {name: value for name, value in equals.items() if name != key}
        rows: list[RowT] = []
        for count, packed in packs:
            if not others and offset >= count:
                offset -= count
                continue
            if not others and 0 <= limit <= len(rows) - offset:
                break
            rows += self._decoded_pack(row_type, count, packed)
            if len(rows) > MOST_UNPACKED:
                raise NotASessionError(f"{self.path} is damaged: a pack occurs too often")
        if others:
            rows = [row for row in rows if _has_values(row, others)]
        return rows[offset:] if limit < 0 else rows[offset : offset + limit]

    def _decoded_pack(self, row_type: type[RowT], count: object, packed: object) -> list[RowT]:
        known: type = row_type
        fields = len(schema.columns(known))
        try:
            if not isinstance(count, int) or not isinstance(packed, int):
                raise ValueError("a pack without rows")
            columns = unpack(self.text(packed), count, fields)
        except (ValueError, RecursionError) as error:
            raise NotASessionError(
                f"{self.path} is damaged: {schema.TABLES[row_type]}: {reason(error)}"
            ) from error
        columns[0] = range(1, count + 1)
        return self._decoded(row_type, zip(*columns, strict=True))

    def _with_texts(self, row: tuple[Any, ...], repeated: Container[int]) -> tuple[Any, ...]:
        """Return a row with its shared texts in place of their numbers."""
        values = list(row)
        for i, value in enumerate(row):
            if i in repeated and isinstance(value, int):
                values[i] = self.text(value)
        return tuple(values)

    def get(self, row_type: type[RowT], row_id: int) -> RowT:
        """Return the row with this id. Raises NoRowError, a KeyError, without one."""
        return self.once(SessionReader._get, row_type, row_id)

    def _get(self, row_type: type[RowT], row_id: int) -> RowT:
        rows = self._query(f"SELECT * FROM {schema.TABLES[row_type]} WHERE id=?", (row_id,))
        if not rows:
            raise NoRowError(
                f"{schema.TABLES[row_type]} {row_id} is missing, but another row refers to it"
            )
        return self._decoded(row_type, rows)[0]

    def by_ids(self, row_type: type[RowT], ids: Iterable[int]) -> list[RowT]:
        """Return the rows with these ids, in the order of the ids in the file; unknown ids are left
        out.
        """
        table = schema.TABLES[row_type]
        return self._decoded(
            row_type, self._query_in(f"SELECT * FROM {table} WHERE id IN (?) ORDER BY id", ids)
        )

    def count(self, row_type: type, **equals: object) -> int:
        if row_type in PACKED:
            return self._count_packed(row_type, equals)
        where, values = _where(equals)
        return int(
            self._query(f"SELECT count(*) FROM {schema.TABLES[row_type]}{where}", values)[0][0]
        )

    def _count_packed(self, row_type: type, equals: dict[str, object]) -> int:
        if any(name != PACKED[row_type] for name in equals):
            return len(self._unpacked_rows(row_type, 0, -1, equals))
        where, values = _where(equals)
        counted = f"SELECT coalesce(sum(count), 0) FROM {schema.TABLES[row_type]}{where}"
        return int(self._query(counted, values)[0][0])

    def has(self, row_type: type, **equals: object) -> bool:
        """Return whether there is a row whose fields equal the keyword arguments; the search ends
        at the first.
        """
        if row_type in PACKED:
            return self.count(row_type, **equals) > 0
        where, values = _where(equals)
        return bool(self._query(f"SELECT 1 FROM {schema.TABLES[row_type]}{where} LIMIT 1", values))

    def nodes(
        self, graph: model.Graph, start: int = 0, stop: int | None = None
    ) -> list[model.Node]:
        """Return the nodes at positions ``start`` to ``stop`` (exclusive) of a graph. A page costs
        the same anywhere in it.
        """
        stop = graph.node_count if stop is None else min(stop, graph.node_count)
        nodes: list[model.Node] = []
        for begin in range(start, stop, NODES_AT_ONCE):
            end = min(begin + NODES_AT_ONCE, stop)
            rows = self._query(
                "SELECT * FROM node WHERE id >= ? AND id < ? ORDER BY id",
                (graph.first_node + begin, graph.first_node + end),
            )
            nodes += self._decoded(model.Node, rows)
        return nodes

    # links

    def parents(self, nodes: Iterable[int]) -> list[model.Link]:
        """Return the links from these nodes to earlier stages."""
        return self._links("child", nodes)

    def children(self, nodes: Iterable[int]) -> list[model.Link]:
        """Return the links from these nodes to later stages."""
        return self._links("parent", nodes)

    def _links(self, end: str, nodes: Iterable[int]) -> list[model.Link]:
        return self._decoded(
            model.Link, self._query_in(f"SELECT * FROM link WHERE {end} IN (?)", nodes)
        )

    def producers(self, node: int) -> list[int]:
        """Return the ids of the nodes that ``node`` takes as arguments."""
        rows = self._query("SELECT producer FROM edge WHERE consumer=? ORDER BY producer", (node,))
        return [producer for (producer,) in rows]

    def users(self, node: int) -> list[int]:
        """Return the ids of the nodes that take ``node`` as an argument."""
        rows = self._query("SELECT consumer FROM edge WHERE producer=? ORDER BY consumer", (node,))
        return [consumer for (consumer,) in rows]

    def lines_of_nodes(self, nodes: Iterable[int]) -> list[model.LineNode]:
        """Return the lines of artifacts (kernels, IR) that compute these nodes."""
        return self._decoded(
            model.LineNode, self._query_in("SELECT * FROM line_node WHERE node IN (?)", nodes)
        )

    def nodes_of_line(self, artifact: int, line: int) -> list[model.LineNode]:
        """Return the nodes that line ``line`` of an artifact computes; line 0: the artifact as a
        whole.
        """
        return self.rows(model.LineNode, artifact=artifact, line=line)

    def sources_of_line(self, artifact: int, line: int) -> list[model.LineSource]:
        """Return which lines of source this line of an artifact belongs to."""
        return self.once(SessionReader._sources_of_line, artifact, line)

    def _sources_of_line(self, artifact: int, line: int) -> list[model.LineSource]:
        question = "SELECT * FROM line_source WHERE artifact=? AND line<=? AND line+lines>?"
        return self._decoded(model.LineSource, self._query(question, (artifact, line, line)))

    def sources_of_lines(self, artifact: int) -> list[model.LineSource]:
        """Return the source line of each line of an artifact, one row each."""
        rows = self.rows(model.LineSource, artifact=artifact)
        if sum(row.lines for row in rows) > MOST_LINES:
            raise NotASessionError(
                f"{self.path} is damaged: line_source: there are more than {MOST_LINES:,} "
                "lines of one artifact"
            )
        sources: list[model.LineSource] = []
        for row in rows:
            sources += [replace(row, line=row.line + i, lines=1) for i in range(row.lines)]
        return sources

    def nodes_at_source(self, file: int, line: int, *, innermost: bool = False) -> list[int]:
        """Return the ids of nodes whose user stack passes through this line; ``innermost``: whose
        last frame is this line.
        """
        # What other front ends made is found by line, too, where it is asked for.
        condition = " AND node.graph NOT IN (SELECT id FROM graph WHERE stage='front_end')"
        if innermost:
            condition += " AND node.file=stack_line.file AND node.line=stack_line.line"
        rows = self._query(
            "SELECT node.id FROM stack_line JOIN node ON node.stack=stack_line.stack"
            f"{condition} WHERE stack_line.file=? AND stack_line.line=? ORDER BY node.id",
            (file, line),
        )
        return [node for (node,) in rows]

    # plumbing

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read everything inside the block from one moment, even if the file is being written.
        Short queries cost half as much inside, since each takes locks on the file otherwise, and
        what is ``answered_once`` is read once. A nested snapshot has the outer one's moment.
        """
        if self._db.in_transaction:
            yield
            return
        self._query("BEGIN")
        try:
            self._forget_old_answers()
            yield
        finally:
            if self._db.in_transaction:  # SQLite ends it by itself when the file cannot be read
                self._db.rollback()  # nothing was written

    def _forget_old_answers(self) -> None:
        version = self.data_version()
        if version != self._answered_version:
            self._answers.clear()
            self._answered_version = version

    def once(
        self,
        question: Callable[Concatenate[SessionReader, AskedP], ValueT],
        *asked: AskedP.args,
        **named: AskedP.kwargs,
    ) -> ValueT:
        """Return the answer to a question. Inside a snapshot an earlier answer is returned, if the
        session has not grown since; outside the question is asked again.
        """
        if not self._db.in_transaction:
            return question(self, *asked, **named)
        key = (question, *asked, *named.items())
        if key in self._answers:
            self._answers.move_to_end(key)
        else:
            self._answers[key] = question(self, *asked, **named)
            if len(self._answers) > MOST_ANSWERS:
                self._answers.popitem(last=False)
        return cast("ValueT", self._answers[key])

    def query(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run an SQL query and return its rows; the tables are those of session/schema.py. The
        query cannot change the file.
        """
        return self._query(sql, values)

    def column(self, sql: str, *values: object) -> list[Any]:
        """Return the values of a query with one column."""
        return [row[0] for row in self._query(sql, values)]

    def number(self, sql: str, *values: object) -> int:
        """Return the result of a query with one number."""
        return int(self._query(sql, values)[0][0])

    def _query(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        if self._is_abandoned:
            raise SessionError(
                f"the read of {self.path} was abandoned: its result is no longer needed"
            )
        self._limit.begin()
        try:
            return self._db.execute(sql, values).fetchall()
        except (*UNREADABLE, OverflowError, MemoryError) as error:
            raise NotASessionError(f"cannot read {self.path}: {reason(error)}") from error

    def _decoded(self, row_type: type[RowT], rows: Iterable[tuple[Any, ...]]) -> list[RowT]:
        known: type = row_type
        repeated = schema.repeated_columns(known)
        try:
            if repeated:
                values = [self._with_texts(row, repeated) for row in rows]
            else:
                values = list(rows)
            decoded: list[RowT] = schema.decoder(known)(values)
        except ValueError as error:
            raise NotASessionError(
                f"{self.path} is damaged: {schema.TABLES[row_type]}: {reason(error)}"
            ) from error
        if row_type is model.SourceFile:
            self._file_names.add(file.path for file in cast("list[model.SourceFile]", decoded))
        if row_type is model.Graph:
            self._check_nodes(cast("list[model.Graph]", decoded))
        return decoded

    def _check_nodes(self, graphs: Iterable[model.Graph]) -> None:
        """Check that a graph has as many rows of nodes as it states, so that loops over them
        end.
        """
        last = max((graph.first_node + graph.node_count for graph in graphs), default=0) - 1
        if last > self._last_node:
            self._last_node = int(self._query("SELECT coalesce(max(id), 0) FROM node")[0][0])
        if last > self._last_node:
            raise NotASessionError(
                f"{self.path} is damaged: graph: it refers to nodes up to {last}, but there are "
                f"only {self._last_node}"
            )

    def _checked(self, read: Callable[[], ValueT]) -> ValueT:
        try:
            return read()
        except ValueError as error:
            raise NotASessionError(f"{self.path} is damaged: {reason(error)}") from error

    def _query_in(self, sql: str, ids: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        """Run ``sql`` with ``IN (?)`` filled in, some hundred ids at a time."""
        wanted = sorted(set(ids))
        for start in range(0, len(wanted), MAX_SQL_VARIABLES):
            some = wanted[start : start + MAX_SQL_VARIABLES]
            yield from self._query(sql.replace("(?)", f"({', '.join('?' * len(some))})"), some)

    def abandon(self) -> None:
        """Refuse all further queries, and interrupt the one that another thread is running: it
        raises SessionError there. The user of the reader closes it.
        """
        self._is_abandoned = True
        self._db.interrupt()

    def close(self) -> None:
        end_showing(self._file_names)
        self._answers.clear()
        self._db.close()

    def reopen(self) -> None:
        """Go on after ``close``: the file may have been completed meanwhile. Raises as the
        constructor does.
        """
        self._db = opened(self.path)
        self._limit = CpuLimit(self._db)
        try:
            self._check()
        except BaseException:
            self._db.close()
            raise
        self._file_names.add(str(path) for (path,) in self._query("SELECT path FROM source_file"))
        begin_showing(self._file_names)

    def __enter__(self) -> SessionReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _where(equals: dict[str, object]) -> tuple[str, tuple[object, ...]]:
    if not equals:
        return "", ()
    return " WHERE " + " AND ".join(f'"{name}"=?' for name in equals), tuple(equals.values())


def _has_values(row: object, equals: dict[str, object]) -> bool:
    return all(getattr(row, name) == value for name, value in equals.items())


def json_list(values: Iterable[int] | Iterable[str]) -> str:
    """Return the values in the form of SQLite's ``json_each``: any number of them in one
    parameter.
    """
    return json.dumps(list(values))
