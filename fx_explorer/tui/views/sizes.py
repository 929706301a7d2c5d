"""View D: dynamic sizes, where each comes from, and whether it stayed dynamic."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.naming import plain_code, plain_function
from fx_explorer.analysis.whole_session import is_log
from fx_explorer.analysis.words import counted
from fx_explorer.drawing.view_table import Detail, TableColumn, TableRow, ViewTable
from fx_explorer.instruments.guards.symbols import (
    ExplainedSymbol,
    event_words,
    plain_range,
    symbols,
)
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

COLUMNS = (
    TableColumn("frame", "annotation", priority=4),
    TableColumn("size or number", "strong", min_width=16, max_width=40),
    TableColumn("now", is_number=True, min_width=5),
    TableColumn("result", min_width=18, max_width=34),
    TableColumn("decided at", "link", min_width=14, priority=1),
    TableColumn("guards", is_number=True, min_width=6, priority=2),
    TableColumn("made at", "muted", min_width=14, priority=3),
    TableColumn("in torch", "muted", min_width=6, priority=5),
)


TRIES = "x d tries other settings, and other inputs."


def sizes_table(reader: SessionReader) -> ViewTable:
    found = symbols(reader)
    return ViewTable(
        shows="Dynamic and specialized sizes.",
        notice=_notice(found, "" if is_log(reader) else f" {TRIES}"),
        origin="torch's ShapeEnv and its structured records",
        columns=COLUMNS,
        rows=[_row(symbol) for symbol in found],
        empty=_why_empty(reader),
    )


def _row(explained_symbol: ExplainedSymbol) -> TableRow:
    symbol, fixed = explained_symbol.symbol, explained_symbol.specialized
    decided = fixed or next((event for event in explained_symbol.events if event.line), None)
    cells = (
        f"[{explained_symbol.compilation}]",
        _told(explained_symbol),
        symbol.hint or "–",
        explained_symbol.state,
        _where(decided.file, decided.line) if decided else "",
        str(len(explained_symbol.guards)),
        _where(*explained_symbol.made_at),
        symbol.name,
    )
    return TableRow(
        cells,
        explained_symbol.place,
        lambda: Detail(_text(explained_symbol)),
        kind="warning" if symbol.became else "",
    )


def _told(symbol: ExplainedSymbol) -> str:
    """Return ``size 0 of x``, or where the program computes it."""
    return symbol.comes_from or symbol.name.strip("‹›")


def _where(file: str, line: int) -> str:
    return in_file(file, line) if file else ""


def _text(explained_symbol: ExplainedSymbol) -> str:
    symbol = explained_symbol.symbol
    file, line = explained_symbol.made_at
    others = [
        plain_code(source, explained_symbol.of)
        for source in symbol.sources
        if source != symbol.source
    ]
    lines = [
        f"{_told(explained_symbol)}: {explained_symbol.state}",
        f"made at {file}:{line}, {plain_range(symbol.range)}"
        if file
        else f"made with {plain_range(symbol.range)}",
        *((f"also {', '.join(others)}",) if others else ()),
        "",
        "what was decided",
        *(
            f"  {event_words(event, explained_symbol.of)}   {_where(event.file, event.line)}"
            for event in explained_symbol.events
        ),
        *(() if explained_symbol.events else ("  nothing",)),
        "",
        "guards that mention it",
        *(f"  {plain_code(guard.code, explained_symbol.of)}" for guard in explained_symbol.guards),
        *(() if explained_symbol.guards else ("  none",)),
        "",
        "your stack where it was fixed"
        if explained_symbol.specialized
        else "your stack where it was made",
        *(
            f"  {frame.file}:{frame.line} in {plain_function(frame.function)}"
            for frame in explained_symbol.stack
        ),
        *(() if explained_symbol.stack else ("  not known",)),
        "",
        "torch's name for it",
        f"  {symbol.name}",
    ]
    return "\n".join(lines)


def _notice(found: list[ExplainedSymbol], tries: str) -> str:
    """Return how many there are; ``tries`` says what can be done about them."""
    if not found:
        return ""
    fixed = [symbol for symbol in found if symbol.symbol.became]
    words = f"{counted(len(found) - len(fixed), 'size or number')} may differ from call to call"
    if not fixed:
        return f"{words}.{tries}"
    first = fixed[0].specialized
    if first and first.file:
        where = f", {_told(fixed[0])} at {_where(first.file, first.line)}"
    else:
        where = ""
    return f"{words}; {len(fixed)} could have, and had to be fixed{where}.{tries}"


def _why_empty(reader: SessionReader) -> str:
    if reader.meta("outcome") is None:
        return "None so far."
    if not reader.count(model.Compilation):
        return "Nothing was compiled."
    tries = "" if is_log(reader) else " x d tries what can be done about it."
    return f"Every size is fixed: other sizes are compiled again.{tries}"
