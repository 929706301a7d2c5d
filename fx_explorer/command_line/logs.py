"""This module shows the progress of reading a log, and its first events, before the app starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from fx_explorer.analysis.words import breaks_hit, counted, first_line, size
from fx_explorer.command_line.narration import LiveLine
from fx_explorer.errors import SessionError
from fx_explorer.readers.torch_trace.growing import Progress, describe_progress
from fx_explorer.readers.torch_trace.opened import BLOCK, opened
from fx_explorer.readers.torch_trace.places import is_torch
from fx_explorer.readers.torch_trace.records import Damage, Record, records
from fx_explorer.session.file_names import in_file
from fx_explorer.torch_texts.reports import BreakReport, parse_break


class LogProgress(LiveLine):
    """Shows the progress of reading a log on the live line."""

    def tell(self, progress: Progress) -> None:
        if self.is_due:
            self.show(describe_progress(progress))


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
