"""What other front ends than Dynamo made of the target, as facts for the overview."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fx_explorer import model
from fx_explorer.analysis.documents import Place, document_of, place_of_path
from fx_explorer.analysis.facts import Fact
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

if TYPE_CHECKING:
    from fx_explorer.instruments.front_ends.seen import Seen


def front_end_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield a fact for each front end that was asked, with the differences to Dynamo, or why it
    refused.
    """
    rows = reader.rows(model.FrontEnd)
    if not rows:
        return
    from fx_explorer.instruments.front_ends.seen import (
        seen_by_dynamo,  # not needed for most sessions
    )

    dynamo = seen_by_dynamo(reader)
    for row in rows:
        yield _made(reader, row, dynamo) if row.graph and dynamo else _refused(reader, row)


def _made(reader: SessionReader, row: model.FrontEnd, dynamo: Seen) -> Fact:
    from fx_explorer.instruments.front_ends.differences import (  # likewise
        beside_dynamo,
        differences,
    )

    first, *rest = differences(beside_dynamo(reader, row, dynamo))
    place = Place(document_of(reader, "graph", row.graph))
    return Fact(
        "front_ends", "good", f"{model.FRONT_END_CALLS[row.name]}: {first}", "\n".join(rest), place
    )


def _refused(reader: SessionReader, row: model.FrontEnd) -> Fact:
    from fx_explorer.instruments.front_ends.refusals import refusal  # likewise

    told = refusal(row)
    where = f" at {in_file(row.file, row.line)}" if row.line else ""
    state = "was stopped" if row.state == "timed_out" else "refused the target"
    detail = [
        row.code,
        told.why if told else "",
        f"What to do: {told.advice}." if told and told.advice else "",
    ]
    said = row.error if row.traceback else ""
    detail += [f"It said: {said.splitlines()[0]}" if said else "", *row.remarks]
    text = f"{model.FRONT_END_CALLS[row.name]} {state}{where}."
    return Fact(
        "front_ends",
        "notice",
        text,
        "\n".join(filter(None, detail)),
        place_of_path(reader, row.file, row.line),
    )
