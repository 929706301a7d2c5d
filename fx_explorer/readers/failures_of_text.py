"""This module writes the failures of a printed text: what its tracebacks say of the compilations
that failed, and of the program.

A traceback has no ``[2/8]``. It belongs to the compilation of the message before it if torch wrote
that message because of the error, or if it names the same function; else to a compilation of which
the text says no number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fx_explorer.model import Failure, Fallback
from fx_explorer.readers.printed_tracebacks import (
    FROM_USER_CODE,
    OtherLine,
    PrintedError,
    PrintedTraceback,
    find_tracebacks,
    traceback_of_message,
)
from fx_explorer.readers.torch_trace.compilation_records import Compilations, LogCompilation
from fx_explorer.readers.torch_trace.places import Places
from fx_explorer.readers.torch_trace.records import Record
from fx_explorer.session import SessionWriter
from fx_explorer.torch_texts.reports import OF_BACKWARD, parse_stack

NO_NUMBER = "?/?"
"""Name of a compilation of which a text does not say the number."""

LONGEST_MESSAGE = 400

BREAK_AS_ERROR = "Unsupported"

AT_LIMIT = "FailOnRecompileLimitHit"

PRINTED_BEFORE = ("graph_code", "graph", "graph_sizes", "trace_source", "trace_bytecode")
"""Artifacts of which torch prints one for every compilation before a backend is called."""

_GUARD_FAILED = "Error while creating guard:"
"""Beginning of torch's message when a guard cannot be made (torch/_guards.py, ``Guard.create``)."""

_NOT_CONVERTED = re.compile(
    r"WON'T CONVERT (?P<function>\S{1,400}) (?P<file>[^\n]{1,4000}) line (?P<line>\d{1,8})\s"
)
"""Matches the warning that an error was suppressed (torch/_dynamo/exc.py, ``format_error_msg``)."""


class TextFailures:
    """Writes the failures of one text."""

    def __init__(self, writer: SessionWriter, compilations: Compilations, places: Places) -> None:
        self._writer = writer
        self._compilations = compilations
        self._places = places
        self._written: set[str] = set()

    def add_suppressed(self, record: Record, text: str) -> bool:
        """Add the failure that a message reports after which a function ran in eager mode, and
        return whether it is such a message.
        """
        match = _NOT_CONVERTED.match(text)
        traceback = traceback_of_message(text) if match else None
        error = traceback.compiler_error or traceback.errors[-1] if traceback else None
        if match is None or traceback is None or error is None:
            return False
        state = self._compilation(record.compilation, match["function"], match["file"])
        if state is None:
            state = self._begin_without_number()
        where = match["function"], match["file"], int(match["line"])
        if not state.row.function:
            self._compilations.change(state, function=where[0], file=where[1], line=where[2])
        self._places.file(where[1])
        self._fail(state, traceback, error)
        self._writer.add(Fallback(0, state.row.id, "failed", *where, "", _flat(error)))
        return True

    def add_of_guard(self, record: Record, text: str) -> bool:
        """Add the failure that a message reports when the guards of a compilation cannot be made,
        and return whether it is such a message. What the exception became, Python prints only where
        the program does not handle it.
        """
        traceback = traceback_of_message(text) if text.startswith(_GUARD_FAILED) else None
        if traceback is None or not record.compilation:
            return False
        state = self._compilations.of(record)
        self._fail(state, traceback, traceback.errors[-1])
        return True

    def add_printed(self, lines: Sequence[OtherLine], kinds: Sequence[str]) -> None:
        """Add the failures whose tracebacks Python printed. ``kinds`` are the artifacts that torch
        printed into the text.
        """
        prints_every_compilation = not set(PRINTED_BEFORE).isdisjoint(kinds)
        for traceback in find_tracebacks(lines):
            error = traceback.compiler_error
            if error is None:
                self._add_of_program(traceback)
            elif traceback.text not in self._written:
                self._add_of_compiler(traceback, error, prints_every_compilation)

    def _add_of_program(self, traceback: PrintedTraceback) -> None:
        self._know_files(traceback)
        error = traceback.errors[-1]
        text = self._writer.text(traceback.text)
        self._writer.add(Failure(0, 0, "program", None, error.kind, _flat(error), text))

    def _add_of_compiler(
        self, traceback: PrintedTraceback, error: PrintedError, prints_every_compilation: bool
    ) -> None:
        read = parse_stack(traceback.text.partition(FROM_USER_CODE)[2])
        first = traceback.begun_by
        name = first.compilation if first else ""
        state = None
        if name and first and (first.is_after_error or prints_every_compilation):
            state = self._compilations.of(_record(name))
        elif read:
            state = self._compilation(name, read[0].function, read[0].file)
        if state is None:
            state = self._begin_without_number()
        if read and not state.row.function:
            where = read[0]
            self._compilations.change(
                state, function=where.function, file=where.file, line=where.line
            )
        self._fail(state, traceback, error)

    def _begin_without_number(self) -> LogCompilation:
        return self._compilations.begin_again(NO_NUMBER)

    def _compilation(self, name: str, function: str, file: str) -> LogCompilation | None:
        """Return the compilation of this name if it is of this function, else the latest of this
        function; None without one.
        """
        if name and (known := self._compilations.of(_record(name))).row.function in ("", function):
            return known
        for state in reversed(self._compilations.all):
            if (state.row.function, state.row.file) == (function, file):
                return state
        return None

    def _fail(
        self, state: LogCompilation, traceback: PrintedTraceback, error: PrintedError
    ) -> None:
        self._written.add(traceback.text)
        self._know_files(traceback)
        text = self._writer.text(traceback.text)
        message = _flat(error)
        if traceback.is_of_backward:
            message = f"{OF_BACKWARD}{message}"[:LONGEST_MESSAGE]
        if error.kind == BREAK_AS_ERROR:  # with fullgraph=True: the compiler itself did not fail
            row = Failure(0, 0, "program", None, error.kind, message, text)
        else:
            stage = traceback.stage
            row = Failure(0, state.row.id, "compiler", stage, error.kind, message, text)
        self._writer.add(row)
        if error.kind != AT_LIMIT and not traceback.is_of_backward:
            state.has_ended = True
            self._compilations.change(state, status="failed", error=message)

    def _know_files(self, traceback: PrintedTraceback) -> None:
        for frame in parse_stack(traceback.text):
            self._places.file(frame.file)


def _flat(error: PrintedError) -> str:
    """Return ``ValueError: cannot compile``, as the structured trace's metrics name an error."""
    message = " ".join(error.message.split())
    return f"{error.kind}: {message}"[:LONGEST_MESSAGE] if message else error.kind


def _record(compilation: str) -> Record:
    return Record("message", None, compilation, 0, -1, 0.0, "", 0)
