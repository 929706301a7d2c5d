"""A session is redacted: what is the user's own is replaced, and what PyTorch made of it stays.

Source code, printed lines, values and command lines go. Names become ``n1``, ``n2`` …, files
``file1.py`` …, the same wherever they occur; floating-point constants become ``0.0``. Counts,
links, shapes, operators, kernels and times stay. A whole number of the program goes where no tensor
has such a size.

A word stays only when it is one of PyTorch's (``torch_words.txt``) and the program does not define
a name like it: what is not known to be harmless is replaced.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fx_explorer import model
from fx_explorer.session import schema
from fx_explorer.session.elsewhere import AlikeTexts
from fx_explorer.session.packed_rows import PACKED, pack, unpack
from fx_explorer.session.reader import SessionReader
from fx_explorer.session.users_words import (
    has_known_parts,
    in_user_files,
    lines_of_sources,
    names_defined_in,
    numbers_in,
    sizes_of_tensors,
    texts_in,
)

HIDDEN = "…"

META = "redacted"
"""The entry of ``meta`` that says that a session is redacted."""

_KEPT = {
    "language", "dtype", "registry_id", "stream", "gpu", "kind", "help", "type", "default",
    "choices", "device", "torch", "toolchain", "op", "shape", "stride", "outcome",
}  # fmt: skip
"""Columns of PyTorch's own words."""

_HIDDEN = {
    (model.Frame, "code"), (model.GraphBreak, "code"), (model.FrontEnd, "code"),
    (model.FrontEnd, "inputs"), (model.FrontEnd, "outputs"), (model.ConsoleLine, "text"),
    (model.ChildProcess, "command"), (model.Verification, "lost_lines"),
    (model.Verification, "new_lines"), (model.Verification, "moved_line"),
    (model.Verification, "other_messages"), (model.CacheComparison, "printed_with"),
    (model.CacheComparison, "printed_without"), (model.BytecodeStep, "stack"),
    (model.BytecodeStep, "changed"), (model.TraceStep, "pushed"), (model.TraceStep, "changed"),
    (model.BytecodeRun, "inputs"), (model.BytecodeRun, "said"),
    (model.GuardCheck, "value"), (model.GuardAnswer, "inputs"), (model.LedgerCall, "inputs"),
    (model.Profile, "digest"),
}  # fmt: skip
"""Columns of the user's code, values and output."""

_KEPT_IN_TABLE = {
    (model.Setting, "name"), (model.OptionInForce, "name"), (model.RemedyTrial, "changes"),
    (model.ValueFact, "changes"), (model.KernelDecision, "check"),
}  # fmt: skip
"""Columns of names of options, of keys, of AOTAutograd's closed set of changes, and of functions of
torch with their files.
"""

_NAMED_IN_DECISIONS = ("kernel", "backends", "candidates")
"""Entries of a decision's texts that can name what the program defines. The others are Inductor's:
sizes, classes and answers.
"""

_FILES = {"file", "path", "unseen", "check_file"}
"""Columns, and entries of ``meta``, with a file."""

_KEPT_META = {"schema_version", "fx_explorer", "started", "finished", "build", "bench", "process"}
_KEPT_OF_ENVIRONMENT = {
    "torch", "python", "platform", "device", "virtual_gpu", "gpu", "cuda", "triton", "threads",
    "marks_one_size",
}  # fmt: skip
_KEPT_KEYS = {*_KEPT, "mode", "pause", "stance", "state", "verdict", "urgency", "severity", "topic"}
"""Entries within ``meta`` that are one of a closed set of words."""

_HIDDEN_KEYS = {
    "call", "inputs", "arguments", "overlay", "diff", "instruction", "code", "printed", "session",
}  # fmt: skip
"""Entries within ``meta`` with the user's code or values."""


def redact(session: Path) -> None:
    """Redact a session file in place. It must be a copy that nobody reads."""
    with SessionReader(session) as reader:
        redactor = _Redactor(
            in_user_files(reader, names_defined_in),
            in_user_files(reader, texts_in),
            in_user_files(reader, numbers_in) - sizes_of_tensors(reader),
            lines_of_sources(reader),
            frozenset(group.name for group in reader.rows(model.ProcessGroup) if group.name),
        )
        sources = {file.text for file in reader.rows(model.SourceFile) if file.text}
    with contextlib.closing(sqlite3.connect(session)) as db:
        with db:
            for row_type, table in schema.TABLES.items():
                if row_type not in PACKED:
                    _redact_table(db, row_type, table, redactor)
            with SessionReader(session) as reader:
                _redact_texts(db, reader, sources, redactor)
            _redact_meta(db, redactor)
        db.execute("VACUUM")  # pages that are free still hold what was there
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("PRAGMA journal_mode=DELETE")


