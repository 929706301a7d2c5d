"""A text with lines of ``TORCH_LOGS`` becomes a session: breaks, recompiles, guards, graphs, code, whichever it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from fx_explorer import __version__
from fx_explorer.model import Outcome
from fx_explorer.readers.torch_logs.as_records import as_records
from fx_explorer.readers.torch_logs.messages import Message, Others, messages
from fx_explorer.readers.torch_trace.compilations import Compilations
from fx_explorer.readers.torch_trace.dynamo_records import DynamoRecords
from fx_explorer.readers.torch_trace.graph_records import GraphRecords
from fx_explorer.readers.torch_trace.inductor_records import InductorRecords
from fx_explorer.readers.torch_trace.opened import lines_of, opened
from fx_explorer.readers.torch_trace.places import Places
from fx_explorer.readers.torch_trace.read_log import MALFORMED
from fx_explorer.readers.torch_trace.records import Damage, Record
from fx_explorer.session import SessionWriter

OTHER_LINES = "Lines that torch's logging did not write"

NOT_IN_TEXT = "not in this text"

RAISED_AT_LIMIT = "FailOnRecompileLimitHit"
"""torch's exception for a function with ``fullgraph=True``, whose traceback Python prints."""

MOST_OTHER_LINES = 100_000

MOST_RANKS = 1_000
"""Ranks of one text that are named."""


def read_text(text: Path, session: Path) -> None:
    """Write the session of a text. Lines that are not torch's are kept as one document, and messages that have no view
    as documents under torch's name.

    Raises SessionError for a file that cannot be read at all.
    """
    damage, others, kinds, ranks = Damage(), Others([]), Counter[str](), set[int]()
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
        trained: set[str] = set()
        with writer.transaction():
            for message in messages(
                (line.decode("utf-8", "replace") for line in lines_of(log.blocks)), others
            ):
                kinds[message.artifact or "without a name"] += 1
                ranks.add(message.rank)
                try:
                    _add(message, list(as_records(message, trained)), compilations, handles)
                except MALFORMED:
                    damage.skipped += 1
                    damage.note(message.line)
            raises = any(RAISED_AT_LIMIT in line for line in others.lines)
            compilations.finish_text(raises_at_limit=raises, absent_because=NOT_IN_TEXT)
            _add_others(others, compilations)
        _add_meta(writer, text, kinds, ranks, damage, graphs.unread_lines)


def _add(
    message: Message,
    records: list[Record],
    compilations: Compilations,
    handles: dict[str, Callable[[Record], None]],
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
        if not record.compilation:
            compilations.begin_without_frame(record)
        title = (
            message.artifact or message.text.strip().partition("\n")[0][:60] or "an empty message"
        )
        compilations.add_artifact(record, "listing", "dynamo", title, "text", message.text)


def _add_others(others: Others, compilations: Compilations) -> None:
    if others.lines:
        record = Record("message", None, "", 0, -1, 0.0, "", 0)
        compilations.begin_without_frame(record)
        shown = "\n".join(others.lines[:MOST_OTHER_LINES])
        compilations.add_artifact(record, "listing", "dynamo", OTHER_LINES, "text", shown)


def _add_meta(
    writer: SessionWriter,
    text: Path,
    kinds: Counter[str],
    ranks: set[int],
    damage: Damage,
    unread_lines: int,
) -> None:
    writer.set_meta("fx_explorer", __version__)
    writer.set_meta("environment", {})
    target = {
        "name": text.name,
        "kind": "log",
        "file": str(text.absolute()),
        "object": "",
        "train": False,
    }
    writer.set_meta("target", {**target, "parameters": 0})
    writer.set_meta("skipped_records", damage.skipped)
    writer.set_meta("build", True)  # torch built what it wrote of
    told = {
        "format": "torch_logs",
        "records": kinds.total(),
        "kinds": dict(kinds.most_common()),
        "unknown": {},
    }
    lost = {"wrong_hashes": 0, "unread_graph_lines": unread_lines, "is_cut_off": damage.is_cut_off}
    writer.set_meta(
        "log",
        {**told, **lost, "damaged_lines": damage.first_lines, "ranks": sorted(ranks)[:MOST_RANKS]},
    )
    writer.set_meta("outcome", Outcome("finished").to_json())
