"""A log of torch's structured trace becomes a session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from fx_explorer import __version__
from fx_explorer.model import Outcome
from fx_explorer.readers.torch_trace.compilations import Compilations
from fx_explorer.readers.torch_trace.dynamo_records import DynamoRecords
from fx_explorer.readers.torch_trace.graph_records import GraphRecords
from fx_explorer.readers.torch_trace.inductor_records import InductorRecords
from fx_explorer.readers.torch_trace.opened import lines_of
from fx_explorer.readers.torch_trace.other_records import OtherRecords
from fx_explorer.readers.torch_trace.places import Places
from fx_explorer.readers.torch_trace.program_records import ProgramRecords
from fx_explorer.readers.torch_trace.records import Damage, Record, records
from fx_explorer.session import SessionWriter

Handle = Callable[[Record], None]

MALFORMED = (TypeError, ValueError, LookupError, AttributeError, OverflowError, RecursionError)
"""What reading a record raises that is not as torch writes it. It is counted, and the log is read on."""


def read_log(log: Path, session: Path) -> None:
    """Write the session of a log. What could not be read of it is counted there: ``skipped_records``, and the entry ``log``.

    Raises SessionError for a log that cannot be read at all.
    """
    damage, kinds = Damage(), Counter[str]()
    with SessionWriter(session) as writer, lines_of(log, damage) as lines:
        places = Places(writer)
        compilations = Compilations(writer, places)
        graphs = GraphRecords(writer, compilations, places)
        inductor = InductorRecords(writer, compilations, graphs)
        programs = ProgramRecords(writer, compilations, graphs, places)
        handles: dict[str, Handle] = {
            "str": places.intern,
            **compilations.handles(),
            **DynamoRecords(writer, compilations, places).handles(),
            **graphs.handles(),
            **inductor.handles(),
            **programs.handles(),
        }
        others = OtherRecords(writer, compilations)
        with writer.transaction():
            for record in records(lines, damage):
                kinds[record.name] += 1
                try:
                    compilations.begun_by(record)
                    handles.get(record.name, others.add)(record)
                except MALFORMED:
                    damage.skipped += 1
                    damage.note(record.line)
            inductor.finish()
            programs.finish()
            others.vllm.finish()
            compilations.finish()
        writer.set_meta("fx_explorer", __version__)
        writer.set_meta("environment", compilations.environment)
        target = {"name": log.name, "kind": "log", "file": str(log.absolute()), "object": "", "train": False}
        writer.set_meta("target", {**target, "parameters": 0})
        writer.set_meta("skipped_records", damage.skipped)
        writer.set_meta("build", True)  # torch built what it wrote of
        told = {"records": kinds.total(), "kinds": dict(kinds.most_common()), "unknown": others.counted}
        lost = {"wrong_hashes": damage.wrong_hashes, "unread_graph_lines": graphs.unread_lines, "is_cut_off": damage.is_cut_off}
        writer.set_meta("log", {**told, **lost, "damaged_lines": damage.first_lines})
        writer.set_meta("outcome", Outcome("finished").to_json())
