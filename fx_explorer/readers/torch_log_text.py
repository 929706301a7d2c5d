"""This module makes a session of a text with lines of ``TORCH_LOGS``: of breaks, recompiles,
guards, graphs, code, whichever it has.

It is read as messages: what torch wrote at once, without what stands before each line.
``TorchLogsFormatter`` (torch/_logging/_internal.py) puts level, time, thread, place, compilation
and the name of the artifact before every line of a message. What lies between may be anybody's:
the program's own output, or what a terminal or a forum put there.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from fx_explorer.model import Outcome, Stage
from fx_explorer.readers.failures_of_text import TextFailures
from fx_explorer.readers.printed_sizes import PrintedSizes
from fx_explorer.readers.printed_tracebacks import OtherLine
from fx_explorer.readers.session_of_file import write_beginning
from fx_explorer.readers.torch_trace.compilation_records import Compilations
from fx_explorer.readers.torch_trace.dynamo_records import DynamoRecords
from fx_explorer.readers.torch_trace.graph_records import GraphRecords
from fx_explorer.readers.torch_trace.inductor_records import InductorRecords
from fx_explorer.readers.torch_trace.opened import lines_of, opened
from fx_explorer.readers.torch_trace.places import Places
from fx_explorer.readers.torch_trace.records import MALFORMED, Damage, Record
from fx_explorer.session import SessionWriter
from fx_explorer.torch_texts import OTHER_LINES, bounded

_LINE = re.compile(
    r"(?:\[rank(?P<rank>\d+)\]:\s?)?[VIWEC]\d{4} "
    r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d\.\d+) \d+ (?P<where>[^\]]+)\] "
    r"(?:\[(?P<compilation>!?[\d/]+)(?:_(?P<attempt>\d+))?\] ?)?(?:\[__(?P<artifact>\w+)\] ?)?"
    r"(?P<text>.*)"
)

_FORMER_LINE = re.compile(
    r"(?:\[rank(?P<rank>\d+)\]:\s?)?\[\d{4}-\d\d-\d\d (?P<hour>\d\d):(?P<minute>\d\d):"
    r"(?P<second>\d\d,\d+)\] (?:\[(?P<compilation>!?[\d/]+)(?:_(?P<attempt>\d+))?\] )?"
    r"(?P<where>torch[\w.]*?)(?:\.__(?P<artifact>\w+))?: \[[A-Z]+\] ?(?P<text>.*)"
)
"""Matches a line of torch 2.0 to 2.2, where the second line of a message may have no such head."""

_BARE_LIMIT = re.compile(
    r"(?P<rank>)(?P<hour>)(?P<minute>)(?P<second>)(?P<compilation>)(?P<attempt>)(?P<artifact>)"
    r"(?P<where>.{0,400}?)(?P<text>torch\._dynamo hit config\.\w+ \(\d+\).*)"
)
"""Matches the first line of the recompile limit's warning, as loggers of others print it."""

_BELOW_LIMIT = re.compile(r"[ >]*(?:function|reasons|last reason): ")
"""Matches a further line of that warning without a head."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


_RANK = re.compile(rb"^[ >]*(?:\x1b\[[0-9;]*m)*\[rank(?P<rank>\d{1,7})\]:")


def rank_printed(line: bytes) -> int | None:
    """Return the rank that torch printed before a line; None for a line without one."""
    match = _RANK.match(line)
    return int(match["rank"]) if match else None


def printed_ranks(text: Path) -> tuple[tuple[int, int], ...]:
    """Return (rank, lines that say so) of a text, in the order of their numbers.

    Raises SessionError where it cannot be read.
    """
    counts = Counter[int]()
    with opened(text, Damage()) as log:
        for line in lines_of(log.blocks):
            rank = rank_printed(line)
            if rank is not None:
                counts[rank] += 1
    return tuple(sorted(counts.items()))


@dataclass(frozen=True, slots=True)
class Message:
    """One message that torch logged, of one or several lines."""

    artifact: str
    """``graph_breaks``, ``output_code``; empty for a warning and the like."""
    compilation: str
    attempt: int
    rank: int
    seconds: float
    text: str
    line: int
    """First line of the message, from 1."""


@dataclass(slots=True)
class Others:
    """Lines of the text that are not torch's messages."""

    lines: list[OtherLine] = field(default_factory=list)
    compilation: str = ""
    """The compilation of torch's last line."""
    is_after_error: bool = False
    """Whether torch wrote its last line because of an error."""

    def follow(self, head: re.Match[str]) -> None:
        """Note torch's last line."""
        self.compilation = _compilation_of(head)
        self.is_after_error = bool(self.compilation) and bool(_BEFORE_RAISING.match(head["text"]))

    def add(self, number: int, line: str) -> None:
        self.lines.append(OtherLine(number, line, self.compilation, self.is_after_error))


