"""This module parses the long texts of a log in a second process, ahead of the process that makes
rows of them.

To parse is to compute a value from a text alone; ``PARSERS`` names the function for each kind of
record. The second process reads the texts from the log, in the order in which they are asked for,
while the first one still finds records and writes rows. Nothing depends on it: a text that it has
not parsed is parsed where it is needed, by the same function.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from fx_explorer.readers.torch_trace.dynamo_records import read_guards
from fx_explorer.readers.torch_trace.graph_records import STAGE_OF
from fx_explorer.readers.torch_trace.kernel_stacks import KERNEL_STACKS, read_stacks
from fx_explorer.readers.torch_trace.opened import TextsOfLog, is_packed
from fx_explorer.readers.torch_trace.records import MALFORMED, Record
from fx_explorer.second_process import end_by_signals, end_process, is_gain
from fx_explorer.session.elsewhere import TextPlace
from fx_explorer.torch_texts.output_code import read_kernels
from fx_explorer.torch_texts.printed_graph import read_graphs

PARSERS: Mapping[str, Callable[[str], object]] = {
    **dict.fromkeys(STAGE_OF, read_graphs),
    "inductor_output_code": read_kernels,
    "dynamo_cpp_guards_str": read_guards,
    KERNEL_STACKS: read_stacks,
}
"""Name of a record → the function that parses its text."""

MOST_AHEAD = 48 << 20
"""Maximum number of bytes of the texts that are parsed before they are needed."""

LONG = 2 << 20
"""Bytes of a log from which on a second process is a gain: it takes 20 ms, and parses 20 MB/s."""

LARGE_PIPE = 1 << 20
"""Bytes that the pipe of the parsed values should hold, where the system allows it."""


class ParsingProcess:
    """The second process. It reads one log that is not packed, and ends with this one."""

    def __init__(self, log: Path) -> None:
        asks, self._asks = _pipe()
        self._answers, answers = _pipe()
        self._parsed: dict[TextPlace, object] = {}
        """What came before it was needed."""
        self._asked: set[TextPlace] = set()
        self._waiting: dict[TextPlace, str] = {}
        """Texts that are not asked for yet, with the names of their records."""
        self._bytes_ahead = 0
        self._pid = os.fork()
        if not self._pid:
            self._asks.close()
            self._answers.close()
            _serve(TextsOfLog(log), asks, answers)
        asks.close()
        answers.close()

    def ask(self, record: Record) -> None:
        """Have the text of a record parsed, after those that were asked for before."""
        if record.name in PARSERS:
            self._waiting[record.place] = record.name
            self._ask_more()

    def with_parsed(self, record: Record) -> Record:
        """Return a record with what its text says, waiting for it; unchanged where its text was not
        asked for, or could not be parsed.
        """
        place = record.place
        self._waiting.pop(place, None)
        if place not in self._asked:
            return record
        self._asked.discard(place)
        self._bytes_ahead -= place.size
        try:
            while place not in self._parsed:
                answered, parsed = pickle.load(self._answers)
                self._parsed[answered] = parsed
        except (EOFError, OSError, pickle.UnpicklingError):  # it was killed
            self._asked.clear()
            self._waiting.clear()
            return record
        self._ask_more()
        return replace(record, parsed=self._parsed.pop(place))

    def _ask_more(self) -> None:
        while self._waiting and self._bytes_ahead < MOST_AHEAD:
            place = next(iter(self._waiting))
            name = self._waiting.pop(place)
            try:
                pickle.dump((name, place), self._asks)
                self._asks.flush()
            except OSError:  # it was killed
                self._waiting.clear()
                return
            self._asked.add(place)
            self._bytes_ahead += place.size

    def close(self) -> None:
        """End the process."""
        for pipe in (self._asks, self._answers):
            with contextlib.suppress(OSError):
                pipe.close()
        end_process(self._pid)


@contextlib.contextmanager
def parsing_process(log: Path) -> Iterator[ParsingProcess | None]:
    """Start a process that parses ahead, and end it; None where that is no gain."""
    if not is_gain():
        yield None
        return
    process = ParsingProcess(log)
    try:
        yield process
    finally:
        process.close()


def is_long_and_plain(log: Path) -> bool:
    """Return whether a log is long enough that a second process is a gain, and is read in place."""
    try:
        return log.stat().st_size >= LONG and not is_packed(log)
    except OSError:
        return False


def _pipe() -> tuple[BinaryIO, BinaryIO]:
    reading, writing = os.pipe()
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl  # not on Windows, nor is the size of a pipe everywhere

        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, LARGE_PIPE)
    return os.fdopen(reading, "rb"), os.fdopen(writing, "wb")


# In the second process.


def _serve(texts: TextsOfLog, asks: BinaryIO, answers: BinaryIO) -> None:
    """Parse requests until no more arrive. Does not return."""
    try:
        end_by_signals()
        gc.disable()  # what is parsed has no cycles, and all else was inherited
        asked: queue.SimpleQueue[tuple[str, TextPlace]] = queue.SimpleQueue()
        parsed: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=_receive, args=(asks, asked), daemon=True).start()
        threading.Thread(target=_send, args=(answers, parsed), daemon=True).start()
        while True:
            name, place = asked.get()
            parsed.put(pickle.dumps((place, _parsed(texts, name, place)), pickle.HIGHEST_PROTOCOL))
    finally:
        os._exit(0)


def _parsed(texts: TextsOfLog, name: str, place: TextPlace) -> object:
    """Return what a text says; None where it cannot be read or parsed, which the first process
    finds, too.
    """
    try:
        return PARSERS[name](texts.text(place))
    except MALFORMED:
        return None


def _receive(asks: BinaryIO, asked: queue.SimpleQueue[tuple[str, TextPlace]]) -> None:
    try:
        while True:
            asked.put(pickle.load(asks))
    finally:
        os._exit(0)


def _send(answers: BinaryIO, parsed: queue.SimpleQueue[bytes]) -> None:
    try:
        while True:
            answers.write(parsed.get())
            answers.flush()
    finally:
        os._exit(0)
