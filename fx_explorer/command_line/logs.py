"""How a log is found, for ``--follow``, and shown while it is read: its progress, and its first
words, before the app is there.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from fx_explorer.analysis.words import breaks_hit, counted, first_line, size
from fx_explorer.command_line.narration import LiveLine
from fx_explorer.errors import SessionError, UsageError
from fx_explorer.highlight import printable
from fx_explorer.output.terminal import tell
from fx_explorer.readers.torch_trace.opened import BLOCK, opened
from fx_explorer.readers.torch_trace.places import is_torch
from fx_explorer.readers.torch_trace.progress import Progress, in_words
from fx_explorer.readers.torch_trace.records import Damage, Record, records
from fx_explorer.session.file_names import in_file
from fx_explorer.session.untrusted.kind_of_file import kind_of_file
from fx_explorer.torch_texts.reports import BreakReport, parse_break


class LogProgress(LiveLine):
    """Shows on the line what is read of a log."""

    def tell(self, progress: Progress) -> None:
        if self.is_due:
            self.show(in_words(progress))


# The first words, for the moment until the app is there: importing Textual and painting its first
# frame takes longer than looking at a megabyte of the log.

MOST_BREAKS = 5


def first_words(log: Path) -> list[str]:
    """Return how large a log is, when it begins, and which compilations, graph breaks and
    recompiles its first megabyte has.

    Nothing is said of what is no file, since it could be read only once, and of what cannot be
    read: who reads the log says why.
    """
    if not log.is_file():
        return []
    try:
        with opened(log, Damage()) as beginning:
            block = _first(beginning.blocks, BLOCK)
    except SessionError:
        return []
    found = [record for record in records([block], Damage()) if record is not None]
    is_whole = len(block) < BLOCK
    if not is_whole:
        found = found[:-1]  # it may continue behind the block
    return [
        _about(found, beginning.size),
        *(_held(found, "It has" if is_whole else "Its first megabyte has") if found else ()),
    ]


def _first(blocks: Iterable[bytes], size_bytes: int) -> bytes:
    """Return the beginning of what comes in blocks of any size."""
    found = bytearray()
    for block in blocks:
        found += block
        if len(found) >= size_bytes:
            break
    return bytes(found[:size_bytes])


def _about(found: list[Record], size_bytes: int) -> str:
    """Return ``42 MB, of rank 0, begins at 03:15:04``."""
    parts = [size(size_bytes)]
    if found:
        minutes, seconds = divmod(int(found[0].seconds), 60)
        parts += [f"of rank {found[0].rank}"] if found[0].rank >= 0 else []
        parts.append(f"begins at {minutes // 60:02}:{minutes % 60:02}:{seconds:02}")
    return ", ".join(parts)


def _held(found: list[Record], what: str) -> Iterator[str]:
    """Yield how many compilations, breaks and recompiles there are, and where the first breaks are."""
    compilations = {record.compilation for record in found if record.kind == "dynamo_start"} - {""}
    recompiled = {record.compilation for record in found if record.name == "recompile_reasons"}
    reports = [
        parse_break(record.payload)
        for record in found
        if record.name == "dynamo_graph_break_reason"
    ]
    breaks = [report for report in reports if not report.is_given_up]
    first: dict[str, BreakReport] = {}
    for report in breaks:
        first.setdefault(_place(report), report)
    told = breaks_hit(len(first), len(breaks)) if breaks else "no graph break"
    yield (
        f"{what} {counted(len(compilations), 'compilation')}, "
        f"{counted(len(recompiled), 'recompile')}, {told}"
    )
    yield from (
        f"  ✗ {place}  {first_line(report.reason)}"
        for place, report in list(first.items())[:MOST_BREAKS]
    )


def _place(report: BreakReport) -> str:
    """Return the user's line of a break: that which called torch, for one within it."""
    outside = [(frame.file, frame.line) for frame in report.frames if not is_torch(frame.file)]
    return in_file(
        *(outside[-1] if outside and is_torch(report.file) else (report.file, report.line))
    )


LOOKED_AFTER_S = 0.2


def followed_log(given: Path) -> Path:
    """Return the log itself, or that of a directory, which is waited for.

    Raises UsageError for what no job writes a log to, and without a terminal.
    """
    # Both are not needed for Python files.
    from fx_explorer.readers.torch_trace.growing import log_to_follow
    from fx_explorer.readers.torch_trace.opened import is_packed

    if not is_on_terminal():
        raise UsageError(
            "--follow shows a log in the app, which needs a terminal. Leave it out to "
            "read what is there now"
        )
    if not given.is_dir():
        found = kind_of_file(given)
        if found.kind != "log":
            raise UsageError(
                "--follow is for a TORCH_TRACE log that a job is writing, or the "
                f"directory that TORCH_TRACE names: {given} is "
                f"{found.words}"
            )
        if is_packed(given):
            raise UsageError(
                f"{given} is packed: no job writes to it any more. Open it without --follow"
            )
        return given
    log = log_to_follow(given)
    if log is None:
        tell(
            f"fx-explorer: waiting for a TORCH_TRACE log in {printable(str(given))} (Ctrl-C ends)",
            sys.stderr,
        )
    while log is None:
        time.sleep(LOOKED_AFTER_S)
        log = log_to_follow(given)
    return log


def is_on_terminal() -> bool:
    """Return whether the app can be shown, and ask."""
    streams = (sys.stdin, sys.stdout, sys.__stderr__)
    return all(stream is not None and stream.isatty() for stream in streams)