_BEFORE_RAISING = re.compile(r"on error, temporary cache dir kept at ")
"""Matches the warning of Inductor about the error that it raises next (torch/_inductor/utils.py,
``fresh_cache``).
"""


def messages(lines: Iterable[str], others: Others) -> Iterator[Message]:
    """Yield the messages, and put every other line into ``others``."""
    key: tuple[str, ...] | None = None
    begun: tuple[int, re.Match[str]] | None = None
    below: list[str] = []
    for number, raw in enumerate(lines, 1):
        line = _COLOURS.sub("", raw.rstrip("\r\n"))
        match = _head(line)
        if not match and below and _BELOW_LIMIT.match(line) and HIT_LIMIT in below[0]:
            below.append(line.lstrip(" >"))
            continue
        if not match:
            if begun is not None and HIT_LIMIT in below[0]:
                yield _message(*begun, below)
                begun, below = None, []
            others.add(number, line)
            continue
        others.follow(match)
        head = match.group(
            "rank", "hour", "minute", "second", "where", "compilation", "attempt", "artifact"
        )
        texts = tuple(text or "" for text in head)
        if begun is not None and texts != key:
            yield _message(*begun, below)
            begun = None
        if begun is None:
            begun, key, below = (number, match), texts, []
        below.append(match["text"])
    if begun is not None:
        yield _message(*begun, below)


def _head(line: str) -> re.Match[str] | None:
    """Match what torch puts before a line, in any release, or the first line of its warning about
    the recompile limit. People quote and indent what they paste.
    """
    line = bounded(line)
    if line[:1] in (" ", ">"):
        line = line.lstrip(" >")
    head = _LINE.match(line) or _FORMER_LINE.match(line)
    if head or HIT_LIMIT not in line:
        return head
    return _BARE_LIMIT.match(line)


def _message(line: int, first: re.Match[str], below: list[str]) -> Message:
    seconds = 0.0
    if first["hour"]:
        second = float(first["second"].replace(",", "."))
        seconds = int(first["hour"]) * 3600 + int(first["minute"]) * 60 + second
    return Message(
        first["artifact"] or "",
        _compilation_of(first),
        int((first["attempt"] or "0")[:9]),
        int((first["rank"] or "-1")[:9]),
        seconds,
        "\n".join(below),
        line,
    )


def _compilation_of(head: re.Match[str]) -> str:
    name: str = head["compilation"] or ""
    return name if "/" in name else ""


NOT_IN_TEXT = "not in this text"

WARNING = "warnings and the like"
"""The kind of messages that no TORCH_LOGS asks for."""

HIT_LIMIT = "torch._dynamo hit config."

RAISED_AT_LIMIT = "FailOnRecompileLimitHit"
"""torch's exception for a function with ``fullgraph=True``, whose traceback Python prints."""

MOST_OTHER_LINES = 100_000

MOST_RANKS = 1_000
"""Maximum number of ranks of one text that are named."""


def read_text(text: Path, session: Path) -> None:
    """Write the session of a text. Lines that are not torch's are stored as one document, and
    messages without a view as documents under torch's name.

    Raises SessionError for a file that cannot be read at all.
    """
    damage, others, kinds, ranks = Damage(), Others(), Counter[str](), set[int]()
    with SessionWriter(session, checks_rows=True) as writer, opened(text, damage) as log:
        places = Places(writer)
        compilations = Compilations(writer, places)
        graphs = GraphRecords(writer, compilations, places)
        handles: dict[str, Callable[[Record], None]] = {
            **compilations.handles(),
            **DynamoRecords(writer, compilations, places).handles(),
            **graphs.handles(),
            **InductorRecords(writer, compilations, graphs).handles(),
        }
        failures = TextFailures(writer, compilations, places)
        trained: set[str] = set()
        names = _Names()
        sizes = PrintedSizes()
        collected = _Collected()
        with writer.transaction():
            for message in messages(
                (line.decode("utf-8", "replace") for line in lines_of(log.blocks)), others
            ):
                message = names.named(message)
                kinds[message.artifact or WARNING] += 1
                ranks.add(message.rank)
                if collected.take(message):
                    continue
                try:
                    records = [*as_records(message, trained), *_about_sizes(message, sizes)]
                    _add(message, records, compilations, handles, failures)
                except MALFORMED:
                    damage.skipped += 1
                    damage.note(message.line)
            raises = any(RAISED_AT_LIMIT in line.text for line in others.lines)
            collected.add_all(compilations)
            failures.add_printed(others.lines, list(kinds))
            compilations.finish_text(raises_at_limit=raises, absent_because=NOT_IN_TEXT)
            _add_others(others, compilations)
        _add_meta(writer, text, kinds, ranks, damage, graphs.unread_lines)