def _redact_table(db: sqlite3.Connection, row_type: Any, table: str, redactor: _Redactor) -> None:
    columns = [column for column in schema.columns(row_type) if _is_free_text(row_type, column)]
    if not columns or not schema.has_id(row_type):
        return
    names = ", ".join(f'"{column.name}"' for column in columns)
    marks = ", ".join(f'"{column.name}"=?' for column in columns)
    replace = [redactor.of_column(row_type, column) for column in columns]
    changed = []
    for number, *values in db.execute(f"SELECT id, {names} FROM {table}").fetchall():
        new = [
            function(value) if isinstance(value, str) and value else value
            for function, value in zip(replace, values, strict=True)
        ]
        if new != values:
            changed.append((*new, number))
    db.executemany(f"UPDATE {table} SET {marks} WHERE id=?", changed)


def _is_free_text(row_type: Any, column: schema.SchemaColumn) -> bool:
    """Return whether a column can hold anything, and not one of a closed set of words."""
    if column.sql_type == "TEXT" or not column.sql_type:
        declared = {field.name: str(field.type) for field in dataclasses.fields(row_type)}
        free = ("str", "Repeated", "tuple", "dict")
        return column.name not in _KEPT and declared[column.name].startswith(free)
    return False


def _redact_texts(
    db: sqlite3.Connection, reader: SessionReader, sources: set[int], redactor: _Redactor
) -> None:
    packer = AlikeTexts()
    metas = {meta.text for meta in reader.rows(model.NodeMeta)}
    packs = _packs(db)
    for (number,) in db.execute("SELECT id FROM text ORDER BY id").fetchall():
        text = reader.text(number)
        if number in sources:
            new = hidden_lines(text)
        elif number in packs:
            new = _redacted_pack(text, *packs[number], redactor)
        else:
            new = redactor.node_meta(text) if number in metas else redactor.text(text)
        raw = new.encode("utf-8", "surrogatepass")
        # Texts that were different may be equal now, and their digests must not be.
        digest = hashlib.blake2b(b"redacted %d" % number, digest_size=16).digest()
        db.execute(
            "UPDATE text SET digest=?, size=?, body=?, base=0 WHERE id=?",
            (digest, len(raw), packer.packed(raw, "").body, number),
        )


def _packs(db: sqlite3.Connection) -> dict[int, tuple[type, int]]:
    """Return text → the class of the rows that are packed in it, and their number."""
    packs: dict[int, tuple[type, int]] = {}
    for row_type in PACKED:
        table = schema.TABLES[row_type]
        for packed, count in db.execute(f"SELECT packed, count FROM {table}"):
            packs[packed] = row_type, count
    return packs


def _redacted_pack(text: str, row_type: type, count: int, redactor: _Redactor) -> str:
    try:
        columns = unpack(text, count, len(schema.columns(row_type)))
    except ValueError:  # a stranger's file
        return redactor.text(text)
    for i, column in enumerate(schema.columns(row_type)):
        if _is_free_text(row_type, column):
            replace = redactor.of_column(row_type, column)
            columns[i] = [replace(value) if value else value for value in columns[i]]
    return pack(columns)


def _redact_meta(db: sqlite3.Connection, redactor: _Redactor) -> None:
    for key, stored in db.execute("SELECT key, value FROM meta").fetchall():
        value = json.loads(stored)
        if key == "environment" and isinstance(value, dict):
            value = {name: value[name] for name in value if name in _KEPT_OF_ENVIRONMENT}
        elif key == "target" and isinstance(value, dict):
            value = {**value, "name": "target", "file": "", "object": ""}
        elif key == "request" and isinstance(value, dict):
            value = {**redactor.json(value), "target": "target", "session": ""}
        elif key not in _KEPT_META:
            value = redactor.json(value)
        db.execute("UPDATE meta SET value=? WHERE key=?", (json.dumps(value), key))
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, 'true')", (META,))


def hidden_lines(text: str) -> str:
    """Return a text with each line hidden. Their number stays, as links name lines."""
    return "\n".join(HIDDEN if line.strip() else "" for line in text.split("\n"))


# What stays, and what takes the place of the rest.

_TORCHS = (
    "torch|aten|prims|prim|operator|math|builtins|inductor|triton|tl|tt|_C|async_compile|at|c10"
)

