"""A log is read as records: a line with JSON, and below it, indented by a tab, the text that
belongs to it.

torch/_logging/_internal.py, ``TorchLogsFormatter`` and ``trace_structured``: the JSON names the
kind of the record, the compilation it is about, and the MD5 of its text, so that a text that was
changed or cut off is known. A line that is no record is counted.

To find where records begin is the only thing that is done with every byte of a log, so it is one
regular expression over large blocks. What is longer than any record of torch's is cut, so that
whatever a file holds, little memory is taken.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar, cast

from fx_explorer.session.elsewhere import TextPlace

ParsedT = TypeVar("ParsedT")

MALFORMED = (TypeError, ValueError, LookupError, AttributeError, OverflowError, RecursionError)
"""Errors of reading a malformed record. It is counted, and reading continues."""

# A log cut into pieces, each of which begins like a record.

MOST_OF_A_PIECE = 32 << 20
"""Maximum size of a piece, in bytes; a session has no longer texts (``session/bounds.py``)."""

_NEXT = re.compile(rb"\n(?=(?:\[rank\d{1,9}\]:\s?)?[VIWEC]\d{4} \d\d:\d\d:\d\d)")

_LONGEST_BEGINNING = 64
"""Number of bytes that ``_NEXT`` looks at, and a few more: the end of a block is searched again
together with the next block.
"""


class LogPiece(NamedTuple):
    """Bytes of a log from the beginning of one record to the beginning of the next."""

    raw: bytes
    offset: int
    """Offset of the piece in the log."""
    line: int
    """First line of the piece, from 1."""
    lines_left_out: int = 0
    """Number of lines at the end that were not stored, because the piece is too long."""
    line_ends: int = -1
    """Number of line ends in the piece; -1 where they were not counted."""


def pieces(
    blocks: Iterable[bytes], is_whole: Callable[[bytes], bool] = lambda _: False
) -> Iterator[LogPiece | None]:
    """Yield the pieces of a log. The first one begins at the start of the log, with or without a
    record.

    Of a log that grows, an empty block says that it has not grown further. Then the last piece
    comes, too, if it ``is_whole``, and after it None.
    """
    rest, offset, line = b"", 0, 1
    cut: LogPiece | None = None
    """A piece that is too long and whose end has not been read yet."""
    for block in blocks:
        if not block:
            if rest and cut is None and is_whole(rest):
                yield LogPiece(rest, offset, line)
                rest, offset, line = b"", offset + len(rest), line + rest.count(b"\n")
            yield None
            continue
        looked_at = max(0, len(rest) - _LONGEST_BEGINNING)
        known, start = rest + block, 0
        for match in _NEXT.finditer(known, looked_at):
            end = match.end()
            raw = known[start:end]
            line_ends = raw.count(b"\n")
            piece = LogPiece(raw, offset + start, line, line_ends=line_ends)
            line += line_ends
            if cut is not None:
                piece = _ended(cut, piece.raw)
            yield piece
            cut, start = None, end
        rest = known[start:]
        offset += start
        if cut is None and len(rest) > MOST_OF_A_PIECE:
            kept = rest[:MOST_OF_A_PIECE]
            cut = LogPiece(kept, offset, line)
            line += kept.count(b"\n")
            rest, offset = rest[len(kept) :], offset + len(kept)
        if cut is not None and len(rest) > _LONGEST_BEGINNING:
            gone = rest[:-_LONGEST_BEGINNING]
            cut = _ended(cut, gone)
            line += gone.count(b"\n")
            rest, offset = rest[len(gone) :], offset + len(gone)
    if cut is not None:
        yield _ended(cut, rest, is_end=True)
    elif rest:
        yield LogPiece(rest, offset, line)


def _ended(cut: LogPiece, gone: bytes, *, is_end: bool = False) -> LogPiece:
    """Return a piece that was cut for its length, with the number of lines that were left out of
    it.
    """
    lines = gone.count(b"\n") + (is_end and not gone.endswith(b"\n"))
    return cut._replace(lines_left_out=cut.lines_left_out + lines)


# Pieces as records.

MOST_OF_JSON = 8 << 20
"""Maximum number of bytes of a record's JSON, which may take 50 times as much when it is parsed.
The longest known (``compilation_metrics`` of a Llama) has 0.2 MB without its stacks of kernels.
"""

LONG_JSON = 1 << 16
"""Number of bytes from which on a record's JSON may have a long field that nobody reads."""

MOST_DIGITS = 18

_BEGINS = re.compile(
    rb"(?:\[rank(?P<rank>\d+)\]:\s?)?[VIWEC](?P<month>\d\d)(?P<day>\d\d) "
    rb"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d\.\d+) "
    rb"(?P<thread>\d+) (?P<where>[^\]]{1,1000})\] (?P<json>\{.*)",
    re.S,
)