class _Collected:
    """Collects the messages that torch prints one by one and that are one text: what it decided
    about fusing in each compilation.
    """

    ARTIFACTS: Mapping[str, Stage] = {"fusion": "schedule"}
    """Artifact → the stage in which it is printed."""

    def __init__(self) -> None:
        self._messages: dict[tuple[str, str], list[Message]] = {}

    def take(self, message: Message) -> bool:
        """Return whether a message is kept for the text of its compilation."""
        if message.artifact not in self.ARTIFACTS:
            return False
        self._messages.setdefault((message.compilation, message.artifact), []).append(message)
        return True

    def add_all(self, compilations: Compilations) -> None:
        for (_, artifact), messages in self._messages.items():
            record = _record(messages[0], "message", "")
            compilations.begun_by(record)
            if not record.compilation:
                compilations.begin_without_frame(record)
            text = "\n".join(message.text for message in messages)
            stage = self.ARTIFACTS[artifact]
            compilations.add_artifact(record, "listing", stage, artifact, "text", text)


class _Names:
    """Names the compilations of warnings that have no ``[2/8]`` before them, because torch's own
    formatter did not print them: by the reason, ``2/7: …``, else in the order of their functions.
    """

    def __init__(self) -> None:
        self._frames: dict[tuple[str, str, str], int] = {}

    def named(self, message: Message) -> Message:
        """Return the message with the name of its compilation, where it is such a warning."""
        limit = None if message.compilation else _LIMIT.match(bounded(message.text))
        if not limit:
            return message
        version = _VERSION.match(limit["reason"].strip())
        if version:
            frame = int(version["frame"])
        else:
            function = (limit["function"], limit["file"], limit["line"])
            frame = self._frames.setdefault(function, len(self._frames))
        return replace(message, compilation=f"{frame}/{limit['limit']}")


def _add(
    message: Message,
    records: list[Record],
    compilations: Compilations,
    handles: dict[str, Callable[[Record], None]],
    failures: TextFailures,
) -> None:
    for record in records:
        compilations.begun_by(record)
        handles[record.name](record)
    if not records and message.text.strip():
        record = Record(
            "message",
            None,
            message.compilation,
            message.attempt,
            message.rank,
            message.seconds,
            "",
            message.line,
        )
        compilations.begun_by(record)
        if failures.add_suppressed(record, message.text):
            return
        if failures.add_of_guard(record, message.text):
            return
        if not record.compilation:
            compilations.begin_without_frame(record)
        title = (
            message.artifact or message.text.strip().partition("\n")[0][:60] or "an empty message"
        )
        compilations.add_artifact(record, "listing", "dynamo", title, "text", message.text)


def _add_others(others: Others, compilations: Compilations) -> None:
    shown_lines = [line.text for line in others.lines if line.text.strip()]
    if shown_lines:
        record = Record("message", None, "", 0, -1, 0.0, "", 0)
        compilations.begin_without_frame(record)
        shown = "\n".join(shown_lines[:MOST_OTHER_LINES])
        compilations.add_artifact(record, "listing", "dynamo", OTHER_LINES, "text", shown)


def _add_meta(
    writer: SessionWriter,
    text: Path,
    kinds: Counter[str],
    ranks: set[int],
    damage: Damage,
    unread_lines: int,
) -> None:
    write_beginning(writer, text)
    writer.set_meta("skipped_records", damage.skipped)
    writer.set_meta("build", True)  # torch built what it wrote of
    writer.set_meta(
        "log",
        {
            "format": "torch_logs",
            "records": kinds.total(),
            "kinds": dict(kinds.most_common()),
            "unknown": {},
            "wrong_hashes": 0,
            "unread_graph_lines": unread_lines,
            "is_cut_off": damage.is_cut_off,
            "damaged_lines": damage.first_lines,
            "ranks": sorted(ranks)[:MOST_RANKS],
        },
    )
    writer.set_meta("outcome", Outcome("finished").to_json())


# A message as the record that torch's structured trace has of the same thing, for the same readers.

_GRAPH_HEADING = re.compile(r"^[^\S\n]*=+ (?P<name>.+?) =+$", re.M)

_CLASS = re.compile(r"^.*?(?=class \S+\(torch\.nn\.Module\):)", re.M)
"""Matches torch's text before the class of a graph: the path of the file that defines it."""

_REASON = re.compile(r"^[^\S\n]*- (?P<reason>\d+/\d+: .*)$", re.M)

_FAILED = re.compile(r"^[^\S\n]*- (?P<reason>\S.*)$", re.M)
"""Matches a reason up to torch 2.2, which did not say which compilation's guard failed."""

_RECOMPILING = re.compile(
    r"Recompiling function (?P<function>\S{1,400}) in (?P<file>[^\n]{1,4000}):(?P<line>\d{1,8})"
)