_TOKEN = re.compile(
    r"(?P<rest>code: .*)"
    r"|(?P<quoted>'[^'\n]{3,}'|\"[^\"\n]{3,}\")"
    r"|(?P<path>(?:(?<![\w)\]])|(?<=\bat ))~?/[^\s'\"():,;<>]+"
    r"|(?<![\w.-])[\w.-]{1,300}\.(?:py|so|cpp|ptx|json|log)\b)"
    r"|(?P<float>(?<![\w.])\d+\.\d*(?:e[+-]?\d+)?\b|(?<![\w.])\d+e[+-]?\d+\b)"
    rf"|(?P<chain>\b(?:{_TORCHS})(?:(?:\.|::)\w+)+)"
    r"|(?P<word>[^\W\d]\w*)"
    r"|(?P<whole>(?<![\w.])\d{2,}(?![\w.]))"
    r"|(?P<mixed>(?<!\w)\d+[^\W\d]\w{3,})"
)
"""Matches what may have to be replaced. ``rest``: a line of source in a comment of Inductor's.
``quoted``: a text constant. ``chain``: a name of PyTorch's with dots. ``whole``: a number of
several digits. ``mixed``: digits and letters, such as a key.
"""

_SOURCE_OF_FRAME = re.compile(
    r'^(?P<place>[ \t]*File ".{0,4000}?", line \d+(?!\d).*\n)[^\n]*', re.MULTILINE
)
"""Matches a frame of a traceback with its line of source."""

_COMMENT = re.compile(r"(?P<before># \s*(?:\d+ {2})?)(?P<text>[^#\n]+)")
"""Matches a comment, or a part of one, after its line number: listings of bytecode and guards have
lines of source as comments.
"""

_IS_PLAIN = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?|True|False|None")


_OF_TORCH = re.compile(r"(?:^|[/\\])(?P<inside>(?:torch|triton)[/\\].*)")