_RANK = re.compile(rb"\[rank\d+\]:\s?(?=\t)")

ABOUT = (
    "frame_id",
    "frame_compile_id",
    "attempt",
    "compiled_autograd_id",
    "rank",
    "has_payload",
    "stack",
    "pathname",
    "lineno",
    "subgraph_name",
)
"""Keys of a record that describe its subject. The one other key is its kind."""


_NAMED = ("artifact", "graph_dump")
"""Kinds of records whose content has the name."""


NOWHERE = TextPlace(0, 0, b"")
"""The place of a text that is in no log."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the trace."""

    kind: str
    """torch's name: ``dynamo_output_graph``; of an artifact ``artifact``."""
    content: Any
    compilation: str
    """Name of the compilation: ``0/1``, ``!0/0/1`` under compiled autograd; empty without a
    compilation.
    """
    attempt: int
    rank: int
    """Rank of the process; -1 where the log does not name it."""
    seconds: float
    """Seconds since midnight, as the log has them."""
    payload: str
    line: int
    """Line of the record in the log, from 1."""
    stack: Any = None
    """Stack of the program, for a record that belongs to no frame."""
    subgraph: str = ""
    """The part of the graph that the record is about, where torch compiles parts by themselves."""
    place: TextPlace = NOWHERE
    """Place of the text in the unpacked log, with its tabs; its digest is the MD5."""
    parsed: Any = None
    """What the text says, where it was parsed ahead (``parsing_ahead.py``)."""

    @property
    def name(self) -> str:
        """Return the name of an artifact and of a dumped graph, and the kind of any other
        record.
        """
        if self.kind in _NAMED and isinstance(self.content, dict):
            name = self.content.get("name")
            if name:
                return str(name)
        return self.kind

    def stripped(self) -> Record:
        """Return the record without empty lines around its text."""
        text = self.payload.strip("\n")
        if len(text) == len(self.payload):
            return self
        return replace(self, payload=text, place=self._place_of(text))

    def _place_of(self, stripped: str) -> TextPlace:
        """Return the place of the text without the empty lines around it; nowhere, where not each
        of its lines has only a tab before it.
        """
        whole, plain = self.payload.encode(), stripped.encode()
        if not plain or self.place.size - len(whole) - whole.count(b"\n") not in (1, 2):
            return NOWHERE
        before = 2 * whole.index(plain)  # each of these lines is a tab and its end
        digest = hashlib.md5(plain, usedforsecurity=False).digest()
        size = len(plain) + plain.count(b"\n") + 1
        return TextPlace(self.place.offset + before, size, digest)

    def parse(self, parser: Callable[[str], ParsedT]) -> ParsedT:
        """Return what ``parser`` makes of the text, unless that was made ahead."""
        if self.parsed is not None:
            return cast("ParsedT", self.parsed)
        return parser(self.payload)


@dataclass(slots=True)
class Damage:
    """Counts of the unreadable parts of a log."""

    skipped: int = 0
    """Number of lines outside any record, and of records with invalid JSON."""
    wrong_hashes: int = 0
    """Number of records whose text differs from the one torch wrote. They are read nevertheless."""
    is_cut_off: bool = False
    """Whether a packed log ends in the middle."""
    first_lines: list[int] = field(default_factory=list)
    """Line numbers of the first of these, at most ten."""

    def note(self, line: int) -> None:
        if len(self.first_lines) < 10:
            self.first_lines.append(line)

    def skip_lines(self, raw: bytes, first: int) -> None:
        """Count lines that belong to no record."""
        for number, line in enumerate(raw.split(b"\n"), first):
            if line.strip():
                self.skipped += 1
                self.note(number)


def records(blocks: Iterable[bytes], damage: Damage) -> Iterator[Record | None]:
    """Yield the records of a log that comes in blocks, and count invalid parts in ``damage``. An
    empty block gives None: a growing log has no more content yet.
    """
    for piece in pieces(blocks, _is_whole):
        if piece is None:
            yield None
            continue
        if piece.lines_left_out:
            damage.skipped += piece.lines_left_out
            damage.note(piece.line)
        if record := _record(piece, damage):
            yield record


