"""This module reads a log for the app in a process of its own, and follows it like a capture: the
session grows, and notices report the progress. Before the app starts, it shows the first events of
the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import IO, BinaryIO

from fx_explorer.analysis.words import breaks_hit, counted, first_line, size
from fx_explorer.errors import SessionError
from fx_explorer.folders import temporary_folder
from fx_explorer.model import Command, Notice, Outcome
from fx_explorer.readers.torch_trace.growing import opened_to_follow
from fx_explorer.readers.torch_trace.opened import BLOCK, STANDARD_INPUT, TextsOfLog, opened
from fx_explorer.readers.torch_trace.places import is_torch
from fx_explorer.readers.torch_trace.read_log import LogOrigin
from fx_explorer.readers.torch_trace.records import Damage, Record, records
from fx_explorer.session import SessionWriter
from fx_explorer.session.elsewhere import register_texts_elsewhere
from fx_explorer.session.file_names import in_file
from fx_explorer.torch_texts.reports import BreakReport, parse_break

# The first words, for the moment until the app is there: importing Textual and painting its first
# frame takes longer than looking at a megabyte of the log.

MOST_BREAKS = 5


def describe_log_start(log: Path) -> list[str]:
    """Return how large a log is, when it begins, and which compilations, graph breaks and
    recompiles its first megabyte has.

    Return nothing for what is not a file, since it could be read only once, and for a file that
    cannot be read: the code that reads the log gives the reason.
    """
    if not log.is_file():
        return []
    try:
        with opened(log, Damage()) as beginning:
            block = _first(beginning.blocks, BLOCK)
    except SessionError:
        return []
    beginning_records = [record for record in records([block], Damage()) if record is not None]
    is_whole = len(block) < BLOCK
    if not is_whole:
        beginning_records = beginning_records[:-1]  # it may continue behind the block
    lines = [_about(beginning_records, beginning.size)]
    if beginning_records:
        subject = "It has" if is_whole else "Its first megabyte has"
        lines += _held(beginning_records, subject)
    return lines


def _first(blocks: Iterable[bytes], size_bytes: int) -> bytes:
    """Return the beginning of data that come in blocks of any size."""
    beginning = bytearray()
    for block in blocks:
        beginning += block
        if len(beginning) >= size_bytes:
            break
    return bytes(beginning[:size_bytes])


def _about(log_records: list[Record], size_bytes: int) -> str:
    """Return ``42 MB, of rank 0, begins at 03:15:04``."""
    parts = [size(size_bytes)]
    if log_records:
        first = log_records[0]
        minutes, seconds = divmod(int(first.seconds), 60)
        if first.rank >= 0:
            parts.append(f"of rank {first.rank}")
        parts.append(f"begins at {minutes // 60:02}:{minutes % 60:02}:{seconds:02}")
    return ", ".join(parts)


def _held(log_records: list[Record], what: str) -> Iterator[str]:
    """Yield the numbers of compilations, breaks and recompiles, and the places of the first
    breaks.
    """
    compilations: set[str] = set()
    recompiled: set[str] = set()
    breaks: list[BreakReport] = []
    for record in log_records:
        if record.kind == "dynamo_start" and record.compilation:
            compilations.add(record.compilation)
        if record.name == "recompile_reasons":
            recompiled.add(record.compilation)
        if record.name == "dynamo_graph_break_reason":
            report = parse_break(record.payload)
            if not report.is_given_up:
                breaks.append(report)
    first: dict[str, BreakReport] = {}
    for report in breaks:
        first.setdefault(_place(report), report)
    if breaks:
        text = breaks_hit(len(first), len(breaks))
    else:
        text = "no graph break"
    yield (
        f"{what} {counted(len(compilations), 'compilation')}, "
        f"{counted(len(recompiled), 'recompile')}, {text}"
    )
    for place, report in list(first.items())[:MOST_BREAKS]:
        yield f"  ✗ {place}  {first_line(report.reason)}"


def _place(report: BreakReport) -> str:
    """Return the user's line of a break: for a break inside torch, the line that called torch."""
    outside = [(frame.file, frame.line) for frame in report.frames if not is_torch(frame.file)]
    file, line = report.file, report.line
    if outside and is_torch(report.file):
        file, line = outside[-1]
    return in_file(file, line)


READ = (
    "import sys; sys.path[:] = {path!r}; from fx_explorer.readers.reading_process import main; "
    "sys.exit(main())"
)
"""Command that starts the reading process with our own modules, whatever its working directory
contains.
"""

UNTIL_IT_IS_GONE_S = 0.005
"""Seconds between two checks of a process that has closed its pipes."""

STOPPED = "Reading the log was stopped; what was read so far is kept."