class _Redactor:
    """Replaces what is the user's, the same by the same."""

    def __init__(
        self,
        defined: frozenset[str],
        constants: frozenset[str],
        numbers: frozenset[str],
        source_lines: frozenset[str],
        groups: frozenset[str] = frozenset(),
    ) -> None:
        self._defined = defined
        self._constants = constants
        self._numbers = numbers
        self._source_lines = source_lines
        self._groups = groups
        named = "".join(rf"'{re.escape(group)}'|" for group in groups)
        self._group_or_number = re.compile(rf"({named}[\[\]]|(?<![\w.])-?\d+(?![\w.]))")
        self._names: dict[str, str] = {}
        self._number = 0
        self._files: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    def of_column(self, row_type: type[Any], column: schema.SchemaColumn) -> Callable[[str], str]:
        """Return what replaces the values of a column."""
        if (row_type, column.name) in _HIDDEN:
            return self._hidden_json if column.is_json else lambda _: HIDDEN
        if row_type is model.Stack and column.name == "frames":
            return self._frames
        if (row_type, column.name) in _KEPT_IN_TABLE:
            return lambda text: text
        if row_type in (model.Setting, model.OptionInForce) and column.name == "value":
            return self._value_of_option
        if column.name in _FILES:
            return self.file
        if row_type is model.Node and column.name == "arguments":
            return self._arguments
        if (row_type, column.name) == (model.ProcessGroup, "name"):
            return self.group
        if (row_type, column.name) == (model.KernelDecision, "texts"):
            return self._texts_of_decision
        if column.is_json:
            return self._json_text
        return self.text

    def text(self, text: str) -> str:
        """Return a text of any kind with the user's words replaced, line by line the same."""
        known = self._texts.get(text)
        if known is None:
            shown = _SOURCE_OF_FRAME.sub(rf"\g<place>{HIDDEN}", text)
            shown = _COMMENT.sub(self._without_source, shown)
            known = _TOKEN.sub(self._token, shown)
            if len(text) < 200:
                self._texts[text] = known
        return known

    def _without_source(self, match: re.Match[str]) -> str:
        """Return a line, or what stands between comments in it, hidden where it is source."""
        is_source = match["text"].strip() in self._source_lines
        return f"{match['before']}{HIDDEN}" if is_source else match[0]

    def _token(self, match: re.Match[str]) -> str:
        text = match[0]
        match match.lastgroup:
            case "rest":
                return f"code: {HIDDEN}"
            case "quoted":
                inner = text[1:-1]
                shown = HIDDEN if inner in self._constants else self.text(inner)
                return f"{text[0]}{shown}{text[-1]}"
            case "path":
                return self.file(text)
            case "float":
                return "0.0"
            case "chain":
                return self._chain(text)
            case "mixed":
                is_known = "_" in text and has_known_parts(text)
                return text if is_known else self.name(text)
            case "whole":
                return HIDDEN if text in self._numbers else text
            case _:
                return text if self._is_known(text) else self.name(text)

    def _chain(self, text: str) -> str:
        parts = re.split(r"(\.|::)", text)
        return "".join(
            part if at % 2 or has_known_parts(part) else self.name(part)
            for at, part in enumerate(parts)
        )

    def _is_known(self, word: str) -> bool:
        if word in self._defined:
            return False
        if word.startswith(("L_", "l_", "self_", "getattr_", "resume_in_")):
            # Dynamo makes such names of the user's.
            return has_known_parts(word) and not self._defined.intersection(word.split("_"))
        return has_known_parts(word)

    def name(self, name: str) -> str:
        """Return what stands for a name: ``n1``, or the next that the program does not define."""
        if name not in self._names:
            self._number += 1
            while f"n{self._number}" in self._defined:
                self._number += 1
            self._names[name] = f"n{self._number}"
        return self._names[name]

    def file(self, path: str) -> str:
        """Return what stands for a file. One of torch or triton keeps its path within that."""
        if not path or path.startswith("<") or re.fullmatch(r"file\d+(\.[a-z]+)?", path):
            return path
        of_torch = _OF_TORCH.search(path)
        if of_torch:
            return of_torch["inside"]
        suffix = Path(path).suffix
        if not re.fullmatch(r"\.[a-z]{1,5}", suffix):
            suffix = ""
        return self._files.setdefault(path, f"file{len(self._files) + 1}{suffix}")

    def _arguments(self, text: str) -> str:
        """Return the arguments of a node without constants: numbers within a list are sizes, and
        the name of a process group links a collective with it.
        """
        depth = 0
        shown = []
        for part in self._group_or_number.split(text):
            depth += part == "["
            depth -= part == "]"
            if part[1:-1] in self._groups and part[0] == part[-1] == "'":
                shown.append(f"'{self.group(part[1:-1])}'")
            elif part.lstrip("-").isdigit() and depth == 0:
                shown.append(HIDDEN)
            else:
                shown.append(self.text(part))
        return "".join(shown)

    def group(self, name: str) -> str:
        """Return what stands for the name of a process group. torch's own are numbers."""
        return name if name.isdecimal() else self.name(name)

    def _texts_of_decision(self, stored: str) -> str:
        texts = json.loads(stored)
        if not isinstance(texts, dict):  # a stranger's file
            return self._json_text(stored)
        for name in _NAMED_IN_DECISIONS:
            if name in texts:
                texts[name] = self.json(texts[name])
        return json.dumps(texts)

    def node_meta(self, text: str) -> str:
        """Return what NodeMeta holds with its keys and values replaced. Positions of nodes stay,
        and are joined where two values have become one.
        """
        try:
            held = {key: dict(by_value) for key, by_value in dict(json.loads(text)).items()}
        except (TypeError, ValueError):  # a stranger's file
            return self.text(text)
        shown: dict[str, dict[str, str]] = {}
        for key, by_value in held.items():
            shown_values = shown.setdefault(self.text(key), {})
            for value, positions in by_value.items():
                new = self.text(value)
                before = shown_values.get(new)
                shown_values[new] = f"{before},{positions}" if before else positions
        return json.dumps(shown, ensure_ascii=False)

    def _value_of_option(self, text: str) -> str:
        """Return the value of an option of torch. A number or a truth value says nothing of the
        program.
        """
        return text if _IS_PLAIN.fullmatch(text) else self.text(text)

    def _frames(self, stored: str) -> str:
        frames = json.loads(stored)
        return json.dumps(
            [
                [self.file(file), line, self.text(function), *[HIDDEN for _ in code if code]]
                for file, line, function, *code in frames
            ]
        )

    def _hidden_json(self, stored: str) -> str:
        value = json.loads(stored)
        return json.dumps([HIDDEN] * len(value) if isinstance(value, list) else {})

    def _json_text(self, stored: str) -> str:
        return json.dumps(self.json(json.loads(stored)))

    def json(self, value: Any, key: str = "") -> Any:
        """Return a value of JSON with the texts in it replaced."""
        match value:
            case str():
                if key in _KEPT_KEYS:
                    return value
                return self.file(value) if key in _FILES else self.text(value)
            case list():
                return [self.json(item, key) for item in value]
            case dict():
                return {
                    name: type(item)() if name in _HIDDEN_KEYS else self.json(item, name)
                    for name, item in value.items()
                }
        return value
