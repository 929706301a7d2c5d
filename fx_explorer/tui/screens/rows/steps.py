"""A step of the bytecode as rows: the stack and the variables, with what has changed."""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer.analysis.naming.functions import plain_function
from fx_explorer.analysis.step_record import (
    StepRecord,
    StepValue,
    ending,
    happening,
    locals_of,
    stack_of,
)
from fx_explorer.highlight import printable
from fx_explorer.session import SessionReader
from fx_explorer.tui.widgets.row_list import Cell, Column, Row

COLUMNS = (Column("", "text", max_width=18), Column("", "text"))

CHANGED = ("● ", "warning")
UNCHANGED = ("  ", "muted")
"""Two spaces where other values have a sign: colour alone must not carry meaning."""

ERROR_ON_ITS_WAY = "not known: an error is on its way"


def state_rows(reader: SessionReader, record: StepRecord, at: int) -> list[Row]:
    return [
        (("stack", "muted"), ("the top first", "muted")),
        *_stack(record, at),
        *_variables(reader, record, at),
    ]


def _stack(record: StepRecord, at: int) -> Iterator[Row]:
    step = record.steps[at]
    if not step.is_stack_known:
        yield ("", (ERROR_ON_ITS_WAY if step.kind == "raised" else "not known", "muted"))
    elif not step.stack:
        yield ("", ("empty", "muted"))
    yield from map(_row, stack_of(record, at))


def _variables(reader: SessionReader, record: StepRecord, at: int) -> Iterator[Row]:
    yield (("variables", "muted"), "")
    yield from map(_row, locals_of(reader, record, at))


def _row(value: StepValue) -> Row:
    text: Cell = value.text
    if value.is_gone:
        text = [("gone", "warning"), (f"  was {value.text}", "muted")]
    elif value.was:
        text = [(value.text, "text"), (f"  was {value.was}", "muted")]
    return ([CHANGED if value.is_changed else UNCHANGED, (value.name, "text")], text)


def position(record: StepRecord, at: int, owner: str) -> str:
    """Return ``step 12 of 588 · forward [0/0]``."""
    step = record.steps[at]
    where = f"{plain_function(step.function)}{owner and f' [{owner}]'}"
    return printable(f"step {at + 1:,} of {len(record.steps):,} · {where}")


def whole(row: Row) -> str:
    """Return a row as one text, for where there is no room for its value."""
    name, value = row
    return printable(f"{_plain(name).lstrip('● ')}: {_plain(value)}") if _plain(value) else ""


def _plain(cell: Cell) -> str:
    pieces = cell if isinstance(cell, list) else [cell]
    return "".join(piece if isinstance(piece, str) else piece[0] for piece in pieces)


def remarkable(record: StepRecord, at: int) -> str:
    """Say what happens at this step; after the last one, how the call ended."""
    is_last = at == len(record.steps) - 1
    is_told = is_last and record.run.ended == "raised" and record.steps[at].kind == "raised"
    parts = ["" if is_told else happening(record, at), ending(record.run) if is_last else ""]
    return printable(" · ".join(filter(None, parts)))