class LogReadingProcess:
    """Reads one log into a session in a temporary directory, which ``discard`` removes. The log
    itself is only read.
    """

    left_behind = ""
    kept_name = ""
    history_problem = ""
    is_temporary = False
    """Always false: leaving the app needs no question, because everything is in the log."""

    def __init__(
        self,
        log: Path,
        standard_input: int = -1,
        *,
        follows: bool = False,
        origin: LogOrigin | None = None,
    ) -> None:
        """``standard_input`` is the descriptor of a log from standard input. With ``follows`` the
        reading continues with a job's additions, until it is stopped. ``origin`` is what the log is
        shown as.
        """
        self._log = log
        self._origin = origin
        self._follows = follows
        self._standard_input = standard_input
        self._followed: BinaryIO | None = None
        self._until_discarded = contextlib.ExitStack()
        folder = self._until_discarded.enter_context(temporary_folder())
        name = log.name.partition(".")[0].strip("-") or "log"
        self.session_path = folder / f"{name}.fxs"
        self.outcome: Outcome | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._told: asyncio.StreamReader | None = None
        self._said: asyncio.StreamReader | None = None
        self._was_stopped = False
        self._looked_at = 0

    def begin(self) -> None:
        """Create the session and start the process, which reads before it is followed. Raises
        SessionWriteError if there is no room, and SessionError if a followed log cannot be read.
        """
        SessionWriter(self.session_path).close()
        if self._follows:
            self._followed = opened_to_follow(self._log)
        if self._log != STANDARD_INPUT:
            register_texts_elsewhere(self.session_path, TextsOfLog(self._log, self._followed))
        command = [
            sys.executable,
            "-c",
            READ.format(path=sys.path),
            str(self._log),
            str(self.session_path),
        ]
        if self._follows:
            command.append("--follow")
        elif self._origin:
            command += ["--origin", *self._origin]
        has_input = self._standard_input >= 0
        standard_input = self._standard_input if has_input else subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=standard_input, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        if has_input:
            os.close(self._standard_input)

    async def start(self) -> None:
        """Start the process unless it runs already, and follow it."""
        if self._process is None:
            self.begin()
        assert self._process is not None
        if self._process.stdin is not None:
            os.set_blocking(self._process.stdin.fileno(), False)
        self._told = await _readable(self._process.stdout)
        self._said = await _readable(self._process.stderr)

    async def notices(self) -> AsyncIterator[Notice]:
        """Yield how far it is, until it has ended."""
        assert self._told is not None
        while line := await self._told.readline():
            yield Notice.from_json(line.decode())

    async def wait(self) -> Outcome:
        """Wait until the reading process has ended, and return its outcome. If the process itself
        recorded none, it is derived from the exit code and messages, and stored in the session.
        """
        assert self._process is not None
        assert self._said is not None
        said = (await self._said.read()).decode(errors="backslashreplace").strip()
        while (returned := self._process.poll()) is None:
            await asyncio.sleep(UNTIL_IT_IS_GONE_S)
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self.outcome is None:
            self.outcome = Outcome("finished")
            if self._was_stopped:
                self.outcome = Outcome("cancelled", STOPPED)
            elif returned:
                why = said.splitlines()[-1] if said else f"it ended with {returned}"
                self.outcome = Outcome("incomplete", why, 4)
            if self.outcome.kind != "finished":
                await asyncio.to_thread(self._note, self.outcome)
        return self.outcome

    def _note(self, outcome: Outcome) -> None:
        with SessionWriter(self.session_path) as writer:
            writer.set_meta("outcome", outcome.to_json())

    async def cancel(self, grace_s: float = 0.0) -> Outcome:
        """Stop reading; the data so far are kept."""
        if self._process is not None and self._process.poll() is None:
            self._was_stopped = True
            self._process.terminate()
        return await self.wait()

    def look_at(self, compilation: int) -> None:
        """Decode this compilation next."""
        pipe = self._process.stdin if self._process is not None else None
        if compilation and compilation != self._looked_at and pipe is not None and not pipe.closed:
            self._looked_at = compilation
            with contextlib.suppress(
                OSError
            ):  # it has ended, or has not yet heard of thousands before
                os.write(pipe.fileno(), b"%d\n" % compilation)

    def send(self, command: Command) -> None:
        """Do nothing: a log has no program to command."""

    def keep(self) -> None:
        """Do nothing: the data are kept in the log."""

    def discard(self) -> None:
        """Remove the session that was read, and end the process unless somebody follows it."""
        if self._process is not None and self._told is None:
            self._process.kill()
            self._process.communicate()
        if self._followed is not None:
            self._followed.close()
        self._until_discarded.close()


async def _readable(pipe: IO[bytes] | None) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    return reader