_LIMIT = re.compile(
    r"torch\._dynamo hit config\.\w+ \((?P<limit>\d{1,6})\)\s*"
    r"function: '(?P<function>[^'\n]{1,400})' \((?P<file>[^\n]{1,4000}):(?P<line>\d{1,8})\)\s*"
    r"(?:last reason|reasons):(?P<reason>[^\n]*)"
)
"""Matches the warning of ``torch/_dynamo/convert_frame.py``, which needs no TORCH_LOGS. torch 2.0
wrote "reasons".
"""

_VERSION = re.compile(r"(?P<frame>\d{1,6})/\d{1,6}: ")
"""Matches the compilation whose guards failed, at the beginning of a reason."""

_GRAPHS = (
    (re.compile(r"joint graph", re.I), "aot_joint_graph"),
    (re.compile(r"backward graph", re.I), "aot_backward_graph"),
    (re.compile(r"forward graph", re.I), "aot_forward_graph"),
    (re.compile(r"after post ?grad|post_grad", re.I), "inductor_post_grad_graph"),
)


def as_records(message: Message, trained: set[str]) -> Iterator[Record]:
    """Yield the records of a message; none for a message without a record, which is stored
    unchanged.

    ``trained`` has the compilations of which a joint graph was seen: the forward graph of any other
    is for inference.
    """
    text = message.text
    if message.artifact == "graph_breaks" and "Graph break" in text:
        yield _record(message, "dynamo_graph_break_reason", text)
    elif message.artifact in ("recompiles", "recompiles_verbose") and _FAILED.search(text):
        failed = [*_REASON.finditer(text)] or [*_FAILED.finditer(text)]
        reasons = [match["reason"].rstrip() for match in failed]
        yield from _recompile(message, _RECOMPILING.search(bounded(text)), reasons)
    elif limit := _LIMIT.match(text):
        yield from _recompile(message, limit, [limit["reason"].strip()])
        yield _metrics(message, text)
    elif message.artifact == "guards" and "TREE_GUARD_MANAGER" in text:
        yield _record(
            message, "dynamo_cpp_guards_str", text.replace("Guard eval latency", "Guard latency")
        )
    elif message.artifact == "output_code" and text.startswith("Output code:"):
        yield _record(message, "inductor_output_code", text.partition("\n")[2])
    elif text.startswith("skipping cudagraph"):
        yield replace(
            _record(message, "cudagraph_skip", ""),
            kind="cudagraph_skip",
            content={"cudagraph_skip_reason": text},
        )
    elif message.artifact in (
        "graph_code",
        "aot_graphs",
        "post_grad_graphs",
        "pre_grad_graphs",
    ) and _CLASS.search(text):
        yield from _graph(message, trained)


def _about_sizes(message: Message, sizes: PrintedSizes) -> Iterator[Record]:
    """Yield the records about sizes in a message that no artifact of TORCH_LOGS is named for."""
    if not message.artifact:
        for kind, content in sizes.records(message.compilation, message.text):
            yield replace(_record(message, "", ""), kind=kind, content=content)


def _recompile(
    message: Message, function: re.Match[str] | None, reasons: list[str]
) -> Iterator[Record]:
    """Yield which function is compiled, where the message names it, and why it was compiled
    again.
    """
    if function:
        frame = {
            "name": function["function"],
            "filename": function["file"],
            "line": int(function["line"]),
        }
        begun = {"stack": [frame]}
        yield replace(_record(message, "", ""), kind="dynamo_start", content=begun)
    yield _record(message, "recompile_reasons", json.dumps(reasons))


def _metrics(message: Message, text: str) -> Record:
    """Return the record of torch's metrics that a function was refused: it runs in eager mode from
    then on.
    """
    content = {"fail_type": "Unsupported", "fail_reason": text.partition("\n")[0]}
    return replace(_record(message, "", ""), kind="compilation_metrics", content=content)


def _graph(message: Message, trained: set[str]) -> Iterator[Record]:
    heading = _GRAPH_HEADING.search(message.text)
    name, code = "", message.text
    if heading:
        name, code = heading["name"], message.text[heading.end() :]
    code = _CLASS.sub("", code).lstrip("\n")
    if message.artifact == "graph_code":
        yield _record(message, "dynamo_output_graph", code)
        return
    kind = next((kind for pattern, kind in _GRAPHS if pattern.search(name)), "")
    if kind == "aot_joint_graph":
        trained.add(message.compilation)
    if kind == "aot_forward_graph" and message.compilation not in trained:
        kind = "aot_inference_graph"
    if kind:
        yield _record(message, kind, code)


def _record(message: Message, name: str, payload: str) -> Record:
    return Record(
        "artifact",
        {"name": name},
        message.compilation,
        message.attempt,
        message.rank,
        message.seconds,
        payload,
        message.line,
    )
