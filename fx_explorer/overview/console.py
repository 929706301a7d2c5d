"""What the user's program printed, and its failures with the user's line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.documents import Place, place_of_source
from fx_explorer.session import SessionReader
from fx_explorer.session.bounds import MAX_TRACEBACK
from fx_explorer.session.queries.compilations import compilation_names

_FRAME = re.compile(r'^[^\S\n]*File "(?P<path>[^"\n]+)", line (?P<line>\d+)', re.MULTILINE)


MOST_CHARACTERS = 100 * MAX_TRACEBACK
"""Characters of all tracebacks of a session that are read."""

LEFT_OUT = f"(not shown: the tracebacks before it have more than {MOST_CHARACTERS:,} characters)"


@dataclass(frozen=True, slots=True)
class ExplainedFailure:
    failure: model.Failure
    compilation: str
    traceback: str
    """The whole traceback as Python wrote it; empty when there is none. It comes from outside: make
    it printable before showing it.
    """
    place: Place | None
    """The innermost line of the traceback that is the user's own."""


def console_lines(
    reader: SessionReader, start: int = 0, stop: int | None = None
) -> list[model.ConsoleLine]:
    """Return one page of the program's output, in order. Texts may hold terminal escapes: never
    send them to a terminal.
    """
    limit = -1 if stop is None else stop - start
    return reader.rows(model.ConsoleLine, offset=start, limit=limit)


def failures(reader: SessionReader) -> list[ExplainedFailure]:
    """Return everything that went wrong, in the order it happened."""
    names = compilation_names(reader)
    user_files = {f.path: f.id for f in reader.rows(model.SourceFile) if f.is_user}
    found = []
    of_text: dict[int, tuple[str, Place | None]] = {}
    characters = 0
    for failure in reader.rows(model.Failure):
        if failure.text not in of_text:
            traceback = LEFT_OUT
            if characters < MOST_CHARACTERS:
                traceback = reader.text(failure.text)[:MAX_TRACEBACK]
            characters += len(traceback)
            of_text[failure.text] = traceback, _innermost(reader, traceback, user_files)
        traceback, place = of_text[failure.text]
        found.append(
            ExplainedFailure(failure, names.get(failure.compilation, ""), traceback, place)
        )
    return found


def _innermost(reader: SessionReader, traceback: str, user_files: dict[str, int]) -> Place | None:
    frames = [(found["path"], int(found["line"])) for found in _FRAME.finditer(traceback)]
    for path, line in reversed(frames):
        if path in user_files:
            return place_of_source(reader, user_files[path], line)
    return None