def _record(piece: LogPiece, damage: Damage) -> Record | None:
    end = piece.raw.find(b"\n")
    end = len(piece.raw) if end < 0 else end
    head = _BEGINS.match(piece.raw, 0, end)
    about = _json_text(head["json"]) if head else ""
    if head is None or len(about) > MOST_OF_JSON:
        damage.skip_lines(piece.raw, piece.line)
        return None
    below = piece.raw[end + 1 :]
    text = _plain_text(below, piece.line_ends - 1)
    if text is None:
        text = _without_tabs(below, damage, piece.line + 1)
    try:
        fields = JSON_OF_LOGS.decode(about)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        damage.skipped += 1
        damage.note(piece.line)
        return None
    digest = hashlib.md5(text, usedforsecurity=False)
    expected = fields.get("has_payload")
    if expected is not None and digest.hexdigest() != expected:
        damage.wrong_hashes += 1
        damage.note(piece.line)
    kind = next((key for key in fields if key not in ABOUT), "")
    seconds = int(head["hour"]) * 3600 + int(head["minute"]) * 60 + float(head["second"])
    rank_of_line = int(head["rank"]) if head["rank"] else -1
    rank = fields.get("rank", rank_of_line)
    return Record(
        kind,
        fields.get(kind),
        compilation_name(fields),
        _number(fields.get("attempt"), 0),
        _number(rank, -1),
        seconds,
        text.decode("utf-8", "replace"),
        piece.line,
        fields.get("stack"),
        str(fields.get("subgraph_name") or ""),
        TextPlace(piece.offset + end + 1, len(below), digest.digest()),
    )


def _json_text(raw: bytes) -> str:
    """Return the JSON of a record as text; empty if it is not UTF-8."""
    try:
        text = raw.decode()
    except ValueError:
        return ""
    return _without_provenance(text) if len(text) > LONG_JSON else text


_PROVENANCE = '"inductor_provenance": ['


def _without_provenance(text: str) -> str:
    """Return the JSON of a record without the stacks of all kernels, which ``compilation_metrics``
    repeats from an artifact: 15 MB of a log of 47. Unchanged where they are no list of texts.
    """
    start = text.find(_PROVENANCE)
    if start < 0:
        return text
    start += len(_PROVENANCE)
    end = start
    while text.startswith('"', end):
        try:
            _, end = JSON_OF_LOGS.raw_decode(text, end)
        except ValueError:
            return text
        if text.startswith(", ", end):
            end += len(", ")
    return text[:start] + text[end:]


def _is_whole(raw: bytes) -> bool:
    """Return whether the bytes end with a complete record: with a line end, and with the hash that
    torch wrote. Lines that are no record count as complete.
    """
    if not raw.endswith(b"\n"):
        return False
    damage = Damage()
    _record(LogPiece(raw, 0, 1), damage)
    return not damage.wrong_hashes


def text_below(below: bytes) -> bytes:
    """Return the text of a record whose lines below the first these are."""
    return _without_tabs(below, Damage(), 0)


def _plain_text(below: bytes, line_ends: int) -> bytes | None:
    """Return the text of a record as torch writes it, each line after a tab; None for any other,
    and where its line ends were not counted. Of a large log, each look at all of it counts.
    """
    if line_ends < 0 or below[:1] != b"\t":
        return None
    ends_line = below.endswith(b"\n")
    indented = below[1:-1] if ends_line else below[1:]
    text = indented.replace(b"\n\t", b"\n")
    return text if len(indented) - len(text) == line_ends - ends_line else None


def _without_tabs(below: bytes, damage: Damage, first_line: int) -> bytes:
    """Return the text of a record without its tabs. Lines in it that belong to no record are
    counted in ``damage``.
    """
    lines = below.removesuffix(b"\n")
    if not lines:
        return b""
    if lines[:1] == b"\t" and lines.count(b"\n") == lines.count(b"\n\t"):  # as torch writes it
        return lines[1:].replace(b"\n\t", b"\n")
    texts = []
    for number, line in enumerate(lines.split(b"\n"), first_line):
        plain = _RANK.sub(b"", line, count=1) if line[:5] == b"[rank" else line
        if plain[:1] == b"\t":
            texts.append(plain[1:])
        elif plain.strip():
            damage.skipped += 1
            damage.note(number)
    return b"\n".join(texts)


def _whole(digits: str) -> int | str:
    """Return a number that a session can hold. A number with more digits stays a text."""
    if len(digits) > MOST_DIGITS:
        return digits
    return int(digits)


def _no_number(_: str) -> None:
    """Leave out NaN and infinities, which JSON does not have."""


JSON_OF_LOGS = json.JSONDecoder(parse_int=_whole, parse_constant=_no_number)
"""Reads JSON of a log without values that a session cannot store."""


def compilation_name(fields: dict[str, Any]) -> str:
    """Return the name as torch writes it (torch/_guards.py, ``CompileId.__str__``)."""
    frame, compile_id = fields.get("frame_id"), fields.get("frame_compile_id")
    outer = fields.get("compiled_autograd_id")
    inner = ""
    if frame is not None and compile_id is not None:
        inner = f"{_number(frame, 0)}/{_number(compile_id, 0)}"
    if outer is None:
        return inner
    name = f"!{_number(outer, 0)}"
    return f"{name}/{inner}" if inner else name


def _number(value: object, otherwise: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        return otherwise
    return value
